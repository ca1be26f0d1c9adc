/**
 * The JSON Schema of a tool's arguments as every OpenAI-compatible server takes it. A server may refuse `anyOf`, `oneOf` and `allOf` at the
 * top of a tool's parameters, and none takes anything but `type: object` there. A schema that has them becomes the schema of one object.
 *
 * Invariants
 * 1. A schema that is one object already is kept as it is, byte for byte (W18).
 * 2. Whatever the given schema accepts, the returned one accepts too. It may accept more: the arguments are checked by the tool's own schema.
 */
import type { JsonObject, JsonValue } from '../workflows/protocol/json.ts';

/**
 * The schema of one object that accepts what `schema` accepts. Of a union it has the members of all variants, required where all of
 * them require it; its description lists the variants. Throws a TypeError that says what the schema takes when that is not an object.
 */
export function objectSchema(schema: JsonObject): JsonObject {
  const { $defs, ...whole } = schema;
  const flat = flattened(whole, { root: whole, defs: ($defs ?? {}) as JsonObject, open: [] });
  return $defs === undefined ? flat : { ...flat, $defs };
}

interface Place {
  readonly root: JsonObject;
  readonly defs: JsonObject;
  /** The references on the way here: one that leads back to itself says nothing. */
  readonly open: readonly string[];
}

const PREFIX = '#/$defs/';
const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const listOf = (value: JsonValue | undefined): readonly JsonObject[] => (Array.isArray(value) ? value : []);
const membersOf = ({ properties }: JsonObject): JsonObject => (isObject(properties) ? properties : {});
const requiredOf = ({ required }: JsonObject): readonly string[] => (Array.isArray(required) ? required : []);

function flattened(schema: JsonObject, place: Place): JsonObject {
  const { anyOf, oneOf, allOf, $ref, ...own } = schema;
  const parts = [
    ...('type' in own || 'properties' in own ? [own] : []),
    ...(typeof $ref === 'string' ? [referred($ref, place)] : []),
    ...listOf(allOf).map((part) => flattened(part, place)),
    ...[anyOf, oneOf].flatMap((list) =>
      listOf(list).length === 0 ? [] : [eitherOf(listOf(list).map((each) => flattened(each, place)))],
    ),
  ];
  const [only] = parts;
  const object = parts.length === 1 && only ? only : allOfThem(parts);
  if (object.type !== 'object') throw new TypeError(`it takes ${taken(object)}, not an object`);
  if (object === own) return schema;
  const described = [own.description, object.description].filter((text) => typeof text === 'string' && text !== '');
  return described.length === 0 ? object : { ...object, description: [...new Set(described)].join('\n') };
}

function referred(ref: string, { root, defs, open }: Place): JsonObject {
  const target = ref === '#' ? root : defs[ref.slice(PREFIX.length)];
  if (open.includes(ref) || !isObject(target)) throw new TypeError(`its reference ${ref} leads to no object`);
  return flattened(target, { root, defs, open: [...open, ref] });
}

/** What a schema takes, in words. */
const taken = ({ type, enum: values, const: value }: JsonObject): string => {
  if (typeof type === 'string') return type === 'null' ? 'null' : `${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type}`;
  if (value !== undefined) return JSON.stringify(value);
  return Array.isArray(values) ? `one of ${JSON.stringify(values)}` : 'anything';
};

const namesIn = (parts: readonly JsonObject[]): string[] => [
  ...new Set(parts.flatMap((part) => Object.keys(membersOf(part)))),
];

const isClosed = (part: JsonObject): boolean => part.additionalProperties === false;

/** An object of one of the variants, as one schema. */
function eitherOf(variants: readonly JsonObject[]): JsonObject {
  const [first] = variants;
  if (variants.length === 1 && first) return first;
  const properties = namesIn(variants).map((name) => {
    const schemas = distinct(variants.flatMap((variant) => membersOf(variant)[name] ?? []));
    return [name, united(schemas)] as const;
  });
  const required = requiredOf(first ?? {}).filter((name) => variants.every((each) => requiredOf(each).includes(name)));
  return {
    type: 'object',
    description: ['One of:', ...variants.map((variant) => `- ${shown(variant)}`)].join('\n'),
    properties: Object.fromEntries(properties),
    ...(required.length === 0 ? {} : { required }),
    ...(variants.every(isClosed) ? { additionalProperties: false } : {}),
  };
}

/** An object that is all of the parts, as one schema. */
function allOfThem(parts: readonly JsonObject[]): JsonObject {
  const odd = parts.find((part) => part.type !== 'object');
  if (odd || parts.length === 0) throw new TypeError(`it takes ${taken(odd ?? {})}, not an object`);
  const properties = namesIn(parts).map((name) => {
    const schemas = distinct(parts.flatMap((part) => membersOf(part)[name] ?? []));
    return [name, schemas.length === 1 ? (schemas[0] ?? {}) : { allOf: schemas }] as const;
  });
  const required = [...new Set(parts.flatMap(requiredOf))];
  const descriptions = parts.flatMap(({ description }) => (typeof description === 'string' ? [description] : []));
  return {
    type: 'object',
    ...(descriptions.length === 0 ? {} : { description: [...new Set(descriptions)].join('\n') }),
    properties: Object.fromEntries(properties),
    ...(required.length === 0 ? {} : { required }),
    ...(parts.every(isClosed) ? { additionalProperties: false } : {}),
  };
}

function distinct(schemas: readonly JsonValue[]): JsonObject[] {
  const byText = new Map(schemas.filter(isObject).map((schema) => [JSON.stringify(schema), schema]));
  return [...byText.values()];
}

/** The values that a schema enumerates and does nothing else; undefined for any other schema. */
function valuesOf({ const: value, enum: values, type, ...rest }: JsonObject): readonly JsonValue[] | undefined {
  if (Object.keys(rest).length > 0) return undefined;
  return value === undefined ? (values as readonly JsonValue[] | undefined) : [value];
}

/** What either of the schemas accepts: the members that tell variants apart become one list of values. */
function united(schemas: readonly JsonObject[]): JsonObject {
  const [first = {}] = schemas;
  if (schemas.length <= 1) return first;
  const values = schemas.map(valuesOf);
  if (!values.every((each) => each !== undefined)) return { anyOf: schemas };
  const types = new Set(schemas.map(({ type }) => type));
  return {
    ...(types.size === 1 && first.type !== undefined ? { type: first.type } : {}),
    enum: [...new Set(values.flat())],
  };
}

/** A variant as the description shows it: `{kind: "a", city, days?}`, and what its own description says. */
function shown(variant: JsonObject): string {
  const required = requiredOf(variant);
  const members = Object.entries(membersOf(variant)).map(([name, schema]) => {
    const values = isObject(schema) ? valuesOf(schema) : undefined;
    const value = values?.length === 1 ? `: ${JSON.stringify(values[0])}` : '';
    return `${name}${required.includes(name) ? '' : '?'}${value}`;
  });
  const { description } = variant;
  return `{${members.join(', ')}}${typeof description === 'string' ? `: ${description}` : ''}`;
}

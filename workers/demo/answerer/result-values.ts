/**
 * What the offline model submits for the fields of a result: for each a value that its JSON Schema accepts.
 *
 * Invariants
 * 1. A value that the turn knows by the name of the field comes before one that is made up.
 * 2. Where no value is found that the schema accepts, one is submitted all the same, and the runtime says what is wrong with it.
 */
import { z } from 'zod';

/** What values are made of. */
export interface KnownValues {
  /** What the model has to say; it is the value of a text. */
  readonly text: string;
  /** Objects that the turn has seen, such as results of tools, the most telling first. */
  readonly objects: readonly object[];
}

type Schema = Readonly<Record<string, unknown>>;

/** A value for the field `name` that the schema accepts. */
export function valueFor(name: string, schema: unknown, known: KnownValues): unknown {
  const shape = schemaOf(schema);
  const found = known.objects.flatMap((object) => (Object.hasOwn(object, name) ? [Reflect.get(object, name)] : []));
  const made = samplesOf(shape, { ...known, objects: [...found.filter(isObject), ...known.objects] });
  const fits = checkOf(shape);
  return [...found, ...made].find(fits) ?? made[0] ?? known.text;
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const schemaOf = (value: unknown): Schema => (isObject(value) ? (value as Schema) : {});
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

function checkOf(schema: Schema): (value: unknown) => boolean {
  try {
    const parser = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
    return (value) => parser.safeParse(value).success;
  } catch {
    // A schema that zod cannot read is checked by the runtime alone.
    return () => true;
  }
}

/** Values that may fit, the best first. */
function samplesOf(schema: Schema, known: KnownValues): readonly unknown[] {
  const { allOf, ...own } = schema;
  if (Array.isArray(allOf)) return samplesOf(Object.assign({}, own, ...allOf.map(schemaOf)), known);
  if ('const' in schema) return [schema.const];
  const values = listOf(schema.enum);
  if (values.length > 0) return [...values].sort((a, b) => Number(isSaid(b, known)) - Number(isSaid(a, known)));
  const variants = [...listOf(schema.anyOf), ...listOf(schema.oneOf)];
  if (variants.length > 0) return variants.flatMap((variant) => samplesOf(schemaOf(variant), known));
  const suggested = ['default' in schema ? [schema.default] : [], listOf(schema.examples)].flat();
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  return [...suggested, ...types.flatMap((type) => samplesOfType(type, schema, known))];
}

const isSaid = (value: unknown, { text }: KnownValues): boolean => typeof value === 'string' && text.includes(value);

function samplesOfType(type: unknown, schema: Schema, known: KnownValues): readonly unknown[] {
  switch (type) {
    case 'string':
      return textsOf(schema, known);
    case 'number':
    case 'integer':
      return numbersOf(schema, known);
    case 'boolean':
      return [false, true];
    case 'null':
      return [null];
    case 'array':
      return [[], listFor(schema, known)];
    case 'object':
      return [objectFor(schema, known)];
    default:
      return [known.text];
  }
}

/** A text of each format that one may have to have. */
const FORMATS = [
  '2000-01-01T00:00:00Z',
  '2000-01-01',
  '00:00:00',
  'nobody@example.org',
  'https://example.org/',
  '00000000-0000-4000-8000-000000000000',
];

function textsOf({ minLength, maxLength }: Schema, { text }: KnownValues): readonly string[] {
  const cut = Array.from(text).slice(0, typeof maxLength === 'number' ? maxLength : undefined);
  const padded = cut.join('').padEnd(typeof minLength === 'number' ? minLength : 0, '.');
  return [padded, ...FORMATS];
}

function numbersOf({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Schema, { text }: KnownValues): number[] {
  const said = [...text.matchAll(/(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)/g)].map(([number]) => Number(number));
  const beside = (bound: unknown, step: number) => (typeof bound === 'number' ? [bound + step, bound + step / 2] : []);
  const bounds = [minimum, maximum].filter((bound): bound is number => typeof bound === 'number');
  return [...said, 0, ...bounds, ...beside(exclusiveMinimum, 1), ...beside(exclusiveMaximum, -1)];
}

function listFor({ items, prefixItems, minItems }: Schema, known: KnownValues): unknown[] {
  const first = listOf(prefixItems).map((item) => valueFor('', item, known));
  const missing = Math.max(0, (typeof minItems === 'number' ? minItems : 0) - first.length);
  return [...first, ...Array.from({ length: missing }, () => valueFor('', items, known))];
}

function objectFor({ properties, required }: Schema, known: KnownValues): object {
  const members = schemaOf(properties);
  const names = listOf(required).filter((name) => typeof name === 'string');
  return Object.fromEntries(names.map((name) => [name, valueFor(name, members[name], known)]));
}

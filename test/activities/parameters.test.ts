/** What a model is shown of a tool's schema, whatever kind of schema it is. */
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import * as mini from 'zod/mini';
import { z as zod3 } from 'zod/v3';
import { parametersOf } from '../../activities/parameters.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';

const byCity = z.object({ kind: z.literal('city'), city: z.string(), days: z.int().default(1) });
const byPlace = z.object({ kind: z.literal('place'), lat: z.number(), lon: z.number() });
const strict = z.union([z.strictObject({ a: z.string() }), z.strictObject({ b: z.string() })]);

const plain: JsonObject = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const city = z.object({ city: z.string() });
const cityById = z.object({ city: z.string() }).meta({ id: 'City' });

describe('the parameters of a tool', () => {
  test.each<[string, z.core.$ZodType, JsonObject]>([
    ['an object', city, plain],
    ['a strict one', z.strictObject({ city: z.string() }), { ...plain, additionalProperties: false }],
    ['a loose one', z.looseObject({ city: z.string() }), { ...plain, additionalProperties: {} }],
    ['a refined one', city.refine(({ city }) => city !== ''), plain],
    ['one that is transformed', city.transform(({ city }) => ({ town: city })), plain],
    ['one that is piped on', city.pipe(z.transform(({ city }) => [city])), plain],
    ['one that is prepared', z.preprocess((value) => value, city), plain],
    ['one of zod/mini', mini.object({ city: mini.string() }), plain],
    ['a lazy one', z.lazy(() => city), plain],
    ['one with a name of its own', z.lazy(() => cityById), plain],
    ['a record', z.record(z.string(), z.number()), { type: 'object', additionalProperties: { type: 'number' } }],
    [
      'an intersection of objects',
      city.and(z.object({ days: z.int() })),
      expect.objectContaining({ type: 'object', required: ['city', 'days'] }) as never,
    ],
  ])('are those of %s', (_, schema, expected) => {
    const { $defs: _defs, id: _id, ...parameters } = parametersOf(schema);
    expect(parameters).toEqual(expected);
  });

  test('of a union of objects are one object, because servers refuse a union there: what tells variants apart is an enumeration (W6)', () => {
    const expected = {
      type: 'object',
      description: 'One of:\n- {kind: "city", city, days?}\n- {kind: "place", lat, lon}',
      properties: {
        kind: { type: 'string', enum: ['city', 'place'] },
        city: { type: 'string' },
        days: expect.objectContaining({ type: 'integer', default: 1 }),
        lat: { type: 'number' },
        lon: { type: 'number' },
      },
      required: ['kind'],
    };
    expect(parametersOf(z.discriminatedUnion('kind', [byCity, byPlace]))).toEqual(expected);
    expect(parametersOf(z.union([byCity, byPlace]))).toEqual(expected);
    expect(parametersOf(z.union([byCity, z.union([byPlace, byCity])]))).toMatchObject({ required: ['kind'] });
  });

  test('of a union keep what its parts say of themselves', () => {
    const union = z.union([byCity.describe('by name'), byPlace]).describe('where');
    expect(parametersOf(union).description).toBe(
      'where\nOne of:\n- {kind: "city", city, days?}: by name\n- {kind: "place", lat, lon}',
    );
  });

  test('of a union take either where variants differ in a member, and nothing else only where no variant does', () => {
    const mixed = z.union([z.object({ id: z.string() }), z.object({ id: z.number() })]);
    expect(parametersOf(mixed)).toMatchObject({
      properties: { id: { anyOf: [{ type: 'string' }, { type: 'number' }] } },
      required: ['id'],
    });
    expect(parametersOf(mixed)).not.toHaveProperty('additionalProperties');
    expect(parametersOf(strict)).toMatchObject({ additionalProperties: false });
    expect(parametersOf(strict)).not.toHaveProperty('required');
    expect(parametersOf(z.union([strict, byCity]))).not.toHaveProperty('additionalProperties');
  });

  test('of an intersection with a union demand what both demand', () => {
    const both = z.object({ user: z.string() }).and(z.discriminatedUnion('kind', [byCity, byPlace]));
    expect(parametersOf(both)).toMatchObject({
      type: 'object',
      properties: { user: { type: 'string' }, kind: { enum: ['city', 'place'] } },
      required: ['user', 'kind'],
    });
    for (const word of ['anyOf', 'oneOf', 'allOf']) expect(parametersOf(both)).not.toHaveProperty(word);
  });

  test('that refer to themselves keep their definitions', () => {
    const tree = z.object({
      name: z.string(),
      get children() {
        return z.array(tree);
      },
    });
    expect(parametersOf(tree)).toMatchObject({ properties: { children: { items: { $ref: '#' } } } });
    const named = z.union([z.object({ tree: tree.meta({ id: 'Tree' }) }), byCity]);
    expect(parametersOf(named)).toMatchObject({
      properties: { tree: { $ref: '#/$defs/Tree' } },
      $defs: { Tree: { type: 'object' } },
    });
  });

  const samples: readonly JsonObject[] = [
    { kind: 'city', city: 'Rome' },
    { kind: 'city', city: 'Rome', days: 2, more: true },
    { kind: 'place', lat: 1, lon: 2 },
    { kind: 'place', lat: 1 },
    { kind: 'other' },
    { a: 'x' },
    { b: 'x' },
    { a: 'x', c: 1 },
    {},
  ];
  test.each([
    ['a discriminated union', z.discriminatedUnion('kind', [byCity, byPlace])],
    ['a union', z.union([byCity, byPlace, strict])],
    ['an intersection', z.intersection(z.looseObject({ kind: z.string() }), z.union([byCity, byPlace]))],
  ])('of %s accept all that the schema itself accepts', (_, schema) => {
    const shown = z.fromJSONSchema(parametersOf(schema) as Parameters<typeof z.fromJSONSchema>[0]);
    const taken = samples.filter((sample) => schema.safeParse(sample).success);
    expect(taken.length).toBeGreaterThan(2);
    expect(taken.filter((sample) => !shown.safeParse(sample).success)).toEqual([]);
    expect(shown.safeParse({ kind: 7 }).success).toBe(false);
  });

  test.each<[string, unknown, string]>([
    ['a text', z.string(), 'it takes a string, not an object'],
    ['a list', z.array(z.string()), 'it takes an array, not an object'],
    ['null', z.union([city, z.null()]), 'it takes null, not an object'],
    ['anything', z.unknown(), 'it takes anything, not an object'],
    ['a value', z.enum(['a']), 'it takes a string, not an object'],
    ['a part that is none', z.intersection(city, z.union([z.number(), byCity])), 'it takes a number, not an object'],
    ['zod 3', zod3.object({ city: zod3.string() }), 'got one of zod 3; install zod 4'],
    ['JSON Schema', { type: 'object', properties: {} }, 'got what looks like a JSON Schema; write it with zod'],
    ['members alone', { city: z.string() }, 'got an object without a schema; wrap its members in z.object'],
    ['nothing', undefined, 'got undefined'],
    ['null itself', null, 'got null'],
    ['a function', () => city, 'got function'],
  ])('cannot be those of %s: it says what was expected and what came (W6)', (_, schema, message) => {
    expect(() => parametersOf(schema as z.core.$ZodType)).toThrow(message);
  });
});

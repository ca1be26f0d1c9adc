/** What `defineTool` takes and refuses by its types: the file is type-checked and never run. */
import { z } from 'zod';
import * as mini from 'zod/mini';
import { z as zod3 } from 'zod/v3';
import { defineTool, type ToolDefinition } from '../../../activities/app/app.ts';
import type { SerialisableReturn } from '../../../activities/serialisable.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';

interface Weather {
  city: string;
  at?: Date;
  tags: readonly string[];
  wind: { kmh: number | null };
}

interface Tree {
  name: string;
  children: Tree[];
}

interface WithMethod {
  city: string;
  refresh(): void;
}

class Point {
  x = 1;
  distance(): number {
    return this.x;
  }
}

class Money {
  cents = 1;
  toJSON(): { readonly cents: number } {
    return { cents: this.cents };
  }
}

const parameters = z.object({ city: z.string() });
const base = { name: 'forecast', description: '', parameters };

/** Whatever JSON keeps is a result. */
export const accepted = (
  weather: Weather,
  tree: Tree,
  json: JsonValue,
  parsed: ReturnType<typeof JSON.parse>,
  row: Record<string, unknown>,
) => [
  defineTool({ ...base, execute: () => weather }),
  defineTool({ ...base, execute: async () => weather }),
  defineTool({ ...base, execute: ({ city }) => (city === '' ? undefined : [weather]) }),
  defineTool({ ...base, execute: async ({ city }, { callId }) => ({ ...weather, city: city.concat(callId) }) }),
  defineTool({ ...base, execute: () => tree }),
  defineTool({ ...base, execute: () => json }),
  defineTool({ ...base, execute: () => parsed }),
  defineTool({ ...base, execute: async () => row }),
  defineTool({ ...base, execute: () => new Promise((resolve) => setTimeout(resolve, 1)) }),
  defineTool({ ...base, execute: () => new Date() }),
  defineTool({ ...base, execute: async () => new Money() }),
  defineTool({ ...base, execute: () => {} }),
  defineTool({ ...base, execute: async () => {} }),
  defineTool({ ...base, execute: () => null }),
  defineTool<typeof parameters>({ ...base, execute: () => ({}) }),
];

/** What JSON drops, or cannot say, is none. */
export const refused = (method: WithMethod, anything: object) => [
  // @ts-expect-error a method is no JSON
  defineTool({ ...base, execute: () => method }),
  // @ts-expect-error nor is it behind a promise
  defineTool({ ...base, execute: async () => method }),
  // @ts-expect-error nor a symbol deep inside
  defineTool({ ...base, execute: () => ({ list: [{ mark: Symbol('x') }] }) }),
  // @ts-expect-error nor an object of a class with methods
  defineTool({ ...base, execute: () => new Point() }),
  // @ts-expect-error nor a Map
  defineTool({ ...base, execute: () => new Map([['a', 1]]) }),
  // @ts-expect-error nor a Set, nor one in a member
  defineTool({ ...base, execute: async () => ({ seen: new Set([1]) }) }),
  // @ts-expect-error nor a promise that nobody awaits
  defineTool({ ...base, execute: () => ({ later: Promise.resolve(1) }) }),
  // @ts-expect-error nor a bigint
  defineTool({ ...base, execute: () => 1n }),
  // @ts-expect-error nor one of a union
  defineTool({ ...base, execute: ({ city }) => (city === '' ? 1n : city) }),
  // @ts-expect-error nor a function
  defineTool({ ...base, execute: () => () => 1 }),
  // @ts-expect-error undefined in a list would become null
  defineTool({ ...base, execute: () => [undefined] }),
  // @ts-expect-error an object may be a function
  defineTool({ ...base, execute: () => anything }),
];

const NO_BIGINT =
  'the result of a tool must be JSON, which has no bigint: return String(n), or Number(n) where it fits';
const NO_FUNCTION =
  'the result of a tool must be JSON, which has no functions or methods: leave it out, or give its object a toJSON()';

/** What is refused is expected to be a sentence, which the compiler prints: why it is none, and what to return. */
export const said = {
  bigint: NO_BIGINT satisfies SerialisableReturn<bigint>,
  promise: Promise.resolve(NO_BIGINT) satisfies SerialisableReturn<Promise<bigint>>,
  member: { list: [{ id: NO_BIGINT, name: '' }] } satisfies SerialisableReturn<{
    list: { id: bigint; name: string }[];
  }>,
  method: { city: '', refresh: NO_FUNCTION } satisfies SerialisableReturn<WithMethod>,
  function: NO_FUNCTION satisfies SerialisableReturn<() => number>,
  symbol:
    'the result of a tool must be JSON, which has no symbols: return its description' satisfies SerialisableReturn<symbol>,
  map: 'the result of a tool must be JSON, which empties a Map: return Object.fromEntries(map)' satisfies SerialisableReturn<
    Map<string, number>
  >,
  set: 'the result of a tool must be JSON, which empties a Set: return [...set]' satisfies SerialisableReturn<
    Set<number>
  >,
  later: { later: 'the result of a tool must be JSON, which has no promises: await it' } satisfies SerialisableReturn<{
    later: Promise<number>;
  }>,
  list: [
    'the result of a tool must be JSON, which has no undefined in lists: return null',
  ] satisfies SerialisableReturn<undefined[]>,
};

/** A function that is passed on in a variable has the plain type. */
export const passedOn = (execute: NonNullable<ToolDefinition<typeof parameters>['execute']>) =>
  defineTool({ ...base, execute });

const named = { name: 'forecast', description: '' };
const byCity = z.object({ by: z.literal('city'), city: z.string() });
const byId = z.object({ by: z.literal('id'), id: z.number().default(1) });

/** Any schema whose arguments are an object will do, and `execute` gets what it yields. */
export const schemas = [
  defineTool({ ...named, parameters: z.strictObject({ n: z.number() }), execute: ({ n }) => n.toFixed() }),
  defineTool({ ...named, parameters: z.looseObject({ n: z.number() }), execute: ({ n }) => n.toFixed() }),
  defineTool({
    ...named,
    parameters: z.discriminatedUnion('by', [byCity, byId]),
    execute: (args) => (args.by === 'id' ? args.id.toFixed() : args.city.at(0)),
  }),
  defineTool({
    ...named,
    parameters: z.union([byCity, byId]),
    execute: (args) => args.by,
  }),
  defineTool({
    ...named,
    parameters: byCity.and(z.object({ n: z.number() })),
    execute: ({ city, n }) => city.at(n),
  }),
  defineTool({
    ...named,
    parameters: byCity.transform(({ city }) => ({ length: city.length })),
    execute: ({ length }) => length.toFixed(),
  }),
  defineTool({ ...named, parameters: byCity.refine(() => true).readonly(), execute: ({ city }) => city.at(0) }),
  defineTool({ ...named, parameters: z.record(z.string(), z.number()), execute: (args) => args.n?.toFixed() }),
  defineTool({ ...named, parameters: mini.object({ n: mini.number() }), execute: ({ n }) => n.toFixed() }),
];

/** What is no object on the wire is refused. */
export const noSchemas = [
  // @ts-expect-error a text
  defineTool({ ...named, parameters: z.string(), execute: () => null }),
  // @ts-expect-error a list
  defineTool({ ...named, parameters: z.array(z.string()), execute: () => null }),
  // @ts-expect-error nothing may be written
  defineTool({ ...named, parameters: z.object({}).optional(), execute: () => null }),
  // @ts-expect-error a text that becomes an object
  defineTool({ ...named, parameters: z.string().transform((s) => ({ s })), execute: () => null }),
  // @ts-expect-error an object or a text
  defineTool({ ...named, parameters: z.union([byCity, z.string()]), execute: () => null }),
  // @ts-expect-error a schema of zod 3
  defineTool({ ...named, parameters: zod3.object({ n: zod3.number() }), execute: () => null }),
  // @ts-expect-error a JSON Schema
  defineTool({ ...named, parameters: { type: 'object' }, execute: () => null }),
];

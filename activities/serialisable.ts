/** What a tool may return: whatever JSON keeps. The type says so where TypeScript can see it, and the check where only the value shows it. */
import { types } from 'node:util';
import type { JsonValue } from '../workflows/protocol/json.ts';

/** What a function returns that returns nothing. */
type Nothing = undefined | ReturnType<() => void>;

/** A sentence in the place of a type, for compilers print it: nothing of what JSON lacks is a text, so nothing is assignable to it. */
type NotJson<Problem extends string> = `the result of a tool must be JSON, which ${Problem}`;

type Callable = ((...args: never) => unknown) | (abstract new (...args: never) => unknown);
type MapLike = ReadonlyMap<unknown, unknown> | WeakMap<WeakKey, unknown>;
type SetLike = ReadonlySet<unknown> | WeakSet<WeakKey>;

/**
 * `T` with a sentence in each place that JSON does not keep: functions (so also the methods of a class without `toJSON`), symbols, bigints, maps,
 * sets, promises, and `undefined` in lists. A member that may be `undefined` is kept, for JSON leaves it out; of what is `unknown` only the value
 * can tell. An interface needs no index signature. `T` is serialisable when it is assignable to this.
 */
export type Serialisable<T> = unknown extends T
  ? T
  : T extends JsonValue | Nothing
    ? T
    : T extends { toJSON(...args: never): infer Written }
      ? [Written] extends [Serialisable<Written>]
        ? T
        : NotJson<'its toJSON() does not return'>
      : T extends bigint
        ? NotJson<'has no bigint: return String(n), or Number(n) where it fits'>
        : T extends symbol
          ? NotJson<'has no symbols: return its description'>
          : T extends Callable
            ? NotJson<'has no functions or methods: leave it out, or give its object a toJSON()'>
            : T extends readonly unknown[]
              ? {
                  [K in keyof T]: undefined extends T[K]
                    ? NotJson<'has no undefined in lists: return null'>
                    : Serialisable<T[K]>;
                }
              : T extends object
                ? SerialisableObject<T>
                : never;

type SerialisableObject<T extends object> = object extends T
  ? NotJson<'a function is not, and an object of unknown members may be one: name its members'>
  : T extends MapLike
    ? NotJson<'empties a Map: return Object.fromEntries(map)'>
    : T extends SetLike
      ? NotJson<'empties a Set: return [...set]'>
      : T extends PromiseLike<unknown>
        ? NotJson<'has no promises: await it'>
        : { [K in keyof T]: Serialisable<T[K]> };

/**
 * What a function may return that returns `Returned`, be it a promise or not: `Returned` itself when what it yields is serialisable, and
 * otherwise a type that it is not assignable to, which names the member that is at fault and says why.
 */
export type SerialisableReturn<Returned> = [Awaited<Returned>] extends [Serialisable<Awaited<Returned>>]
  ? Returned
  : NoInfer<InPlace<Returned>>;

type InPlace<Returned> =
  Returned extends Promise<infer Value> ? Promise<Serialisable<Value>> : Serialisable<Awaited<Returned>>;

/** What JSON drops or empties without a word; undefined for what it keeps. */
function dropped(value: unknown): string | undefined {
  if (typeof value === 'function' || typeof value === 'symbol' || typeof value === 'bigint') return `a ${typeof value}`;
  if (types.isMap(value) || types.isWeakMap(value)) return 'a Map';
  if (types.isSet(value) || types.isWeakSet(value)) return 'a Set';
  if (types.isPromise(value)) return 'a promise that was not awaited';
  return undefined;
}

/** The value as JSON holds it; `undefined` is null. Throws a TypeError that names what is not JSON and the member it stands under. */
export function throughJson(value: unknown): JsonValue {
  const text = JSON.stringify(value ?? null, (key, member: unknown) => {
    const problem = dropped(member);
    if (problem === undefined) return member;
    throw new TypeError(`${problem} ${key === '' ? 'is' : `under ${JSON.stringify(key)} is`} no JSON`);
  });
  // What a `toJSON` makes of the whole may be nothing.
  if (text === undefined) throw new TypeError('undefined is no JSON');
  return JSON.parse(text) as JsonValue;
}

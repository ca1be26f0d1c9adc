/** JSON as a type, and two questions about values of it. */

/** What may travel in a payload or rest in a card. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };
/** A JSON value that is an object. */
export type JsonObject = { readonly [key: string]: JsonValue };

/**
 * The value that a record holds under a name that came from outside; undefined where the record itself has none, also for names such as
 * `toString` that every object inherits.
 */
export const own = <T>(record: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(record, name) ? record[name] : undefined;

/**
 * Whether something is left of the value after `levels` layers of arrays and objects have been taken off. The walk goes layer by layer, so
 * that no depth overflows the stack.
 */
export function isDeeperThan(value: unknown, levels: number): boolean {
  let layer: unknown[] = [value];
  for (let level = 0; level < levels; level += 1) {
    layer = layer.flatMap((item) => (typeof item === 'object' && item !== null ? Object.values(item) : []));
    if (layer.length === 0) return false;
  }
  return true;
}

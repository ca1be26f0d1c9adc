/** The fields of a deliverable as types: what an agent with an `output` delivers, and where the caller reads it. */
import type { JsonValue } from './json.ts';

/** Fields of any names and values: what is known of the output of an agent that says nothing of it. A name that was not submitted is undefined. */
export type Fields = Readonly<Record<string, JsonValue | undefined>>;

type FieldsByName<Output extends object> = {
  [Name in keyof Output & string]-?: { readonly name: Name; readonly value: Exclude<Output[Name], undefined> };
};

/**
 * One field of an output, by its name: a union over all of them. Written by `infer`, so that TypeScript compares the fields themselves, and a
 * turn with a known output is assignable to a plain one.
 */
export type FieldOf<Output extends object> = FieldsByName<Output> extends infer ByName ? ByName[keyof ByName] : never;

/** What an agent delivers, where `Agent` is the type of what `defineAgent` returned; `Fields` for an agent that has no `output`. */
export type OutputOf<Agent> = Agent extends { readonly output: { readonly _zod: { readonly output: infer Output } } }
  ? Output extends object
    ? Output
    : Fields
  : Fields;

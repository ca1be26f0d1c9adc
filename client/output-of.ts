/** The output of an agent, read from what a turn of it delivered. */
import type { Deliverable } from '../workflows/protocol/turn.ts';

/**
 * The fields of a deliverable as one object; null when it has none: a text, or what could be saved of a turn that did not succeed. That they
 * are those of `Output` was checked when the turn submitted them, by the version of the agent that it ran with.
 */
export const outputOf = <Output extends object>(deliverable: Deliverable<Output> | null): Output | null =>
  deliverable?.fields
    ? (Object.fromEntries(deliverable.fields.map(({ name, value }) => [name, value])) as Output)
    : null;

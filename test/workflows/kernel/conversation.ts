/** Conversations of a given size, as states between two steps. */
import type { Departure } from '../../../workflows/kernel/departure.ts';
import { makeRoom } from '../../../workflows/kernel/eviction.ts';
import type { Handle, HandleRole } from '../../../workflows/kernel/handles.ts';
import { initialState, type KernelState } from '../../../workflows/kernel/state.ts';
import { type ConfigPart, config, NOW, OUTPUT_BOX } from './turn.ts';

/** How many tokens the wire format adds to each message. */
export const WIRE = 8;
/** A window whose shares are easy to read. */
export const WINDOW = 10_000;

export const context = { windowTokens: WINDOW, answerTokens: 0, fixedTokens: 0 } as const;

export type Sized = readonly [role: HandleRole, tokens: number];

/** A state with the task and these cards in view; `tokens` is how long each of them is in the prompt. */
export function conversation(cards: readonly Sized[], more: ConfigPart = {}): KernelState {
  const handles = [['user', 100] as Sized, ...cards].map(
    ([role, tokens], index): Handle => [index + 1, role, tokens - WIRE],
  );
  const fresh = initialState(config({ context, ...more }));
  const { context: view } = fresh;
  return { ...fresh, outputBoxId: OUTPUT_BOX, handles, context: { ...view, activityAt: NOW } };
}

/** A message of the model with one call, and its result. */
export const unit = (thought: number, result: number): readonly Sized[] => [
  ['assistant', thought],
  ['tool', result],
];

export const units = (count: number, thought: number, result: number): readonly Sized[] =>
  Array.from({ length: count }, () => unit(thought, result)).flat();

/** The place of the last card of the unit with this number. */
export const endOf = (number: number): number => 1 + 2 * number;

export function departureOf(state: KernelState): Departure {
  const room = makeRoom(state, NOW);
  if (room.kind !== 'depart') throw new Error(`nothing departs: ${room.kind}`);
  return room.departure;
}

export const upTo = (last: number): readonly number[] => Array.from({ length: last - 1 }, (_, index) => index + 2);

/**
 * The repeat fuse (K12): it counts in how many steps in a row the same call was proposed. Calls are the same when tool and canonical
 * arguments are. Pure.
 *
 * Invariants
 * 1. A step that does not propose a call ends its streak. A step with nothing but meta tools, which only handle results, changes no streak.
 * 2. A rollback keeps the streaks, because a call that is taken back each time is a repetition all the same.
 * 3. An answer that does not end the turn, because a tool must, counts as a repetition whatever it says, and ends the streaks of calls.
 */
import { isMetaTool } from '../protocol/builtins.ts';
import { own } from '../protocol/json.ts';
import type { ProposedCall } from './calls.ts';

/** From this streak on the model is warned. */
export const FUSE_WARNS = 3;
/** From this streak on the call is refused. */
export const FUSE_STOPS = 6;
/** From this streak on the turn may only report, and ends with `no_progress`. */
export const FUSE_BLOWS = 9;

/** In how many steps in a row each call was proposed, by signature. */
export type Streaks = Readonly<Record<string, number>>;

/** The part of the state that the fuse owns. */
export interface FuseState {
  readonly streaks: Streaks;
}

/** No call has been proposed yet. */
export const NO_STREAKS: FuseState = { streaks: {} };

/** What makes two calls the same; null for a call that never counts as repeated: one without a digest, or of a meta tool. */
export const signatureOf = ({ tool, digest }: ProposedCall): string | null =>
  digest === undefined || isMetaTool(tool) ? null : `${tool}:${digest}`;

/** The streaks once these calls have been proposed. */
export function afterProposals(streaks: Streaks, calls: readonly ProposedCall[]): Streaks {
  if (calls.every((call) => isMetaTool(call.tool))) return streaks;
  const signatures = new Set(calls.map(signatureOf).filter((signature) => signature !== null));
  return Object.fromEntries([...signatures].map((signature) => [signature, (own(streaks, signature) ?? 0) + 1]));
}

/** The signature of an answer that does not end the turn; no call has it. */
const ANSWER = ':';

/** The streaks once the model has answered without a call although the turn must end with one. */
export const afterAnswer = (streaks: Streaks): Streaks => ({ [ANSWER]: answersInARow(streaks) + 1 });

/** How many steps in a row were answers that do not end the turn. */
export const answersInARow = (streaks: Streaks): number => own(streaks, ANSWER) ?? 0;

/** The calls that were proposed so often in a row that the model is warned, with how often. */
export const repeatedCalls = (streaks: Streaks): readonly { readonly tool: string; readonly times: number }[] =>
  Object.entries(streaks)
    .filter(([signature, times]) => signature !== ANSWER && times >= FUSE_WARNS)
    .map(([signature, times]) => ({ tool: toolOf(signature), times }));

/** The longest streak of any call; 0 when there is none. */
export const longestStreak = (streaks: Streaks): number => Math.max(0, ...Object.values(streaks));

const toolOf = (signature: string): string => signature.slice(0, signature.lastIndexOf(':'));

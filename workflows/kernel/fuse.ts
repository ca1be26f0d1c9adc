/**
 * The repeat fuse (K12): in how many steps in a row the same call, by tool and canonical arguments, was proposed.
 *
 * Invariants
 * 1. A step that does not propose the call breaks its streak; a step of meta tools alone neither adds nor breaks.
 * 2. A rollback keeps the streaks: a call that is taken back each time is a repetition all the same.
 */
import { isMetaTool } from '../protocol/builtins.ts';
import { own } from '../protocol/json.ts';
import type { ProposedCall } from './calls.ts';

/** The model is told. */
export const FUSE_WARNS = 3;
/** The call is not run any more. */
export const FUSE_STOPS = 6;
/** The turn ends with a report. */
export const FUSE_BLOWS = 9;

/** In how many steps in a row each call was proposed, by signature. */
export type Streaks = Readonly<Record<string, number>>;

export interface FuseState {
  readonly streaks: Streaks;
}

export const NO_STREAKS: FuseState = { streaks: {} };

/** Null for what was recorded without a digest: it never counts. */
export const signatureOf = ({ tool, digest }: ProposedCall): string | null =>
  digest === undefined || isMetaTool(tool) ? null : `${tool}:${digest}`;

export function afterProposals(streaks: Streaks, calls: readonly ProposedCall[]): Streaks {
  if (calls.every((call) => isMetaTool(call.tool))) return streaks;
  const signatures = new Set(calls.map(signatureOf).filter((signature) => signature !== null));
  return Object.fromEntries([...signatures].map((signature) => [signature, (own(streaks, signature) ?? 0) + 1]));
}

export const longestStreak = (streaks: Streaks): number => Math.max(0, ...Object.values(streaks));

export const toolOf = (signature: string): string => signature.slice(0, signature.lastIndexOf(':'));

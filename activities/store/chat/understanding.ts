/** What a turn of a chat begins with: its profile with the bounds of chats, what it remembers, and the hash that pins both (C3, C7). */
import { recentUnits, withChatBounds } from '../../../workflows/chat/bounds.ts';
import type { ContextUnit } from '../../../workflows/kernel/context.ts';
import type { Profile } from '../../../workflows/protocol/profile.ts';
import { canonicalDigest } from '../../canonical.ts';
import type { Tx } from '../context.ts';
import { type CurrentProfile, keepVersion } from '../turns/profiles.ts';

/**
 * The version of the profile that a turn of a chat keeps to its end. Where chats have bounds of their own it is a version by itself, so that
 * all who read the turn's profile read them.
 */
export async function chatVersion(tx: Tx, current: CurrentProfile): Promise<CurrentProfile> {
  const { profile } = current.snapshot;
  const bounded = withChatBounds(profile);
  return bounded === profile ? current : keepVersion(tx, { ...current.snapshot, profile: bounded });
}

/** The earlier turns that are shown, and how many units of them are not. */
export function remembered(
  units: readonly ContextUnit[],
  { chat }: Profile,
): { readonly units: readonly ContextUnit[]; readonly trimmed: number } {
  const recent = recentUnits(units, chat);
  return { units: recent, trimmed: units.length - recent.length };
}

/** What the hash of a context covers. */
export interface Context {
  /** The hash of the profile, which has its instructions, its skills and its bounds. */
  readonly profileHash: string;
  readonly objective: string;
  readonly request: string;
  readonly units: readonly ContextUnit[];
}

/** The hash of what a turn is shown first: the same log and the same profile give the same (C7). */
export const contextHash = ({ units, ...context }: Context): string =>
  canonicalDigest({
    ...context,
    units: units.map(({ boxId, fromSeq, toSeq, tokens }) => [boxId, fromSeq, toSeq, tokens]),
  });

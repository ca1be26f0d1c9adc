/** What the pinned profile of a turn says of a tool. */
import type { Profile, ToolSpec } from '../../../workflows/protocol/profile.ts';
import type { ProfileCache, Trx } from '../context.ts';
import type { TurnRow } from '../schema/rows.ts';
import { profileByHash } from '../turns/profiles.ts';

export async function suspendTimeout(
  trx: Trx,
  turn: TurnRow,
  tool: string,
  profiles: ProfileCache,
): Promise<number | null> {
  const { profile, spec } = await specOf(trx, turn, tool, profiles);
  return spec?.suspendTimeoutMs ?? profile.suspendTimeoutMs ?? null;
}

/** What becomes of the turn when a result from outside, or its absence, says nothing about it: the tool's default (T17, T19). */
export async function defaultAfterExecution(
  trx: Trx,
  turn: TurnRow,
  tool: string,
  profiles: ProfileCache,
): Promise<'continue' | 'terminate'> {
  const { spec } = await specOf(trx, turn, tool, profiles);
  // A result that is there cannot suspend its call again.
  return spec?.afterExecution === 'terminate' ? 'terminate' : 'continue';
}

async function specOf(
  trx: Trx,
  turn: TurnRow,
  tool: string,
  profiles: ProfileCache,
): Promise<{ profile: Profile; spec: ToolSpec | undefined }> {
  const { profile, tools } = await profileByHash(trx, turn.profile_hash ?? '', profiles);
  return { profile, spec: tools.find((known) => known.name === tool) };
}

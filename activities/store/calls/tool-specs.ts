/** What the pinned profile of a turn says of a tool. */
import type { Profile, ToolSpec } from '../../../workflows/protocol/profile.ts';
import type { Reader } from '../context.ts';
import type { WithLease } from '../schema/turn-states.ts';
import { profileByHash } from '../turns/profiles.ts';

/** How long a call of the tool may wait, by the tool or else by its profile; null when neither says. */
export async function suspendTimeout(reader: Reader, turn: WithLease, tool: string): Promise<number | null> {
  const { profile, spec } = await specOf(reader, turn, tool);
  return spec?.suspendTimeoutMs ?? profile.suspendTimeoutMs ?? null;
}

/** What becomes of a turn with a result that is there; it cannot suspend its call again. */
export type EndOfCall = 'continue' | 'terminate';

/** What becomes of the turn when a result from outside, or its absence, says nothing about it: the tool's default (T17, T19). */
export async function defaultAfterExecution(reader: Reader, turn: WithLease, tool: string): Promise<EndOfCall> {
  const { spec } = await specOf(reader, turn, tool);
  return spec?.afterExecution === 'terminate' ? 'terminate' : 'continue';
}

/** The tool's spec is undefined for a built-in tool. */
async function specOf(
  reader: Reader,
  turn: WithLease,
  tool: string,
): Promise<{ readonly profile: Profile; readonly spec: ToolSpec | undefined }> {
  const { profile, tools } = await profileByHash(reader, turn.profile_hash);
  return { profile, spec: tools.find((known) => known.name === tool) };
}

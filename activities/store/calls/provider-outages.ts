/** Provider outages: that the provider fails the model call of an open step, and when the call is tried again (W14). */
import type { FailedAttempt, OpenOutage, ProviderOutage } from '../../../workflows/contract/steps.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import { decoded, encoded, type Json } from '../schema/json.ts';
import type { RecordedOutage } from '../schema/rows.ts';
import { fencedWith } from '../turns/head.ts';

/**
 * Writes down that the provider has failed an attempt at the model call of a step, with an event for the first failure and whenever the
 * reason is another one; returns it as it is written down. A step that is committed or given up stays as it is, and gives null.
 */
export const noteOutage = (ctx: StoreContext, fence: Fence, failed: FailedAttempt): Promise<ProviderOutage | null> =>
  write(ctx, fence.agentId, async (tx) => {
    const { agentId, agentTurnId } = fence;
    const { stepIndex, attempt, code, message, retryInMs } = failed;
    const query = tx.db
      .selectFrom('agent_steps')
      .select('outage')
      .where('agent_turn_id', '=', agentTurnId)
      .where('step_index', '=', stepIndex)
      .where('outcome', 'is', null)
      .where('ended_at', 'is', null);
    const [, [step]] = await fencedWith(tx, fence, query);
    if (!step) return null;
    const before = step.outage === null ? null : decoded(step.outage);
    if (before?.attempt === attempt) return withoutAttempt(before);
    const nextTryAt = tx.now + retryInMs;
    const failures = (before?.failures ?? 0) + 1;
    // A clock may have been ahead when it began: nothing has lasted since a time that is still to come.
    const since = Math.min(before?.since ?? tx.now, tx.now);
    const outage: RecordedOutage = { code, message, failures, since, nextTryAt, attempt };
    await tx.db
      .updateTable('agent_steps')
      .set({ outage: encoded(outage) })
      .where('agent_turn_id', '=', agentTurnId)
      .where('step_index', '=', stepIndex)
      .execute();
    const isNews = before?.message !== message;
    const payload = { stepIndex, code, message, nextTryAt };
    if (isNews) appendEvent(tx, { agent_id: agentId, agent_turn_id: agentTurnId }, { type: 'provider', payload });
    return withoutAttempt(outage);
  });

/** Counts one more attempt that has opened the step: it is lost when it neither commits nor says that the provider has failed it. */
export async function countOpening(tx: Tx, agentTurnId: string, stepIndex: number): Promise<void> {
  await tx.db
    .updateTable('agent_steps')
    .set(({ eb }) => ({ openings: eb('openings', '+', 1) }))
    .where('agent_turn_id', '=', agentTurnId)
    .where('step_index', '=', stepIndex)
    .execute();
}

/** An outage as readers see it. */
export function withoutAttempt({ attempt: _, ...outage }: RecordedOutage): ProviderOutage {
  return outage;
}

/** The outage as an attempt finds it; null when the provider has not failed the call. */
export function openOutage(recorded: Json<RecordedOutage> | null, nowMs: number): OpenOutage | null {
  if (recorded === null) return null;
  const { failures, since } = decoded(recorded);
  return { failures, forMs: Math.max(0, nowMs - since) };
}

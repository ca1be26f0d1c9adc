/** Reports that could not be applied when they came (T18): one per call, kept until it is applied, given up or superseded. */
import type { ResultReport } from '../../../workflows/contract/calls.ts';
import type { Deferral } from '../../../workflows/waiting/decisions.ts';
import type { Reader, Tx } from '../context.ts';
import { decoded, encoded } from '../schema/json.ts';
import type { FromWithin } from './reported-results.ts';

/** A report that is kept, and when it is tried next. */
export interface DeferredReport {
  readonly report: ResultReport & FromWithin;
  readonly deferral: Deferral;
}

/** The report that is kept for the call; null when there is none. */
export async function findDeferral(
  { db }: Reader,
  agentTurnId: string,
  callId: string,
): Promise<DeferredReport | null> {
  const row = await db
    .selectFrom('deferred_reports')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .executeTakeFirst();
  if (!row) return null;
  const { defer_reason: reason, retry_count: retryCount, next_retry_at: nextRetryAt } = row;
  return { report: decoded(row.report), deferral: { reason, retryCount, nextRetryAt } };
}

/** Keeps the report of a call; of one that is kept already, only when it is tried next. */
export async function keepDeferral(
  tx: Tx,
  agentTurnId: string,
  report: ResultReport & FromWithin,
  { reason, retryCount, nextRetryAt }: Deferral,
): Promise<void> {
  const state = { defer_reason: reason, retry_count: retryCount, next_retry_at: nextRetryAt };
  await tx.db
    .insertInto('deferred_reports')
    .values({
      agent_turn_id: agentTurnId,
      call_id: report.callId,
      report: encoded(report),
      ...state,
      created_at: tx.at,
    })
    .onConflict((conflict) => conflict.columns(['agent_turn_id', 'call_id']).doUpdateSet(state))
    .execute();
}

/** Forgets the report of a call, if one is kept. */
export async function forgetDeferral(tx: Tx, agentTurnId: string, callId: string): Promise<void> {
  await tx.db
    .deleteFrom('deferred_reports')
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .execute();
}

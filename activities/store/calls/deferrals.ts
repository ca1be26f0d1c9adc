/** Reports that could not be applied when they came (T18): one per call, kept until it is applied, given up or superseded. */
import type { ToolResultReport } from '../../../workflows/protocol/tool-result.ts';
import type { Deferral } from '../../../workflows/waiting/decisions.ts';
import type { Trx } from '../context.ts';

/** A report of a result, as opposed to a heartbeat. */
export type FinalReport = ToolResultReport & { readonly status: Exclude<ToolResultReport['status'], 'running'> };

export const isFinal = (report: ToolResultReport): report is FinalReport => report.status !== 'running';

export async function findDeferral(
  trx: Trx,
  agentTurnId: string,
  callId: string,
): Promise<{ readonly report: FinalReport; readonly deferral: Deferral } | null> {
  const row = await trx
    .selectFrom('deferred_reports')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .executeTakeFirst();
  if (!row) return null;
  const { defer_reason: reason, retry_count: retryCount, next_retry_at: nextRetryAt } = row;
  return { report: JSON.parse(row.report) as FinalReport, deferral: { reason, retryCount, nextRetryAt } };
}

export async function keepDeferral(
  trx: Trx,
  agentTurnId: string,
  report: FinalReport,
  { reason, retryCount, nextRetryAt }: Deferral,
  now: number,
): Promise<void> {
  const state = { defer_reason: reason, retry_count: retryCount, next_retry_at: nextRetryAt };
  await trx
    .insertInto('deferred_reports')
    .values({
      agent_turn_id: agentTurnId,
      call_id: report.callId,
      report: JSON.stringify(report),
      ...state,
      created_at: now,
    })
    .onConflict((conflict) => conflict.columns(['agent_turn_id', 'call_id']).doUpdateSet(state))
    .execute();
}

export async function forgetDeferral(trx: Trx, agentTurnId: string, callId: string): Promise<void> {
  await trx
    .deleteFrom('deferred_reports')
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .execute();
}

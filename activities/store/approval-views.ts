/** Questions to people as they are listed (K7, K9). */
import type { ApprovalFilter, ApprovalView } from '../../workflows/protocol/approvals.ts';
import { approversOf, type Proposed, proposedArguments } from './approvals.ts';
import { read, type StoreContext, type Trx } from './context.ts';
import type { ApprovalRow } from './rows.ts';

/** Oldest first. */
export const listApprovals = (
  ctx: StoreContext,
  { rootTurnId, agentId, all }: ApprovalFilter,
): Promise<readonly ApprovalView[]> =>
  read(ctx, async (db) => {
    let query = db.selectFrom('approvals').selectAll().orderBy('created_at').orderBy('call_id');
    if (rootTurnId !== undefined) query = query.where('root_turn_id', '=', rootTurnId);
    if (agentId !== undefined) query = query.where('agent_id', '=', agentId);
    if (!all) query = query.where('status', '=', 'waiting');
    const rows = await query.execute();
    const views: ApprovalView[] = [];
    for (const row of rows) views.push(viewOf(row, await proposedArguments(db as Trx, row)));
    return views;
  });

const viewOf = (row: ApprovalRow, proposed: Proposed | null): ApprovalView => ({
  callId: row.call_id,
  agentId: row.agent_id,
  agentTurnId: row.agent_turn_id,
  rootTurnId: row.root_turn_id,
  kind: row.kind,
  tool: row.tool_name,
  arguments: proposed?.parsed ?? null,
  written: proposed?.written ?? null,
  reason: row.reason,
  approvers: approversOf(row),
  escalated: row.escalated_at !== null,
  deadline: row.deadline,
  status: row.status,
  answeredBy: row.answered_by,
  createdAt: row.created_at,
});

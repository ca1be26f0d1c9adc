/** Questions to people as they are listed (K7, K9). */

import { type SqlBool, sql } from 'kysely';
import type { ApprovalFilter, ApprovalView } from '../../../workflows/contract/approvals.ts';
import { type Border, NO_BORDER, seesAll } from '../../../workflows/contract/border.ts';
import { approversOf, type Proposed, proposedArguments } from '../calls/approval-rows.ts';
import { read, type StoreContext } from '../context.ts';
import { type ApprovalRow, constant } from '../schema/rows.ts';
import { turnInView } from './border.ts';

const PLACE = ['created_at', 'agent_turn_id', 'call_id'] as const;

/** Lists questions, oldest first. */
export const listApprovals = (
  ctx: StoreContext,
  { rootTurnId, agentId, agentTurnId, callId, all, after, limit = 1_000 }: ApprovalFilter,
  border: Border = NO_BORDER,
): Promise<readonly ApprovalView[]> =>
  read(ctx, async (reader) => {
    let query = reader.db.selectFrom('approvals').selectAll().limit(limit);
    for (const column of PLACE) query = query.orderBy(column);
    if (rootTurnId !== undefined) query = query.where('root_turn_id', '=', rootTurnId);
    if (agentId !== undefined) query = query.where('agent_id', '=', agentId);
    if (!seesAll(border))
      query = query.where(
        sql<SqlBool>`exists (select 1 from turns where turns.agent_turn_id = approvals.agent_turn_id and ${turnInView(border)})`,
      );
    if (agentTurnId !== undefined) query = query.where('agent_turn_id', '=', agentTurnId);
    if (callId !== undefined) query = query.where('call_id', '=', callId);
    if (!all) query = query.where('status', '=', constant('waiting'));
    if (after) {
      const behind = sql.join([after.createdAt, after.agentTurnId, after.callId]);
      query = query.where(sql<boolean>`(${sql.join(PLACE.map(sql.ref))}) > (${behind})`);
    }
    const rows = await query.execute();
    const views: ApprovalView[] = [];
    for (const row of rows) views.push(viewOf(row, await proposedArguments(reader, row)));
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

/** Questions to people as rows: finding, changing and reading them (K7, K9). */
import type { CardContents, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import { stepCardId } from '../../ids.ts';
import type { Trx } from '../context.ts';
import type { ApprovalRow } from '../schema/rows.ts';
import { findCall } from './call-cards.ts';
import { markWaiting } from './waiting-set.ts';

export const findApproval = (trx: Trx, agentTurnId: string, callId: string): Promise<ApprovalRow | undefined> =>
  trx
    .selectFrom('approvals')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .executeTakeFirst();

export const approversOf = ({ approvers, escalate_to, escalated_at }: ApprovalRow): readonly string[] =>
  JSON.parse(escalated_at === null ? approvers : (escalate_to ?? '[]')) as string[];

/** The question is over. */
export async function closeApproval(trx: Trx, row: ApprovalRow, answer: Partial<ApprovalRow>): Promise<void> {
  await changeApproval(trx, row, answer);
  await markWaiting(trx, row, { status: 'received' });
}

export async function changeApproval(
  trx: Trx,
  { agent_turn_id, call_id }: ApprovalRow,
  to: Partial<ApprovalRow>,
): Promise<void> {
  await trx
    .updateTable('approvals')
    .set(to)
    .where('agent_turn_id', '=', agent_turn_id)
    .where('call_id', '=', call_id)
    .execute();
}

/** The arguments an approver put in place of the model's; null when they stand as proposed. */
export async function editedArguments(trx: Trx, agentTurnId: string, callId: string): Promise<JsonObject | null> {
  const row = await findApproval(trx, agentTurnId, callId);
  return row?.arguments && row.status === 'approved' ? (JSON.parse(row.arguments) as JsonObject) : null;
}

/** What an approver had to say about a call, or changed of it; undefined when it ran as proposed. */
export async function approvalOf(
  trx: Trx,
  agentTurnId: string,
  callId: string,
): Promise<ToolResultContent['approval']> {
  const row = await findApproval(trx, agentTurnId, callId);
  if (row?.status !== 'approved' || (row.arguments === null && row.comment === null)) return undefined;
  return {
    ...(row.answered_by === null ? {} : { by: row.answered_by }),
    ...(row.comment === null ? {} : { reason: row.comment }),
    ...(row.arguments === null ? {} : { arguments: JSON.parse(row.arguments) as JsonObject }),
  };
}

/** The turn has ended: nobody needs to answer any more. */
export async function dropApprovals(trx: Trx, agentTurnId: string): Promise<void> {
  await trx
    .updateTable('approvals')
    .set({ status: 'dropped' })
    .where('agent_turn_id', '=', agentTurnId)
    .where('status', '=', 'waiting')
    .execute();
}

export interface Proposed {
  /** What will run. */
  readonly parsed: JsonObject;
  /** As the model wrote them: what an edit takes the place of. */
  readonly written: JsonObject;
}

export async function proposedArguments(trx: Trx, row: ApprovalRow): Promise<Proposed | null> {
  const call = row.kind === 'call' ? await findCall(trx, row.agent_turn_id, row.call_id) : null;
  if (!call) return null;
  const { stepIndex, content } = call;
  const thought = await trx
    .selectFrom('cards')
    .select('content')
    .where('card_id', '=', stepCardId(row.agent_turn_id, stepIndex, 'agent.thought'))
    .executeTakeFirst();
  const { toolCalls } = thought ? (JSON.parse(thought.content) as CardContents['agent.thought']) : { toolCalls: [] };
  const made = toolCalls.find(({ callId }) => callId === row.call_id);
  const parsed = content.arguments;
  return { parsed, written: made ? (JSON.parse(made.arguments || '{}') as JsonObject) : parsed };
}

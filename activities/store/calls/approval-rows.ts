/** Questions to people as rows: finding, changing and reading them (K7, K9). */
import type { Suspension } from '../../../workflows/contract/suspension.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import { stepCardId } from '../../ids.ts';
import type { Reader, Tx } from '../context.ts';
import { decoded, type Json } from '../schema/json.ts';
import { type ApprovalRow, contentOf } from '../schema/rows.ts';
import { type InboxKey, putItem } from '../turns/inbox.ts';
import { findCall } from './call-cards.ts';
import { markWaiting } from './waiting-set.ts';

/** The question about a call; undefined when none was asked. */
export const findApproval = ({ db }: Reader, agentTurnId: string, callId: string): Promise<ApprovalRow | undefined> =>
  db
    .selectFrom('approvals')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .executeTakeFirst();

/** Who may answer the question; empty when anybody may. */
export function approversOf({
  approvers,
  escalate_to,
  escalated_at,
}: Pick<ApprovalRow, 'approvers' | 'escalate_to' | 'escalated_at'>): readonly string[] {
  if (escalated_at === null) return decoded(approvers);
  return escalate_to === null ? [] : decoded(escalate_to);
}

/** Who may answer, as whoever waits for the answer is told it: nothing where anybody may. */
export const approversOnly = (approvers: readonly string[]): Pick<Suspension, 'approvers'> =>
  approvers.length > 0 ? { approvers } : {};

/** The answer to a question in the turn's inbox. */
export const answerKey = ({ agent_turn_id, call_id }: Pick<ApprovalRow, 'agent_turn_id' | 'call_id'>): InboxKey => ({
  agent_turn_id,
  kind: 'answer',
  ref: call_id,
});

/** Ends a question with what it came to; the turn has to act on it. */
export async function closeApproval(tx: Tx, row: ApprovalRow, answer: Partial<ApprovalRow>): Promise<void> {
  await changeApproval(tx, row, answer);
  await putItem(tx, answerKey(row));
  await markWaiting(tx, row, { status: 'received' });
}

/** Changes the row of a question. */
export async function changeApproval(
  tx: Tx,
  { agent_turn_id, call_id }: Pick<ApprovalRow, 'agent_turn_id' | 'call_id'>,
  to: Partial<ApprovalRow>,
): Promise<void> {
  await tx.db
    .updateTable('approvals')
    .set(to)
    .where('agent_turn_id', '=', agent_turn_id)
    .where('call_id', '=', call_id)
    .execute();
}

/** The arguments an approver put in place of the model's; null when they stand as proposed. */
export async function editedArguments(reader: Reader, agentTurnId: string, callId: string): Promise<JsonObject | null> {
  const row = await findApproval(reader, agentTurnId, callId);
  return row?.arguments && row.status === 'approved' ? decoded(row.arguments) : null;
}

/** What an approver had to say about a call, or changed of it; undefined when it ran as proposed. */
export async function approvalOf(
  reader: Reader,
  agentTurnId: string,
  callId: string,
): Promise<ToolResultContent['approval']> {
  const row = await findApproval(reader, agentTurnId, callId);
  if (row?.status !== 'approved' || (row.arguments === null && row.comment === null)) return undefined;
  return {
    ...(row.answered_by === null ? {} : { by: row.answered_by }),
    ...(row.comment === null ? {} : { reason: row.comment }),
    ...(row.arguments === null ? {} : { arguments: decoded(row.arguments) }),
  };
}

/** Drops the questions that wait: the turn has ended, and nobody needs to answer any more. */
export async function dropApprovals(tx: Tx, agentTurnId: string): Promise<void> {
  await tx.db
    .updateTable('approvals')
    .set({ status: 'dropped' })
    .where('agent_turn_id', '=', agentTurnId)
    .where('status', '=', 'waiting')
    .execute();
}

/** The arguments of a call that is asked about. */
export interface Proposed {
  /** What will run: with the defaults of the tool's schema, and transformed by it. */
  readonly parsed: JsonObject;
  /** What the model wrote: an edit takes its place. */
  readonly written: JsonObject;
}

/** What the model proposed of the call; null for a budget, and for a call that is not there. */
export async function proposedArguments(reader: Reader, row: ApprovalRow): Promise<Proposed | null> {
  const call = row.kind === 'call' ? await findCall(reader, row.agent_turn_id, row.call_id) : null;
  if (!call) return null;
  const { stepIndex, content } = call;
  const thought = await reader.db
    .selectFrom('cards')
    .select('content')
    .where('card_id', '=', stepCardId(row.agent_turn_id, stepIndex, 'agent.thought'))
    .executeTakeFirst();
  const { toolCalls } = thought ? contentOf(thought, 'agent.thought') : { toolCalls: [] };
  const made = toolCalls.find(({ callId }) => callId === row.call_id);
  const parsed = content.arguments;
  // The model wrote JSON, for its call was not refused. Some models write nothing at all where a call has no arguments.
  return { parsed, written: made ? decoded((made.arguments || '{}') as Json<JsonObject>) : parsed };
}

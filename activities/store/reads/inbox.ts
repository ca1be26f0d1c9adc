/** What waits for somebody outside: questions to people, and calls whose results come from outside. */

import { sql } from 'kysely';
import { type Border, NO_BORDER, seesAll } from '../../../workflows/contract/border.ts';
import type { InboxEntry, InboxQuery } from '../../../workflows/contract/lists.ts';
import { approversOf, findApproval, proposedArguments } from '../calls/approval-rows.ts';
import { findCall } from '../calls/call-cards.ts';
import { type Reader, read, type StoreContext } from '../context.ts';
import { constant, type WaitingRow } from '../schema/rows.ts';
import { turnInView } from './border.ts';

const PLACE = ['turn_waiting.created_at', 'turn_waiting.agent_turn_id', 'turn_waiting.call_id'] as const;

/** How many turns wait behind the one that asks. */
const QUEUED_BEHIND = sql<number>`(select count(*) from turns queued
  where queued.agent_id = turns.agent_id and queued.status = 'queued')`.as('queued_behind');

type OutsideRow = WaitingRow & { readonly agent_id: string; readonly queued_behind: number };

/** Lists what waits for somebody outside, the oldest first. Calls that wait for a delegated turn are not among them. */
export const listInbox = (
  ctx: StoreContext,
  { after, limit = 100, agentId }: InboxQuery = {},
  border: Border = NO_BORDER,
): Promise<readonly InboxEntry[]> =>
  read(ctx, async (reader) => {
    let query = reader.db
      .selectFrom('turn_waiting')
      .innerJoin('turns', 'turns.agent_turn_id', 'turn_waiting.agent_turn_id')
      .selectAll('turn_waiting')
      .select(['turns.agent_id', QUEUED_BEHIND])
      .where('turn_waiting.status', '=', constant('waiting'))
      .where('turn_waiting.kind', 'in', ['tool', 'approval'])
      .limit(limit);
    if (agentId !== undefined) query = query.where('turns.agent_id', '=', agentId);
    if (!seesAll(border)) query = query.where(turnInView(border));
    for (const column of PLACE) query = query.orderBy(column);
    if (after) {
      const behind = sql.join([after.createdAt, after.agentTurnId, after.callId]);
      query = query.where(sql<boolean>`(${sql.join(PLACE.map(sql.ref))}) > (${behind})`);
    }
    const entries: InboxEntry[] = [];
    for (const row of await query.execute()) entries.push(await entryOf(reader, row));
    return entries;
  });

async function entryOf(reader: Reader, row: OutsideRow): Promise<InboxEntry> {
  const { agent_turn_id: agentTurnId, call_id: callId, tool_name: tool, deadline, created_at: createdAt } = row;
  const turn = { agentId: row.agent_id, agentTurnId, queuedBehind: Number(row.queued_behind) };
  const place = { ...turn, callId, tool, deadline, createdAt };
  const question = row.kind === 'approval' ? await findApproval(reader, agentTurnId, callId) : undefined;
  if (!question) {
    const call = await findCall(reader, agentTurnId, callId);
    const args = call?.content.arguments ?? null;
    return { ...place, kind: 'result', arguments: args, written: null, reason: null, approvers: [] };
  }
  const proposed = await proposedArguments(reader, question);
  return {
    ...place,
    kind: question.kind === 'budget' ? 'budget' : 'approval',
    arguments: proposed?.parsed ?? null,
    written: proposed?.written ?? null,
    reason: question.reason,
    approvers: approversOf(question),
  };
}

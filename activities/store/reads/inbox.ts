/** What waits for somebody outside: questions to people, and calls whose results come from outside. */
import { sql } from 'kysely';
import type { InboxEntry, InboxQuery } from '../../../workflows/contract/lists.ts';
import { approversOf, findApproval, proposedArguments } from '../calls/approval-rows.ts';
import { findCall } from '../calls/call-cards.ts';
import { type Reader, read, type StoreContext } from '../context.ts';
import { constant, type WaitingRow } from '../schema/rows.ts';

const PLACE = ['created_at', 'agent_turn_id', 'call_id'] as const;

/** Lists what waits for somebody outside, the oldest first. Calls that wait for a delegated turn are not among them. */
export const listInbox = (ctx: StoreContext, { after, limit = 100 }: InboxQuery = {}): Promise<readonly InboxEntry[]> =>
  read(ctx, async (reader) => {
    let query = reader.db
      .selectFrom('turn_waiting')
      .selectAll()
      .where('status', '=', constant('waiting'))
      .where('kind', 'in', ['tool', 'approval'])
      .limit(limit);
    for (const column of PLACE) query = query.orderBy(column);
    if (after) {
      const behind = sql.join([after.createdAt, after.agentTurnId, after.callId]);
      query = query.where(sql<boolean>`(${sql.join(PLACE.map(sql.ref))}) > (${behind})`);
    }
    const entries: InboxEntry[] = [];
    for (const row of await query.execute()) entries.push(await entryOf(reader, row));
    return entries;
  });

async function entryOf(reader: Reader, row: WaitingRow): Promise<InboxEntry> {
  const { agent_turn_id: agentTurnId, call_id: callId, tool_name: tool, deadline, created_at: createdAt } = row;
  const place = { callId, agentTurnId, tool, deadline, createdAt, ...(await agentOf(reader, agentTurnId)) };
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

/** The agent of the turn, and how many turns wait behind it. */
async function agentOf({ db }: Reader, agentTurnId: string): Promise<Pick<InboxEntry, 'agentId' | 'queuedBehind'>> {
  const { agent_id: agentId } = await db
    .selectFrom('turns')
    .select('agent_id')
    .where('agent_turn_id', '=', agentTurnId)
    .executeTakeFirstOrThrow();
  const { queued } = await db
    .selectFrom('turns')
    .select((eb) => eb.fn.countAll<number>().as('queued'))
    .where('agent_id', '=', agentId)
    .where('status', '=', constant('queued'))
    .executeTakeFirstOrThrow();
  return { agentId, queuedBehind: Number(queued) };
}

/**
 * The head row: an agent's lease, and the lock under which its turns, boxes and events are written.
 *
 * Invariants
 * 1. Whoever writes for an agent holds its head row first, so event and box sequences have no gaps and no ties.
 * 2. The epoch rises at lease and at reap, never on resume (T2).
 */
import type { Compilable } from 'kysely';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { type Answers, type Trx, together } from '../context.ts';
import { noteHead } from '../log/events.ts';
import type { HeadRow } from '../schema/rows.ts';

/** Locks the head of an agent, making an idle one for an agent never seen. */
export async function lockHead(trx: Trx, agentId: string, now: number): Promise<HeadRow> {
  const [head] = await lockHeadWith(trx, agentId, now);
  return head;
}

/** Also what is read under the lock, in the same round trip. */
export async function lockHeadWith<Q extends readonly Compilable[]>(
  trx: Trx,
  agentId: string,
  now: number,
  ...queries: Q
): Promise<readonly [HeadRow, ...Answers<Q>]> {
  const lock = trx
    .insertInto('agent_state_head')
    .values({
      agent_id: agentId,
      status: 'idle',
      turn_epoch: 0,
      active_agent_turn_id: null,
      output_box_id: null,
      waiting_tool_count: 0,
      resume_deadline: null,
      accept_seq: 0,
      event_seq: 0,
      updated_at: now,
    })
    .onConflict((conflict) =>
      conflict.column('agent_id').doUpdateSet((eb) => ({ status: eb.ref('agent_state_head.status') })),
    )
    .returningAll();
  const held = await locked(trx, lock, queries);
  if (held) return held;
  throw new CodedError('protocol_violation', `the head row of agent ${agentId} cannot be locked`);
}

/** What the lock and the queries answer; null when there is no such head. */
async function locked<Q extends readonly Compilable[]>(
  trx: Trx,
  lock: Compilable<HeadRow>,
  queries: Q,
): Promise<readonly [HeadRow, ...Answers<Q>] | null> {
  const [[head], ...answers] = await together(trx, lock, ...queries);
  if (!head) return null;
  noteHead(trx, head);
  return [head, ...answers];
}

/** Locks the head if the lease still holds; otherwise `stale_epoch`, and the transaction writes nothing (T5). */
export async function fenced(trx: Trx, fence: Fence, now: number): Promise<HeadRow> {
  const [head] = await fencedWith(trx, fence, now);
  return head;
}

/** Also what is read under the lock, in the same round trip. */
export async function fencedWith<Q extends readonly Compilable[]>(
  trx: Trx,
  fence: Fence,
  now: number,
  ...queries: Q
): Promise<readonly [HeadRow, ...Answers<Q>]> {
  const lock = trx
    .updateTable('agent_state_head')
    .set({ updated_at: now })
    .where('agent_id', '=', fence.agentId)
    .where('turn_epoch', '=', fence.turnEpoch)
    .where('active_agent_turn_id', '=', fence.agentTurnId)
    .returningAll();
  const held = await locked(trx, lock, queries);
  if (held) return held;
  throw staleEpoch(fence);
}

/** For what writes nothing: a row where the lease holds. */
export const selectLease = (db: Pick<Trx, 'selectFrom'>, fence: Fence) =>
  db
    .selectFrom('agent_state_head')
    .select('agent_id')
    .where('agent_id', '=', fence.agentId)
    .where('turn_epoch', '=', fence.turnEpoch)
    .where('active_agent_turn_id', '=', fence.agentTurnId);

/** Whether the head still carries this lease. */
export const holds = (head: HeadRow, { agentTurnId, turnEpoch }: Fence): boolean =>
  head.turn_epoch === turnEpoch && head.active_agent_turn_id === agentTurnId;

export const staleEpoch = ({ agentId, agentTurnId, turnEpoch }: Fence): CodedError =>
  new CodedError(
    'stale_epoch',
    `turn ${agentTurnId} of agent ${agentId} does not hold epoch ${turnEpoch} any more: nothing was written`,
  );

export async function updateHead(trx: Trx, agentId: string, change: Partial<HeadRow>): Promise<void> {
  await trx.updateTable('agent_state_head').set(change).where('agent_id', '=', agentId).execute();
}

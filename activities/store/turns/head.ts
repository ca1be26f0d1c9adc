/**
 * The head row: an agent's lease, and the lock under which its turns, boxes and events are written.
 *
 * Invariants
 * 1. A transaction that writes for an agent holds its head row first, so event and box sequences have no gaps and no ties.
 * 2. The epoch rises at lease and at reap, never on resume (T2).
 */
import type { Compilable } from 'kysely';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { type Answers, type Reader, type Tx, together } from '../context.ts';
import { prepared, updateRows } from '../prepared.ts';
import type { HeadRow } from '../schema/rows.ts';
import { actingNow, isShutOut } from './attempts.ts';

const makeOrLock = prepared((db, head: { agentId: string; now: number }) =>
  db
    .insertInto('agent_state_head')
    .values({
      agent_id: head.agentId,
      status: 'idle',
      agent_status: 'booting',
      turn_epoch: 0,
      active_agent_turn_id: null,
      acting: null,
      output_box_id: null,
      waiting_tool_count: 0,
      resume_deadline: null,
      has_work: 0,
      current_work_item_id: null,
      came: 0,
      came_bytes: 0,
      closure: null,
      autonomous_turns: 0,
      last_agent_turn_id: null,
      one_shot_ended: 0,
      total_input: 0,
      total_output: 0,
      total_cached: 0,
      total_estimated: 0,
      total_cost: 0,
      accept_seq: 0,
      event_seq: 0,
      updated_at: head.now,
      recorded_at: head.now,
    })
    // An update that changes nothing: a conflict that does nothing would neither lock the row nor return it.
    .onConflict((conflict) =>
      conflict.column('agent_id').doUpdateSet((eb) => ({ status: eb.ref('agent_state_head.status') })),
    )
    .returningAll(),
);

/** Locks the head of an agent, making an idle one for an agent never seen. */
export async function lockHead(tx: Tx, agentId: string): Promise<HeadRow> {
  const [head] = await lockHeadWith(tx, agentId);
  return head;
}

/** Locks the head of an agent, and runs the queries under the lock, all in one round trip. */
export async function lockHeadWith<Q extends readonly Compilable[]>(
  tx: Tx,
  agentId: string,
  ...queries: Q
): Promise<readonly [HeadRow, ...Answers<Q>]> {
  const lock = makeOrLock(tx.db, { agentId, now: tx.now });
  const held = await locked(tx, lock, queries);
  if (held) return held;
  throw new CodedError('protocol_violation', `the head row of agent ${agentId} cannot be locked`);
}

/** Takes a head row back that the transaction has made for an agent of which nothing else is written: a refusal leaves nothing behind. */
export async function forgetNewHead(tx: Tx, { agent_id, accept_seq, event_seq }: HeadRow): Promise<void> {
  if (accept_seq > 0 || event_seq > 0) return;
  await tx.db.deleteFrom('agent_state_head').where('agent_id', '=', agent_id).execute();
}

/** What the lock and the queries answer; null when there is no such head. */
async function locked<Q extends readonly Compilable[]>(
  tx: Tx,
  lock: Compilable<HeadRow>,
  queries: Q,
): Promise<readonly [HeadRow, ...Answers<Q>] | null> {
  const [[head], ...answers] = await together(tx.db, lock, ...queries);
  if (!head) return null;
  tx.hold(head);
  tx.outbox.noteHead(head);
  return [head, ...answers];
}

type Lease = Pick<Fence, 'agentId' | 'agentTurnId' | 'turnEpoch'>;

const lockLease = prepared((db, lease: Lease & { readonly now: number }) =>
  db
    .updateTable('agent_state_head')
    .set({ updated_at: lease.now })
    .where('agent_id', '=', lease.agentId)
    .where('turn_epoch', '=', lease.turnEpoch)
    .where('active_agent_turn_id', '=', lease.agentTurnId)
    .returningAll(),
);

/**
 * Locks the head if the lease still holds and no later attempt has written, and runs the queries under the lock, all in one round trip.
 * Errors: `stale_epoch`, `call_overtaken` (T5).
 */
export async function fencedWith<Q extends readonly Compilable[]>(
  tx: Tx,
  fence: Fence,
  ...queries: Q
): Promise<readonly [HeadRow, ...Answers<Q>]> {
  const { agentId, agentTurnId, turnEpoch } = fence;
  const held = await locked(tx, lockLease(tx.db, { agentId, agentTurnId, turnEpoch, now: tx.now }), queries);
  if (!held) throw staleEpoch(fence);
  const [head] = held;
  refuseShutOut(head, fence);
  const acting = fence.acting && actingNow(head.acting, fence.acting);
  if (acting) await updateHead(tx, agentId, { acting });
  return held;
}

type FencedHead = Pick<HeadRow, 'acting'>;

/** Whether the attempt may act: its lease holds, for else it has no head, and no later one has written in its place. */
export const mayAct = <H extends FencedHead>(head: H | undefined, { acting }: Fence): head is H =>
  head !== undefined && !(acting && isShutOut(head.acting, acting));

/** Refuses an attempt that may not act. Errors: `stale_epoch`, `call_overtaken` (T5). */
export function refuseShutOut<H extends FencedHead>(head: H | undefined, fence: Fence): asserts head is H {
  if (mayAct(head, fence)) return;
  if (!head) throw staleEpoch(fence);
  throw new CodedError('call_overtaken', `turn ${fence.agentTurnId} went on without this attempt: nothing was written`);
}

/** A query for what writes nothing: it gives a row where the lease holds, for `refuseShutOut`. */
export const selectLease = ({ db }: Reader, { agentId, agentTurnId, turnEpoch }: Fence) =>
  leaseOf(db, { agentId, agentTurnId, turnEpoch });

const leaseOf = prepared((db, lease: Lease) =>
  db
    .selectFrom('agent_state_head')
    .select('acting')
    .where('agent_id', '=', lease.agentId)
    .where('turn_epoch', '=', lease.turnEpoch)
    .where('active_agent_turn_id', '=', lease.agentTurnId),
);

/** The head where it still carries this lease. */
export const ofLease = (head: HeadRow, { agentTurnId, turnEpoch }: Fence): HeadRow | undefined =>
  head.turn_epoch === turnEpoch && head.active_agent_turn_id === agentTurnId ? head : undefined;

/** The error of a write under a lease that is over. */
const staleEpoch = ({ agentId, agentTurnId, turnEpoch }: Fence): CodedError =>
  new CodedError(
    'stale_epoch',
    `turn ${agentTurnId} of agent ${agentId} does not hold epoch ${turnEpoch} any more: nothing was written`,
  );

/** The head of an agent as the transaction has changed it, which holds it. */
export const heldHead = ({ db }: Tx, agentId: string): Promise<HeadRow> =>
  db.selectFrom('agent_state_head').selectAll().where('agent_id', '=', agentId).executeTakeFirstOrThrow();

/** Changes the head of an agent; the caller holds it. */
export async function updateHead(tx: Tx, agentId: string, change: Partial<HeadRow>): Promise<void> {
  await updateRows(tx.db, 'agent_state_head', { agent_id: agentId }, change);
}

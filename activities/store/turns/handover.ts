/**
 * What follows when an agent may have become free: its next queued turn is leased, in the transaction that freed it (T1, T9, T29).
 *
 * Invariants
 * 1. Only an idle head of a started agent leases. A head whose turn is dispatched gives the same lease again: the process that got it
 *    before may be gone without having started the workflow.
 * 2. A turn that cannot start ends here and never blocks the queue (T8). Such turns are ended in batches, and each batch is committed
 *    before the next one begins.
 * 3. While turns wait and no process is certain to go on, the first of them is due for a check.
 */
import type { Handover } from '../../../workflows/contract/lease.ts';
import { FIRST_CHECK_MS } from '../../../workflows/supervision/check.ts';
import { mayHaveOwnTurn, type OwnTurn, queueOwnTurn } from '../agents/own-turns.ts';
import { beginningOf, resume } from '../agents/resuming.ts';
import { MOST_SKEW_MS } from '../ahead.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import { prepared } from '../prepared.ts';
import { constant, type Db, type HeadRow } from '../schema/rows.ts';
import type { QueuedTurn, Turn } from '../schema/turn-states.ts';
import { heldHead, lockHead } from './head.ts';
import { type Leasing, leaseOf, type Needs, tryLease } from './lease.ts';
import { RESTING } from './terminal.ts';
import { turnOf } from './turns.ts';

/** Turns that cannot start, ended in one transaction. */
const REJECTS_PER_TRANSACTION = 50;
/** Ms until a turn is tried again that no worker has registered a profile for. */
const TOO_EARLY_MS = 2_000;

/** Leases the next turn of an agent, or gives the lease of its turn that has not started. */
export const leaseNext = (ctx: StoreContext, agentId: string): Promise<Handover> =>
  write(ctx, agentId, async (tx) => handOver(tx, await lockHead(tx, agentId)));

/**
 * Leases the next turn of the agent of this head, or gives the lease of its turn that has not started. The caller holds the head row and
 * gives it with what it has changed of it; and `only`, where it knows that this is the one queued turn of an agent that is not stopped, and
 * whose row is not written yet; and `isStarted`, where an operator has just started the agent.
 */
export async function handOver(
  tx: Tx,
  locked: HeadRow,
  only?: NewestTurn,
  { isStarted = false }: { readonly isStarted?: boolean } = {},
): Promise<Handover> {
  const { agent_id: agentId, active_agent_turn_id: active } = locked;
  const nothing: Handover = { agentId, next: null, more: false, settlements: [] };
  if (locked.status !== 'idle' && active !== null) {
    if (locked.status !== 'dispatched') return nothing;
    return { ...nothing, next: await leaseOf(tx, await turnOf(tx, active)) };
  }
  if (only) return leaseFrom(tx, locked, only.turn, { unwritten: true, needs: only.needs });
  // An agent that is not on the roster has no turns.
  const agent = await agentWithNext(tx.db, queueOf(tx, agentId)).executeTakeFirst();
  if (agent?.lifecycle === 'stopped') return nothing;
  if (agent?.next) return leaseFrom(tx, locked, await turnOf(tx, agent.next));
  const { own, resting } = await ownTurn(tx, locked, isStarted);
  if (own) return leaseFrom(tx, await heldHead(tx, agentId), own);
  return resting ? { ...nothing, resting } : nothing;
}

/** A turn whose row is not written yet. */
export interface NewestTurn {
  readonly turn: QueuedTurn;
  /** Undefined where they are to be read. */
  readonly needs: Needs | undefined;
}

/** The turn that the agent makes by itself; an agent that never had work, and for which nothing has come, costs no statement. */
const ownTurn = async (tx: Tx, head: HeadRow, isStarted = false): Promise<Partial<OwnTurn>> =>
  mayHaveOwnTurn(head) ? queueOwnTurn(tx, head, isStarted) : {};

/** Leases the first turn that can start, from this one on. */
async function leaseFrom(tx: Tx, locked: HeadRow, first: Turn, known: Leasing = {}): Promise<Handover> {
  const { agent_id: agentId } = locked;
  const settlements: string[] = [];
  let head = locked;
  let turn: Turn | undefined = first;
  for (let rejects = 0; turn && rejects < REJECTS_PER_TRANSACTION; rejects += 1) {
    const beginning = await beginningOf(tx, head, turn);
    const attempt = await tryLease(tx, head, turn, turn === first ? known : {});
    if (attempt.kind === 'too_early') {
      await checkAt(tx, turn.agent_turn_id, tx.now + TOO_EARLY_MS);
      return { agentId, next: null, more: false, settlements };
    }
    if (beginning) await resume(tx, head, turn, beginning);
    if (attempt.kind === 'leased') return { agentId, next: attempt.lease, more: false, settlements };
    if (turn.settlement !== null) settlements.push(turn.agent_turn_id);
    head = { ...(await heldHead(tx, agentId)), turn_epoch: attempt.turnEpoch, agent_status: RESTING };
    const next = await nextQueued(tx.db, queueOf(tx, agentId)).executeTakeFirst();
    // What has come meanwhile makes a turn behind those that could not start.
    turn = next ? await turnOf(tx, next.agent_turn_id) : ((await ownTurn(tx, head)).own ?? undefined);
  }
  if (turn) await checkAt(tx, turn.agent_turn_id, tx.now);
  return { agentId, next: null, more: turn !== undefined, settlements };
}

interface OfAgent {
  readonly agentId: string;
  readonly now: number;
  /** A turn that is to wait for longer was told so by a clock that was ahead: it waits no more. */
  readonly latest: number;
}

/** A turn waits for further messages for two seconds at most. */
const LONGEST_WAIT_MS = 2_000 + MOST_SKEW_MS;

const queueOf = ({ now }: Tx, agentId: string): OfAgent => ({ agentId, now, latest: now + LONGEST_WAIT_MS });

/**
 * A query for the id alone: mostly there is none, and SQLite plans the statement anew at each use, the longer the more columns it names.
 */
const queuedFirst = (from: Pick<Db, 'selectFrom'>, { agentId, now, latest }: OfAgent) =>
  from
    .selectFrom('turns')
    .select('agent_turn_id')
    .where('turns.agent_id', '=', agentId)
    .where('turns.status', '=', constant('queued'))
    .where((eb) => eb.or([eb('not_before', 'is', null), eb('not_before', '<=', now), eb('not_before', '>', latest)]))
    .orderBy('lane')
    .orderBy('accept_seq')
    .limit(1);

const nextQueued = prepared(queuedFirst);

/** What the roster says of an agent, and its first turn that waits. */
const agentWithNext = prepared((db, of: OfAgent) =>
  db
    .selectFrom('agents')
    .select(['lifecycle', queuedFirst(db, of).as('next')])
    .where('agents.agent_id', '=', of.agentId),
);

/** Makes the turn due for a check at that time, whatever its schedule was; what the check wakes it for is new. */
async function checkAt(tx: Tx, agentTurnId: string, at: number): Promise<void> {
  await tx.db
    .updateTable('turns')
    .set({ check_at: at, check_every: FIRST_CHECK_MS, woken_at: null })
    .where('agent_turn_id', '=', agentTurnId)
    .execute();
}

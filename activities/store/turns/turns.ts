/** Turn rows: queueing one, and finding one. */
import { sql } from 'kysely';
import type { ParentEndPolicy } from '../../../workflows/contract/delegation.ts';
import type { EnqueueRequest } from '../../../workflows/protocol/enqueue.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { type Fence, NO_USAGE } from '../../../workflows/protocol/turn.ts';
import { storedJson } from '../../well-formed.ts';
import { noteBoxEnd } from '../cards/cards.ts';
import { read, type StoreContext, type Trx, write } from '../context.ts';
import { appendEdge, nextAcceptSeq } from '../log/events.ts';
import type { HeadRow, TurnRow } from '../schema/rows.ts';
import { lockHead, lockHeadWith } from './head.ts';

/** The lane of what must run next: steers that outlived their turn (T22). Requests have lanes from 0. */
export const FRONT_LANE = -1;

/** What a delegated turn may spend with all that it delegates itself (K20). */
export interface Share {
  readonly tokens: number;
  /** Null where its caller has no limit. */
  readonly cost: number | null;
}

export interface TurnOrigin {
  readonly turn: TurnRow;
  readonly depth: number;
  readonly stepIndex?: number;
  readonly callId?: string;
  /** The call waits for this turn's end (T30). */
  readonly awaited?: boolean;
  /** What becomes of this turn when the one that made it ends without success; it goes on when left out. */
  readonly onParentEnd?: ParentEndPolicy;
  /** Of the caller's budgets; absent where nobody's budget is used. */
  readonly share?: Share;
}

export interface QueuedTurn {
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly lane: number;
  readonly instructionCardId: string;
  readonly digest: string;
  /** The turn that made this one; none for a request from outside. */
  readonly origin?: TurnOrigin;
  readonly request: Omit<EnqueueRequest, 'instruction'>;
}

/** The caller holds the agent's head row. */
export async function insertTurn(trx: Trx, queued: QueuedTurn, now: number): Promise<TurnRow> {
  const { agentId, agentTurnId, lane, request, origin } = queued;
  const depth = origin?.depth ?? 0;
  const row: TurnRow = {
    agent_turn_id: agentTurnId,
    agent_id: agentId,
    accept_seq: nextAcceptSeq(trx, agentId),
    lane,
    turn_epoch: null,
    status: 'queued',
    reason: null,
    error_code: null,
    request: storedJson(request),
    request_digest: queued.digest,
    idempotency_key: request.idempotencyKey ?? null,
    instruction_card_id: queued.instructionCardId,
    context_box_id: request.contextBoxId ?? null,
    output_box_id: null,
    instruction_seq: null,
    earlier: null,
    budgets: null,
    given_tokens: origin?.share?.tokens ?? null,
    given_cost: origin?.share?.cost ?? null,
    profile_name: request.profile ?? null,
    profile_hash: null,
    worker_target: null,
    deliverable_card_id: null,
    depth,
    trace_id: request.traceparent?.split('-')[1] ?? null,
    correlation_id: request.correlationId ?? null,
    parent_agent_id: origin?.turn.agent_id ?? null,
    parent_agent_turn_id: origin?.turn.agent_turn_id ?? null,
    parent_step_index: origin?.stepIndex ?? null,
    parent_call_id: origin?.callId ?? null,
    settlement: origin?.awaited ? 'pending' : null,
    on_parent_end: origin?.onParentEnd ?? null,
    // The end of the turn before it leases it: a queued turn needs no check of its own.
    check_at: null,
    check_every: null,
    woken_at: null,
    no_workers_since: null,
    workers_since: null,
    ends_by: null,
    usage: JSON.stringify(NO_USAGE),
    cost: 0,
    engine: null,
    step_count: 0,
    accepted_at: now,
    leased_at: null,
    started_at: null,
    ended_at: null,
  };
  await trx.insertInto('turns').values(row).execute();
  const edge = {
    primitive: 'enqueue',
    phase: 'request',
    source_agent_id: row.parent_agent_id,
    source_agent_turn_id: row.parent_agent_turn_id,
    source_step_index: row.parent_step_index,
    target_agent_id: agentId,
    target_agent_turn_id: agentTurnId,
    call_id: row.parent_call_id,
    correlation_id: row.correlation_id,
    depth,
    trace_id: row.trace_id,
  } as const;
  appendEdge(trx, agentTurnId, edge, now);
  return row;
}

export const selectTurn = (db: Pick<Trx, 'selectFrom'>, agentTurnId: string) =>
  db.selectFrom('turns').selectAll().where('agent_turn_id', '=', agentTurnId);

export const findTurn = (db: Pick<Trx, 'selectFrom'>, agentTurnId: string): Promise<TurnRow | undefined> =>
  selectTurn(db, agentTurnId).executeTakeFirst();

export async function turnOf(db: Pick<Trx, 'selectFrom'>, agentTurnId: string): Promise<TurnRow> {
  const turn = await findTurn(db, agentTurnId);
  if (turn) return turn;
  throw neverAccepted(agentTurnId);
}

/**
 * A turn whose agent's head row the caller holds, and whether there is anything of what few turns have. All of that is written under the
 * head row, so what is not there stays away for the rest of a transaction that does not write it itself.
 */
export interface HeldTurn extends TurnRow {
  /** A call waits or has waited: for its result, for an answer, or with a report that could not be applied yet. */
  readonly waited: boolean;
  /** Messages came that it has not taken. */
  readonly steered: boolean;
  /** It made turns of others. */
  readonly delegated: boolean;
}

/** What a function may be given that can do without the look. */
export type MaybeHeld = TurnRow & Partial<Pick<HeldTurn, 'waited' | 'steered' | 'delegated'>>;

const WAITED = sql<unknown>`(exists (select 1 from turn_waiting w where w.agent_turn_id = turns.agent_turn_id)
  or exists (select 1 from approvals a where a.agent_turn_id = turns.agent_turn_id)
  or exists (select 1 from deferred_reports d where d.agent_turn_id = turns.agent_turn_id))`.as('waited');

const STEERED = sql<unknown>`exists (select 1 from steers s
  where s.agent_turn_id = turns.agent_turn_id and s.status = 'pending')`.as('steered');

const DELEGATED = sql<unknown>`exists (select 1 from turns made
  where made.parent_agent_turn_id = turns.agent_turn_id)`.as('delegated');

/** The last place in the turn's output box; null where the box is not its agent's to write. */
const BOX_END = sql<number | null>`(select b.last_seq from boxes b
  where b.box_id = turns.output_box_id and b.owner_agent_id = turns.agent_id)`.as('box_end');

export const selectHeld = (db: Pick<Trx, 'selectFrom'>, agentTurnId: string) =>
  db
    .selectFrom('turns')
    .selectAll('turns')
    .select([WAITED, STEERED, DELEGATED, BOX_END])
    .where('turns.agent_turn_id', '=', agentTurnId);

interface HeldRow extends TurnRow {
  readonly waited: unknown;
  readonly steered: unknown;
  readonly delegated: unknown;
  readonly box_end: number | null;
}

type AsHeld<T> = T & Pick<HeldTurn, 'waited' | 'steered' | 'delegated'>;

/** SQLite says 0 and 1. */
export function asHeld<T extends HeldRow>(row: T | undefined, agentTurnId: string): AsHeld<T> {
  if (row) {
    const { waited, steered, delegated } = row;
    return { ...row, waited: Boolean(waited), steered: Boolean(steered), delegated: Boolean(delegated) };
  }
  throw neverAccepted(agentTurnId);
}

/** The turn as it was read under its agent's head row, which the transaction holds. */
export function held<T extends HeldRow>(trx: Trx, row: T | undefined, agentTurnId: string): AsHeld<T> {
  const turn = asHeld(row, agentTurnId);
  if (turn.output_box_id !== null && turn.box_end !== null) noteBoxEnd(trx, turn.output_box_id, turn.box_end);
  return turn;
}

/** Locks the head of a turn's agent, and reads the turn. */
export async function lockedTurn(
  trx: Trx,
  { agentId, agentTurnId }: Pick<Fence, 'agentId' | 'agentTurnId'>,
  now: number,
): Promise<{ head: HeadRow; turn: HeldTurn }> {
  const [head, [row]] = await lockHeadWith(trx, agentId, now, selectHeld(trx, agentTurnId));
  return { head, turn: held(trx, row, agentTurnId) };
}

const neverAccepted = (agentTurnId: string): CodedError =>
  new CodedError('protocol_violation', `turn ${agentTurnId} is not in the store: it was never accepted`);

/** One write transaction under the head of whatever agent the turn belongs to; null when the turn was never accepted. */
export async function writeToTurn<T>(
  ctx: StoreContext,
  agentTurnId: string,
  now: number,
  body: (trx: Trx, found: { readonly head: HeadRow; readonly turn: TurnRow }) => Promise<T>,
): Promise<T | null> {
  const agentId = await agentOf(ctx, agentTurnId);
  if (agentId === null) return null;
  return write(ctx, agentId, async (trx) => {
    const head = await lockHead(trx, agentId, now);
    return body(trx, { head, turn: await turnOf(trx, agentTurnId) });
  });
}

/** Read before the lock: a turn stays with its agent for ever. */
const agentOf = (ctx: StoreContext, agentTurnId: string): Promise<string | null> =>
  read(ctx, async (db) => {
    const known = await db
      .selectFrom('turns')
      .select('agent_id')
      .where('agent_turn_id', '=', agentTurnId)
      .executeTakeFirst();
    return known?.agent_id ?? null;
  });

/** Turn rows: queueing one, and finding one. */
import { sql } from 'kysely';
import type { ParentEndPolicy } from '../../../workflows/contract/delegation.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { type Fence, NO_USAGE } from '../../../workflows/protocol/turn.ts';
import { noteBoxEnd } from '../cards/cards.ts';
import { type Reader, read, type StoreContext, type Tx, write } from '../context.ts';
import { appendEdge } from '../log/events.ts';
import { insertRows, prepared } from '../prepared.ts';
import { encoded, encodedText } from '../schema/json.ts';
import type { Db, HeadRow } from '../schema/rows.ts';
import type { StoredRequest, TurnRow } from '../schema/turn-row.ts';
import { leased, type QueuedTurn, type Turn, turnFrom, type WithLease } from '../schema/turn-states.ts';
import { fencedWith, lockHead, lockHeadWith } from './head.ts';

/** The lane of what must run next: steers that outlived their turn (T22). Requests have lanes from 0. */
export const FRONT_LANE = -1;

/** What a delegated turn may spend with all that it delegates itself (K20). */
export interface Share {
  readonly tokens: number;
  /** Null where its caller has no limit. */
  readonly cost: number | null;
}

/** Where a turn comes from that another turn made. */
export interface TurnOrigin {
  readonly turn: Pick<TurnRow, 'agent_id' | 'agent_turn_id'>;
  readonly depth: number;
  /** The step whose call delegated it; absent for a steer that became a turn. */
  readonly stepIndex?: number;
  /** The call that delegated it; absent for a steer that became a turn. */
  readonly callId?: string;
  /** Whether the call waits for this turn's end (T30). */
  readonly awaited?: boolean;
  /** Whether its agent is told of this turn's end where no call waits for it (A11). */
  readonly isReported?: boolean;
  /** What becomes of this turn when the one that made it ends without success; it goes on when left out. */
  readonly onParentEnd?: ParentEndPolicy;
  /** What it is given of the caller's budgets; absent where no other turn's budgets are used. */
  readonly share?: Share;
}

/** A turn that is to be queued. */
export interface NewTurn {
  readonly agentId: string;
  /** That of its agent. */
  readonly tenant: string | null;
  readonly agentTurnId: string;
  readonly lane: number;
  readonly instructionCardId: string;
  /** The digest of the request, by which a repetition under its key is known; empty where there is no key. */
  readonly digest: string;
  /** The turn that made this one; absent for a request from outside. */
  readonly origin?: TurnOrigin;
  /** As in `TurnOrigin`, where there is none; 0 when left out. */
  readonly depth?: number;
  /** When it may be leased at the earliest; at once when left out. */
  readonly notBefore?: number;
  /** The profile that it is leased with. */
  readonly profile: string;
  readonly request: StoredRequest;
}

/** Queues a turn behind all that its agent has accepted in its lane. The caller holds the agent's head row. */
export async function insertTurn(tx: Tx, queued: NewTurn): Promise<QueuedTurn> {
  const row = newTurn(tx, queued);
  await insertRows(tx.db, 'turns', [row]);
  return row;
}

/** As `insertTurn`, but for the row, which the caller writes. */
export function newTurn(tx: Tx, queued: NewTurn): QueuedTurn {
  const row = rowOf(tx, queued);
  appendEdge(tx, row.agent_turn_id, {
    primitive: 'enqueue',
    phase: 'request',
    source_agent_id: row.parent_agent_id,
    source_agent_turn_id: row.parent_agent_turn_id,
    source_step_index: row.parent_step_index,
    target_agent_id: row.agent_id,
    target_agent_turn_id: row.agent_turn_id,
    call_id: row.parent_call_id,
    correlation_id: row.correlation_id,
    depth: row.depth,
    trace_id: row.trace_id,
  });
  return row;
}

/** The row of a turn that is queued: what only a lease or an end fills is null. */
function rowOf(
  tx: Tx,
  {
    agentId,
    tenant,
    agentTurnId,
    lane,
    instructionCardId,
    digest,
    profile,
    request,
    origin,
    depth = 0,
    notBefore,
  }: NewTurn,
): QueuedTurn {
  return {
    agent_turn_id: agentTurnId,
    agent_id: agentId,
    tenant,
    accept_seq: tx.outbox.nextAcceptSeq(agentId),
    lane,
    turn_epoch: null,
    status: 'queued',
    reason: null,
    error_code: null,
    request: encodedText(request),
    request_digest: digest,
    idempotency_key: request.idempotencyKey ?? null,
    instruction_card_id: instructionCardId,
    chat_id: request.chat?.chatId ?? null,
    not_before: notBefore ?? null,
    context_box_id: request.contextBoxId ?? null,
    output_box_id: null,
    instruction_seq: null,
    earlier: null,
    budgets: null,
    given_tokens: origin?.share?.tokens ?? null,
    given_cost: origin?.share?.cost ?? null,
    profile_name: profile,
    profile_hash: null,
    worker_target: null,
    deliverable_card_id: null,
    depth: origin?.depth ?? depth,
    trace_id: request.chat?.traceId ?? request.traceparent?.split('-')[1] ?? null,
    correlation_id: request.correlationId ?? null,
    parent_agent_id: origin?.turn.agent_id ?? null,
    parent_agent_turn_id: origin?.turn.agent_turn_id ?? null,
    parent_step_index: origin?.stepIndex ?? null,
    parent_call_id: origin?.callId ?? null,
    settlement: origin?.awaited || origin?.isReported ? 'pending' : null,
    on_parent_end: origin?.onParentEnd ?? null,
    // The end of the turn before it leases it: a queued turn needs no check of its own, unless it waits for a time.
    check_at: notBefore ?? null,
    check_every: null,
    woken_at: null,
    no_workers_since: null,
    workers_since: null,
    ends_by: null,
    usage: encoded(NO_USAGE),
    cost: 0,
    engine: null,
    step_count: 0,
    accepted_at: tx.at,
    leased_at: null,
    started_at: null,
    ended_at: null,
  };
}

/** A query for the row of a turn. */
export const selectTurn = ({ db }: Reader, agentTurnId: string) => turnById(db, { agentTurnId });

const turnById = prepared((db, turn: { agentTurnId: string }) =>
  db.selectFrom('turns').selectAll().where('agent_turn_id', '=', turn.agentTurnId),
);

/** The turn; undefined when it was never accepted. */
export async function findTurn(reader: Reader, agentTurnId: string): Promise<Turn | undefined> {
  const row = await selectTurn(reader, agentTurnId).executeTakeFirst();
  return row && turnFrom(row);
}

/** The turn. Errors: `protocol_violation` when it was never accepted. */
export const turnOf = async (reader: Reader, agentTurnId: string): Promise<Turn> =>
  accepted(await findTurn(reader, agentTurnId), agentTurnId);

/** Locks the head if the lease holds, and reads the turn. Errors: `stale_epoch` (T5). */
export async function fencedTurn(tx: Tx, fence: Fence): Promise<Locked<WithLease>> {
  const [head, [row]] = await fencedWith(tx, fence, selectTurn(tx, fence.agentTurnId));
  return { head, turn: leased(accepted(row, fence.agentTurnId)) };
}

function accepted<T extends TurnRow>(turn: T | undefined, agentTurnId: string): T {
  if (turn) return turn;
  throw new CodedError('protocol_violation', `turn ${agentTurnId} is not in the store: it was never accepted`);
}

/**
 * Whether there is anything of what few turns have. All of it is written under the head row of the turn's agent, so what is not there stays
 * away for the rest of a transaction that holds the head row and does not write it itself.
 */
export interface Extras {
  /** Whether a call waits or has waited: for its result, for an answer, or with a report that could not be applied yet. */
  readonly waited: boolean;
  /** Whether messages came that the turn has not taken. */
  readonly steered: boolean;
  /** Whether the turn made turns of others. */
  readonly delegated: boolean;
  /** Whether calls of the turn changed work or waits of its agent. */
  readonly worked: boolean;
}

/** A turn for functions that look for an extra where the caller has not looked for it. */
export type MaybeHeld<T extends TurnRow = TurnRow> = T & Partial<Extras>;

const WAITED = sql<unknown>`(exists (select 1 from turn_waiting w where w.agent_turn_id = turns.agent_turn_id)
  or exists (select 1 from approvals a where a.agent_turn_id = turns.agent_turn_id)
  or exists (select 1 from deferred_reports d where d.agent_turn_id = turns.agent_turn_id))`.as('waited');

const STEERED = sql<unknown>`exists (select 1 from turn_inbox i
  where i.agent_turn_id = turns.agent_turn_id and i.kind = 'steer' and i.status = 'pending')`.as('steered');

const DELEGATED = sql<unknown>`exists (select 1 from turns made
  where made.parent_agent_turn_id = turns.agent_turn_id)`.as('delegated');

const WORKED = sql<unknown>`exists (select 1 from work_effects e where e.agent_turn_id = turns.agent_turn_id)`.as(
  'worked',
);

/** The last place in the turn's output box; null where the box is not its agent's to write. */
const BOX_END = sql<number | null>`(select coalesce((select max(c.seq) from box_cards c where c.box_id = b.box_id), 0)
  from boxes b where b.box_id = turns.output_box_id and b.owner_agent_id = turns.agent_id)`.as('box_end');

/** A query for turns with their extras. */
export const heldColumns = (db: Db) =>
  db.selectFrom('turns').selectAll('turns').select([WAITED, STEERED, DELEGATED, WORKED, BOX_END]);

/** A query for a turn with its extras, to be run under its agent's head row. */
export const selectHeld = ({ db }: Reader, agentTurnId: string) => heldById(db, { agentTurnId });

const heldById = prepared((db, turn: { agentTurnId: string }) =>
  heldColumns(db).where('turns.agent_turn_id', '=', turn.agentTurnId),
);

interface HeldRow extends TurnRow {
  readonly waited: unknown;
  readonly steered: unknown;
  readonly delegated: unknown;
  readonly worked: unknown;
  readonly box_end: number | null;
}

/** The turn as `selectHeld` found it. Errors: `protocol_violation` when it was never accepted. */
export function asHeld<T extends HeldRow>(row: T | undefined, agentTurnId: string): T & Extras {
  const turn = accepted(row, agentTurnId);
  const { waited, steered, delegated, worked } = turn;
  // SQLite says 0 and 1.
  const extras = { waited: Boolean(waited), steered: Boolean(steered), delegated: Boolean(delegated) };
  return { ...turn, ...extras, worked: Boolean(worked) };
}

/** The turn as `selectHeld` found it under its agent's head row, which the transaction holds. Errors: `protocol_violation`. */
export function held<T extends HeldRow>(tx: Tx, row: T | undefined, agentTurnId: string): T & Extras {
  const turn = asHeld(row, agentTurnId);
  if (turn.output_box_id !== null && turn.box_end !== null) noteBoxEnd(tx, turn.output_box_id, turn.box_end);
  return turn;
}

/** A turn, and its agent's head row as the transaction holds it. */
export interface Locked<T extends TurnRow = Turn> {
  readonly head: HeadRow;
  readonly turn: T;
}

/** Locks the head of a turn's agent, and reads the turn. Errors: `protocol_violation` when it was never accepted. */
export async function lockedTurn(
  tx: Tx,
  { agentId, agentTurnId }: Pick<Fence, 'agentId' | 'agentTurnId'>,
): Promise<Locked<Turn & Extras>> {
  const [head, [row]] = await lockHeadWith(tx, agentId, selectHeld(tx, agentTurnId));
  return { head, turn: turnFrom(held(tx, row, agentTurnId)) };
}

/** Runs one write transaction under the head of whatever agent the turn belongs to; null when the turn was never accepted. */
export async function writeToTurn<T>(
  ctx: StoreContext,
  agentTurnId: string,
  body: (tx: Tx, found: Locked) => Promise<T>,
): Promise<T | null> {
  const agentId = await agentOf(ctx, agentTurnId);
  if (agentId === null) return null;
  const locked = async (tx: Tx) => {
    const head = await lockHead(tx, agentId);
    return body(tx, { head, turn: await turnOf(tx, agentTurnId) });
  };
  return write(ctx, agentId, locked);
}

/** The agent of a turn, null when the turn was never accepted. Read before the lock: a turn stays with its agent for ever. */
const agentOf = (ctx: StoreContext, agentTurnId: string): Promise<string | null> =>
  read(ctx, async ({ db }) => {
    const known = await db
      .selectFrom('turns')
      .select('agent_id')
      .where('agent_turn_id', '=', agentTurnId)
      .executeTakeFirst();
    return known?.agent_id ?? null;
  });

/** Accepting a request: dedupe, refuse or queue, in one transaction that answers the caller (T2, T3, T10). */
import { v7 } from 'uuid';
import { nextStatus } from '../../../workflows/agent-state/status.ts';
import { type Border, NO_BORDER, nameWithin, seesAll } from '../../../workflows/contract/border.ts';
import type { DroppedEvent } from '../../../workflows/contract/events.ts';
import type { Accepted, AcceptInput } from '../../../workflows/contract/lease.ts';
import type { EnqueueRequest, RefusedRequest } from '../../../workflows/protocol/enqueue.ts';
import { PRIORITIES } from '../../../workflows/protocol/turn.ts';
import { canonicalDigest } from '../../canonical.ts';
import { instructionCardId, turnIdForKey } from '../../ids.ts';
import { insertCard } from '../cards/cards.ts';
import { type Reader, type StoreContext, type Tx, write } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import { insertRows, prepared } from '../prepared.ts';
import { encodedText } from '../schema/json.ts';
import { constant, type HeadRow } from '../schema/rows.ts';
import { type QueuedTurn, type Turn, turnFrom } from '../schema/turn-states.ts';
import { agentRefusal, mayUse, namingRefusal, referenceRefusal, startRefusal, tenantAt } from './at-the-border.ts';
import { profileRefusal, selectChosenProfile } from './chosen-profile.ts';
import { handOver } from './handover.ts';
import { forgetNewHead, lockHead, lockHeadWith, updateHead } from './head.ts';
import { leaseOf } from './lease.ts';
import type { InstructionRow } from './lease-refusals.ts';
import type { Refusal } from './refusal.ts';
import { ENTRY, enrol, type RosterEntry } from './roster.ts';
import { type NewTurn, newTurn, selectTurn, turnOf } from './turns.ts';

/** The digest of a request without its key, keys sorted: two requests are the same when their digests are. */
function digestOf(request: EnqueueRequest): string {
  const { idempotencyKey: _, ...body } = request;
  return canonicalDigest(body);
}

/**
 * Accepts a request. One to an idle agent is leased in the same transaction, so that only the caller, who starts its workflow, needs to
 * know of it; one to a busy agent is leased by the end of the turn before it.
 */
export async function accept(
  ctx: StoreContext,
  input: AcceptInput,
  border: Border = NO_BORDER,
): Promise<Accepted | RefusedRequest> {
  const { agentId, request } = input;
  const digest = digestOf(request);
  const isNew = !request.idempotencyKey && !input.agentTurnId;
  const agentTurnId = request.idempotencyKey
    ? turnIdForKey(agentId, request.idempotencyKey)
    : (input.agentTurnId ?? v7());
  return write(ctx, agentId, async (tx) => {
    const [head, [entry], [profile], turns] = await lockHeadWith(
      tx,
      agentId,
      selectInbox(tx, agentId),
      selectChosenProfile(tx, { agentId, tenant: border.tenant ?? null, asked: request.profile }),
      ...(isNew ? [] : [selectTurn(tx, agentTurnId)]),
    );
    const inbox = inboxFrom(entry);
    const { entry: agent } = inbox;
    const wanted = { agentId, entry: agent };
    const known = turns?.[0];
    const unseen = agentRefusal(border, wanted);
    if (known && !unseen) return acceptedBefore(tx, turnFrom(known), digest);
    const tenant = tenantAt(border, wanted);
    const name = request.profile ?? agent?.profile ?? nameWithin(tenant, agentId);
    const refused =
      unseen ??
      refusalOf(tx, head, inbox, request.uiAction) ??
      startRefusal(border, wanted, name) ??
      (agent ? null : await namingRefusal(tx, agentId, tenant)) ??
      (await profileRefusal(tx, { agentId, tenant, name, head: profile, isShown: seesAll(border) })) ??
      (await missingReference(tx, border, request, tenant)) ??
      (await referenceRefusal(tx, border, request, tenant));
    if (refused) {
      await forgetNewHead(tx, head);
      return { kind: 'refused', ...refused };
    }
    const awake = agent ? head : await enrol(tx, head, { profile: name, parent: null, tenant });
    const { turn, instruction } = await queue(tx, input, { agentTurnId, profile: name, digest, tenant });
    const first = inbox.queued === 0;
    const idle = head.status === 'idle';
    const needs = instruction && { profileHead: profile, instruction };
    // With a lease that follows at once the row is written once.
    if (!first || !idle) await insertRows(tx.db, 'turns', [turn]);
    const lease = idle ? (await handOver(tx, awake, first ? { turn, needs } : undefined)).next : null;
    const accepted = { kind: 'accepted', agentTurnId, lease, duplicate: false } as const;
    if (lease?.agentTurnId === agentTurnId) return { ...accepted, position: 0, status: 'dispatched' };
    // On its way to the front the turn itself may have been found to be one that cannot start (T8).
    const { status } = idle ? await turnOf(tx, agentTurnId) : turn;
    if (status !== 'queued') return { ...accepted, position: 0, status };
    if (idle && !lease) await updateHead(tx, agentId, { agent_status: nextStatus(awake.agent_status, 'wake') });
    const ahead = first ? 1 : await queuedAhead(tx, agentId, turn.lane);
    return { ...accepted, position: ahead - 1 + (idle && !lease ? 0 : 1), status };
  });
}

/** What is known of an agent that a request is for. */
interface Inbox {
  /** Undefined for an agent that is not on the roster. */
  readonly entry: RosterEntry | undefined;
  readonly queued: number;
}

/** A query for the inbox of an agent. One that is not on the roster has no turns: it is enrolled with its first. */
const selectInbox = ({ db }: Reader, agentId: string) => inboxOf(db, { agentId });

const inboxOf = prepared((db, agent: { agentId: string }) =>
  db
    .selectFrom('agents')
    .select(({ selectFrom }) => [
      ...ENTRY,
      selectFrom('turns')
        .select((eb) => eb.fn.countAll<number>().as('count'))
        .where('turns.agent_id', '=', agent.agentId)
        .where('turns.status', '=', constant('queued'))
        .as('queued'),
    ])
    .where('agents.agent_id', '=', agent.agentId),
);

const inboxFrom = (entry: (NonNullable<Inbox['entry']> & { queued: unknown }) | undefined): Inbox => ({
  entry,
  queued: Number(entry?.queued ?? 0),
});

/** Why the agent takes no request; null when it does. The caller holds the head row. */
export const admissionRefusal = async (tx: Tx, head: HeadRow): Promise<Refusal | null> =>
  refusalOf(tx, head, inboxFrom(await selectInbox(tx, head.agent_id).executeTakeFirst()));

/**
 * Why a request is refused; null when it is not. A stopped agent takes nothing, a full inbox neither, and a UI action does not wait (T10,
 * T11).
 */
function refusalOf(
  { maxQueuedTurns }: Tx,
  { agent_id: agentId, status }: HeadRow,
  { entry, queued }: Inbox,
  uiAction = false,
): Refusal | null {
  if (entry?.lifecycle === 'stopped') {
    return { code: 'agent_stopped', message: `agent ${agentId} is stopped; start it, then enqueue again` };
  }
  if (uiAction && (status !== 'idle' || queued > 0)) {
    return { code: 'agent_busy', message: `agent ${agentId} is at work and a UI action does not wait` };
  }
  if (queued < maxQueuedTurns) return null;
  return {
    code: 'inbox_full',
    message: `agent ${agentId} has ${queued === 1 ? '1 turn' : `${queued} turns`} queued; retry later`,
  };
}

/** The answer to a request that was accepted before. A turn that has not started gives its lease again: the caller before may have gone. */
async function acceptedBefore(tx: Tx, turn: Turn, digest: string): Promise<Accepted | RefusedRequest> {
  if (turn.request_digest !== digest) {
    return {
      kind: 'refused',
      code: 'idempotency_conflict',
      message: `idempotency key ${turn.idempotency_key} of agent ${turn.agent_id} belongs to another request (turn ${turn.agent_turn_id})`,
    };
  }
  const isQueued = turn.status === 'queued';
  return {
    kind: 'accepted',
    agentTurnId: turn.agent_turn_id,
    position: isQueued ? (await queuedAhead(tx, turn.agent_id, turn.lane, turn.accept_seq)) + 1 : 0,
    status: turn.status,
    duplicate: true,
    lease: turn.status === 'dispatched' ? await leaseOf(tx, turn) : null,
  };
}

/** Counts queued turns of the agent of lanes up to `lane`; those accepted before `acceptSeq` where it is given. */
async function queuedAhead({ db }: Reader, agentId: string, lane: number, acceptSeq?: number): Promise<number> {
  let query = db
    .selectFrom('turns')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('agent_id', '=', agentId)
    .where('status', '=', constant('queued'))
    .where('lane', '<=', lane);
  if (acceptSeq !== undefined) query = query.where('accept_seq', '<', acceptSeq);
  return Number((await query.executeTakeFirstOrThrow()).count);
}

/** Why the instruction card that the request names is refused; null when it is there, or none is named. */
async function missingReference(
  reader: Reader,
  border: Border,
  { instructionCardId: cardId }: EnqueueRequest,
  tenant: string | null,
): Promise<Refusal | null> {
  if (cardId === undefined) return null;
  const { db } = reader;
  const card = await db.selectFrom('cards').select('type').where('card_id', '=', cardId).executeTakeFirst();
  if (card?.type === 'task.instruction' && (await mayUse(reader, border, { cardId }, tenant))) return null;
  const message = `instructionCardId ${cardId} is not an instruction card; write the text as a card first`;
  return { code: 'invalid_request', message };
}

/** Writes the instruction where the request brings it, and makes the turn, whose row the caller writes. */
async function queue(
  tx: Tx,
  { agentId, request }: AcceptInput,
  { agentTurnId, profile, digest, tenant }: Pick<NewTurn, 'agentTurnId' | 'profile' | 'digest' | 'tenant'>,
): Promise<{ readonly turn: QueuedTurn; readonly instruction: InstructionRow | undefined }> {
  const cardId = request.instructionCardId ?? instructionCardId(agentTurnId);
  const { instruction: text, ...rest } = request;
  const lane = PRIORITIES.indexOf(request.priority);
  const made = { agentId, tenant, agentTurnId, lane, instructionCardId: cardId, digest, profile, request: rest };
  const turn = newTurn(tx, made);
  if (text === undefined) return { turn, instruction: undefined };
  const type = 'task.instruction';
  const content = { text };
  const tokens = await insertCard(tx, { cardId, type, content, author: 'client', agentTurnId });
  return { turn, instruction: { type, content: encodedText(content), token_count: tokens } };
}

/** Writes down, once, that a message of a foreign client could not be used and why. */
export async function recordDropped(
  ctx: StoreContext,
  agentId: string,
  messageId: string,
  payload: DroppedEvent['payload'],
): Promise<void> {
  await write(ctx, agentId, async (tx) => {
    await lockHead(tx, agentId);
    const known = await tx.db.selectFrom('events').select('id').where('message_id', '=', messageId).executeTakeFirst();
    if (known) return;
    appendEvent(tx, { agent_id: agentId, agent_turn_id: null }, { type: 'dropped', payload }, { messageId });
  });
}

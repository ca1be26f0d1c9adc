/**
 * Taking a message of a chat: one transaction decides where it goes, ends the open turn where the message asks for that, and leases the next one
 * (C1, C2, C8).
 *
 * Invariants
 * 1. A message is kept once, whatever is repeated, and is in one turn from then on, or rejected.
 * 2. A turn that is ended for a message has its own `task` event, and hands over to the turn with the message in the same transaction.
 */
import { nextStatus } from '../../../workflows/agent-state/status.ts';
import { deniedBy } from '../../../workflows/chat/input-policy.ts';
import { type Placement, placementOf } from '../../../workflows/chat/placement.ts';
import { renderMessages } from '../../../workflows/chat/rendering.ts';
import { type Border, NO_BORDER, nameWithin, seesAll } from '../../../workflows/contract/border.ts';
import type { MessageSent, SendMessage } from '../../../workflows/contract/chat.ts';
import type { Handover } from '../../../workflows/contract/lease.ts';
import type { ChatConfig } from '../../../workflows/protocol/chat.ts';
import type { RefusedRequest } from '../../../workflows/protocol/enqueue.ts';
import { sessionAgentId } from '../../../workflows/protocol/ids.ts';
import { canonicalDigest } from '../../canonical.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import type { ChatMessageRow } from '../schema/chat-rows.ts';
import type { HeadRow } from '../schema/rows.ts';
import type { QueuedTurn } from '../schema/turn-states.ts';
import { admissionRefusal } from '../turns/accept.ts';
import { agentRefusal, namingRefusal, startRefusal, tenantAt } from '../turns/at-the-border.ts';
import { profileRefusal } from '../turns/chosen-profile.ts';
import { endForMessage } from '../turns/control.ts';
import { handOver } from '../turns/handover.ts';
import { forgetNewHead, lockHeadWith, updateHead } from '../turns/head.ts';
import { leaseOf } from '../turns/lease.ts';
import { unreadable } from '../turns/lease-refusals.ts';
import { type CurrentProfile, profileAt, selectProfileHead } from '../turns/profiles.ts';
import type { Refusal } from '../turns/refusal.ts';
import { enrol, type RosterEntry, selectRosterEntry } from '../turns/roster.ts';
import { countPendingSteers, MOST_PENDING_STEERS, putSteer } from '../turns/steers.ts';
import { turnOf } from '../turns/turns.ts';
import { messageRow, noteMessage, type Session, sessionWith } from './messages.ts';
import { messageView, selectMessages, selectSessions, sessionView } from './rows.ts';
import {
  collectedBytes,
  hasRoom,
  moveToFront,
  queueFor,
  selectWaitingTurn,
  waitNoLonger,
  writeMessageCard,
} from './waiting-turn.ts';

const selectKnown = ({ db }: Tx, agentId: string) =>
  db.selectFrom('chat_messages').select(['seq', 'digest']).where('agent_id', '=', agentId);

/** Takes a message for a session. */
export async function sendMessage(
  ctx: StoreContext,
  input: SendMessage,
  border: Border = NO_BORDER,
): Promise<MessageSent | RefusedRequest> {
  const { message } = input;
  const agentId = sessionAgentId(input.agentId, message.chatId);
  const digest = canonicalDigest([input.agentId, message.chatId, message.sender, message.payload]);
  return write(ctx, agentId, async (tx) => {
    // Two queries, for a planner may go through all messages of the session to find either.
    const [byKey, byEvent] = [
      selectKnown(tx, agentId).where('idempotency_key', '=', message.idempotencyKey),
      selectKnown(tx, agentId).where('event_id', '=', message.eventId),
    ];
    const [head, [before], [doubled], [session], [own], [base]] = await lockHeadWith(
      tx,
      agentId,
      byKey,
      byEvent,
      selectSessions(tx).where('chat_sessions.agent_id', '=', agentId),
      selectRosterEntry(tx, agentId),
      selectRosterEntry(tx, input.agentId),
    );
    const unseen = agentRefusal(border, { agentId, entry: own });
    if (before && !unseen)
      return before.digest === digest ? sentBefore(tx, head, before.seq) : conflict(agentId, input);
    // A retry that has lost the key of its envelope is still that message.
    if (doubled?.digest === digest && !unseen) return sentBefore(tx, head, doubled.seq);
    const tenant = own ? own.tenant : base ? base.tenant : tenantAt(border, { entry: own });
    const name = input.profile ?? own?.profile ?? base?.profile ?? nameWithin(tenant, input.agentId);
    const profileHead = await selectProfileHead(tx, name).executeTakeFirst();
    const of = own ? { agentId, entry: own } : { agentId: input.agentId, entry: base };
    const refused =
      unseen ??
      baseRefusal(border, input.agentId, own, base) ??
      startRefusal(border, of, name) ??
      (own ? null : await namingRefusal(tx, agentId, tenant)) ??
      sessionRefusal(agentId, tenant !== null || !seesAll(border), input, session?.session_id, doubled !== undefined) ??
      (await profileRefusal(tx, { agentId, tenant, name, head: profileHead, isShown: seesAll(border) }));
    const placing = { head, agentId, digest, name, input, profileHead, tenant, isNew: !own };
    const outcome = refused ?? (await place(tx, placing));
    if ('code' in outcome) {
      await forgetNewHead(tx, head);
      return { kind: 'refused', ...outcome };
    }
    return outcome;
  });
}

const conflict = (agentId: string, { message }: SendMessage): RefusedRequest => ({
  kind: 'refused',
  code: 'idempotency_conflict',
  message: `the key ${message.idempotencyKey} belongs to another message of session ${agentId}`,
});

/**
 * Why the message is not for the agent that it names; null when it is. The caller need not see that agent: a token may be for one chat. The
 * session's agent may have been made as an agent of a tenant, which is called like this chat and is another one.
 */
function baseRefusal(
  { tenant }: Border,
  agentId: string,
  own: RosterEntry | undefined,
  base: RosterEntry | undefined,
): Refusal | null {
  const whose = (own ?? base)?.tenant ?? null;
  const isOneTenants = base ? base.tenant === whose : whose === null || agentId.startsWith(`${whose}~`);
  if (isOneTenants && (tenant === undefined || !base || tenant === base.tenant)) return null;
  return { code: 'agent_not_found', message: `agent ${agentId} is none of this caller; check the id` };
}

/** Why the message cannot be of this session; null when it can (C1, C2). */
function sessionRefusal(
  agentId: string,
  hasOwnId: boolean,
  { message: { sessionId, eventId } }: SendMessage,
  known: string | undefined,
  isDoubled: boolean,
): Refusal | null {
  if (known !== undefined && sessionId !== undefined && sessionId !== known)
    return invalid('sessionId', `the session of this chat is ${known}; leave sessionId out, or send that one`);
  if (known === undefined && hasOwnId && sessionId !== undefined && sessionId !== agentId)
    return invalid('sessionId', `the session of this chat is called ${agentId}; leave sessionId out`);
  if (known === undefined && sessionId !== undefined && sessionId !== agentId && sessionId.includes('~'))
    return invalid(
      'sessionId',
      `${sessionId} is what the session of another chat is called by itself; send one without ~`,
    );
  return isDoubled
    ? invalid('eventId', `${eventId} is the id of another message of this chat; send this one under an id of its own`)
    : null;
}

const invalid = (field: string, what: string): Refusal => ({ code: 'invalid_input', message: `${field}: ${what}` });

/** What became of a message that is sent again. A turn that has not started gives its lease again: the caller before may have gone. */
async function sentBefore(tx: Tx, head: HeadRow, seq: number): Promise<MessageSent> {
  const { agent_id: agentId, active_agent_turn_id: active, status } = head;
  const next = status === 'dispatched' && active !== null ? await leaseOf(tx, await turnOf(tx, active)) : null;
  const handover = next && { agentId, next, more: false, settlements: [] };
  return { ...(await sentNow(tx, agentId, seq)), duplicate: true, endedTurnId: null, handover, waitMs: 0 };
}

async function sentNow(
  tx: Tx,
  agentId: string,
  seq: number,
): Promise<Pick<MessageSent, 'kind' | 'message' | 'session'>> {
  const message = await selectMessages(tx)
    .where('chat_messages.agent_id', '=', agentId)
    .where('chat_messages.seq', '=', seq)
    .executeTakeFirstOrThrow();
  const session = await selectSessions(tx).where('chat_sessions.agent_id', '=', agentId).executeTakeFirstOrThrow();
  return { kind: 'sent', message: messageView(message), session: sessionView(session) };
}

/** A message that nothing speaks against. */
interface Placing {
  readonly head: HeadRow;
  readonly agentId: string;
  readonly digest: string;
  /** The name of the profile of the session. */
  readonly name: string;
  readonly input: SendMessage;
  readonly profileHead: Parameters<typeof profileAt>[1];
  readonly tenant: string | null;
  /** Whether the agent of the session is not on the roster yet. */
  readonly isNew: boolean;
}

async function place(tx: Tx, placing: Placing): Promise<MessageSent | Refusal> {
  const { head, agentId, digest, name, input, tenant } = placing;
  const refused = await admissionRefusal(tx, head);
  if (refused) return refused;
  const profile = await profileAt(tx, placing.profileHead).catch(nothingReadable);
  const chat = profile?.snapshot.profile.chat;
  const policy = input.policy ?? chat?.queuePolicy ?? 'collect';
  const session = await sessionWith(tx, agentId, input);
  if (!session) {
    const wanted = input.message.sessionId ?? agentId;
    return invalid('sessionId', `${wanted} is the session of another chat; send one that is not used yet`);
  }
  const awake = placing.isNew ? await enrol(tx, head, { profile: name, parent: null, tenant }) : head;
  const row = messageRow(tx, { agentId, digest, policy, session, message: input.message });
  const last = await selectWaitingTurn(tx, agentId).executeTakeFirst();
  const waiting = last?.agent_turn_id ?? null;
  // A message for another profile is in a turn of that profile.
  const joins = last?.profile_name === name ? waiting : null;
  const placement = placementOf(policy, await momentOf(tx, head, { row, waiting, joins, profile, session, input }));
  const placed = { session, profile: name, tenant, waiting, chat };
  if (placement.ends && waiting !== null) await moveToFront(tx, agentId);
  const { turnId, made } = await carryOut(tx, awake, row, placement, placed);
  await noteMessage(tx, row, placement, turnId);
  const ended = placement.ends ? await endForMessage(tx, awake, placement.ends, row.event_id) : null;
  const handover = ended?.handover ?? (made ? await leaseWhenIdle(tx, awake, made) : null);
  const waitMs = made?.not_before ? Math.max(0, made.not_before - tx.now) : 0;
  const endedTurnId = ended?.ended.agentTurnId ?? null;
  return { ...(await sentNow(tx, agentId, row.seq)), duplicate: false, endedTurnId, handover, waitMs };
}

/** Of a profile that cannot be read nothing is known; the turn that needs it ends (T8). Errors: those of the database. */
function nothingReadable(error: unknown): null {
  unreadable(error);
  return null;
}

interface Situation {
  readonly session: Session;
  readonly input: SendMessage;
  readonly row: ChatMessageRow;
  readonly waiting: string | null;
  /** The turn that waits, where it may take the message; else null. */
  readonly joins: string | null;
  readonly profile: CurrentProfile | null;
}

/** What the session is at. */
async function momentOf(tx: Tx, head: HeadRow, situation: Situation) {
  const { row, waiting, joins, profile } = situation;
  const active = head.status === 'idle' ? null : head.active_agent_turn_id;
  const most = collectedBytes(profile?.snapshot.profile);
  const room = joins !== null && (await hasRoom(tx, joins, row.bytes, most));
  return {
    active: active !== null,
    waiting: waiting === null ? ('none' as const) : room ? ('room' as const) : ('full' as const),
    steerable: row.policy === 'steer' && active !== null && (await maySteer(tx, active, situation)),
  };
}

/** Whether the turn may be told the message. What the policy denies, no model is told: it makes a turn, which says so. */
async function maySteer(tx: Tx, active: string, { profile, session, input }: Situation): Promise<boolean> {
  const text = renderMessages([input.message], session.severalSenders);
  if (deniedBy(profile?.snapshot.profile.inputPolicy, text) !== null) return false;
  return (await countPendingSteers(tx, active)) < MOST_PENDING_STEERS;
}

/** What a message is placed with. */
interface Placed {
  readonly session: Session;
  readonly profile: string;
  readonly tenant: string | null;
  readonly waiting: string | null;
  readonly chat: ChatConfig | undefined;
}

/** Puts the message where it goes: the turn that has it then, and the turn that was made of it. */
async function carryOut(
  tx: Tx,
  head: HeadRow,
  row: ChatMessageRow,
  { to, ends }: Placement,
  { session, profile, tenant, waiting, chat }: Placed,
): Promise<{ readonly turnId: string | null; readonly made: QueuedTurn | null }> {
  switch (to) {
    case 'reject':
      return { turnId: null, made: null };
    case 'join':
      return { turnId: waiting, made: null };
    case 'steer': {
      const active = head.active_agent_turn_id ?? '';
      await writeMessageCard(tx, row, session.severalSenders, active);
      await putSteer(tx, active, row.card_id);
      return { turnId: active, made: null };
    }
    case 'turn': {
      // A turn that is full waits for nothing any more, and neither does what comes behind it.
      if (waiting !== null) await waitNoLonger(tx, row.agent_id);
      const wait = head.status === 'idle' && waiting === null && chat ? chat.debounceMs : 0;
      const notBefore = wait > 0 ? { notBefore: tx.now + wait } : {};
      const made = await queueFor(tx, row, {
        sessionId: session.sessionId,
        tenant,
        profile,
        front: ends !== undefined,
        ...notBefore,
      });
      await writeMessageCard(tx, row, session.severalSenders, made.agent_turn_id);
      return { turnId: made.agent_turn_id, made };
    }
  }
}

/** Leases the next turn of an agent that is idle; the agent is awake while the turn that was made waits. */
async function leaseWhenIdle(tx: Tx, head: HeadRow, made: QueuedTurn): Promise<Handover | null> {
  if (head.status !== 'idle') return null;
  const handover = made.not_before === null ? await handOver(tx, head) : null;
  // On its way to the front the turn itself may have been found to be one that cannot start (T8).
  if (handover?.next || (handover && (await turnOf(tx, made.agent_turn_id)).status !== 'queued')) return handover;
  await updateHead(tx, head.agent_id, { agent_status: nextStatus(head.agent_status, 'wake') });
  return handover;
}

/**
 * Taking a message of a chat: one transaction decides where it goes, ends the open turn where the message asks for that, and leases the next one
 * (C1, C2, C8).
 *
 * Invariants
 * 1. A message is kept once, whatever is repeated, and is in one turn from then on, or rejected.
 * 2. A turn that is ended for a message has its own `task` event, and hands over to the turn with the message in the same transaction.
 */
import { nextStatus } from '../../../workflows/agent-state/status.ts';
import { type Placement, placementOf } from '../../../workflows/chat/placement.ts';
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
import { profileRefusal } from '../turns/chosen-profile.ts';
import { endForMessage } from '../turns/control.ts';
import { handOver } from '../turns/handover.ts';
import { forgetNewHead, lockHeadWith, updateHead } from '../turns/head.ts';
import { leaseOf } from '../turns/lease.ts';
import { type CurrentProfile, profileAt, selectProfileHead } from '../turns/profiles.ts';
import type { Refusal } from '../turns/refusal.ts';
import { enrol, selectRosterEntry } from '../turns/roster.ts';
import { countPendingSteers, MOST_PENDING_STEERS, putSteer } from '../turns/steers.ts';
import { turnOf } from '../turns/turns.ts';
import { messageRow, noteMessage, type Session, sessionWith } from './messages.ts';
import { messageView, selectMessages, selectSessions, sessionView } from './rows.ts';
import { hasRoom, moveToFront, queueFor, selectWaitingTurn, writeMessageCard } from './waiting-turn.ts';

/** Takes a message for a session. */
export async function sendMessage(ctx: StoreContext, input: SendMessage): Promise<MessageSent | RefusedRequest> {
  const { message } = input;
  const agentId = sessionAgentId(input.agentId, message.chatId);
  const digest = canonicalDigest([input.agentId, message.chatId, message.sender, message.payload]);
  return write(ctx, agentId, async (tx) => {
    const likeIt = selectMessages(tx)
      .where('chat_messages.agent_id', '=', agentId)
      .where((eb) =>
        eb.or([
          eb('chat_messages.idempotency_key', '=', message.idempotencyKey),
          eb('chat_messages.event_id', '=', message.eventId),
        ]),
      );
    const [head, known, [session], [own], [base]] = await lockHeadWith(
      tx,
      agentId,
      likeIt,
      selectSessions(tx).where('chat_sessions.agent_id', '=', agentId),
      selectRosterEntry(tx, agentId),
      selectRosterEntry(tx, input.agentId),
    );
    const before = known.find(({ idempotency_key: key }) => key === message.idempotencyKey);
    if (before) return before.digest === digest ? sentBefore(tx, head, before.seq) : conflict(agentId, input);
    const name = input.profile ?? own?.profile ?? base?.profile ?? input.agentId;
    const profileHead = await selectProfileHead(tx, name).executeTakeFirst();
    const refused =
      sessionRefusal(input, session?.session_id, known.length > 0) ??
      (await profileRefusal(tx, { agentId, name, head: profileHead }));
    const outcome = refused ?? (await place(tx, { head, agentId, digest, name, input, profileHead, isNew: !own }));
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

/** Why the message cannot be of this session; null when it can (C1, C2). */
function sessionRefusal(
  { message: { sessionId, eventId } }: SendMessage,
  known: string | undefined,
  isDoubled: boolean,
): Refusal | null {
  if (known !== undefined && sessionId !== undefined && sessionId !== known)
    return invalid('sessionId', `the session of this chat is ${known}; leave sessionId out, or send that one`);
  return isDoubled
    ? invalid('eventId', `${eventId} was sent with another idempotencyKey; repeat it with the same one`)
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
  /** Whether the agent of the session is not on the roster yet. */
  readonly isNew: boolean;
}

async function place(tx: Tx, placing: Placing): Promise<MessageSent | Refusal> {
  const { head, agentId, digest, name, input } = placing;
  const refused = await admissionRefusal(tx, head);
  if (refused) return refused;
  const profile = await profileAt(tx, placing.profileHead).catch(() => null);
  const chat = profile?.snapshot.profile.chat;
  const policy = input.policy ?? chat?.queuePolicy ?? 'collect';
  const session = await sessionWith(tx, agentId, input);
  if (!session) {
    const wanted = input.message.sessionId ?? agentId;
    return invalid('sessionId', `${wanted} is the session of another chat; send one that is not used yet`);
  }
  const awake = placing.isNew ? await enrol(tx, head, { profile: name, parentAgentId: null }) : head;
  const row = messageRow(tx, { agentId, digest, policy, session, message: input.message });
  const waiting = (await selectWaitingTurn(tx, agentId).executeTakeFirst())?.agent_turn_id ?? null;
  const placement = placementOf(policy, await momentOf(tx, head, { row, waiting, profile }));
  const placed = { session, profile: name, waiting, chat };
  if (placement.ends && waiting !== null) await moveToFront(tx, agentId);
  const { turnId, made } = await carryOut(tx, awake, row, placement, placed);
  await noteMessage(tx, row, placement, turnId);
  const ended = placement.ends ? await endForMessage(tx, awake, placement.ends, row.event_id) : null;
  const handover = ended?.handover ?? (made ? await leaseWhenIdle(tx, awake, made) : null);
  const waitMs = made?.not_before ? Math.max(0, made.not_before - tx.now) : 0;
  const endedTurnId = ended?.ended.agentTurnId ?? null;
  return { ...(await sentNow(tx, agentId, row.seq)), duplicate: false, endedTurnId, handover, waitMs };
}

interface Situation {
  readonly row: ChatMessageRow;
  readonly waiting: string | null;
  readonly profile: CurrentProfile | null;
}

/** A window while no worker has registered the profile: a small one, for what is collected may have to fit it. */
const UNKNOWN_WINDOW_TOKENS = 8_000;

/** What the session is at. */
async function momentOf(tx: Tx, head: HeadRow, { row, waiting, profile }: Situation) {
  const active = head.status === 'idle' ? null : head.active_agent_turn_id;
  const windowTokens = profile?.snapshot.profile.context.windowTokens ?? UNKNOWN_WINDOW_TOKENS;
  const room = waiting !== null && (await hasRoom(tx, waiting, { bytes: row.bytes, windowTokens }));
  return {
    active: active !== null,
    waiting: waiting === null ? ('none' as const) : room ? ('room' as const) : ('full' as const),
    steerable:
      row.policy === 'steer' && active !== null && (await countPendingSteers(tx, active)) < MOST_PENDING_STEERS,
  };
}

/** What a message is placed with. */
interface Placed {
  readonly session: Session;
  readonly profile: string;
  readonly waiting: string | null;
  readonly chat: ChatConfig | undefined;
}

/** Puts the message where it goes: the turn that has it then, and the turn that was made of it. */
async function carryOut(
  tx: Tx,
  head: HeadRow,
  row: ChatMessageRow,
  { to, ends }: Placement,
  { session, profile, waiting, chat }: Placed,
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
      const wait = head.status === 'idle' && chat ? chat.debounceMs : 0;
      const notBefore = wait > 0 ? { notBefore: tx.now + wait } : {};
      const made = await queueFor(tx, row, {
        sessionId: session.sessionId,
        profile,
        front: ends !== undefined,
        ...notBefore,
      });
      await writeMessageCard(tx, row, session.severalSenders, made.agent_turn_id);
      return { turnId: made.agent_turn_id, made };
    }
  }
}

/** Leases the next turn of an agent that is idle. */
async function leaseWhenIdle(tx: Tx, head: HeadRow, made: QueuedTurn): Promise<Handover | null> {
  if (head.status !== 'idle') return null;
  if (made.not_before === null) {
    const handover = await handOver(tx, head);
    if (handover.next) return handover;
  }
  await updateHead(tx, head.agent_id, { agent_status: nextStatus(head.agent_status, 'wake') });
  return null;
}

/**
 * Writing a session that the store has lost, from a journal (C10).
 *
 * Invariant: what is written is what the turns themselves would have written, by the same functions: leases in the order of their epochs, ends
 * with their one `task` event, and what the agent remembers. What the journal does not have, the calls of the turns, is not made up.
 */
import type { Restored, RestoredMessage, RestoredSession, RestoredTurn } from '../../../workflows/contract/chat.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { sessionAgentId } from '../../../workflows/protocol/ids.ts';
import { canonicalDigest } from '../../canonical.ts';
import { stepCardId } from '../../ids.ts';
import { writeNewCards } from '../cards/cards.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import type { ChatMessageRow } from '../schema/chat-rows.ts';
import { leased } from '../schema/turn-states.ts';
import { namingRefusal } from '../turns/at-the-border.ts';
import { profileRefusal } from '../turns/chosen-profile.ts';
import { cancelQueued } from '../turns/control.ts';
import { endTurn } from '../turns/endings.ts';
import { handOver } from '../turns/handover.ts';
import { heldHead, lockHead, updateHead } from '../turns/head.ts';
import { tryLease } from '../turns/lease.ts';
import { selectProfileHead } from '../turns/profiles.ts';
import { enrol, rosterEntry } from '../turns/roster.ts';
import type { StoredCommit } from '../turns/terminal.ts';
import { turnOf } from '../turns/turns.ts';
import { messageRow, noteMessage, sessionWith } from './messages.ts';
import { selectSessions } from './rows.ts';
import { queueFor, writeMessageCard } from './waiting-turn.ts';

/** Writes the session unless it is there. */
export async function restoreSession(ctx: StoreContext, lost: RestoredSession): Promise<Restored> {
  const agentId = sessionAgentId(lost.of, lost.chatId);
  return write(ctx, agentId, async (tx) => {
    const head = await lockHead(tx, agentId);
    const known = await selectSessions(tx).where('chat_sessions.agent_id', '=', agentId).executeTakeFirst();
    if (known) return { restored: false, waiting: 0, handover: null };
    const name = lost.profile;
    const profileHead = await selectProfileHead(tx, name).executeTakeFirst();
    const refused = await profileRefusal(tx, { agentId, tenant: lost.tenant, name, head: profileHead });
    if (refused) throw new CodedError(refused.code, refused.message);
    const entry = await rosterEntry(tx, agentId);
    const misnamed = entry ? null : await namingRefusal(tx, agentId, lost.tenant);
    if (misnamed) throw new CodedError(misnamed.code, misnamed.message);
    if (entry && entry.tenant !== lost.tenant)
      throw new CodedError(
        'invalid_input',
        `agent ${agentId} is of tenant ${entry.tenant ?? '(none)'}, and the session of ${lost.tenant ?? '(none)'}`,
      );
    const awake = await enrol(tx, head, { profile: name, parent: null, tenant: lost.tenant });
    if (awake !== head) await updateHead(tx, agentId, { agent_status: awake.agent_status });
    const restoring: Restoring = { lost, agentId, coming: [...lost.messages], rows: new Map() };
    for (const turn of lost.turns) {
      await takeMessages(tx, restoring, turn.messagesBefore);
      await restoreTurn(tx, restoring, turn);
    }
    await takeMessages(tx, restoring, Number.POSITIVE_INFINITY);
    return finish(tx, restoring);
  });
}

interface Restoring {
  readonly lost: RestoredSession;
  readonly agentId: string;
  /** The messages that have not come yet, in their order. */
  readonly coming: RestoredMessage[];
  /** The messages that have come and that no turn has, in their order. */
  readonly rows: Map<string, TakenMessage>;
}

/** A message, and whether the session had several senders when it came. */
interface TakenMessage {
  readonly row: ChatMessageRow;
  readonly severalSenders: boolean;
}

/** Lets the messages come up to this place: a turn is shown, as it was, whose words they are only if several had written by then. */
async function takeMessages(tx: Tx, { lost, agentId, coming, rows }: Restoring, upTo: number): Promise<void> {
  for (let next = coming[0]; next && next.seq <= upTo; next = coming[0]) {
    rows.set(next.message.eventId, await rowOf(tx, agentId, lost, next));
    coming.shift();
  }
}

async function rowOf(
  tx: Tx,
  agentId: string,
  { of, sessionId }: RestoredSession,
  { message: told, policy }: RestoredMessage,
): Promise<TakenMessage> {
  const message = { ...told, sessionId };
  const session = await sessionWith(tx, agentId, { agentId: of, message });
  if (!session) throw new CodedError('invalid_input', `sessionId: ${sessionId} is the session of another chat`);
  const digest = canonicalDigest([of, message.chatId, message.sender, message.payload]);
  const { severalSenders } = session;
  return { row: messageRow(tx, { agentId, digest, policy, session, message }), severalSenders };
}

/** Queues a turn for these messages. */
async function queueMessages(
  tx: Tx,
  { lost, rows }: Restoring,
  eventIds: readonly string[],
  known?: Pick<RestoredTurn, 'agentTurnId' | 'traceId' | 'correlationId'>,
): Promise<string | null> {
  const taken = eventIds.flatMap((id) => rows.get(id) ?? []);
  const [first] = taken;
  if (!first) return null;
  const setting = { sessionId: lost.sessionId, profile: lost.profile, tenant: lost.tenant, front: false };
  // A turn is known as it was, whichever of its messages it was made by.
  const row = known ? { ...first.row, trace_id: known.traceId, correlation_id: known.correlationId } : first.row;
  const turn = await queueFor(tx, row, known ? { ...setting, agentTurnId: known.agentTurnId } : setting);
  await writeMessageCard(tx, first.row, first.severalSenders, turn.agent_turn_id);
  for (const { row } of taken) {
    await noteMessage(tx, row, { to: row === first.row ? 'turn' : 'join' }, turn.agent_turn_id);
    rows.delete(row.event_id);
  }
  return turn.agent_turn_id;
}

/** Leases the turn under the epoch that it had, and ends it as it ended. One whose messages are lost has nothing to be remembered by. */
async function restoreTurn(tx: Tx, restoring: Restoring, ended: RestoredTurn): Promise<void> {
  const { agentId } = restoring;
  const agentTurnId = await queueMessages(tx, restoring, ended.eventIds, ended);
  if (agentTurnId === null) return;
  const head = await heldHead(tx, agentId);
  const { status, errorCode, reason, rolledBack, deliverable } = ended;
  if (ended.turnEpoch === null) {
    await cancelQueued(tx, { head, turn: await turnOf(tx, agentTurnId) }, reason ?? '');
    return;
  }
  const turnEpoch = Math.max(head.turn_epoch, ended.turnEpoch - 1);
  // What the profile denies now was answered then.
  const how = { unjudged: true };
  const attempt = await tryLease(tx, { ...head, turn_epoch: turnEpoch }, await turnOf(tx, agentTurnId), how);
  if (attempt.kind !== 'leased') return;
  const turn = leased(await turnOf(tx, agentTurnId));
  await writeAnswer(tx, turn, ended);
  const commit: StoredCommit = {
    termination: { status, ...(errorCode === null ? {} : { errorCode }), ...(reason === null ? {} : { reason }) },
    deliverable: { from: 'fallback' },
    ...(deliverable === null ? {} : { delivered: deliverable }),
    engine: null,
    ...(rolledBack ? { rollBack: true as const } : {}),
  };
  await endTurn(tx, { head: await heldHead(tx, agentId), turn }, commit);
}

/** Writes what the turn said last; nothing where it is not known, or where it has submitted fields, which its deliverable shows. */
async function writeAnswer(
  tx: Tx,
  { agent_turn_id: agentTurnId, agent_id: author, output_box_id: boxId }: ReturnType<typeof leased>,
  { deliverable }: RestoredTurn,
): Promise<void> {
  const text = deliverable?.text ?? deliverable?.fallback?.lastThought;
  if (text === undefined) return;
  const cardId = stepCardId(agentTurnId, 1, 'agent.thought');
  const card = {
    cardId,
    type: 'agent.thought',
    content: { text, toolCalls: [] },
    author,
    agentTurnId,
    stepIndex: 1,
  } as const;
  await writeNewCards(tx, { boxId, owner: author }, [card]);
}

/** Writes down what was rejected; the rest waits, and makes the next turn. */
async function finish(tx: Tx, restoring: Restoring): Promise<Restored> {
  const { lost, agentId, rows } = restoring;
  for (const { message, rejected } of lost.messages) {
    const row = rejected === null ? undefined : rows.get(message.eventId)?.row;
    if (!row) continue;
    await noteMessage(tx, { ...row, reason: rejected }, { to: 'reject' }, null);
    rows.delete(message.eventId);
  }
  const waiting = rows.size;
  if (waiting > 0) await queueMessages(tx, restoring, [...rows.keys()]);
  const handover = await handOver(tx, await heldHead(tx, agentId));
  return { restored: true, waiting, handover };
}

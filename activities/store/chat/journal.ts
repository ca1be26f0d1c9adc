/**
 * What the log says of a session, as lines of its journal (C9).
 *
 * Invariant: what a line holds besides its event never changes once the event is written: the envelope of a message, the messages with which a
 * turn began, the row and the card of one that has ended.
 */
import type { JournalLine, TerminalLine } from '../../../workflows/chat/journal.ts';
import { terminalOf } from '../../../workflows/chat/terminal.ts';
import type { AgentEvent } from '../../../workflows/contract/events.ts';
import type { JournalPage } from '../../../workflows/contract/journal.ts';
import { type Deliverable, isTerminal } from '../../../workflows/protocol/turn.ts';
import { type Reader, read, type StoreContext } from '../context.ts';
import { chatIdentityOf, toEvent } from '../reads/reads.ts';
import type { ChatMessageRow } from '../schema/chat-rows.ts';
import { decodedOr, type Json } from '../schema/json.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { payloadOf, senderOf } from './rows.ts';

/** Events of one page: each may bring a message and a deliverable. */
const EVENTS_PER_PAGE = 100;

/** Reads a page of the journal of the session that the agent is. */
export const readJournal = (
  ctx: StoreContext,
  agentId: string,
  after: number,
  limit = EVENTS_PER_PAGE,
): Promise<JournalPage> =>
  read(ctx, async (reader) => {
    const { db } = reader;
    // Before the events: those that are committed meanwhile are of the next page.
    const head = await db
      .selectFrom('agent_state_head')
      .select('event_seq')
      .where('agent_id', '=', agentId)
      .executeTakeFirst();
    const last = Number(head?.event_seq ?? 0);
    const rows = await db
      .selectFrom('events')
      .selectAll()
      .where('agent_id', '=', agentId)
      .where('seq', '>', after)
      .where('seq', '<=', last)
      .where('type', 'in', ['message', 'chat_step', 'task'])
      .orderBy('seq')
      .limit(limit)
      .execute();
    const through = rows.length < limit ? Math.max(after, last) : (rows.at(-1)?.seq ?? last);
    return { lines: await linesOf(reader, agentId, rows.map(toEvent)), through, last };
  });

async function linesOf(reader: Reader, agentId: string, events: readonly AgentEvent[]): Promise<JournalLine[]> {
  const messages = await messagesOf(reader, agentId, events);
  const turns = await turnsOf(reader, events);
  return events.flatMap((event): JournalLine[] => {
    const turn = turns.get(event.agentTurnId ?? '');
    switch (event.type) {
      case 'message':
        return messageLine(event, messages.get(event.payload.seq));
      case 'chat_step':
        return turn ? turnLine(event, turn) : [];
      case 'task':
        return turn ? terminalLine(event, turn) : [];
      default:
        return [];
    }
  });
}

type EventOf<T extends AgentEvent['type']> = Extract<AgentEvent, { type: T }>;

const placeOf = ({ seq, createdAt: at }: AgentEvent) => ({ seq, at });

function messageLine(event: EventOf<'message'>, row: ChatMessageRow | undefined): JournalLine[] {
  if (!row) return [];
  const { policy, placement, reason, seq: messageSeq } = event.payload;
  const message = {
    eventId: row.event_id,
    chatId: row.chat_id,
    ...(row.sender_seq === null ? {} : { seq: row.sender_seq }),
    timestampMs: row.timestamp_ms,
    type: 'chat.message' as const,
    sender: senderOf(row),
    idempotencyKey: row.idempotency_key,
    traceId: row.trace_id,
    correlationId: row.correlation_id,
    ...(row.causation_id === null ? {} : { causationId: row.causation_id }),
    payload: payloadOf(row),
  };
  const went = {
    messageSeq,
    policy,
    placement,
    turnId: event.agentTurnId,
    ...(reason === undefined ? {} : { reason }),
  };
  return [{ ...placeOf(event), type: 'message', ...went, message }];
}

function turnLine(event: EventOf<'chat_step'>, { row, messages }: JournaledTurn): JournalLine[] {
  if (event.payload.step !== 'understand' || row.turn_epoch === null) return [];
  // A turn takes messages while it waits; from its lease on it is only steered.
  const eventIds = messages
    .filter(({ placement }) => placement === 'turn' || placement === 'collected')
    .map(({ event_id }) => event_id);
  const { contextHash } = event.payload;
  const { agent_turn_id: turnId, turn_epoch: epoch, trace_id: traceId, correlation_id: correlationId } = row;
  const identity = { turnId, epoch, traceId: traceId ?? '', correlationId: correlationId ?? '' };
  return [{ ...placeOf(event), type: 'turn', ...identity, contextHash, eventIds }];
}

function terminalLine(event: EventOf<'task'>, { row, messages, deliverable }: JournaledTurn): JournalLine[] {
  const { agent_turn_id: agentTurnId, status: outcome, error_code: errorCode, reason } = row;
  const terminal = terminalOf({
    agentTurnId,
    status: outcome,
    errorCode,
    reason,
    deliverable,
    chat: chatIdentityOf(row),
  });
  if (!terminal || !isTerminal(outcome)) return [];
  const { turnId, status, failure, traceId, correlationId } = terminal;
  const rejected = messages
    .filter(({ placement }) => placement === 'rejected')
    .map((message) => ({ eventId: message.event_id, reason: message.reason ?? '' }));
  const taken = messages.filter(({ placement }) => placement !== 'rejected').map(({ event_id }) => event_id);
  const line: TerminalLine = {
    ...placeOf(event),
    type: 'terminal',
    turnId,
    epoch: row.turn_epoch,
    status,
    outcome,
    ...(failure ? { failure } : {}),
    deliverable,
    traceId,
    correlationId,
    eventIds: taken,
    ...(rejected.length > 0 ? { rejected } : {}),
    ...(event.payload.rolledBack ? { rolledBack: true as const } : {}),
    ...(errorCode === 'report_missing' ? { recovered: true as const } : {}),
  };
  return [line];
}

/** The messages that the events tell of, by their places; all events of one page lie near each other. */
async function messagesOf(
  { db }: Reader,
  agentId: string,
  events: readonly AgentEvent[],
): Promise<ReadonlyMap<number, ChatMessageRow>> {
  const places = events.flatMap((event) => (event.type === 'message' ? event.payload.seq : []));
  if (places.length === 0) return new Map();
  const rows = await db
    .selectFrom('chat_messages')
    .selectAll()
    .where('agent_id', '=', agentId)
    .where('seq', '>=', Math.min(...places))
    .where('seq', '<=', Math.max(...places))
    .execute();
  return new Map(rows.map((row) => [row.seq, row]));
}

/** A turn of a session with what its lines say. */
interface JournaledTurn {
  readonly row: TurnRow;
  /** Its messages in their order. */
  readonly messages: readonly Pick<ChatMessageRow, 'agent_turn_id' | 'event_id' | 'placement' | 'reason'>[];
  readonly deliverable: Deliverable | null;
}

async function turnsOf({ db }: Reader, events: readonly AgentEvent[]): Promise<ReadonlyMap<string, JournaledTurn>> {
  const ids = new Set(
    events.flatMap(({ type, agentTurnId }) => (type === 'message' || agentTurnId === null ? [] : agentTurnId)),
  );
  if (ids.size === 0) return new Map();
  const rows = await db
    .selectFrom('turns')
    .selectAll()
    .where((eb) => eb('agent_turn_id', '=', eb.fn.any(eb.val([...ids]))))
    .where('chat_id', 'is not', null)
    .execute();
  const messages = await db
    .selectFrom('chat_messages')
    .select(['agent_turn_id', 'event_id', 'placement', 'reason'])
    .where((eb) => eb('agent_turn_id', '=', eb.fn.any(eb.val([...ids]))))
    .orderBy('seq')
    .execute();
  const cards = await db
    .selectFrom('cards')
    .select(['card_id', 'content'])
    .where((eb) => eb('card_id', '=', eb.fn.any(eb.val(rows.map((row) => row.deliverable_card_id ?? '')))))
    .execute();
  return new Map(
    rows.map((row) => {
      const card = cards.find(({ card_id }) => card_id === row.deliverable_card_id);
      const own = messages.filter(({ agent_turn_id }) => agent_turn_id === row.agent_turn_id);
      return [
        row.agent_turn_id,
        { row, messages: own, deliverable: card ? decodedOr(card.content as Json<Deliverable>, null) : null },
      ];
    }),
  );
}

/**
 * The stream of a turn: its answers as they are written, its calls and their results, and its end (W16).
 *
 * Invariants
 * 1. Each part once, in an order that makes sense: the text of a step before its calls, those before their results, all before the next step.
 *    Chunks are read before events, so the commit of every step before that of a chunk is among the events.
 * 2. Put together, the text of a step since its last retraction is that of its thought, whether it was read from chunks, from the thought, or
 *    from both.
 */
import type { CardStore } from '../workflows/contract/cards.ts';
import type { Chunk, ChunkStore } from '../workflows/contract/chunks.ts';
import type { AgentEvent, StepEvent } from '../workflows/contract/events.ts';
import type { ReadStore } from '../workflows/contract/views.ts';
import type { Card, CardContents, CardType } from '../workflows/protocol/cards.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { Change, type EventStore, isOver } from './event-tail.ts';
import {
  cursorOf,
  FIRST_PLACE,
  NO_TEXT_DIGEST,
  placeOfCursor,
  type StreamBody,
  type StreamPart,
  type StreamPlace,
  textDigest,
} from './stream-parts.ts';

type StreamStore = EventStore &
  Pick<ReadStore, 'readEvents'> &
  Pick<ChunkStore, 'readChunks'> &
  Pick<CardStore, 'readCards'>;

/** Which stream is followed, and from where on. */
export interface FollowStreamOptions {
  readonly agentId: string;
  readonly agentTurnId: string;
  /** The `cursor` of the part that was handled last; from the beginning when left out. */
  readonly cursor?: string | undefined;
  /** Ends the iteration at its next wait; no error. */
  readonly signal?: AbortSignal | undefined;
}

const EVENTS_PAGE = 500;
const CHUNKS_PAGE = 500;

/** Yields the parts of the turn's stream from the cursor on, up to its end. Errors: `invalid_request` for a cursor that is not of this turn. */
export async function* followStream(
  store: StreamStore,
  options: FollowStreamOptions,
): AsyncGenerator<StreamPart, void> {
  const { agentId, agentTurnId, signal } = options;
  const reader = new StreamReader(store, await checkCursor(store, options));
  const change = new Change(store, signal);
  let over: boolean | undefined;
  while (!signal?.aborted) {
    change.watch();
    const chunks = await store.readChunks(agentTurnId, reader.place.chunk, CHUNKS_PAGE);
    const events = await store.readEvents({ agentId, agentTurnId, afterSeq: reader.place.seq, limit: EVENTS_PAGE });
    for await (const part of reader.partsOf(chunks, events)) {
      if (signal?.aborted) return;
      yield part;
      if (part.type === 'end') return;
    }
    if (chunks.length > 0 || events.length > 0) continue;
    if (over) return;
    if (over === undefined) {
      over = await isOver(store, agentTurnId);
      if (over) continue;
    }
    await change.seen();
  }
}

/** The place of the cursor; the first one where there is none. Errors: `invalid_request` for a cursor that is not of this turn. */
export async function checkCursor(
  store: Pick<ReadStore, 'readEvents'>,
  { agentId, agentTurnId, cursor }: Omit<FollowStreamOptions, 'signal'>,
): Promise<StreamPlace> {
  const place = cursor === undefined ? FIRST_PLACE : placeOfCursor(cursor);
  const { seq } = place;
  if (seq === 0) return place;
  const [event] = await store.readEvents({ agentId, agentTurnId, afterSeq: seq - 1, limit: 1 });
  if (event?.seq === seq) return place;
  throw new CodedError(
    'invalid_request',
    `the cursor is not of turn ${agentTurnId}: pass the "cursor" of the last part of its stream that was handled`,
  );
}

/** Makes parts of chunks and events, and keeps the place. */
class StreamReader {
  place: StreamPlace;
  readonly #store: StreamStore;

  constructor(store: StreamStore, place: StreamPlace) {
    this.#store = store;
    this.place = place;
  }

  /** The parts of what was read; `events` are all there are, or a full page. */
  async *partsOf(chunks: readonly Chunk[], events: readonly AgentEvent[]): AsyncGenerator<StreamPart, void> {
    const rest = [...chunks];
    const cards = await this.#cardsOf(events);
    for (const event of events) {
      if (event.type === 'step' && event.payload.phase !== 'started') {
        const own = rest.findLastIndex((chunk) => chunk.stepIndex <= event.payload.stepIndex);
        yield* this.#chunks(rest.splice(0, own + 1));
        yield* this.#step(event, cards);
      }
      const body = bodyOf(event, cards);
      this.place = { ...this.place, seq: event.seq };
      if (body) yield this.#part(body);
    }
    // Behind a full page there may be events that come before the rest.
    if (events.length < EVENTS_PAGE) yield* this.#chunks(rest);
  }

  *#chunks(chunks: readonly Chunk[]): Generator<StreamPart, void> {
    for (const chunk of chunks) {
      // What an attempt wrote that was superseded by now is not shown first.
      const superseded = chunks.some(
        ({ stepIndex, attempt }) => stepIndex === chunk.stepIndex && attempt > chunk.attempt,
      );
      const { stepIndex, attempt } = chunk;
      const isPast = stepIndex < this.place.step || (stepIndex === this.place.step && attempt < this.place.attempt);
      if (!superseded && !isPast) yield* this.#chunk(chunk);
      this.place = { ...this.place, chunk: chunk.seq };
    }
  }

  *#chunk(chunk: Chunk): Generator<StreamPart, void> {
    const { stepIndex, attempt } = chunk;
    if (stepIndex !== this.place.step || attempt !== this.place.attempt) yield* this.#begin(stepIndex, attempt);
    const place = { ...this.place, chunk: chunk.seq };
    if (chunk.type === 'reasoning') {
      this.place = { ...place, shown: 1 };
      yield this.#part({ type: 'reasoning', stepIndex, delta: chunk.text });
    } else if (chunk.type === 'tool_call') {
      const { index, tool, text } = chunk;
      this.place = { ...place, shown: 1 };
      yield this.#part({ type: 'call_delta', stepIndex, index, tool, delta: text });
    } else if (chunk.type === 'content' && chunk.at <= this.place.chars) {
      const delta = chunk.text.slice(this.place.chars - chunk.at);
      this.place = place;
      yield* this.#text(stepIndex, delta);
    }
  }

  /** Goes on to another attempt, or to another step. */
  *#begin(step: number, attempt: number): Generator<StreamPart, void> {
    const hadShown = step === this.place.step && this.place.shown === 1;
    this.place = { ...this.place, step, attempt, chars: 0, digest: NO_TEXT_DIGEST, shown: 0 };
    if (hadShown) yield this.#part({ type: 'retracted', stepIndex: step });
  }

  *#text(stepIndex: number, delta: string): Generator<StreamPart, void> {
    if (delta === '') return;
    const { chars, digest } = this.place;
    this.place = { ...this.place, chars: chars + delta.length, digest: textDigest(delta, digest), shown: 1 };
    yield this.#part({ type: 'text', stepIndex, delta });
  }

  /** The rest of the text of a step that is committed; or what makes void what was passed on of one that was given up. */
  *#step({ payload }: StepEvent, cards: Cards): Generator<StreamPart, void> {
    const { stepIndex, phase } = payload;
    if (phase === 'failed') yield* this.#begin(stepIndex, this.place.attempt);
    const thought = thoughtOf(payload, cards);
    if (!thought) return;
    const { text } = thought;
    const { step, chars, digest } = this.place;
    const goesOn = step === stepIndex && text.length >= chars && textDigest(text.slice(0, chars)) === digest;
    if (!goesOn) yield* this.#begin(stepIndex, 0);
    yield* this.#text(stepIndex, text.slice(this.place.chars));
    this.place = { ...this.place, step: stepIndex + 1, attempt: 0, chars: 0, digest: NO_TEXT_DIGEST, shown: 0 };
  }

  #part(body: StreamBody): StreamPart {
    return { ...body, cursor: cursorOf(this.place) };
  }

  async #cardsOf(events: readonly AgentEvent[]): Promise<Cards> {
    const ids = events.flatMap((event) => {
      if (event.type === 'step') return event.payload.cardIds ?? [];
      if (event.type === 'call') return event.payload.cardId ?? [];
      return event.type === 'task' ? event.payload.deliverableCardId : [];
    });
    const cards = ids.length === 0 ? [] : await this.#store.readCards(ids);
    return new Map(cards.map((card) => [card.cardId, card]));
  }
}

type Cards = ReadonlyMap<string, Card>;

const contentOf = <T extends CardType>(
  cards: Cards,
  cardId: string | undefined,
  type: T,
): CardContents[T] | undefined => {
  const card = cardId === undefined ? undefined : cards.get(cardId);
  return card?.type === type ? (card.content as CardContents[T]) : undefined;
};

const thoughtOf = ({ cardIds = [] }: StepEvent['payload'], cards: Cards) =>
  contentOf(cards, cardIds[0], 'agent.thought');

/** What an event says to who follows the stream; null when it says nothing. */
function bodyOf(event: AgentEvent, cards: Cards): StreamBody | null {
  switch (event.type) {
    case 'step':
      return stepBody(event, cards);
    case 'call':
      return callBody(event, cards);
    case 'approval':
      return { type: 'approval', ...event.payload };
    case 'provider':
      return { type: 'provider', ...event.payload };
    case 'task': {
      const { status, errorCode, deliverableCardId } = event.payload;
      const deliverable = contentOf(cards, deliverableCardId, 'task.deliverable');
      return deliverable ? { type: 'end', status, errorCode, deliverable } : null;
    }
    default:
      return null;
  }
}

function stepBody({ payload }: StepEvent, cards: Cards): StreamBody | null {
  const thought = thoughtOf(payload, cards);
  if (!thought) return null;
  const calls = thought.toolCalls.map(({ callId, name, arguments: args }) => ({ callId, tool: name, arguments: args }));
  const { stepIndex } = payload;
  return { type: 'step', stepIndex, calls, ...(thought.refusal === undefined ? {} : { refusal: thought.refusal }) };
}

function callBody({ payload }: Extract<AgentEvent, { type: 'call' }>, cards: Cards): StreamBody | null {
  const { callId, tool, phase, progress, deadline, cardId } = payload;
  if (phase === 'progress' && progress !== undefined) return { type: 'progress', callId, tool, progress };
  if (phase === 'suspended' && deadline !== undefined) return { type: 'waiting', callId, tool, deadline };
  const content = phase === 'settled' ? contentOf(cards, cardId, 'tool.result') : undefined;
  if (!content) return null;
  const { status, result, error } = content;
  return {
    type: 'result',
    callId,
    tool,
    status,
    ...(result === undefined ? {} : { result }),
    ...(error ? { error } : {}),
  };
}

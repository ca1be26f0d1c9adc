/**
 * The stream of a session: its messages as they come, and its turns one after the other (C8).
 *
 * Invariants
 * 1. Each part once, those of a turn in their order, and no part of a turn before the last one of the turn before it.
 * 2. A cursor says which event of the session was handled last, and where the stream of the turn that goes on stands.
 */

import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { ReadStore } from '../../workflows/contract/views.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { StreamOptions } from '../api.ts';
import { followEvents } from '../event-tail.ts';
import { Pending } from '../pending.ts';
import type { StreamPart } from '../stream-parts.ts';
import { checkCursor, type FollowStreamOptions, followStream } from '../turn-stream.ts';
import type { SessionPart } from './api.ts';

/** What a session is followed by. */
type SessionStore = Parameters<typeof followEvents>[0] &
  Parameters<typeof followStream>[0] &
  Pick<ReadStore, 'getTurn'>;

/** How far a reader has come. */
interface SessionPlace {
  /** The event of the session that was handled last; 0 before the first. */
  readonly seq: number;
  /** The turn that is shown; empty where none is. */
  readonly turn: string;
  /** The cursor of its stream; empty at its beginning. */
  readonly part: string;
}

const cursorOf = ({ seq, turn, part }: SessionPlace): string => [seq.toString(36), turn, part].join('/');

/** The cursor by which a reader gets what follows the event with that `seq` of the session's agent; no turn is shown by then. */
export const sessionCursor = (seq: number): string => cursorOf({ seq, turn: '', part: '' });

/** Errors: `invalid_request` for a text that is no cursor of a session. */
function placeOf(cursor: string | undefined): SessionPlace {
  if (cursor === undefined) return { seq: 0, turn: '', part: '' };
  const [, seq = '', turn = '', part = ''] = /^([\da-z]{1,11})\/([\da-f-]{0,36})\/([\da-z.]*)$/.exec(cursor) ?? [];
  if (seq !== '') return { seq: Number.parseInt(seq, 36), turn, part };
  throw new CodedError(
    'invalid_request',
    `${JSON.stringify(cursor.slice(0, 100))} is no cursor of a session's stream: pass the "cursor" of the last part that was handled`,
  );
}

/** The place of the cursor. Errors: `invalid_request` for one that this session has not come to, or that is of another one. */
export async function checkSessionCursor(
  store: Pick<ReadStore, 'readEvents'>,
  { agentId, cursor }: { readonly agentId: string; readonly cursor: string | undefined },
): Promise<SessionPlace> {
  const place = placeOf(cursor);
  const { seq, turn, part } = place;
  // Events of a turn are found by the turn alone: whose it is they say themselves.
  const [event] = seq === 0 ? [] : await store.readEvents({ agentId, afterSeq: seq - 1, limit: 1 });
  const [began] = turn === '' ? [] : await store.readEvents({ agentId, agentTurnId: turn, limit: 1 });
  if ((seq !== 0 && event?.seq !== seq) || (turn !== '' && began?.agentId !== agentId))
    throw new CodedError(
      'invalid_request',
      `the cursor is not of the session of ${agentId}: pass the "cursor" of the last part of its stream that was handled`,
    );
  if (part !== '') await checkCursor(store, { agentId, agentTurnId: turn, cursor: part });
  return place;
}

type Next =
  | { readonly from: 'session'; readonly got: IteratorResult<AgentEvent, void> }
  | { readonly from: 'turn'; readonly got: IteratorResult<StreamPart, void> };

/** Yields the parts of the session's stream from the cursor on, for as long as the reader wants them. */
export async function* followSession(
  store: SessionStore,
  { agentId, cursor, signal }: StreamOptions & { readonly agentId: string },
): AsyncGenerator<SessionPart, void> {
  const place = await checkSessionCursor(store, { agentId, cursor });
  const reader = new SessionReader(store, { agentId, place, signal });
  try {
    for (let part = await reader.next(); part !== null; part = await reader.next()) yield part;
  } finally {
    await reader.close();
  }
}

/** What a session is read with. */
interface Reading {
  readonly agentId: string;
  readonly place: SessionPlace;
  readonly signal: AbortSignal | undefined;
}

class SessionReader {
  readonly #store: SessionStore;
  readonly #agentId: string;
  readonly #stopped = new AbortController();
  readonly #signal: AbortSignal;
  readonly #events: AsyncGenerator<AgentEvent, void>;
  #place: SessionPlace;
  #turn: AsyncGenerator<StreamPart, void> | null = null;
  #nextEvent: Pending<Next> | null = null;
  #nextPart: Pending<Next> | null = null;
  #wake = () => {};
  /** The beginning of a turn that waits for the end of the one that is shown. */
  #held: AgentEvent | null = null;

  constructor(store: SessionStore, { agentId, place, signal }: Reading) {
    this.#store = store;
    this.#agentId = agentId;
    this.#place = place;
    this.#signal = signal ? AbortSignal.any([signal, this.#stopped.signal]) : this.#stopped.signal;
    this.#events = followEvents(store, { agentId, afterSeq: place.seq, signal: this.#signal });
    if (place.turn !== '') this.#follow(place.turn, place.part);
  }

  /** The next part; null when the reader wants no more. */
  async next(): Promise<SessionPart | null> {
    for (;;) {
      const { from, got } = await this.#race();
      if (this.#signal.aborted) return null;
      const part = from === 'session' ? await this.#takeEvent(got) : this.#takePart(got);
      if (part !== undefined) return part;
    }
  }

  async close(): Promise<void> {
    this.#stopped.abort();
    await Promise.all([this.#nextEvent?.done, this.#nextPart?.done]);
  }

  /** What comes first, of the turn before the session. */
  async #race(): Promise<Next> {
    if (this.#held === null)
      this.#nextEvent ??= this.#pending(this.#events.next().then((got) => ({ from: 'session', got }) as const));
    if (this.#turn) this.#nextPart ??= this.#pending(this.#turn.next().then((got) => ({ from: 'turn', got }) as const));
    for (;;) {
      const came = [this.#nextPart, this.#nextEvent].find((next) => next?.isDone);
      if (came) return came.take();
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  #pending(next: Promise<Next>): Pending<Next> {
    return new Pending(next, () => this.#wake());
  }

  /** The part that an event is; undefined where it is none. */
  async #takeEvent({ done, value }: IteratorResult<AgentEvent, void>): Promise<SessionPart | null | undefined> {
    this.#nextEvent = null;
    if (done) return null;
    if (await this.#begins(value)) {
      if (this.#turn) this.#held = value;
      else this.#begin(value);
      return undefined;
    }
    this.#place = { ...this.#place, seq: value.seq };
    if (value.type !== 'message') return undefined;
    return { type: 'message', agentTurnId: value.agentTurnId, ...value.payload, cursor: cursorOf(this.#place) };
  }

  /** Whether a turn begins with the event: it was leased, or has ended without that, as one does that is stopped while it waits. */
  async #begins(event: AgentEvent): Promise<boolean> {
    if (event.type !== 'chat_step' || event.agentTurnId === null) return false;
    const { payload } = event;
    if (payload.step === 'receive') return true;
    if (payload.step !== 'decide' || (payload.path !== 'deny' && payload.path !== 'fail')) return false;
    return (await this.#store.getTurn(event.agentTurnId))?.leasedAt === null;
  }

  #begin({ seq, agentTurnId }: AgentEvent): void {
    this.#place = { seq, turn: agentTurnId ?? '', part: '' };
    this.#follow(this.#place.turn, '');
  }

  #follow(agentTurnId: string, part: string): void {
    const options: FollowStreamOptions = { agentId: this.#agentId, agentTurnId, signal: this.#signal };
    this.#turn = followStream(this.#store, part === '' ? options : { ...options, cursor: part });
  }

  #takePart({ done, value }: IteratorResult<StreamPart, void>): SessionPart | undefined {
    this.#nextPart = null;
    const agentTurnId = this.#place.turn;
    if (done || value.type === 'end') {
      this.#turn = null;
      this.#place = { ...this.#place, turn: '', part: '' };
    } else this.#place = { ...this.#place, part: value.cursor };
    const part = done ? undefined : { agentTurnId, ...value, cursor: cursorOf(this.#place) };
    const held = this.#turn === null ? this.#held : null;
    if (held) {
      this.#held = null;
      this.#begin(held);
    }
    return part;
  }
}

/**
 * The event log of an agent or a turn, as an async iterator.
 *
 * Invariants
 * 1. Each event once, in the order of `seq`. A reader that comes back with the last `seq` it handled misses nothing and gets nothing
 *    twice: a store writes an agent's events one transaction after the other, so none appears behind one that was read.
 * 2. Waiting holds nothing; a commit that falls between a look and the wait for the next is not slept through.
 */
import type { AgentEvent } from '../workflows/contract/events.ts';
import type { Backend } from '../workflows/contract/store.ts';
import type { ReadStore } from '../workflows/contract/views.ts';
import { isTerminal } from '../workflows/protocol/turn.ts';

/** Whose events are read, and from where on. */
export interface EventRange {
  readonly agentId: string;
  /** Only events of this turn. */
  readonly agentTurnId?: string | undefined;
  /** The `seq` that was handled last; 0 is before the first. */
  readonly afterSeq?: number | undefined;
}

/** Whose events are followed, and when the reader stops. */
export interface FollowOptions extends EventRange {
  /** Ends the iteration at its next wait; no error. */
  readonly signal?: AbortSignal | undefined;
}

/** What following events takes. */
export type EventStore = Pick<ReadStore, 'readEvents' | 'getTurnStatus'> & Pick<Backend, 'changed'>;

const PAGE = 500;

/** How long to wait for a change before the store is asked again anyway. */
const ASK_AGAIN_MS = 1_000;

/** What the store holds now. */
export async function* storedEvents(
  store: Pick<EventStore, 'readEvents'>,
  { agentId, agentTurnId, afterSeq = 0 }: EventRange,
): AsyncGenerator<AgentEvent, void> {
  const turn = agentTurnId === undefined ? {} : { agentTurnId };
  for (let seen = afterSeq; ; ) {
    const page = await store.readEvents({ agentId, ...turn, afterSeq: seen, limit: PAGE });
    yield* page;
    seen = page.at(-1)?.seq ?? seen;
    if (page.length < PAGE) return;
  }
}

/** Yields the stored events after `afterSeq`, then new ones: a turn's up to its `task` event, an agent's until `signal` aborts. */
export async function* followEvents(
  store: EventStore,
  { agentId, agentTurnId, afterSeq = 0, signal }: FollowOptions,
): AsyncGenerator<AgentEvent, void> {
  const change = new Change(store, signal);
  let seen = afterSeq;
  let over: boolean | undefined;
  while (!signal?.aborted) {
    change.watch();
    let quiet = true;
    for await (const event of storedEvents(store, { agentId, agentTurnId, afterSeq: seen })) {
      if (signal?.aborted) return;
      quiet = false;
      seen = event.seq;
      yield event;
      if (agentTurnId !== undefined && event.type === 'task') return;
    }
    if (!quiet) continue;
    if (over) return;
    // Asked once: the task event of a turn that goes on is still to come. That of an ended one was handled before, or came just now.
    if (agentTurnId !== undefined && over === undefined) {
      over = await isOver(store, agentTurnId);
      if (over) continue;
    }
    await change.seen();
  }
}

/** Whether the turn has ended, or never was. */
export async function isOver(store: EventStore, agentTurnId: string): Promise<boolean> {
  const status = await store.getTurnStatus(agentTurnId);
  return status === null || isTerminal(status);
}

/** Waits for a change since a moment that lies before the last look. */
export class Change {
  readonly #store: Pick<Backend, 'changed'>;
  readonly #signal: AbortSignal | undefined;
  #pending: Promise<void> | null = null;

  constructor(store: Pick<Backend, 'changed'>, signal: AbortSignal | undefined) {
    this.#store = store;
    this.#signal = signal;
  }

  /** Begins to watch, unless it watches already. */
  watch(): void {
    if (this.#pending !== null) return;
    this.#pending = this.#store.changed(ASK_AGAIN_MS);
    // It may never be awaited; if it is, it fails there.
    this.#pending.catch(() => {});
  }

  /** Resolves when there is something to look for, and at the end of the reader. */
  async seen(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const stop = () => resolve();
    this.#signal?.addEventListener('abort', stop, { once: true });
    try {
      if (!this.#signal?.aborted) await Promise.race([this.#pending, promise]);
    } finally {
      this.#signal?.removeEventListener('abort', stop);
      this.#pending = null;
    }
  }
}

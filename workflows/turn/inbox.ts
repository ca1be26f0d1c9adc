/**
 * What reaches a turn from outside: wake-ups, results and requests of foreign clients, and what the store delivers of the turn's inbox.
 *
 * Invariants
 * 1. A handler never throws: what it cannot use, the store is asked to write down.
 * 2. Requests go to the store at once, in the order they came, whatever the turn is doing; results are taken where the turn looks at its
 *    calls, and before it ends.
 */
import { allHandlersFinished, CancellationScope, condition, log } from '@temporalio/workflow';
import { INLINE_BATCH, type InlineMessage } from '../contract/activities.ts';
import type { InboxDelivery, InboxMark } from '../contract/inbox.ts';
import { InlineRequests } from '../messages/inline-requests.ts';
import { MessageIds } from '../messages/message-ids.ts';
import { enqueueSignal, shallow, toolResultSignal, wakeSignal } from '../messages/messages.ts';
import type { Fence } from '../protocol/turn.ts';
import type { Meter } from './meter.ts';

/** Carried over to the next run, when no message is left that the store has not got. */
export interface InboxCarry {
  readonly woken: boolean;
  readonly unread: boolean;
  /** The place of the last item that the turn has got. */
  readonly read: number;
  /** Messages so far. */
  readonly messages: number;
}

/** The messages of a running turn. */
export class TurnInbox {
  readonly #fence: Fence;
  readonly #meter: Meter;
  readonly #ids: MessageIds;
  readonly #results: InlineMessage[] = [];
  readonly #requests: InlineRequests;
  #accepting: Promise<void> | null = null;
  /** The store holds something that the turn may wait for. */
  woken: boolean;
  /** The store may hold an item that the turn has not got, and that no step brings before the next one is decided. */
  unread: boolean;
  /** The place of the last item that the turn has got; 0 for none. */
  #read: number;

  /** `carry` is what the run before left; absent in a turn's first run. */
  constructor(fence: Fence, meter: Meter, carry?: InboxCarry) {
    this.#fence = fence;
    this.#meter = meter;
    this.#ids = new MessageIds(carry?.messages);
    this.#requests = new InlineRequests(fence.agentId, this.#ids, meter);
    this.woken = carry?.woken ?? false;
    this.unread = carry?.unread ?? false;
    this.#read = carry?.read ?? 0;
    meter.onSignal(wakeSignal, () => {
      this.woken = true;
      this.unread = true;
    });
    meter.onSignal(toolResultSignal, (body) => {
      this.woken = true;
      this.#results.push({ messageId: this.#ids.next(), body: shallow(body) });
    });
    meter.onSignal(enqueueSignal, (body) => {
      return this.#acceptRequest(body);
    });
  }

  carry(): InboxCarry {
    return { woken: this.woken, unread: this.unread, read: this.#read, messages: this.#ids.taken };
  }

  /** For whoever reads the inbox. */
  get mark(): InboxMark {
    return this.#read > 0 ? { inboxRead: this.#read } : {};
  }

  /** The items of a delivery are not delivered again. */
  noteRead({ items = [] }: InboxDelivery): void {
    this.#read = items.reduce((read, { seq }) => Math.max(read, seq), this.#read);
  }

  /** The store has got every message that came. */
  get isSettled(): boolean {
    return this.#results.length === 0 && allHandlersFinished();
  }

  async settle(): Promise<void> {
    await this.acceptResults();
    await condition(allHandlersFinished);
  }

  async acceptResults(): Promise<void> {
    const { agentId, agentTurnId } = this.#fence;
    while (this.#results.length > 0) {
      const results = this.#results.splice(0, INLINE_BATCH);
      let handled = 0;
      try {
        handled = await this.#meter.store.reportInline({ agentId, agentTurnId, results });
      } finally {
        // Also those of an attempt that was cancelled: whoever ends the turn reports them.
        this.#results.unshift(...results.slice(handled));
      }
    }
  }

  /** The handler is finished when the store has got all that came so far. */
  #acceptRequest(body: unknown): Promise<void> {
    this.#requests.push(body);
    // Not for a repeated one: what never waits would end before it is kept here, and nothing would be accepted any more.
    if (this.#requests.isWaiting) this.#accepting ??= this.#acceptRequests();
    return this.#accepting ?? Promise.resolve();
  }

  /** What the activity throws in spite of its retries must not fail the turn that merely passes the requests on. */
  async #acceptRequests(): Promise<void> {
    while (this.#requests.isWaiting) {
      try {
        await CancellationScope.nonCancellable(() => this.#requests.acceptSome());
      } catch (error) {
        log.warn('requests could not be accepted', { agentId: this.#fence.agentId, error: String(error) });
      }
    }
    this.#accepting = null;
  }
}

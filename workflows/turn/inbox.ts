/**
 * What reaches a turn from outside: wake-ups, results and requests of foreign clients, new budgets.
 *
 * Invariants
 * 1. A handler never throws: what it cannot use, the store is asked to write down.
 * 2. Requests go to the store at once, in the order they came, whatever the turn is doing; results are taken where the turn looks at its
 *    calls, and before it ends.
 */
import { allHandlersFinished, CancellationScope, condition, log } from '@temporalio/workflow';
import { INLINE_BATCH, type InlineMessage } from '../contract/activities.ts';
import { InlineRequests } from '../messages/inline-requests.ts';
import { MessageIds } from '../messages/message-ids.ts';
import { budgetsSignal, enqueueSignal, isResultWakeUp, shallow, toolResultSignal } from '../messages/messages.ts';
import type { Fence } from '../protocol/turn.ts';
import type { Meter } from './meter.ts';

/** Carried over to the next run, when no message is left that the store has not got. */
export interface InboxCarry {
  readonly woken: boolean;
  readonly newBudgets: boolean;
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
  /** An operator has set budgets that the turn has not read yet. */
  newBudgets: boolean;

  /** `carry` is what the run before left; absent in a turn's first run. */
  constructor(fence: Fence, meter: Meter, carry?: InboxCarry) {
    this.#fence = fence;
    this.#meter = meter;
    this.#ids = new MessageIds(carry?.messages);
    this.#requests = new InlineRequests(fence.agentId, this.#ids, meter);
    this.woken = carry?.woken ?? false;
    this.newBudgets = carry?.newBudgets ?? false;
    meter.onSignal(toolResultSignal, (body) => {
      this.woken = true;
      if (!isResultWakeUp(body)) this.#results.push({ messageId: this.#ids.next(), body: shallow(body) });
    });
    meter.onSignal(budgetsSignal, () => {
      this.newBudgets = true;
    });
    meter.onSignal(enqueueSignal, (body) => {
      return this.#acceptRequest(body);
    });
  }

  carry(): InboxCarry {
    return { woken: this.woken, newBudgets: this.newBudgets, messages: this.#ids.taken };
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
      const handled = await this.#meter.store.reportInline({ agentId, agentTurnId, results });
      this.#results.unshift(...results.slice(handled));
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

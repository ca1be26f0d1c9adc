/**
 * What reaches a turn from outside: wake-ups, results and requests of foreign clients, new budgets.
 *
 * Invariants
 * 1. A handler never throws: what it cannot use, the store is asked to write down.
 * 2. Requests go to the store at once, in the order they came, whatever the turn is doing; results are taken where the turn looks at its
 *    calls, and before it ends.
 */
import { allHandlersFinished, CancellationScope, condition, log, setHandler } from '@temporalio/workflow';
import { MessageIds } from './message-ids.ts';
import { enqueueSignal, isResultWakeUp, limitsSignal, shallow, toolResultSignal } from './messages.ts';
import { storeActivities } from './ports.ts';
import type { Fence } from './protocol/turn.ts';

/** A foreign client's result, as it came. */
export interface InlineResult {
  readonly messageId: string;
  readonly body: unknown;
}

/** Carried over to the next run, when no message is left that the store has not got. */
export interface InboxCarry {
  readonly woken: boolean;
  readonly newLimits: boolean;
  /** Messages so far. */
  readonly messages: number;
}

export class TurnInbox {
  readonly #fence: Fence;
  readonly #count: () => void;
  readonly #ids: MessageIds;
  readonly #results: InlineResult[] = [];
  #accepting: Promise<void> = Promise.resolve();
  /** The store holds something that the turn may wait for. */
  woken: boolean;
  /** An operator has set budgets that the turn has not read yet. */
  newLimits: boolean;

  /** `count` is called for each billable action. */
  constructor(fence: Fence, count: () => void, carry?: InboxCarry) {
    this.#fence = fence;
    this.#count = count;
    this.#ids = new MessageIds(carry?.messages);
    this.woken = carry?.woken ?? false;
    this.newLimits = carry?.newLimits ?? false;
    setHandler(toolResultSignal, (body) => {
      count();
      this.woken = true;
      if (!isResultWakeUp(body)) this.#results.push({ messageId: this.#ids.next(), body: shallow(body) });
    });
    setHandler(limitsSignal, () => {
      count();
      this.newLimits = true;
    });
    setHandler(enqueueSignal, (body) => {
      count();
      return this.#acceptRequest(body);
    });
  }

  carry(): InboxCarry {
    return { woken: this.woken, newLimits: this.newLimits, messages: this.#ids.taken };
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
    for (let result = this.#results.shift(); result; result = this.#results.shift()) {
      this.#count();
      await storeActivities.reportInline({ agentId, agentTurnId, ...result });
    }
  }

  /** What the activity throws in spite of its retries must not fail the turn that merely passes the request on. */
  #acceptRequest(body: unknown): Promise<void> {
    const { agentId } = this.#fence;
    const request = { agentId, messageId: this.#ids.next(), body: shallow(body ?? null) };
    this.#count();
    this.#accepting = this.#accepting
      .then(() => CancellationScope.nonCancellable(() => storeActivities.acceptInline(request)))
      .catch((error: unknown) => log.warn('a request could not be accepted', { agentId, error: String(error) }));
    return this.#accepting;
  }
}

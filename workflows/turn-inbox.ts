/**
 * What reaches a turn from outside: wake-ups, results and requests of foreign clients, new budgets.
 *
 * Invariants
 * 1. A handler never throws: what it cannot use, the store is asked to write down.
 * 2. Requests go to the store at once, in the order they came, whatever the turn is doing; results are taken where the turn looks at its
 *    calls, and before it ends.
 */
import { CancellationScope, log, setHandler, uuid4 } from '@temporalio/workflow';
import { enqueueSignal, isResultWakeUp, limitsSignal, shallow, toolResultSignal } from './messages.ts';
import { storeActivities } from './ports.ts';
import type { Fence } from './protocol/turn.ts';

/** A foreign client's result, as it came. */
export interface InlineResult {
  readonly messageId: string;
  readonly body: unknown;
}

/** What has come and is not taken yet; carried over to the next run. */
export interface InboxCarry {
  readonly woken: boolean;
  readonly newLimits: boolean;
  readonly results: readonly InlineResult[];
}

export class TurnInbox {
  readonly #fence: Fence;
  readonly #count: () => void;
  readonly #results: InlineResult[];
  #accepting: Promise<void> = Promise.resolve();
  /** The store holds something that the turn may wait for. */
  woken: boolean;
  /** An operator has set budgets that the turn has not read yet. */
  newLimits: boolean;

  /** `count` is called for each billable action. */
  constructor(fence: Fence, count: () => void, carry?: InboxCarry) {
    this.#fence = fence;
    this.#count = count;
    this.#results = [...(carry?.results ?? [])];
    this.woken = carry?.woken ?? false;
    this.newLimits = carry?.newLimits ?? false;
    setHandler(toolResultSignal, (body) => {
      count();
      this.woken = true;
      if (!isResultWakeUp(body)) this.#results.push({ messageId: uuid4(), body: shallow(body) });
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
    return { woken: this.woken, newLimits: this.newLimits, results: this.#results };
  }

  get isEmpty(): boolean {
    return this.#results.length === 0;
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
    const request = { agentId, agentTurnId: uuid4(), body: shallow(body ?? null) };
    this.#count();
    this.#accepting = this.#accepting
      .then(() => CancellationScope.nonCancellable(() => storeActivities.acceptInline(request)))
      .catch((error: unknown) => log.warn('a request could not be accepted', { agentId, error: String(error) }));
    return this.#accepting;
  }
}

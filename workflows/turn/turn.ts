/**
 * One turn: kernel action → activity, wait or commit → kernel event, until the kernel is done.
 *
 * Invariants
 * 1. The lease in the input names this workflow by its id; every activity carries the lease and the store fences it (T1, T5).
 * 2. Signals only wake: what a result is, and whether it counts, the store says (T14).
 * 3. The workflow ends by `commitTurn`, also when cancelled, and closes as its turn has ended; if the lease is gone it fails
 *    `protocol_violation` and writes nothing.
 * 4. No message is lost at the end of a run: all handlers have finished, and nothing is awaited between that check and the command.
 */
import {
  allHandlersFinished,
  CancellationScope,
  ContinueAsNew,
  condition,
  continueAsNew,
  isCancellation,
  setHandler,
  setWorkflowOptions,
} from '@temporalio/workflow';
import { type BurstAction, type BurstOutcome, firstStepOf, type SuspendedCalls } from '../contract/burst.ts';
import type { Lease, TurnEnd } from '../contract/lease.ts';
import type { ExecuteToolsAction, KernelAction } from '../kernel/actions.ts';
import type { KernelEvent } from '../kernel/events.ts';
import { stopSignal, type TurnSnapshot, turnStateQuery } from '../messages/messages.ts';
import { isDelegation } from '../protocol/builtins.ts';
import { afterBurst, runBurst } from './burst.ts';
import { executeCalls, waitingElsewhere } from './calls.ts';
import { type ActiveAction, type TurnCarry, turnParts } from './carry.ts';
import { closeAs, commitEnd, finished } from './ending.ts';
import { historyIsLong } from './history.ts';
import { runStep, runSummary, stepFailed } from './model.ts';
import { leaseLost, startEvent } from './outcomes.ts';
import { ownLease } from './own-lease.ts';
import type { TurnParts } from './parts.ts';
import { TurnWaits, waitHere } from './waits.ts';

// A plain Error is a bug of ours: it fails the workflow, whose turn the supervisor then ends, instead of retrying the task for ever.
setWorkflowOptions({ failureExceptionTypes: [Error] }, agentTurn);

/** `carry` is what the run before left to this one; a turn is started without one. */
export async function agentTurn(lease: Lease, carry?: TurnCarry): Promise<TurnEnd> {
  return new TurnDriver(ownLease(lease), carry).run();
}

/** What follows from an action. */
interface Advance {
  readonly next: KernelAction;
  /** Present when the turn has ended. */
  readonly end?: TurnEnd;
}

class TurnDriver {
  readonly #turn: TurnParts;
  readonly #carry: TurnCarry | undefined;
  readonly #waits: TurnWaits;
  /** A stop cancels this scope; the final commit is outside. */
  readonly #scope = new CancellationScope();
  #stopped = false;
  /** The next action is to be performed by activities of its own. */
  #apart: boolean;
  /** An attempt at a burst was lost that may have gone further than this turn was told, and no burst has looked for it since. */
  #again: boolean;
  /** A burst that was cancelled may have told of the notices that it began with. */
  #noticedBefore: { readonly noticedWith?: number } = {};

  constructor(lease: Lease, carry?: TurnCarry) {
    this.#turn = turnParts(lease, carry);
    this.#carry = carry;
    this.#apart = carry?.apart ?? false;
    this.#again = carry?.again ?? false;
    this.#waits = new TurnWaits(this.#turn, () => this.#historyIsLong());
    this.#turn.meter.onSignal(stopSignal, () => {
      this.#stopped = true;
      this.#scope.cancel();
    });
    setHandler(turnStateQuery, () => this.#snapshot());
  }

  /** Requests that came are passed on, however the run ends. */
  async run(): Promise<TurnEnd> {
    try {
      return closeAs(await this.#drive());
    } catch (error) {
      // Nothing is awaited before the command that begins the next run.
      if (!(error instanceof ContinueAsNew))
        await CancellationScope.nonCancellable(() => condition(allHandlersFinished));
      throw error;
    }
  }

  async #drive(): Promise<TurnEnd> {
    const { lease, kernel, inbox } = this.#turn;
    let action: KernelAction = this.#carry?.action ?? kernel.feed(startEvent(lease));
    while (action.type !== 'done') {
      // Nothing is awaited between this check and the command, so no message can slip in between.
      while (this.#historyIsLong() && !inbox.isSettled) await CancellationScope.nonCancellable(() => inbox.settle());
      if (this.#historyIsLong()) return continueAsNew<typeof agentTurn>(lease, this.#carryOver(action));
      const after = await this.#advance(action);
      if (after === null) {
        action = this.#waits.resumed(action);
        continue;
      }
      const { end } = after;
      if (end) return CancellationScope.nonCancellable(() => finished(this.#turn, end));
      action = after.next;
    }
    return commitEnd(this.#turn, action, this.#noticedBefore);
  }

  /** Null: nothing has come of it yet, and the history is long. */
  async #advance(action: ActiveAction): Promise<Advance | null> {
    const { lease, kernel } = this.#turn;
    const isApart = this.#apart;
    this.#apart = false;
    if (lease.burst && action.type !== 'await' && !isApart) return this.#burst(action);
    const event = await this.#outcomeOf(action);
    return event && { next: kernel.feed(event) };
  }

  async #burst(action: BurstAction): Promise<Advance> {
    let outcome: BurstOutcome;
    try {
      outcome = await this.#scope.run(() => runBurst(this.#turn, action, this.#again));
    } catch (error) {
      return { next: await this.#afterFailedBurst(action, error) };
    }
    const { next, suspended, apart, again, end } = afterBurst(this.#turn, action, outcome);
    this.#apart = apart;
    this.#again = again;
    if (suspended && next.type === 'execute_tools')
      return { next: this.#turn.kernel.feed(this.#suspendedBy(next, suspended)) };
    return { next, ...(end ? { end } : {}) };
  }

  async #afterFailedBurst(action: BurstAction, error: unknown): Promise<KernelAction> {
    const { kernel, inbox } = this.#turn;
    if (isCancellation(error)) {
      this.#noticedBefore = { noticedWith: firstStepOf(action) };
      return kernel.feed(this.#stopEvent());
    }
    if (action.type !== 'call_llm') throw leaseLost(error) ?? error;
    return kernel.feed(await stepFailed(this.#turn, action, error, { ...kernel.takeNoticed(), ...inbox.mark }));
  }

  #suspendedBy(action: ExecuteToolsAction, { settled, waiting }: SuspendedCalls): KernelEvent {
    const { display } = this.#turn;
    for (const { callId, status } of settled) display.call(callId, status, null);
    for (const { callId } of waiting) display.call(callId, 'waiting', null);
    this.#waits.show([...waitingElsewhere(this.#turn, action), ...waiting]);
    return { type: 'tool_results', nowMs: Date.now(), settled, suspended: waiting.map(waitHere) };
  }

  /** A stopped turn ends in this run, however long. */
  #historyIsLong(): boolean {
    return historyIsLong(this.#turn.lease.maxEvents) && !this.#scope.consideredCancelled;
  }

  #carryOver(action: ActiveAction): TurnCarry {
    const { kernel, status, inbox, display, meter } = this.#turn;
    const { state, ...noticed } = kernel.carry();
    const shown = { status: status.current, inbox: inbox.carry(), display: display.carry() };
    const how = { ...(this.#apart ? { apart: true as const } : {}), ...(this.#again ? { again: true as const } : {}) };
    return { state, action, ...shown, ...noticed, ...how, engine: meter.usage };
  }

  /** Before the kernel judges its budgets again (K9). Steps, and what the store says of waiting calls, bring the inbox by themselves. */
  async #readInbox(action: KernelAction, next: KernelEvent): Promise<void> {
    const { kernel, inbox, meter, fence } = this.#turn;
    if (next.type === 'stop' || (next.type === 'tool_results' && next.suspended.length > 0)) return;
    const ran = action.type === 'execute_tools' && next.type === 'tool_results';
    const held = ran && (kernel.state.delegated.open || action.calls.some(({ tool }) => isDelegation(tool)));
    if (!(held || inbox.unread)) return;
    inbox.unread = false;
    const delivery = await meter.store.readInbox({ ...fence, ...inbox.mark });
    inbox.noteRead(delivery);
    kernel.take(delivery, Date.now());
  }

  /** Null: nothing has come of it yet, and the history is long. */
  async #outcomeOf(action: ActiveAction): Promise<KernelEvent | null> {
    try {
      const event = await this.#scope.run(() => this.#execute(action));
      if (event) await this.#readInbox(action, event);
      return event;
    } catch (error) {
      if (!isCancellation(error)) throw leaseLost(error) ?? error;
      return this.#stopEvent();
    }
  }

  async #execute(action: ActiveAction): Promise<KernelEvent | null> {
    switch (action.type) {
      case 'call_llm':
        return runStep(this.#turn, action);
      case 'summarize':
        return runSummary(this.#turn, action);
      case 'execute_tools':
        return this.#executeTools(action);
      case 'await':
        return this.#waits.wait(action);
    }
  }

  #stopEvent(): KernelEvent {
    const nowMs = Date.now();
    return this.#stopped
      ? { type: 'stop', nowMs, code: 'stopped', reason: 'the turn was stopped' }
      : { type: 'stop', nowMs, code: 'terminated', reason: 'the workflow was cancelled from outside' };
  }

  async #executeTools(action: ExecuteToolsAction): Promise<KernelEvent> {
    const { settled, waiting, waitingBefore } = await executeCalls(this.#turn, action, this.#again);
    this.#waits.show([...waitingBefore, ...waiting]);
    return { type: 'tool_results', nowMs: Date.now(), settled, suspended: waiting.map(waitHere) };
  }

  #snapshot(): TurnSnapshot {
    const { fence, kernel, status, display } = this.#turn;
    return {
      agentTurnId: fence.agentTurnId,
      status: status.current,
      stepIndex: kernel.state.stepIndex,
      waiting: display.waiting,
    };
  }
}

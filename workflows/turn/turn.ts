/**
 * One turn: kernel action → activity, wait or commit → kernel event, until the kernel is done.
 *
 * Invariants
 * 1. The lease in the input names this workflow by its id; every activity carries the lease and the store fences it (T1, T5).
 * 2. Signals only wake: what a result is, and whether it counts, the store says (T14).
 * 3. The workflow ends by `commitTurn`, also when cancelled; if the lease is gone it fails `protocol_violation` and writes nothing.
 * 4. No message is lost at the end of a run: all handlers have finished, and nothing is awaited between that check and the command.
 */
import {
  allHandlersFinished,
  CancellationScope,
  ContinueAsNew,
  condition,
  continueAsNew,
  isCancellation,
  log,
  setHandler,
  setWorkflowOptions,
  workflowInfo,
} from '@temporalio/workflow';
import { modelActivities, storeActivities } from '../contract/activities.ts';
import type { Lease, TurnEnd } from '../contract/lease.ts';
import { isNotice, type Notice, noticeText } from '../contract/notices.ts';
import type { BudgetStanding, StepOutcomeRecord } from '../contract/steps.ts';
import type { Suspension } from '../contract/suspension.ts';
import type {
  AwaitAction,
  CallLlmAction,
  DoneAction,
  ExecuteToolsAction,
  KernelAction,
  SummarizeAction,
} from '../kernel/actions.ts';
import type { ApprovalDecision, KernelEvent } from '../kernel/events.ts';
import { initialState, type KernelState } from '../kernel/state.ts';
import { step } from '../kernel/step.ts';
import { stopSignal, type TurnSnapshot, turnStateQuery } from '../messages/messages.ts';
import { showTurnStatus, TURN_STATUS } from '../messages/search-attributes.ts';
import { isDelegation } from '../protocol/builtins.ts';
import type { EngineUsage, Fence, TurnStatus } from '../protocol/turn.ts';
import { Alarm, hereUntil } from './alarm.ts';
import { TurnCalls } from './calls.ts';
import { type DisplayCarry, TurnDisplay } from './display.ts';
import { type InboxCarry, TurnInbox } from './inbox.ts';
import { leaseLost, modelFailure, responseEvent, startEvent } from './outcomes.ts';
import { ownLease } from './own-lease.ts';

// A plain Error is a bug of ours: it fails the workflow, whose turn the supervisor then ends, instead of retrying the task for ever.
setWorkflowOptions({ failureExceptionTypes: [Error] }, agentTurn);

/** `carry` is what the run before left; a turn is started without one. */
export async function agentTurn(lease: Lease, carry?: TurnCarry): Promise<TurnEnd> {
  return new TurnDriver(ownLease(lease), carry).run();
}

/** Our own threshold of a run (K22), well below the server's. */
const MAX_HISTORY_EVENTS = 2_500;
const MAX_HISTORY_BYTES = 2 * 1024 * 1024;

/** A turn between two runs: the kernel's snapshot, what it asked for last, and what came in meanwhile. */
export interface TurnCarry {
  readonly state: KernelState;
  readonly action: Exclude<KernelAction, DoneAction>;
  readonly status: TurnStatus;
  readonly inbox: InboxCarry;
  readonly display: DisplayCarry;
  /** Absent when there is nothing to tell. */
  readonly noticed?: readonly Notice[];
  /** Of all runs so far. */
  readonly engine: EngineUsage;
}

/** Until when the kernel lets a call wait. */
const waitHere = ({ callId, leftMs }: Suspension) => ({ callId, deadline: hereUntil({ leftMs }) });

class TurnDriver {
  readonly #lease: Lease;
  readonly #fence: Fence;
  readonly #display: TurnDisplay;
  readonly #alarm = new Alarm();
  readonly #calls: TurnCalls;
  readonly #carry: TurnCarry | undefined;
  readonly #inbox: TurnInbox;
  /** What a stop cancels; the final commit is outside. */
  readonly #scope = new CancellationScope();
  #stopped = false;
  /** What the store is told with the next step, or with the end. */
  #noticed: readonly Notice[];
  /** When the waiting calls are looked at next, epoch ms. */
  #resolveAt = 0;
  /** The start and the final commit are certain. */
  #actions: number;
  #state: KernelState;
  #status: TurnStatus;

  constructor(lease: Lease, carry?: TurnCarry) {
    this.#lease = lease;
    this.#fence = { agentId: lease.agentId, agentTurnId: lease.agentTurnId, turnEpoch: lease.turnEpoch };
    this.#carry = carry;
    this.#state = carry ? carry.state : initialState(lease.kernel);
    this.#status = carry?.status ?? 'running';
    this.#noticed = carry?.noticed ?? [];
    this.#actions = carry?.engine.actions ?? 2;
    this.#display = new TurnDisplay(lease, carry?.display);
    const count = () => {
      this.#actions += 1;
    };
    this.#calls = new TurnCalls(this.#fence, lease.profileHash, this.#display, count);
    this.#inbox = new TurnInbox(this.#fence, count, carry?.inbox);
    setHandler(stopSignal, () => {
      this.#actions += 1;
      this.#stopped = true;
      this.#scope.cancel();
    });
    setHandler(turnStateQuery, () => this.#snapshot());
  }

  /** Requests that came are passed on, however the run ends. */
  async run(): Promise<TurnEnd> {
    try {
      return await this.#drive();
    } catch (error) {
      // Nothing is awaited before the command that begins the next run.
      if (!(error instanceof ContinueAsNew))
        await CancellationScope.nonCancellable(() => condition(allHandlersFinished));
      throw error;
    }
  }

  async #drive(): Promise<TurnEnd> {
    let action = this.#carry?.action ?? this.#feed(startEvent(this.#lease));
    while (action.type !== 'done') {
      // Nothing is awaited between this check and the command, so no message can slip in between.
      while (this.#historyIsLong() && !this.#inbox.isSettled) await this.#inbox.settle();
      if (this.#historyIsLong()) return continueAsNew<typeof agentTurn>(this.#lease, this.#carryOver(action));
      const event = await this.#outcomeOf(action);
      if (event === null) {
        action = this.#resumed(action);
        continue;
      }
      await this.#readBudgets(action, event);
      action = this.#feed(event);
    }
    return this.#finish(action);
  }

  /** A stopped turn ends in this run. */
  #historyIsLong(): boolean {
    const { historyLength, historySize, continueAsNewSuggested } = workflowInfo();
    const most = this.#lease.maxEvents ?? MAX_HISTORY_EVENTS;
    const long = continueAsNewSuggested || historyLength > most || historySize > MAX_HISTORY_BYTES;
    return long && !this.#scope.consideredCancelled;
  }

  #carryOver(action: TurnCarry['action']): TurnCarry {
    return {
      state: this.#state,
      action,
      status: this.#status,
      inbox: this.#inbox.carry(),
      display: this.#display.carry(),
      ...(this.#noticed.length > 0 ? { noticed: this.#noticed } : {}),
      engine: this.#engineUsage(),
    };
  }

  #feed(event: KernelEvent): KernelAction {
    const [action] = this.#step(event);
    if (action) return action;
    throw new TypeError(`the kernel had no answer to ${event.type} while ${this.#state.lifecycle}`);
  }

  #step(event: KernelEvent): readonly KernelAction[] {
    const { stepIndex } = this.#state;
    const { state, actions, observations } = step(this.#state, event);
    this.#state = state;
    for (const observation of observations) log.info(observation.type, { ...observation });
    const noticed = observations.filter(isNotice);
    for (const notice of noticed) this.#display.notice(stepIndex, noticeText(notice));
    this.#noticed = [...this.#noticed, ...noticed];
    return actions;
  }

  #takeNoticed(): { readonly noticed?: readonly Notice[] } {
    const noticed = this.#noticed;
    this.#noticed = [];
    return noticed.length > 0 ? { noticed } : {};
  }

  /** Before the kernel looks at its budgets again (K9). Model calls and looks at what waits say themselves how they stand. */
  async #readBudgets(action: KernelAction, next: KernelEvent): Promise<void> {
    const ran = action.type === 'execute_tools' && next.type === 'tool_results' && next.suspended.length === 0;
    const held = ran && (this.#state.delegated.open || action.calls.some(({ tool }) => isDelegation(tool)));
    if (next.type === 'stop' || !(held || this.#inbox.newBudgets)) return;
    this.#inbox.newBudgets = false;
    this.#actions += 1;
    this.#budgets(await storeActivities.readBudgets(this.#fence));
  }

  #budgets({ budgets = {}, delegated }: BudgetStanding): void {
    this.#step({ type: 'budgets', nowMs: Date.now(), budgets, ...(delegated ? { delegated } : {}) });
  }

  /** Null: nothing has come of it yet, and the run is long. */
  async #outcomeOf(action: Exclude<KernelAction, DoneAction>): Promise<KernelEvent | null> {
    try {
      return await this.#scope.run(() => this.#execute(action));
    } catch (error) {
      if (!isCancellation(error)) throw leaseLost(error) ?? error;
      return this.#stopEvent();
    }
  }

  async #execute(action: Exclude<KernelAction, DoneAction>): Promise<KernelEvent | null> {
    switch (action.type) {
      case 'call_llm':
        return this.#callModel(action);
      case 'summarize':
        return this.#summarize(action);
      case 'execute_tools':
        return this.#executeTools(action);
      case 'await':
        return action.wait === 'operator' ? this.#askOperator(action) : this.#awaitResults(action.deadline);
    }
  }

  #stopEvent(): KernelEvent {
    const nowMs = Date.now();
    return this.#stopped
      ? { type: 'stop', nowMs, code: 'stopped', reason: 'the turn was stopped' }
      : { type: 'stop', nowMs, code: 'terminated', reason: 'the workflow was cancelled from outside' };
  }

  async #callModel(request: CallLlmAction): Promise<KernelEvent> {
    const { callModel } = modelActivities(`step ${request.stepIndex}: model`);
    const noticed = this.#takeNoticed();
    try {
      this.#actions += 1;
      const { profileHash } = this.#lease;
      return this.#answered(await callModel({ ...this.#fence, profileHash, request, ...noticed }));
    } catch (error) {
      if (isCancellation(error)) throw error;
      const failed = modelFailure(error, request.stepIndex);
      this.#actions += 1;
      // An attempt that was given up for lost may still be at work: it has answered by now, or its answer does not count any more.
      const late = await storeActivities.closeStep({ ...this.#fence, stepIndex: request.stepIndex, ...noticed });
      return late ? this.#answered(late) : failed;
    }
  }

  #answered(record: StepOutcomeRecord): KernelEvent {
    this.#display.thought(record);
    this.#budgets(record);
    return responseEvent(record);
  }

  async #summarize(request: SummarizeAction): Promise<KernelEvent> {
    const { stepIndex, mode } = request;
    const { summarize } = modelActivities(mode === 'sprint' ? 'a new sprint' : 'summary of the oldest messages');
    this.#actions += 1;
    const { seq, tokens, usage, cost } = await summarize({
      ...this.#fence,
      profileHash: this.#lease.profileHash,
      request,
    });
    return { type: 'summarized', nowMs: Date.now(), stepIndex, summary: [seq, 'summary', tokens], usage, cost };
  }

  async #executeTools(action: ExecuteToolsAction): Promise<KernelEvent> {
    const { settled, waiting } = await this.#calls.execute(action);
    this.#showWaiting([...this.#waitingElsewhere(action), ...waiting]);
    return { type: 'tool_results', nowMs: Date.now(), settled, suspended: waiting.map(waitHere) };
  }

  /** Calls of the step that waited before and go on waiting. */
  #waitingElsewhere({ calls, refuse = [], ask = [] }: ExecuteToolsAction): TurnSnapshot['waiting'] {
    const now = new Set([...calls, ...refuse, ...ask].map((call) => call.callId));
    return this.#state.outstanding.flatMap(({ callId, tool, settled, deadline }) =>
      settled === null && deadline !== null && !now.has(callId) ? [{ callId, tool, deadline }] : [],
    );
  }

  /** Sleeps until it is woken, the nearest deadline or a report's next try, then asks the store where the waiting calls stand (T13, T17, T18). */
  #awaitResults(firstDeadline: number): Promise<KernelEvent | null> {
    const callIds = this.#state.outstanding.filter((call) => !call.settled).map((call) => call.callId);
    return this.#awaitStore(callIds, firstDeadline);
  }

  /** The next run looks when this one would have: a report may be tried again long before a deadline (T18). */
  #resumed(action: TurnCarry['action']): TurnCarry['action'] {
    return action.type === 'await' ? { ...action, deadline: this.#resolveAt } : action;
  }

  /** A budget is used up and an operator may extend it (K9). */
  async #askOperator(action: Extract<AwaitAction, { wait: 'operator' }>): Promise<KernelEvent | null> {
    const { askId, code, used, limit } = action;
    // The question itself says so.
    this.#noticed = this.#noticed.filter((notice) => notice.type !== 'budget_hit');
    this.#actions += 1;
    const reason = `${code}: ${used} of ${limit} used`;
    const requests = [{ callId: askId, kind: 'budget', tool: '', reason, budget: { code, used, limit } }] as const;
    const [asked] = await storeActivities.askApprovals({ ...this.#fence, requests });
    const deadline = hereUntil(asked ?? { leftMs: 0 });
    const shown = asked?.deadline ?? deadline;
    this.#showWaiting([{ callId: askId, tool: `an operator (${reason})`, deadline: shown }]);
    return this.#awaitStore([askId], deadline);
  }

  async #awaitStore(callIds: readonly string[], firstDeadline: number): Promise<KernelEvent | null> {
    let deadline = firstDeadline;
    for (;;) {
      // Signals of names that nobody handles fill the history too.
      const ready = () => this.#inbox.woken || this.#historyIsLong();
      await this.#alarm.waitUntil(deadline, ready, 'resume_deadline');
      this.#inbox.woken = false;
      await this.#inbox.acceptResults();
      this.#actions += 1;
      const standing = await storeActivities.resolveWaiting({ ...this.#fence, callIds });
      const { settled, waiting, answers = [] } = standing;
      for (const call of settled) this.#display.call(call.callId, call.status, null);
      this.#showWaiting(waiting);
      this.#budgets(standing);
      if (answers.length > 0) return this.#approved(answers, settled.length > 0);
      if (settled.length > 0)
        return { type: 'tool_results', nowMs: Date.now(), settled, suspended: waiting.map(waitHere) };
      deadline = Math.min(...waiting.map(({ leftMs, wakeInMs = leftMs }) => hereUntil({ leftMs: wakeInMs })));
      this.#resolveAt = deadline;
      if (this.#historyIsLong()) return null;
    }
  }

  /** Results that came with the answers stay in the store until the answers have been acted on: the next look finds them. */
  #approved(answers: readonly ApprovalDecision[], moreWaits: boolean): KernelEvent {
    this.#inbox.woken ||= moreWaits;
    return { type: 'approval', nowMs: Date.now(), answers };
  }

  #showWaiting(waiting: TurnSnapshot['waiting']): void {
    this.#display.waitFor(waiting);
    this.#show(waiting.length > 0 ? 'suspended' : 'running');
  }

  #show(status: TurnStatus): void {
    if (status === this.#status) return;
    this.#status = status;
    this.#actions += 1;
    showTurnStatus(status);
  }

  /** A turn that succeeds has no status to correct: its workflow's own says all, and the upsert is saved. */
  #showEnd(status: TurnStatus): void {
    const isShown = workflowInfo().typedSearchAttributes.get(TURN_STATUS) !== undefined;
    if (status === 'success' && !isShown) this.#status = status;
    else this.#show(status);
  }

  /** Not cancellable: a stopped turn still delivers (T7). */
  async #finish({ termination, deliverable, hide }: DoneAction): Promise<TurnEnd> {
    try {
      return await CancellationScope.nonCancellable(async () => {
        // What came while nothing waited for it is answered too, be it by an event that says why it was dropped (T14).
        await this.#inbox.acceptResults();
        const commit = { termination, deliverable, engine: this.#engineUsage(), ...(hide ? { hide } : {}) };
        const end = await storeActivities.commitTurn({ ...this.#fence, ...commit, ...this.#takeNoticed() });
        this.#display.end(end.status, end.errorCode);
        this.#showEnd(end.status);
        while (!this.#inbox.isSettled) await this.#inbox.settle();
        return end;
      });
    } catch (error) {
      throw leaseLost(error) ?? error;
    }
  }

  /** By Temporal's table: the start, every activity, timer, upsert and signal count one, local activities one each. */
  #engineUsage(): EngineUsage {
    const { historyLength, historySize } = workflowInfo();
    const { historyEvents = 0, historyBytes = 0 } = this.#carry?.engine ?? {};
    return {
      historyEvents: historyEvents + historyLength,
      historyBytes: historyBytes + historySize,
      actions: this.#actions,
    };
  }

  #snapshot(): TurnSnapshot {
    const { agentTurnId } = this.#lease;
    return { agentTurnId, status: this.#status, stepIndex: this.#state.stepIndex, waiting: this.#display.waiting };
  }
}

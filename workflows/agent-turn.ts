/**
 * One turn: kernel action → activity, wait or commit → kernel event, until the kernel is done.
 *
 * Invariants
 * 1. The lease in the input is all this workflow knows of identity; every activity carries it and the store fences it (T5).
 * 2. Signals only ring: what a result is, and whether it counts, the store says (T14).
 * 3. The workflow ends by `commitTurn`, also when cancelled; if the lease is gone it fails `protocol_violation` and writes nothing.
 */
import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  isCancellation,
  log,
  setHandler,
  setWorkflowOptions,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow';
import { Alarm } from './alarm.ts';
import { TurnDisplay } from './display.ts';
import type {
  ApprovalAsk,
  AwaitAction,
  CallLlmAction,
  DoneAction,
  ExecuteToolsAction,
  KernelAction,
  Refusal,
} from './kernel/actions.ts';
import type { ApprovalAnswer, KernelEvent } from './kernel/events.ts';
import { type Handle, initialState, type KernelState, type SettledCall } from './kernel/state.ts';
import { step } from './kernel/step.ts';
import {
  isLease,
  isResultDoorbell,
  limitsSignal,
  shallow,
  stopSignal,
  type TurnLook,
  toolResultSignal,
  turnStateQuery,
} from './messages.ts';
import { modelActivities, storeActivities, toolActivities } from './ports.ts';
import { FAILURES, isFailureCode } from './protocol/failures.ts';
import { clip } from './protocol/limits.ts';
import type { Lease, StepOutcomeRecord, TurnEnd } from './protocol/store.ts';
import type { EngineUsage, Fence, TurnStatus } from './protocol/turn.ts';
import { showTurnStatus } from './search-attributes.ts';

// A plain Error is a bug of ours: it fails the turn, whose agent then closes the books, instead of retrying the task for ever.
setWorkflowOptions({ failureExceptionTypes: [Error] }, agentTurn);

export async function agentTurn(lease: Lease): Promise<TurnEnd> {
  return new TurnDriver(checked(lease)).run();
}

/** Only the shape: whether the lease holds, the store says at the first activity. */
function checked(lease: unknown): Lease {
  if (isLease(lease)) return lease;
  const message = `expected the lease that an agent's mailbox starts its turn with, got ${clip(JSON.stringify(lease) ?? 'nothing', 200)}`;
  throw ApplicationFailure.nonRetryable(message, 'invalid_request');
}

class TurnDriver {
  readonly #lease: Lease;
  readonly #fence: Fence;
  readonly #display: TurnDisplay;
  readonly #alarm = new Alarm();
  readonly #inlineResults: unknown[] = [];
  /** What a stop cancels; the final commit is outside. */
  readonly #scope = new CancellationScope();
  #stopped = false;
  #bell = false;
  #newLimits = false;
  /** The child start (2) and the final commit (1) are certain. */
  #actions = 3;
  #state: KernelState;
  #status: TurnStatus = 'running';

  constructor(lease: Lease) {
    this.#lease = lease;
    this.#fence = { agentId: lease.agentId, agentTurnId: lease.agentTurnId, turnEpoch: lease.turnEpoch };
    this.#state = initialState(lease.kernel);
    this.#display = new TurnDisplay(lease);
    setHandler(toolResultSignal, (body) => {
      this.#actions += 1;
      this.#bell = true;
      if (!isResultDoorbell(body)) this.#inlineResults.push(shallow(body));
    });
    setHandler(limitsSignal, () => {
      this.#actions += 1;
      this.#newLimits = true;
    });
    setHandler(stopSignal, () => {
      this.#actions += 1;
      this.#stopped = true;
      this.#scope.cancel();
    });
    setHandler(turnStateQuery, () => this.#look());
  }

  async run(): Promise<TurnEnd> {
    let action = this.#feed(this.#startEvent());
    while (action.type !== 'done') {
      const event = await this.#outcomeOf(action);
      await this.#readLimits(event);
      action = this.#feed(event);
    }
    return this.#finish(action);
  }

  #feed(event: KernelEvent): KernelAction {
    const [action] = this.#step(event);
    if (action) return action;
    throw new TypeError(`the kernel had no answer to ${event.type} while ${this.#state.lifecycle}`);
  }

  #step(event: KernelEvent): readonly KernelAction[] {
    const { state, actions, observations } = step(this.#state, event);
    this.#state = state;
    for (const observation of observations) log.info(observation.type, { ...observation });
    return actions;
  }

  /** Before the kernel looks at its budgets again (K9). */
  async #readLimits(next: KernelEvent): Promise<void> {
    if (!this.#newLimits || next.type === 'stop') return;
    this.#newLimits = false;
    this.#actions += 1;
    const limits = await storeActivities.readLimits(this.#fence);
    if (limits) this.#step({ type: 'limits', nowMs: Date.now(), limits });
  }

  #startEvent(): KernelEvent {
    const { outputBoxId, memory, instructionSeq, instructionTokens } = this.#lease;
    const instruction: Handle = [instructionSeq, 'user', instructionTokens];
    return { type: 'start', nowMs: Date.now(), outputBoxId, memory, instruction };
  }

  async #outcomeOf(action: Exclude<KernelAction, DoneAction>): Promise<KernelEvent> {
    try {
      return await this.#scope.run(() => this.#execute(action));
    } catch (error) {
      if (!isCancellation(error)) throw leaseLost(error) ?? error;
      return this.#stopEvent();
    }
  }

  async #execute(action: Exclude<KernelAction, DoneAction>): Promise<KernelEvent> {
    switch (action.type) {
      case 'call_llm':
        return this.#callModel(action);
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
    try {
      this.#actions += 1;
      const record = await callModel({ ...this.#fence, profileHash: this.#lease.profileHash, request });
      this.#display.thought(record);
      return responseEvent(record);
    } catch (error) {
      if (isCancellation(error)) throw error;
      return modelFailure(error, request.stepIndex);
    }
  }

  async #executeTools(action: ExecuteToolsAction): Promise<KernelEvent> {
    const { refuse = [], ask = [] } = action;
    const [refused, asked, outcomes] = await Promise.all([
      this.#refuse(refuse),
      this.#ask(ask),
      this.#runTools(action),
    ]);
    const settled = outcomes.flatMap(({ outcome }) => (outcome.kind === 'settled' ? [outcome.settled] : []));
    const suspended = outcomes.flatMap(({ callId, tool, outcome }) =>
      outcome.kind === 'suspended' ? [{ callId, tool, deadline: outcome.deadline }] : [],
    );
    const waiting = [...suspended, ...asked];
    this.#showWaiting([...this.#waitingElsewhere(action), ...waiting]);
    return {
      type: 'tool_results',
      nowMs: Date.now(),
      settled: [...settled, ...refused],
      suspended: waiting.map(({ callId, deadline }) => ({ callId, deadline })),
    };
  }

  /** Calls of the step that waited before and go on waiting. */
  #waitingElsewhere({ calls, refuse = [], ask = [] }: ExecuteToolsAction): TurnLook['waiting'] {
    const now = new Set([...calls, ...refuse, ...ask].map((call) => call.callId));
    return this.#state.outstanding.flatMap(({ callId, tool, settled, deadline }) =>
      settled === null && deadline !== null && !now.has(callId) ? [{ callId, tool, deadline }] : [],
    );
  }

  async #refuse(refusals: readonly Refusal[]): Promise<readonly SettledCall[]> {
    if (refusals.length === 0) return [];
    this.#actions += 1;
    const settled = await storeActivities.refuseCalls({ ...this.#fence, refusals });
    for (const call of settled) this.#display.call(call.callId, call.errorCode ?? call.status, null);
    return settled;
  }

  async #ask(asks: readonly ApprovalAsk[]): Promise<TurnLook['waiting']> {
    if (asks.length === 0) return [];
    this.#actions += 1;
    const requests = asks.map((ask) => ({ ...ask, kind: 'call' as const }));
    const asked = await storeActivities.askApprovals({ ...this.#fence, requests });
    const tools = new Map(asks.map(({ callId, tool }) => [callId, tool]));
    return asked.map(({ callId, deadline }) => {
      this.#display.call(callId, 'waits for approval', null);
      return { callId, tool: tools.get(callId) ?? '', deadline };
    });
  }

  #runTools({ calls, stepIndex }: ExecuteToolsAction) {
    const { profileHash } = this.#lease;
    return Promise.all(
      calls.map(async ({ callId, tool }) => {
        const startedAt = Date.now();
        const { runTool } = toolActivities(`step ${stepIndex}: ${tool}`);
        this.#actions += 1;
        const outcome = await runTool({ ...this.#fence, profileHash, callId, tool });
        const status = outcome.kind === 'settled' ? outcome.settled.status : 'waiting';
        this.#display.call(callId, status, Date.now() - startedAt);
        return { callId, tool, outcome };
      }),
    );
  }

  /** Sleeps until a bell, the nearest deadline or a report's next try, then asks the store where the waiting calls stand (T13, T17, T18). */
  async #awaitResults(firstDeadline: number): Promise<KernelEvent> {
    const callIds = this.#state.outstanding.filter((call) => !call.settled).map((call) => call.callId);
    return this.#awaitStore(callIds, firstDeadline);
  }

  /** A budget is used up and an operator may extend it (K9). */
  async #askOperator({ askId, code, used, limit }: Extract<AwaitAction, { wait: 'operator' }>): Promise<KernelEvent> {
    this.#actions += 1;
    const reason = `${code}: ${used} of ${limit} used`;
    const requests = [{ callId: askId, kind: 'budget', tool: '', reason }] as const;
    const [asked] = await storeActivities.askApprovals({ ...this.#fence, requests });
    const deadline = asked?.deadline ?? Date.now();
    this.#showWaiting([{ callId: askId, tool: `an operator (${reason})`, deadline }]);
    return this.#awaitStore([askId], deadline);
  }

  async #awaitStore(callIds: readonly string[], firstDeadline: number): Promise<KernelEvent> {
    let deadline = firstDeadline;
    for (;;) {
      await this.#alarm.waitUntil(deadline, () => this.#bell, 'resume_deadline');
      this.#bell = false;
      await this.#acceptInlineResults();
      this.#actions += 1;
      const look = await storeActivities.resolveWaiting({ ...this.#fence, callIds, nowMs: Date.now() });
      const { settled, waiting, answers = [] } = look;
      for (const call of settled) this.#display.call(call.callId, call.status, null);
      this.#showWaiting(waiting);
      if (answers.length > 0) return this.#answered(answers, settled.length > 0);
      if (settled.length > 0) return { type: 'tool_results', nowMs: Date.now(), settled, suspended: waiting };
      deadline = Math.min(...waiting.map((call) => call.wakeAt ?? call.deadline));
    }
  }

  /** Results that came with the answers stay in the store until the answers have been acted on: the next look finds them. */
  #answered(answers: readonly ApprovalAnswer[], moreWaits: boolean): KernelEvent {
    this.#bell ||= moreWaits;
    return { type: 'approval', nowMs: Date.now(), answers };
  }

  async #acceptInlineResults(): Promise<void> {
    const { agentId, agentTurnId } = this.#fence;
    for (let body = this.#inlineResults.shift(); body !== undefined; body = this.#inlineResults.shift()) {
      this.#actions += 1;
      await storeActivities.reportInline({ agentId, agentTurnId, body });
    }
  }

  #showWaiting(waiting: TurnLook['waiting']): void {
    this.#display.waitFor(waiting);
    this.#show(waiting.length > 0 ? 'suspended' : 'running');
  }

  #show(status: TurnStatus): void {
    if (status === this.#status) return;
    this.#status = status;
    this.#actions += 1;
    showTurnStatus(status);
  }

  /** Not cancellable: a stopped turn still delivers (T7). */
  async #finish({ termination, deliverable }: DoneAction): Promise<TurnEnd> {
    try {
      const end = await CancellationScope.nonCancellable(async () => {
        // What came while nothing waited for it is answered too, be it by an event that says why it was dropped (T14).
        await this.#acceptInlineResults();
        const input = { ...this.#fence, termination, deliverable, engine: this.#engineUsage() };
        return storeActivities.commitTurn(input);
      });
      this.#display.end(end.status, end.errorCode);
      this.#show(end.status);
      return end;
    } catch (error) {
      throw leaseLost(error) ?? error;
    }
  }

  /** By Temporal's table: a child start counts two, every activity, timer, upsert and signal one, local activities one each. */
  #engineUsage(): EngineUsage {
    const { historyLength, historySize } = workflowInfo();
    return { historyEvents: historyLength, historyBytes: historySize, actions: this.#actions };
  }

  #look(): TurnLook {
    const { agentTurnId } = this.#lease;
    return { agentTurnId, status: this.#status, stepIndex: this.#state.stepIndex, waiting: this.#display.waiting };
  }
}

function responseEvent(record: StepOutcomeRecord): KernelEvent {
  const { stepIndex, thoughtCardId, thoughtSeq, thoughtTokens, noteSeq, noteTokens } = record;
  const { hasText, refused, truncated, calls, usage, cost } = record;
  const note: Handle[] = noteSeq === null ? [] : [[noteSeq, 'note', noteTokens]];
  const thought: Handle = [thoughtSeq, 'assistant', thoughtTokens];
  const steers = record.steers.map(({ seq, tokens }): Handle => [seq, 'user', tokens]);
  return {
    type: 'llm_response',
    nowMs: Date.now(),
    stepIndex,
    handles: [...steers, ...note, thought],
    thoughtCardId,
    hasText,
    refused,
    calls,
    usage,
    cost,
    ...(truncated ? { truncated } : {}),
  };
}

/** A catalogued failure ends the turn by the table in T8; a lost lease ends the workflow; anything else is ours. */
function modelFailure(error: unknown, stepIndex: number): KernelEvent {
  const violation = leaseLost(error);
  if (violation) throw violation;
  if (error instanceof ActivityFailure && error.cause instanceof TimeoutFailure)
    return { type: 'timeout', nowMs: Date.now(), stepIndex, message: 'the model did not answer in time' };
  const cause = error instanceof ActivityFailure ? error.cause : error;
  const type = cause instanceof ApplicationFailure ? cause.type : undefined;
  const code = isFailureCode(type) && FAILURES[type].scope === 'turn' ? type : 'provider_error';
  return { type: 'llm_failed', nowMs: Date.now(), stepIndex, code, message: messageOf(cause) };
}

function leaseLost(error: unknown): ApplicationFailure | null {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  if (!(cause instanceof ApplicationFailure)) return null;
  if (cause.type !== 'stale_epoch' && cause.type !== 'protocol_violation') return null;
  return ApplicationFailure.nonRetryable(cause.message, 'protocol_violation');
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).slice(0, 500);

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
  workflowInfo,
} from '@temporalio/workflow';
import { Alarm } from './alarm.ts';
import { TurnDisplay } from './display.ts';
import type { CallLlmAction, DoneAction, ExecuteToolsAction, KernelAction } from './kernel/actions.ts';
import type { KernelEvent } from './kernel/events.ts';
import { type Handle, initialState, type KernelState } from './kernel/state.ts';
import { step } from './kernel/step.ts';
import {
  isLease,
  isResultDoorbell,
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
    setHandler(stopSignal, () => {
      this.#actions += 1;
      this.#stopped = true;
      this.#scope.cancel();
    });
    setHandler(turnStateQuery, () => this.#look());
  }

  async run(): Promise<TurnEnd> {
    let action = this.#feed(this.#startEvent());
    while (action.type !== 'done') action = this.#feed(await this.#outcomeOf(action));
    return this.#finish(action);
  }

  #feed(event: KernelEvent): KernelAction {
    const { state, actions, observations } = step(this.#state, event);
    this.#state = state;
    for (const observation of observations) log.info(observation.type, { ...observation });
    const [action] = actions;
    if (action) return action;
    throw new TypeError(`the kernel had no answer to ${event.type} while ${state.lifecycle}`);
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
        return this.#awaitResults(action.deadline);
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

  async #executeTools({ calls, stepIndex }: ExecuteToolsAction): Promise<KernelEvent> {
    const { profileHash } = this.#lease;
    const outcomes = await Promise.all(
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
    const settled = outcomes.flatMap(({ outcome }) => (outcome.kind === 'settled' ? [outcome.settled] : []));
    const suspended = outcomes.flatMap(({ callId, tool, outcome }) =>
      outcome.kind === 'suspended' ? [{ callId, tool, deadline: outcome.deadline }] : [],
    );
    this.#showWaiting(suspended);
    return { type: 'tool_results', nowMs: Date.now(), settled, suspended };
  }

  /** Sleeps until a bell, the nearest deadline or a report's next try, then asks the store where the waiting calls stand (T13, T17, T18). */
  async #awaitResults(firstDeadline: number): Promise<KernelEvent> {
    const callIds = this.#state.outstanding.filter((call) => !call.settled).map((call) => call.callId);
    let deadline = firstDeadline;
    for (;;) {
      await this.#alarm.waitUntil(deadline, () => this.#bell, 'resume_deadline');
      this.#bell = false;
      await this.#acceptInlineResults();
      this.#actions += 1;
      const { settled, waiting } = await storeActivities.resolveWaiting({ ...this.#fence, callIds, nowMs: Date.now() });
      for (const call of settled) this.#display.call(call.callId, call.status, null);
      this.#showWaiting(waiting);
      if (settled.length > 0) return { type: 'tool_results', nowMs: Date.now(), settled, suspended: waiting };
      deadline = Math.min(...waiting.map((call) => call.wakeAt ?? call.deadline));
    }
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
  const { hasText, refused, calls, usage } = record;
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
  };
}

/** A catalogued failure ends the turn by the table in T8; a lost lease ends the workflow; anything else is ours. */
function modelFailure(error: unknown, stepIndex: number): KernelEvent {
  const violation = leaseLost(error);
  if (violation) throw violation;
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

/**
 * The mailbox of one agent: lease the next turn, run it as a child, settle its books, again.
 *
 * Invariants
 * 1. It keeps no queue: the store does. A lost or doubled doorbell does no harm, and continue-as-new carries nothing (T3).
 * 2. At most one child is open; continue-as-new and the end of a delegated agent's mailbox happen only between turns, in the same breath as
 *    the check that nothing is pending. A signal that comes with them makes the server ask again.
 * 3. It never fails on foreign input, and never on a turn's failure: whatever the child's end, `settle` closes its books (T7).
 */

import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  ChildWorkflowFailure,
  condition,
  continueAsNew,
  executeChild,
  isCancellation,
  log,
  ParentClosePolicy,
  setCurrentDetails,
  setHandler,
  TerminatedFailure,
  TimeoutFailure,
  uuid4,
  WorkflowIdReusePolicy,
  workflowInfo,
} from '@temporalio/workflow';
import type { agentTurn } from './agent-turn.ts';
import { Alarm } from './alarm.ts';
import { type AgentInput, enqueueSignal, isAgentInput, isEnqueueDoorbell, shallow } from './messages.ts';
import { mailboxActivities, storeActivities } from './ports.ts';
import { agentWorkflowId, isUserId, targetQueue, turnWorkflowId } from './protocol/ids.ts';
import { clip } from './protocol/limits.ts';
import type { Lease, LeaseOutcome } from './protocol/store.ts';
import type { Fence, Termination } from './protocol/turn.ts';
import {
  AGENT_ID,
  AGENT_STATUS,
  AGENT_TURN_ID,
  PROFILE,
  showAgentStatus,
  TURN_EPOCH,
  TURN_STATUS,
  WORKER_TARGET,
} from './search-attributes.ts';

const MAX_HISTORY_EVENTS = 2_500;
const MAX_HISTORY_BYTES = 2 * 1024 * 1024;

/** The longest time between two looks at an open turn. */
const LONGEST_WATCH_MS = 5 * 60_000;

/**
 * The same for one that was found suspended. Nothing but its answer can move it, and its own timer ends it, so each look waits twice as
 * long as the one before: eleven events a look, and thousands of suspended turns, are what a worker would be busy with otherwise.
 */
const LONGEST_SUSPENDED_WATCH_MS = 60 * 60_000;

/** How long a turn found running by a new mailbox may go on before it is terminated. */
const TAKE_OVER_GRACE_MS = 5_000;

export async function agent(input: AgentInput): Promise<void> {
  return new Mailbox(checked(input)).run();
}

function checked(input: unknown): AgentInput {
  const { workflowId } = workflowInfo();
  if (isAgentInput(input) && isUserId(input.agentId) && workflowId === agentWorkflowId(input.agentId)) return input;
  const expected = 'expected input {"agentId": ID} in a workflow with id agents/ID';
  const came = clip(JSON.stringify(input) ?? 'nothing', 200);
  throw ApplicationFailure.nonRetryable(`${expected}, got ${came} in ${workflowId}`, 'invalid_request');
}

class Mailbox {
  readonly #input: AgentInput;
  readonly #inline: unknown[] = [];
  readonly #alarm = new Alarm();
  #bell = true;
  /** What the search attribute says: set by whoever started us, carried over by continue-as-new. */
  #shown = workflowInfo().typedSearchAttributes.get(AGENT_STATUS) ?? '';
  #turns = 0;
  /** Until the first turn of this run, unless the run continues another. */
  #mayHavePredecessor = workflowInfo().continuedFromExecutionRunId === undefined;

  constructor(input: AgentInput) {
    this.#input = input;
    setHandler(enqueueSignal, (body) => {
      if (isEnqueueDoorbell(body)) this.#bell = true;
      else this.#inline.push(shallow(body));
    });
  }

  async run(): Promise<void> {
    let next: LeaseOutcome = { kind: 'empty' };
    for (;;) {
      await this.#acceptInline();
      await this.#report(next.reports ?? []);
      if (next.kind === 'empty' && next.close && !this.#bell && this.#inline.length === 0) return;
      // Nothing is awaited between this check and the command, so no message can slip in between (measured: none of 5,000 lost).
      if (this.#historyIsLong()) return continueAsNew<typeof agent>(this.#input);
      next = next.kind === 'empty' ? await this.#lookForWork() : await this.#runAndSettle(next);
    }
  }

  /** Another mailbox of this agent was there before and ended without a word: what it left running is not ours to wait for (T29). */
  async #closeOrphans(): Promise<void> {
    const closed = await mailboxActivities.closeOrphans({ agentId: this.#input.agentId });
    if (closed > 0) log.warn('closed workflows that an earlier mailbox left', { closed });
  }

  /** A parent may be waiting: it is told before anything else runs (T30). */
  async #report(agentTurnIds: readonly string[]): Promise<void> {
    for (const agentTurnId of agentTurnIds) {
      const ack = await mailboxActivities.reportToParent({ agentTurnId });
      log.info('told the waiting parent', { agentTurnId, ack });
    }
  }

  /** A head already leased is leased again by the next run, so a pending lease is no reason to stay. */
  #historyIsLong(): boolean {
    const { historyLength, historySize, continueAsNewSuggested } = workflowInfo();
    const limit = this.#input.maxHistoryEvents ?? MAX_HISTORY_EVENTS;
    return (
      this.#inline.length === 0 && (continueAsNewSuggested || historyLength > limit || historySize > MAX_HISTORY_BYTES)
    );
  }

  async #lookForWork(): Promise<LeaseOutcome> {
    if (!this.#bell) {
      this.#show('awake_idle', 'idle: the inbox is empty');
      // Signals of names that nobody handles fill the history too.
      await condition(() => this.#bell || this.#inline.length > 0 || this.#historyIsLong());
      if (!this.#bell) return { kind: 'empty' };
    }
    this.#bell = false;
    return storeActivities.leaseNext({ agentId: this.#input.agentId });
  }

  async #acceptInline(): Promise<void> {
    const { agentId } = this.#input;
    while (this.#inline.length > 0) {
      const body = this.#inline.shift();
      await storeActivities.acceptInline({ agentId, agentTurnId: uuid4(), body });
      this.#bell = true;
    }
  }

  async #runAndSettle(next: Exclude<LeaseOutcome, { kind: 'empty' }>): Promise<LeaseOutcome> {
    const fence = next.kind === 'leased' ? next.lease : next.fence;
    if (this.#mayHavePredecessor && fence.turnEpoch > 1) await this.#closeOrphans();
    this.#mayHavePredecessor = false;
    const { agentId, agentTurnId, turnEpoch } = fence;
    const about = next.kind === 'leased' ? next.lease.title : 'started by an earlier mailbox';
    this.#show('awake_running', `turn ${agentTurnId} (epoch ${turnEpoch}): ${about}`);
    const watching = new CancellationScope();
    const closing = next.kind === 'leased' ? this.#runChild(next.lease) : this.#takeOver(fence);
    if (next.kind === 'leased') this.#watch(next.lease, watching);
    const closed = await this.#acceptingMeanwhile(closing);
    watching.cancel();
    // From here on the store is read, so a bell rung before may be forgotten.
    this.#bell = false;
    const outcome = await storeActivities.settle({ agentId, agentTurnId, turnEpoch, closed });
    this.#turns += 1;
    log.info('turn settled', { agentTurnId, status: outcome.ended.status, errorCode: outcome.ended.errorCode });
    return outcome.next;
  }

  /** Looks after the turn from time to time, until the scope is cancelled (T12, T23). */
  #watch({ agentId, agentTurnId, turnEpoch, workerTarget, timeouts }: Lease, scope: CancellationScope): void {
    const limits = [timeouts.dispatchMs, timeouts.noProgressMs, timeouts.turnMs ?? 0].filter((ms) => ms > 0);
    const everyMs = Math.min(LONGEST_WATCH_MS, ...limits);
    // The time of a whole turn runs on while it is suspended.
    const longestMs = timeouts.turnMs === undefined ? Math.max(everyMs, LONGEST_SUSPENDED_WATCH_MS) : everyMs;
    let pauseMs = everyMs;
    let dispatchSince: number | null = Date.now();
    const fence = { agentId, agentTurnId, turnEpoch };
    const watch = async () => {
      for (;;) {
        await this.#alarm.waitUntil(Date.now() + pauseMs, () => false, 'watchdog');
        const input = { ...fence, workerTarget, timeouts, dispatchSince };
        const { verdict } = await mailboxActivities.inspectTurn(input);
        pauseMs = verdict === 'suspended' ? Math.min(2 * pauseMs, longestMs) : everyMs;
        if (verdict !== 'no_workers') {
          dispatchSince ??= Date.now();
          continue;
        }
        dispatchSince = null;
        this.#show('awake_running', `waiting for workers of ${workerTarget}`);
      }
    };
    scope.run(watch).catch((error: unknown) => {
      if (!isCancellation(error)) log.warn('the watchdog failed', { agentTurnId, error: String(error) });
    });
  }

  /** Inline requests are accepted while a turn runs, so that they are in the queue, visible and counted, at once. */
  async #acceptingMeanwhile(closing: Promise<Termination>): Promise<Termination> {
    let done = false;
    const watched = closing.finally(() => {
      done = true;
    });
    // Awaited below; until then a failure must not count as unhandled.
    watched.catch(() => {});
    while (!done) {
      await condition(() => done || this.#inline.length > 0);
      await this.#acceptInline();
    }
    return watched;
  }

  /** Resolves with what the store shall record if the turn did not commit its own end. */
  async #runChild(lease: Lease): Promise<Termination> {
    const { maxTurnEvents: maxEvents } = this.#input;
    try {
      await executeChild<typeof agentTurn>('agentTurn', {
        workflowId: turnWorkflowId(lease.agentId, lease.agentTurnId),
        workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        taskQueue: targetQueue(lease.workerTarget),
        args: [maxEvents === undefined ? lease : { ...lease, maxEvents }],
        staticSummary: clip(`${lease.agentId}: ${lease.title}`, 200),
        typedSearchAttributes: [
          { key: AGENT_ID, value: lease.agentId },
          { key: AGENT_TURN_ID, value: lease.agentTurnId },
          { key: TURN_STATUS, value: 'running' },
          { key: TURN_EPOCH, value: lease.turnEpoch },
          { key: WORKER_TARGET, value: lease.workerTarget },
          { key: PROFILE, value: lease.profileName },
        ],
      });
      return { status: 'failed', errorCode: 'internal_error', reason: 'the turn ended without recording its end' };
    } catch (error) {
      if (error instanceof WorkflowExecutionAlreadyStartedError) return this.#takeOver(lease);
      if (error instanceof ChildWorkflowFailure) return closedBy(error.cause);
      throw error;
    }
  }

  async #takeOver(fence: Fence): Promise<Termination> {
    const workflowId = turnWorkflowId(fence.agentId, fence.agentTurnId);
    const state = await mailboxActivities.awaitTurnClosed({ workflowId, graceMs: TAKE_OVER_GRACE_MS });
    if (state === 'not_found')
      return { status: 'failed', errorCode: 'worker_lost', reason: 'the turn is gone from the server' };
    return { status: 'failed', errorCode: 'terminated', reason: 'the turn outlived its mailbox and was closed' };
  }

  /** One upsert per change of status: a busy agent pays none between its turns. */
  #show(status: string, details: string): void {
    const { agentId } = this.#input;
    setCurrentDetails(
      `**Agent** ${agentId}\n\n**Status:** ${status}\n\n${details}\n\nTurns in this run: ${this.#turns}`,
    );
    if (status === this.#shown) return;
    this.#shown = status;
    showAgentStatus(agentId, status);
  }
}

function closedBy(cause: Error | undefined): Termination {
  if (cause instanceof TerminatedFailure) {
    return { status: 'failed', errorCode: 'terminated', reason: 'the workflow was terminated from outside' };
  }
  if (cause instanceof TimeoutFailure)
    return { status: 'timeout', errorCode: 'turn_timeout', reason: 'the workflow timed out' };
  if (cause instanceof CancelledFailure || isCancellation(cause)) {
    return { status: 'failed', errorCode: 'terminated', reason: 'the workflow was cancelled from outside' };
  }
  const type =
    cause instanceof ApplicationFailure && cause.type === 'protocol_violation'
      ? 'protocol_violation'
      : 'internal_error';
  return { status: 'failed', errorCode: type, reason: clip(cause?.message ?? 'unknown', 500) };
}

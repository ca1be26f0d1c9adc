/**
 * What the supervisor does about a turn whose check is due (T12, T23, T29). Pure: the facts are gathered and the decision is carried out
 * elsewhere, so that every row of the table can be tested without a server.
 *
 * Invariants
 * 1. Age alone never ends a turn, and neither does a queue: waiting for a worker, for a slot or for an announced back-off is not "no
 *    progress".
 * 2. A turn is judged only by time during which a supervisor was active and workers of its target were there.
 * 3. Every decision can be made twice, and by a supervisor that was frozen meanwhile: what it does is idempotent or refused by the store.
 */

import type { DueTurn, NextCheck } from '../contract/supervision.ts';
import type { Timeouts } from '../protocol/profile.ts';
import { isTerminal, type Termination } from '../protocol/turn.ts';

export const FIRST_CHECK_MS = 10_000;
const LONGEST_CHECK_MS = 5 * 60_000;
const LONGEST_SUSPENDED_CHECK_MS = 60 * 60_000;
/** A result that came more recently may be on its way to the workflow. */
const UNREAD_MS = 5_000;
/**
 * A task waits so long for the worker that had the workflow last, in a queue of that worker's own, before the server gives it to any other:
 * ten seconds, and some for a busy server.
 */
const STICKY_MS = 15_000;
/** A workflow task that is on this attempt has failed or was lost before. */
const FAILING_ATTEMPT = 3;

/** The turn's workflow, as Temporal describes its latest run. */
export type WorkflowFacts =
  | { readonly kind: 'missing' }
  | { readonly kind: 'closed'; readonly termination: Termination }
  | {
      readonly kind: 'running';
      /** Activities that run, wait for a slot or wait for their next attempt. */
      readonly pendingActivities: number;
      /** `scheduledAt` in epoch ms by the server's clock. */
      readonly task: { readonly attempt: number; readonly started: boolean; readonly scheduledAt: number } | null;
    };

/** The task queue of the turn's target. */
export interface QueueFacts {
  readonly hasPollers: boolean;
  /** Tasks wait in the queue; true also when the server does not say. */
  readonly hasBacklog: boolean;
}

export interface CheckFacts {
  readonly turn: DueTurn;
  /** Null where the decision does not need it. */
  readonly workflow: WorkflowFacts | null;
  readonly queue: QueueFacts | null;
  /** Since when some supervisor has been active without a break, epoch ms. */
  readonly supervisedSince: number;
  readonly nowMs: number;
}

export type CheckAction =
  | { readonly do: 'nothing' }
  | { readonly do: 'lease' }
  | { readonly do: 'start' }
  | { readonly do: 'wake' }
  | { readonly do: 'settle' }
  /** The turn has ended: its workflow is asked to end itself. */
  | { readonly do: 'let_go' }
  /** It did not: it is closed. */
  | { readonly do: 'close'; readonly reason: string }
  | { readonly do: 'stop'; readonly reason: string }
  | { readonly do: 'end'; readonly termination: Termination };

export interface CheckDecision {
  readonly action: CheckAction;
  readonly next: NextCheck;
}

const NOTHING: CheckAction = { do: 'nothing' };

/** When a turn that has just been leased or started is checked first. */
export const firstCheckAt = (
  nowMs: number,
  { dispatchMs, noProgressMs, turnMs = Number.POSITIVE_INFINITY }: Timeouts,
): number =>
  nowMs + Math.min(FIRST_CHECK_MS, dispatchMs > 0 ? dispatchMs : Number.POSITIVE_INFINITY, noProgressMs, turnMs);

/** When a suspended turn is checked: a little after its nearest deadline, at which its own timer moves it. */
export const suspendedCheckAt = (nowMs: number, resumeDeadline: number): number =>
  Math.min(Math.max(nowMs, resumeDeadline) + FIRST_CHECK_MS, nowMs + LONGEST_SUSPENDED_CHECK_MS);

/** Whether the turn's workflow, and then its queue, must be looked at before its check can be decided. */
export const needsWorkflow = ({ status, settlementDue, parentGone }: DueTurn): boolean =>
  status !== 'queued' && !(isTerminal(status) && settlementDue) && !(parentGone && !isTerminal(status));

export function decideCheck(facts: CheckFacts): CheckDecision {
  const { turn } = facts;
  if (turn.parentGone && !isTerminal(turn.status))
    return again(facts, { do: 'stop', reason: 'the turn that waited for it has ended' });
  if (turn.status === 'queued') return turn.agentIsFree ? again(facts, { do: 'lease' }) : done(turn);
  return isTerminal(turn.status) ? decideEnded(facts) : decideOpen(facts);
}

function decideEnded(facts: CheckFacts): CheckDecision {
  if (facts.turn.settlementDue) return again(facts, { do: 'settle' });
  if (facts.workflow?.kind !== 'running') return done(facts.turn);
  // It passes on what foreign clients sent it before it lets go: it is asked first, and has until the next check in which it has workers.
  if (facts.turn.wokenAt === null) return again(facts, { do: 'let_go' });
  if (facts.queue?.hasPollers === false) return again(facts, NOTHING);
  return again(facts, { do: 'close', reason: 'the turn has ended' });
}

function decideOpen(facts: CheckFacts): CheckDecision {
  const { turn, workflow, nowMs } = facts;
  const { status, endsBy, timeouts } = turn;
  if (endsBy !== null && endsBy <= nowMs) {
    const took = timeouts?.turnMs === undefined ? '' : ` than ${timeouts.turnMs} ms`;
    return again(facts, end('timeout', 'turn_timeout', `the turn took longer${took}`));
  }
  if (workflow === null || workflow.kind === 'missing') {
    if (status === 'dispatched') return again(facts, { do: 'start' });
    return again(facts, end('failed', 'worker_lost', 'the turn is gone from the server'));
  }
  if (workflow.kind === 'closed') return again(facts, { do: 'end', termination: workflow.termination });
  if (facts.queue?.hasPollers === false && timeouts?.whenNoWorkers !== 'fail') return withoutWorkers(facts);
  const overdue = overdueEnd(facts, workflow);
  if (overdue) return again(facts, overdue);
  const wake = turn.unread && turn.wokenAt === null && nowMs - turn.progressAt >= UNREAD_MS;
  return again(facts, wake ? { do: 'wake' } : NOTHING);
}

/** The turn keeps waiting, and its clocks stand still until the first worker is seen (T12). */
function withoutWorkers(facts: CheckFacts): CheckDecision {
  const { action, next } = again(facts, NOTHING);
  return { action, next: { ...next, noWorkersSince: facts.turn.noWorkersSince ?? facts.nowMs, workersSince: null } };
}

function overdueEnd(facts: CheckFacts, workflow: Extract<WorkflowFacts, { kind: 'running' }>): CheckAction | null {
  const { turn, nowMs } = facts;
  const { status, timeouts } = turn;
  const overdue = overdueAt(facts);
  if (overdue === null || overdue > nowMs || !timeouts || isQueueing(facts, workflow)) return null;
  const { dispatchMs, noProgressMs, deadWorkflowGraceMs } = timeouts;
  if (status === 'dispatched')
    return end('timeout', 'dispatch_timeout', `no worker started the turn within ${dispatchMs} ms`);
  const reason =
    status === 'suspended'
      ? `the turn did not go on within ${deadWorkflowGraceMs} ms after its deadline`
      : `the turn made no progress for ${noProgressMs} ms`;
  return end('timeout', 'turn_timeout', reason);
}

/** When the turn is overdue in its present status, epoch ms; null when it cannot be. */
function overdueAt({ turn, supervisedSince, nowMs }: CheckFacts): number | null {
  const { status, timeouts, leasedAt, progressAt, resumeDeadline } = turn;
  if (!timeouts) return null;
  // Workers that are seen for the first time after a while without any begin the clock now.
  const workersSince = turn.noWorkersSince === null ? (turn.workersSince ?? 0) : nowMs;
  const observed = (since: number) =>
    Math.max(since, supervisedSince, timeouts.whenNoWorkers === 'fail' ? 0 : workersSince);
  if (status === 'dispatched') return timeouts.dispatchMs === 0 ? null : observed(leasedAt) + timeouts.dispatchMs;
  if (status === 'running') return observed(progressAt) + timeouts.noProgressMs;
  return observed(resumeDeadline ?? progressAt) + timeouts.deadWorkflowGraceMs;
}

/** Whether the turn waits its turn: for a slot, for an announced back-off, or in the middle of a task. */
function isQueueing(
  { queue, turn, nowMs }: CheckFacts,
  { pendingActivities, task }: Extract<WorkflowFacts, { kind: 'running' }>,
): boolean {
  if (queue?.hasPollers === false && turn.timeouts?.whenNoWorkers === 'fail') return false;
  if (pendingActivities > 0) return true;
  if (task === null || task.attempt >= FAILING_ATTEMPT) return false;
  return task.started || nowMs - task.scheduledAt < STICKY_MS || (queue?.hasBacklog ?? true);
}

/** The action, and the next check: later and later while nothing changes, but never past the moment the turn is overdue. */
function again(facts: CheckFacts, action: CheckAction): CheckDecision {
  const { turn, nowMs } = facts;
  const everyMs = Math.min(2 * turn.everyMs, LONGEST_CHECK_MS);
  const ends = [overdueAt(facts), turn.endsBy, turn.retryAt].filter((at): at is number => at !== null && at > nowMs);
  const regular =
    turn.status === 'suspended' && turn.resumeDeadline !== null && turn.resumeDeadline > nowMs && !turn.unread
      ? suspendedCheckAt(nowMs, turn.resumeDeadline)
      : nowMs + turn.everyMs;
  const workersSince = turn.noWorkersSince === null ? turn.workersSince : nowMs;
  return {
    action,
    next: {
      checkAt: Math.min(regular, ...ends),
      everyMs,
      noWorkersSince: null,
      workersSince,
      wokenAt: action.do === 'wake' || action.do === 'let_go' ? nowMs : turn.wokenAt,
    },
  };
}

const done = ({ everyMs }: DueTurn): CheckDecision => ({
  action: NOTHING,
  next: { checkAt: null, everyMs, noWorkersSince: null, workersSince: null, wokenAt: null },
});

const end = (
  status: 'failed' | 'timeout',
  errorCode: 'worker_lost' | 'dispatch_timeout' | 'turn_timeout',
  reason: string,
): CheckAction => ({ do: 'end', termination: { status, errorCode, reason } });

/**
 * What the supervisor does about a turn whose check is due (T12, T23, T29). Pure: the supervisor gathers the facts and carries out the
 * decision, so that every row of the table in docs/architecture.md can be tested without a server.
 *
 * Invariants
 * 1. Age alone never ends a turn, and neither does a queue: a turn that waits for a worker, for a slot or for an announced back-off does not
 *    lack progress.
 * 2. A turn is judged only by time during which a supervisor was active and workers of its target were there.
 * 3. Every decision can be made twice, and by a supervisor that was frozen meanwhile: what it does is idempotent, or refused by the store.
 */
import type { DueTurn, NextCheck } from '../contract/supervision.ts';
import type { Timeouts } from '../protocol/profile.ts';
import { isTerminal, type Termination } from '../protocol/turn.ts';

/** How long after its lease a turn is checked first; each further check comes after twice the time. */
export const FIRST_CHECK_MS = 10_000;
/** The longest time between two checks of a turn that is not suspended. */
const LONGEST_CHECK_MS = 5 * 60_000;
/** The longest time between two checks of a suspended turn, whose own timer wakes it. */
const LONGEST_SUSPENDED_CHECK_MS = 60 * 60_000;
/** No check is planned for later than this, in ms from now, by clocks that are a minute apart. One that is was planned by a clock that was ahead. */
export const LATEST_CHECK_MS = LONGEST_SUSPENDED_CHECK_MS + 60_000;
/** A result that came more recently may still be on its way to the workflow, and needs no second wake-up. */
const UNREAD_MS = 5_000;
/**
 * How long a workflow task may wait for the worker that had the workflow last, in a queue of that worker's own, before the server gives it
 * to any other: ten seconds, and five for a busy server.
 */
const STICKY_MS = 15_000;
/** From this attempt on a workflow task counts as failing: it has failed, or was lost, before. */
const FAILING_ATTEMPT = 3;

/** The turn's workflow, as Temporal describes its latest run. */
export type WorkflowFacts =
  /** The server has no such workflow: it was never started, or has been deleted. */
  | { readonly kind: 'missing' }
  /** The workflow has closed; `termination` is how the turn ends if it is still open. */
  | { readonly kind: 'closed'; readonly termination: Termination }
  | {
      readonly kind: 'running';
      /** How many activities run, wait for a slot or wait for their next attempt. */
      readonly pendingActivities: number;
      /** The workflow task that is pending, or null; `scheduledAt` is in epoch ms by the clock of the server. */
      readonly task: { readonly attempt: number; readonly started: boolean; readonly scheduledAt: number } | null;
    };

/** The task queue of the turn's target. */
export interface QueueFacts {
  /** Whether workers of the target are there. */
  readonly hasPollers: boolean;
  /** Whether tasks wait in the queue; true also when the server does not say. */
  readonly hasBacklog: boolean;
}

/** Everything a check decides by. */
export interface CheckFacts {
  readonly turn: DueTurn;
  /** Null where the decision does not need it (`needsWorkflow`). */
  readonly workflow: WorkflowFacts | null;
  /** Null where the decision does not need it. */
  readonly queue: QueueFacts | null;
  /** Since when some supervisor has been active without a break, epoch ms. */
  readonly supervisedSince: number;
  readonly nowMs: number;
}

/** What the supervisor does about the turn. */
export type CheckAction =
  | { readonly do: 'nothing' }
  /** The turn is queued and its agent is free: it is leased, and its workflow started. */
  | { readonly do: 'lease' }
  /** The turn is leased and has no workflow: the workflow is started. */
  | { readonly do: 'start' }
  /** The turn has a result that its workflow has not read: the workflow is woken, once. */
  | { readonly do: 'wake' }
  /** The turn has ended and its waiting parent does not know: the parent gets the settlement. */
  | { readonly do: 'settle' }
  /** The turn has ended and its workflow has not: the workflow is asked to end itself. */
  | { readonly do: 'let_go' }
  /** The workflow was asked to end itself and did not: it is closed from outside. */
  | { readonly do: 'close'; readonly reason: string }
  /** The turn has lost the parent that waited for it: it is stopped. */
  | { readonly do: 'stop'; readonly reason: string }
  /** The turn cannot end by itself: the store ends it. */
  | { readonly do: 'end'; readonly termination: Termination };

/** What follows from a check, and when the next one is due. */
export interface CheckDecision {
  readonly action: CheckAction;
  readonly next: NextCheck;
}

const NOTHING: CheckAction = { do: 'nothing' };

/** When a turn that has just been leased or started is checked first, epoch ms: not later than it could be overdue. */
export const firstCheckAt = (
  nowMs: number,
  { dispatchMs, noProgressMs, turnMs = Number.POSITIVE_INFINITY }: Timeouts,
): number =>
  nowMs + Math.min(FIRST_CHECK_MS, dispatchMs > 0 ? dispatchMs : Number.POSITIVE_INFINITY, noProgressMs, turnMs);

/** When a suspended turn is checked, epoch ms: a little after its nearest deadline, at which its own timer wakes it. */
export const suspendedCheckAt = (nowMs: number, resumeDeadline: number): number =>
  Math.min(Math.max(nowMs, resumeDeadline) + FIRST_CHECK_MS, nowMs + LONGEST_SUSPENDED_CHECK_MS);

/** Whether the check needs the facts of the turn's workflow, and of its queue where the workflow runs. */
export const needsWorkflow = ({ status, settlementDue, parentGone }: DueTurn): boolean =>
  status !== 'queued' && !(isTerminal(status) && settlementDue) && !(parentGone && !isTerminal(status));

/** What the supervisor does about a turn whose check is due, and when it checks it again. Pure. */
export function decideCheck(facts: CheckFacts): CheckDecision {
  const { turn } = facts;
  if (turn.parentGone && !isTerminal(turn.status))
    return again(facts, { do: 'stop', reason: 'the turn that waited for it has ended' });
  if (turn.status === 'queued') return again(facts, turn.agentIsFree ? { do: 'lease' } : NOTHING);
  return isTerminal(turn.status) ? decideEnded(facts) : decideOpen(facts);
}

function decideEnded(facts: CheckFacts): CheckDecision {
  if (facts.turn.settlementDue) return again(facts, { do: 'settle' });
  if (facts.workflow?.kind !== 'running') return done(facts.turn);
  // The workflow passes on what foreign clients sent it before it ends, so it is asked first. It has until the next check with workers.
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

/** The turn keeps waiting, and its time limits do not run until the first worker is seen (T12). */
function withoutWorkers(facts: CheckFacts): CheckDecision {
  const { action, next } = again(facts, NOTHING);
  return { action, next: { ...next, noWorkersSince: facts.turn.noWorkersSince ?? facts.nowMs, workersSince: null } };
}

/** The end of a turn that is overdue; null when it is not, or waits its turn. */
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
  // Where workers are seen for the first time after a while without any, the time begins now.
  const workersSince = turn.noWorkersSince === null ? (turn.workersSince ?? 0) : nowMs;
  const observed = (since: number) =>
    Math.max(since, supervisedSince, timeouts.whenNoWorkers === 'fail' ? 0 : workersSince);
  if (status === 'dispatched') return timeouts.dispatchMs === 0 ? null : observed(leasedAt) + timeouts.dispatchMs;
  if (status === 'running') return observed(progressAt) + timeouts.noProgressMs;
  return observed(resumeDeadline ?? progressAt) + timeouts.deadWorkflowGraceMs;
}

/** Whether the turn only waits for its turn: for a slot, for an announced back-off, or in the middle of a task. */
function isQueueing(
  { queue, turn, nowMs }: CheckFacts,
  { pendingActivities, task }: Extract<WorkflowFacts, { kind: 'running' }>,
): boolean {
  if (queue?.hasPollers === false && turn.timeouts?.whenNoWorkers === 'fail') return false;
  if (pendingActivities > 0) return true;
  if (task === null || task.attempt >= FAILING_ATTEMPT) return false;
  return task.started || nowMs - task.scheduledAt < STICKY_MS || (queue?.hasBacklog ?? true);
}

/** The action, with the next check: after twice the time as long as nothing changes, but never after the turn is overdue. */
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

/** The turn needs no further check. */
const done = ({ everyMs }: DueTurn): CheckDecision => ({
  action: NOTHING,
  next: { checkAt: null, everyMs, noWorkersSince: null, workersSince: null, wokenAt: null },
});

const end = (
  status: 'failed' | 'timeout',
  errorCode: 'worker_lost' | 'dispatch_timeout' | 'turn_timeout',
  reason: string,
): CheckAction => ({ do: 'end', termination: { status, errorCode, reason } });

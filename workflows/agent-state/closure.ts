/**
 * What the end of a turn leaves its agent with: nothing more to do, work to go on with, a failure, or something to wait for (A3). The
 * evidence names the facts, with their ids, by which it was decided.
 */
import type { TerminalStatus } from '../protocol/turn.ts';
import type { AgentStatus } from './status.ts';
import type { ActiveWait, WaitKind } from './waits.ts';
import { runnableItem, type ScheduledWorkItem, type WorkItemSchedulingState } from './work-items.ts';

/** What the end of a turn leaves its agent with. */
export type ClosureOutcome = 'completed' | 'continuable' | 'failed' | 'waiting';

/** What a waiting agent waits for. */
export const WAITING_REASONS = [
  'awaiting_operator_input',
  'awaiting_task_result',
  'awaiting_external_change',
  'awaiting_timer',
] as const;
/** What a waiting agent waits for. */
export type WaitingReason = (typeof WAITING_REASONS)[number];

/** How the agent's last turn ended. */
export interface LastEnd {
  readonly agentTurnId: string;
  readonly status: TerminalStatus;
  readonly errorCode: string | null;
}

/** What a closure is derived from. */
export interface ClosureFacts {
  readonly status: AgentStatus;
  /** An error of the runtime itself, which is not one of the turn; null when there is none. */
  readonly runtimeError: string | null;
  /** Null for an agent that has had no turn. */
  readonly lastEnd: LastEnd | null;
  readonly workItems: readonly ScheduledWorkItem[];
  readonly waits: readonly ActiveWait[];
  /** Delegated turns that have not ended: evidence, and no wait. */
  readonly openTasks: number;
}

/** The decision. */
export interface ClosureDecision {
  readonly outcome: ClosureOutcome;
  /** Present exactly where the outcome is `waiting`. */
  readonly waitingReason?: WaitingReason;
  /** The work item to go on with, or that waits; absent where no item decided it. */
  readonly workItemId?: string;
  readonly runtimePosture: 'awake' | 'sleeping';
  readonly evidence: readonly string[];
}

const FAILED: ReadonlySet<string | null> = new Set<TerminalStatus>(['failed', 'timeout', 'canceled']);

/** Whether a turn has ended, and without success; null where there is no turn. */
export const hasFailed = (status: string | null): boolean => FAILED.has(status);

/**
 * Derives the closure. The order decides: a runtime error, a failed turn, work to go on with, an operator, then the wait of the current work
 * item or of any, then a wait of the agent itself.
 */
export function closureOf(facts: ClosureFacts): ClosureDecision {
  const evidence =
    facts.openTasks > 0
      ? [facts.openTasks === 1 ? '1 delegated turn is open' : `${facts.openTasks} delegated turns are open`]
      : [];
  const runtimePosture = facts.status === 'asleep' ? 'sleeping' : 'awake';
  const decided = (
    outcome: ClosureOutcome,
    because: string,
    more: Pick<ClosureDecision, 'waitingReason' | 'workItemId'> = {},
  ): ClosureDecision => ({ outcome, ...more, runtimePosture, evidence: [because, ...evidence] });

  if (facts.runtimeError !== null) return decided('failed', `runtime error: ${facts.runtimeError}`);
  const { lastEnd } = facts;
  if (lastEnd && hasFailed(lastEnd.status))
    return decided('failed', `turn ${lastEnd.agentTurnId} ended ${lastEnd.status} ${lastEnd.errorCode ?? ''}`.trim());
  const runnable = runnableItem(facts.workItems);
  if (runnable)
    return decided('continuable', `work item ${runnable.workItemId} can be gone on with`, {
      workItemId: runnable.workItemId,
    });
  const waiting = waitingOf(facts);
  if (!waiting) return decided('completed', 'nothing is left to do, and nothing is waited for');
  const { reason: waitingReason, because, workItemId } = waiting;
  return decided('waiting', because, { waitingReason, ...(workItemId === null ? {} : { workItemId }) });
}

interface Waiting {
  readonly reason: WaitingReason;
  readonly because: string;
  readonly workItemId: string | null;
}

const REASON_OF: Readonly<Record<WaitKind, WaitingReason>> = {
  operator: 'awaiting_operator_input',
  task: 'awaiting_task_result',
  external: 'awaiting_external_change',
  timer: 'awaiting_timer',
  // Something of the system changes: nobody inside brings it about.
  system: 'awaiting_external_change',
};

/** States in which a work item waits, an operator first. */
const ITEM_STATES: readonly (readonly [WorkItemSchedulingState, WaitKind])[] = [
  ['waiting_operator', 'operator'],
  ['waiting_task', 'task'],
  ['waiting_external', 'external'],
  ['waiting_timer', 'timer'],
  ['waiting_system', 'system'],
];

/** What the agent waits for: an operator before all else, the current work item before the others, work items before the agent itself. */
function waitingOf({ workItems, waits }: ClosureFacts): Waiting | null {
  const ofItem = (items: readonly ScheduledWorkItem[], states: typeof ITEM_STATES): Waiting | null => {
    for (const [state, kind] of states) {
      const item = items.find(({ schedulingState }) => schedulingState === state);
      if (!item) continue;
      const by = item.waitId === null ? 'needs input' : `waits by ${item.waitId}`;
      return { reason: REASON_OF[kind], because: `work item ${item.workItemId} ${by}`, workItemId: item.workItemId };
    }
    return null;
  };
  const ofAgent = (kinds: readonly WaitKind[]): Waiting | null => {
    for (const kind of kinds) {
      const wait = waits.find((each) => each.workItemId === null && each.kind === kind);
      if (wait) return { reason: REASON_OF[kind], because: `the agent waits by ${wait.waitId}`, workItemId: null };
    }
    return null;
  };
  const operator = ITEM_STATES.slice(0, 1);
  const current = workItems.filter((item) => item.current);
  return (
    ofItem(current, operator) ??
    ofItem(workItems, operator) ??
    ofAgent(['operator']) ??
    ofItem(current, ITEM_STATES) ??
    ofItem(workItems, ITEM_STATES) ??
    ofAgent(['task', 'external', 'timer', 'system'])
  );
}

/**
 * Why an open turn does not go on: what the store has written down, and what only the Temporal server knows.
 *
 * Invariant: it is asked for, and never stored. What it says was so when it was asked, and costs no event of a history.
 */
import { type Client, type WorkflowExecutionDescription, WorkflowNotFoundError } from '@temporalio/client';
import { optionalTsToMs } from '@temporalio/common/lib/time.js';
import type { ProviderOutage } from '../workflows/contract/steps.ts';
import type { MissingWorkers, ReadStore, TurnView } from '../workflows/contract/views.ts';
import { targetOfQueue, turnWorkflowId } from '../workflows/protocol/ids.ts';
import { clip } from '../workflows/protocol/sizes.ts';
import { isTerminal } from '../workflows/protocol/turn.ts';
import { isOfTemporal, temporalFailure } from './connect.ts';
import { queueFacts } from './queue-facts.ts';

/** The activity of a turn that failed and is tried again, or that waits for a worker to take it. Times are in epoch ms. */
export interface StalledActivity {
  /** The type of the activity, such as `callModel`. */
  readonly activity: string;
  /** Which attempt it is at, from 1. */
  readonly attempt: number;
  /** What the last attempt failed with; null when none has failed. */
  readonly message: string | null;
  /** When the turn last wrote something. */
  readonly since: number;
  /** Null when the attempt is not put off. */
  readonly nextTryAt: number | null;
}

/** Why a turn does not go on. Times are in epoch ms. */
export type Stall =
  /** The provider fails its model call, which is tried again (W14). */
  | ({ readonly kind: 'provider' } & ProviderOutage)
  /** Nobody serves its worker target (T12). */
  | ({ readonly kind: 'workers' } & MissingWorkers)
  /** It was leased, and its workflow is not there yet; the supervisor starts it. */
  | { readonly kind: 'start'; readonly since: number }
  /** Its workflow closed without recording its end; the supervisor records it. `status` is that of the workflow. */
  | { readonly kind: 'end'; readonly status: string; readonly since: number }
  /** The tasks of its workflow fail, or are lost with their workers. */
  | { readonly kind: 'workflow_task'; readonly attempt: number; readonly since: number }
  | ({ readonly kind: 'activity' } & StalledActivity);

/** The rows that a stall is read from. */
export type StallReader = Pick<ReadStore, 'getTurn' | 'getAgent'>;

const SERVER_MS = 10_000;
/** How long a task may wait for a worker before that is worth saying. */
const QUEUED_MS = 3_000;
/** How long a lease may be without a workflow, or a closed workflow without a recorded end. */
const SETTLING_MS = 1_000;
/** temporal.api.enums.v1.PendingWorkflowTaskState and PendingActivityState of what waits for a worker. */
const SCHEDULED = 1;
const BYTES = 500;

/**
 * Why the turn does not go on; null for one that does, that is queued, that waits for a result, or that has ended. `queuedMs` is how long a
 * task of it may wait before its workers are asked about; three seconds when left out. Errors: `temporal_unreachable`, `namespace_not_found`, those of the store.
 */
export async function findStall(
  store: StallReader,
  temporal: Client,
  agentTurnId: string,
  queuedMs = QUEUED_MS,
): Promise<Stall | null> {
  const view = await store.getTurn(agentTurnId);
  if (!view || isTerminal(view.status) || view.status === 'queued') return null;
  if (view.waitingForProvider) return { kind: 'provider', ...view.waitingForProvider };
  if (view.waitingForWorkers) return { kind: 'workers', ...withoutWorkers(view, view.waitingForWorkers) };
  const head = await store.getAgent(view.agentId);
  if (head?.activeAgentTurnId !== agentTurnId) return null;
  try {
    return await temporal.withDeadline(Date.now() + SERVER_MS, () =>
      stallOfWorkflow(temporal, view, head.updatedAt, queuedMs),
    );
  } catch (error) {
    if (!isOfTemporal(error)) throw error;
    const message = `the Temporal server could not be asked about turn ${agentTurnId}: ${error.message}`;
    throw temporalFailure(error, temporal, message);
  }
}

/** The supervisor notices missing workers a while later; a turn that has not begun has waited for them since its lease. */
const withoutWorkers = ({ startedAt, leasedAt }: TurnView, missing: MissingWorkers): MissingWorkers =>
  startedAt === null && leasedAt !== null ? { ...missing, since: leasedAt } : missing;

async function stallOfWorkflow(
  temporal: Client,
  view: TurnView,
  writtenAt: number,
  queuedMs: number,
): Promise<Stall | null> {
  const workflow = await describe(temporal, turnWorkflowId(view.agentId, view.agentTurnId));
  const isSettled = Date.now() - writtenAt > SETTLING_MS;
  if (!workflow) return isSettled ? { kind: 'start', since: view.leasedAt ?? writtenAt } : null;
  if (workflow.status.name !== 'RUNNING')
    return isSettled
      ? { kind: 'end', status: workflow.status.name, since: workflow.closeTime?.getTime() ?? writtenAt }
      : null;
  return (await stallOfTask(temporal, workflow, queuedMs)) ?? stallOfActivity(workflow, writtenAt, queuedMs);
}

async function describe(temporal: Client, workflowId: string): Promise<WorkflowExecutionDescription | null> {
  try {
    return await temporal.workflow.getHandle(workflowId).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
}

async function stallOfTask(
  temporal: Client,
  { raw, taskQueue }: WorkflowExecutionDescription,
  queuedMs: number,
): Promise<Stall | null> {
  const task = raw.pendingWorkflowTask;
  if (!task) return null;
  const since = optionalTsToMs(task.originalScheduledTime ?? task.scheduledTime) ?? Date.now();
  const attempt = task.attempt ?? 1;
  if (attempt > 1) return { kind: 'workflow_task', attempt, since };
  if (task.state !== SCHEDULED || Date.now() - since < queuedMs) return null;
  const workerTarget = targetOfQueue(taskQueue);
  const { hasPollers } = await queueFacts(temporal, workerTarget);
  return hasPollers ? null : { kind: 'workers', workerTarget, since };
}

/** The activity of most attempts, since a turn may run several at once. */
function stallOfActivity({ raw }: WorkflowExecutionDescription, writtenAt: number, queuedMs: number): Stall | null {
  const pending = [...(raw.pendingActivities ?? [])].sort((a, b) => (b.attempt ?? 1) - (a.attempt ?? 1));
  for (const { activityType, attempt = 1, lastFailure, state, ...times } of pending) {
    const scheduledAt = optionalTsToMs(times.scheduledTime) ?? writtenAt;
    // One that runs is at work, whichever attempt it is.
    if (state !== SCHEDULED) continue;
    if ((attempt ?? 1) < 2 && Date.now() - scheduledAt < queuedMs) continue;
    const nextTryAt = scheduledAt > Date.now() ? scheduledAt : null;
    const message = lastFailure?.message ? clip(lastFailure.message, BYTES) : null;
    const activity = activityType?.name ?? 'unknown';
    return { kind: 'activity', activity, attempt: attempt ?? 1, message, since: writtenAt, nextTryAt };
  }
  return null;
}

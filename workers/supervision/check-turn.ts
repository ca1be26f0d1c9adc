/**
 * One check of a due turn: gather the facts, decide, carry out, schedule the next check (T12, T23, T29). `workflows/supervision/check.ts`
 * decides.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { queueFacts } from '../../client/queue-facts.ts';
import type { TurnWorkflows } from '../../client/turn-workflows.ts';
import type { ControlStore } from '../../workflows/contract/control.ts';
import type { Handover, LeaseStore } from '../../workflows/contract/lease.ts';
import type { StoreClock } from '../../workflows/contract/store.ts';
import type { DueTurn, SupervisorStore } from '../../workflows/contract/supervision.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import { type CheckAction, decideCheck, needsWorkflow, type QueueFacts } from '../../workflows/supervision/check.ts';
import { workflowFacts } from './facts.ts';

/** What a check reads and acts on. */
export interface CheckDeps {
  readonly store: SupervisorStore & LeaseStore & ControlStore & StoreClock;
  readonly temporal: Client;
  readonly workflows: TurnWorkflows;
}

/** The task queues as they were found in one pass; each is asked for once, since many turns share one. */
export class Queues {
  readonly #temporal: Client;
  readonly #found = new Map<string, Promise<QueueFacts>>();

  constructor(temporal: Client) {
    this.#temporal = temporal;
  }

  /** What is known of a worker target's queue. Rejects with the error of the server. */
  of(workerTarget: string): Promise<QueueFacts> {
    const known = this.#found.get(workerTarget) ?? queueFacts(this.#temporal, workerTarget);
    this.#found.set(workerTarget, known);
    return known;
  }
}

/** The time in epoch ms by the store's clock, which wrote the times in its rows. */
export const storeNow = (store: StoreClock): number => Date.now() + store.clockAheadMs();

/** How long the server may take to answer about one turn, because the checks after it wait. */
const SERVER_MS = 10_000;

/** Checks a turn and returns what was done about it. Throws the errors of store and server; then the turn stays due. */
export async function checkTurn(
  deps: CheckDeps,
  turn: DueTurn,
  queues: Queues,
  supervisedSince: number,
): Promise<CheckAction['do']> {
  const { store, temporal } = deps;
  if (turn.waitsAhead) {
    // The next check decides by the deadlines that count.
    await store.recountWaits(turn.agentTurnId);
    return 'nothing';
  }
  const { workflow, queue } = await temporal.withDeadline(Date.now() + SERVER_MS, async () => {
    const workflow = needsWorkflow(turn) ? await workflowFacts(temporal, turn) : null;
    const asksQueue = workflow?.kind === 'running' && turn.workerTarget !== null && turn.timeouts !== null;
    return { workflow, queue: asksQueue ? await queues.of(turn.workerTarget ?? '') : null };
  });
  const { action, next } = decideCheck({ turn, workflow, queue, supervisedSince, nowMs: storeNow(store) });
  await carryOut(deps, turn, action);
  // What was carried out may have given the turn another schedule, and then that one stands.
  await store.scheduleCheck(turn, next);
  return action.do;
}

async function carryOut({ store, temporal, workflows }: CheckDeps, turn: DueTurn, action: CheckAction): Promise<void> {
  const { agentId, agentTurnId, turnEpoch, status, progressAt } = turn;
  const workflowId = turnWorkflowId(agentId, agentTurnId);
  const handOver = async (handover: Handover | null) => {
    if (handover) await workflows.handOver(handover);
  };
  switch (action.do) {
    case 'nothing':
      return;
    case 'lease':
    case 'start':
      return handOver(await store.leaseNext(agentId));
    case 'wake':
      return workflows.wake(agentId, agentTurnId);
    case 'settle':
      return workflows.handOver({ agentId, next: null, more: false, settlements: [agentTurnId] });
    case 'let_go':
      return workflows.cancel(agentId, agentTurnId);
    case 'close':
      return terminate(temporal, workflowId, action.reason);
    case 'stop': {
      const { ack, handover } = await store.stopTurn(agentTurnId, action.reason);
      return workflows.stopped(handover, ack === 'stopped' ? { agentId, agentTurnId } : null);
    }
    case 'end': {
      const seen: Fence = { agentId, agentTurnId, turnEpoch: turnEpoch ?? 0 };
      const handover = await store.reapTurn({ ...seen, status, progressAt }, action.termination);
      // The store comes first, so that nothing counts which the workflow still does; then the workflow is closed.
      if (handover) await terminate(temporal, workflowId, action.termination.reason ?? '');
      return handOver(handover);
    }
  }
}

/** Terminates a workflow; one that is closed or gone is left as it is. Throws the errors of the server. */
export async function terminate(temporal: Client, workflowId: string, reason: string): Promise<void> {
  try {
    await temporal.withDeadline(Date.now() + SERVER_MS, () =>
      temporal.workflow.getHandle(workflowId).terminate(reason),
    );
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

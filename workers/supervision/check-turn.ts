/** One check: gather the facts, decide, carry out, schedule the next check (T12, T23, T29). */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { TurnWorkflows } from '../../client/turn-workflows.ts';
import type { ControlStore } from '../../workflows/contract/control.ts';
import type { Handover, LeaseStore } from '../../workflows/contract/lease.ts';
import type { StoreClock } from '../../workflows/contract/store.ts';
import type { DueTurn, SupervisorStore } from '../../workflows/contract/supervision.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import { type CheckAction, decideCheck, needsWorkflow, type QueueFacts } from '../../workflows/supervision/check.ts';
import { queueFacts, workflowFacts } from './facts.ts';

export interface CheckDeps {
  readonly store: SupervisorStore & LeaseStore & ControlStore & StoreClock;
  readonly temporal: Client;
  readonly workflows: TurnWorkflows;
}

/** Task queues as they were found in this pass: many turns share one. */
export class Queues {
  readonly #temporal: Client;
  readonly #found = new Map<string, Promise<QueueFacts>>();

  constructor(temporal: Client) {
    this.#temporal = temporal;
  }

  of(workerTarget: string): Promise<QueueFacts> {
    const known = this.#found.get(workerTarget) ?? queueFacts(this.#temporal, workerTarget);
    this.#found.set(workerTarget, known);
    return known;
  }
}

/** Times in rows are compared with the clock that wrote them. */
export const storeNow = (store: StoreClock): number => Date.now() + store.clockAheadMs();

/** The server may not answer, and the next turn waits. */
const LOOK_MS = 10_000;

/** Returns what was done. Errors: those of store and server; then the turn stays due. */
export async function checkTurn(
  deps: CheckDeps,
  turn: DueTurn,
  queues: Queues,
  supervisedSince: number,
): Promise<CheckAction['do']> {
  const { store, temporal } = deps;
  const { workflow, queue } = await temporal.withDeadline(Date.now() + LOOK_MS, async () => {
    const workflow = needsWorkflow(turn) ? await workflowFacts(temporal, turn) : null;
    const asksQueue = workflow?.kind === 'running' && turn.workerTarget !== null && turn.timeouts !== null;
    return { workflow, queue: asksQueue ? await queues.of(turn.workerTarget ?? '') : null };
  });
  const { action, next } = decideCheck({ turn, workflow, queue, supervisedSince, nowMs: storeNow(store) });
  await carryOut(deps, turn, action);
  // What was carried out may have given the turn another schedule: that one stands.
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
      return workflows.tellStop(agentId, agentTurnId);
    case 'close':
      return terminate(temporal, workflowId, action.reason);
    case 'stop': {
      const { ack, handover } = await store.stopTurn(agentTurnId, action.reason);
      return workflows.stopped(handover, ack === 'stopped' ? { agentId, agentTurnId } : null);
    }
    case 'end': {
      const seen: Fence = { agentId, agentTurnId, turnEpoch: turnEpoch ?? 0 };
      const handover = await store.reapTurn({ ...seen, status, progressAt }, action.termination);
      // Order: the store first, so that nothing the workflow still does counts; then the workflow is closed.
      if (handover) await terminate(temporal, workflowId, action.termination.reason ?? '');
      return handOver(handover);
    }
  }
}

/** A workflow that is closed or gone needs no end. */
export async function terminate(temporal: Client, workflowId: string, reason: string): Promise<void> {
  try {
    await temporal.withDeadline(Date.now() + LOOK_MS, () => temporal.workflow.getHandle(workflowId).terminate(reason));
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}

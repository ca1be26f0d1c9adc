/**
 * The whole check of an installation: what the rows of the store say (`store.violations()`), and what only store and Temporal together
 * can say.
 *
 * Invariants
 * 1. Read-only: it wakes and closes nothing.
 * 2. Store and server are never in step to the millisecond, and the supervisor needs a moment: what the two disagree on counts once it is
 *    older than the grace. Each finding is looked at again before it is told, since lists may lag behind.
 */
import {
  type Client,
  isGrpcServiceError,
  ServiceError,
  type WorkflowExecutionDescription,
  WorkflowNotFoundError,
} from '@temporalio/client';
import { NamespaceNotFoundError } from '@temporalio/common';
import type { Verification } from '../client/cli/environment.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { AGENT_WORKFLOW_ID, TURN_WORKFLOW_ID, turnWorkflowId } from '../workflows/protocol/ids.ts';
import type { ClientStore, Violation } from '../workflows/protocol/store.ts';
import { isTerminal } from '../workflows/protocol/turn.ts';
import type { AgentView } from '../workflows/protocol/views.ts';

export interface VerifyDeps {
  readonly store: ClientStore;
  readonly temporal: Client;
  readonly graceMs?: number;
  readonly now?: () => number;
}

const GRACE_MS = 60_000;
const NO_PROBLEM_REPORTS = 'failing_workflow_task: this server does not mark workflows whose tasks fail';

/** Errors: `temporal_unreachable`, those of the store. */
export async function verifyInstallation(deps: VerifyDeps): Promise<Verification> {
  const { store, temporal } = deps;
  try {
    const inStore = await store.violations();
    // The workflows before the heads: what starts between the two is not in the list, and is asked for by itself.
    const running = await runningTurns(temporal);
    const agents = await store.listAgents();
    const between = await new Comparison(deps).violations(agents, running);
    const reportsProblems = await hasProblemReports(temporal);
    const failing = reportsProblems ? await failingTasks(temporal) : [];
    return {
      violations: [...inStore, ...between, ...failing],
      unchecked: reportsProblems ? [] : [NO_PROBLEM_REPORTS],
      turns: agents.reduce((sum, agent) => sum + agent.acceptedTurns, 0),
      agents: agents.length,
    };
  } catch (error) {
    if (!isOfTemporal(error)) throw error;
    const message = `the Temporal server did not answer a question about namespace ${temporal.options.namespace}`;
    throw new CodedError('temporal_unreachable', `${message} (${error.message})`, { cause: error });
  }
}

const isOfTemporal = (error: unknown): error is Error =>
  error instanceof ServiceError || error instanceof NamespaceNotFoundError || isGrpcServiceError(error);

async function hasProblemReports({ connection, options: { namespace } }: Client): Promise<boolean> {
  const { namespaceInfo } = await connection.workflowService.describeNamespace({ namespace });
  return namespaceInfo?.capabilities?.reportedProblemsSearchAttribute === true;
}

interface RunningTurn {
  readonly workflowId: string;
  readonly runId: string;
}

async function runningTurns({ workflow }: Client): Promise<RunningTurn[]> {
  const found: RunningTurn[] = [];
  const query = `WorkflowType = 'agentTurn' AND ExecutionStatus = 'Running'`;
  for await (const { workflowId, runId } of workflow.list({ query })) found.push({ workflowId, runId });
  return found;
}

/** Workflows of ours whose tasks Temporal retries in vain. */
async function failingTasks({ workflow }: Client): Promise<Violation[]> {
  const found: Violation[] = [];
  const ours = `WorkflowType IN ('agent', 'agentTurn') AND ExecutionStatus = 'Running'`;
  const query = `${ours} AND TemporalReportedProblems IS NOT NULL`;
  for await (const { workflowId, searchAttributes } of workflow.list({ query })) {
    const [, agentId = null, agentTurnId = null] =
      TURN_WORKFLOW_ID.exec(workflowId) ?? AGENT_WORKFLOW_ID.exec(workflowId) ?? [];
    const problems = searchAttributes.TemporalReportedProblems?.join(', ') ?? '';
    const detail = `the tasks of workflow ${workflowId} fail again and again: ${problems}`;
    found.push({ check: 'failing_workflow_task', agentId, agentTurnId, detail });
  }
  return found;
}

/** What store and server say about the same turns. */
class Comparison {
  readonly #store: ClientStore;
  readonly #temporal: Client;
  readonly #graceMs: number;
  readonly #now: () => number;

  constructor({ store, temporal, graceMs = GRACE_MS, now = Date.now }: VerifyDeps) {
    this.#store = store;
    this.#temporal = temporal;
    this.#graceMs = graceMs;
    this.#now = now;
  }

  async violations(agents: readonly AgentView[], running: readonly RunningTurn[]): Promise<Violation[]> {
    return [
      ...(await this.#lostTurns(agents, running)),
      ...(await this.#orphanWorkflows(agents, running)),
      ...(await this.#strandedTurns(agents)),
    ];
  }

  #isOld(since: number): boolean {
    return this.#now() - since > this.#graceMs;
  }

  /** A head at work whose turn is closed or gone, and that no supervisor has noticed. */
  async #lostTurns(agents: readonly AgentView[], running: readonly RunningTurn[]): Promise<Violation[]> {
    const alive = new Set(running.map((turn) => turn.workflowId));
    const found: Violation[] = [];
    for (const { agentId, activeAgentTurnId: agentTurnId, status, updatedAt } of agents) {
      if (agentTurnId === null || alive.has(turnWorkflowId(agentId, agentTurnId))) continue;
      const turn = await this.#describe(turnWorkflowId(agentId, agentTurnId));
      if (turn?.status.name === 'RUNNING') continue;
      // When a workflow vanished nobody knows; its last write under the lease was not later.
      if (!this.#isOld(turn?.closeTime?.getTime() ?? updatedAt)) continue;
      const head = await this.#store.getAgent(agentId);
      if (head?.activeAgentTurnId !== agentTurnId) continue;
      const detail = `the head is ${status}, the turn's workflow is ${turn ? turn.status.name : 'unknown'}`;
      found.push({ check: 'lost_turn', agentId, agentTurnId, detail });
    }
    return found;
  }

  /** A turn's workflow that runs on though its turn has ended, or that was never its agent's active turn. */
  async #orphanWorkflows(agents: readonly AgentView[], running: readonly RunningTurn[]): Promise<Violation[]> {
    const active = new Set(
      agents.flatMap(({ agentId, activeAgentTurnId: turn }) => (turn === null ? [] : [turnWorkflowId(agentId, turn)])),
    );
    const found: Violation[] = [];
    for (const turn of running) {
      if (active.has(turn.workflowId)) continue;
      const [, agentId = null, agentTurnId = null] = TURN_WORKFLOW_ID.exec(turn.workflowId) ?? [];
      const why =
        agentId === null || agentTurnId === null ? 'its id names no turn' : await this.#orphaned(agentId, agentTurnId);
      if (why === null || !(await this.#stillRuns(turn))) continue;
      found.push({
        check: 'orphan_workflow',
        agentId,
        agentTurnId,
        detail: `workflow ${turn.workflowId} runs: ${why}`,
      });
    }
    return found;
  }

  async #orphaned(agentId: string, agentTurnId: string): Promise<string | null> {
    const head = await this.#store.getAgent(agentId);
    if (head?.activeAgentTurnId === agentTurnId) return null;
    // After the head: a turn that ended between the two looks ended just now.
    const turn = await this.#store.getTurn(agentTurnId);
    if (!turn) return 'the store has no such turn';
    if (turn.agentId !== agentId) return `the turn belongs to agent ${turn.agentId}`;
    if (!isTerminal(turn.status)) return `the turn is ${turn.status} and not what the head points at`;
    return this.#isOld(turn.endedAt ?? 0) ? `the turn has ended ${turn.status}` : null;
  }

  /** Turns in the inbox of an agent that is free to run them. */
  async #strandedTurns(agents: readonly AgentView[]): Promise<Violation[]> {
    const found: Violation[] = [];
    for (const { agentId, lifecycle, status, queuedTurns } of agents) {
      if (queuedTurns === 0 || lifecycle === 'stopped' || status !== 'idle') continue;
      // Looked at again: the agent may have been between two turns.
      if ((await this.#store.getAgent(agentId))?.status !== 'idle') continue;
      const queued = await this.#store.listTurns(agentId, { status: 'queued' });
      for (const { agentTurnId, acceptedAt } of queued.filter((turn) => this.#isOld(turn.acceptedAt))) {
        const seconds = Math.round((this.#now() - acceptedAt) / 1_000);
        const detail = `queued for ${seconds} s, and its agent is idle`;
        found.push({ check: 'stranded_turn', agentId, agentTurnId, detail });
      }
    }
    return found;
  }

  async #stillRuns({ workflowId, runId }: RunningTurn): Promise<boolean> {
    return (await this.#describe(workflowId, runId))?.status.name === 'RUNNING';
  }

  async #describe(workflowId: string, runId?: string): Promise<WorkflowExecutionDescription | null> {
    try {
      return await this.#temporal.workflow.getHandle(workflowId, runId).describe();
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return null;
      throw error;
    }
  }
}

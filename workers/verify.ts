/**
 * The whole check of an installation: what the rows of the store say (`store.violations()`), and what only store and Temporal together can
 * say.
 *
 * Invariants
 * 1. The check is read-only: it wakes and closes nothing.
 * 2. Store and server are never in step to the millisecond, and the supervisor needs a moment: what the two disagree on counts once it is
 *    older than the grace. Each finding is looked at again before it is passed on, since lists may lag behind.
 */
import { type Client, type WorkflowExecutionDescription, WorkflowNotFoundError } from '@temporalio/client';
import { everyAgent } from '../client/agent-pages.ts';
import { isOfTemporal, temporalFailure } from '../client/connect.ts';
import { findStall, type Stall } from '../client/stalls.ts';
import type { AgentView, ReadStore, Violation } from '../workflows/contract/views.ts';
import { AGENT_WORKFLOW_ID, TURN_WORKFLOW_ID, turnWorkflowId } from '../workflows/protocol/ids.ts';
import { isTerminal } from '../workflows/protocol/turn.ts';

/** What a check reads. */
export interface VerifyDeps {
  readonly store: ReadStore;
  readonly temporal: Client;
  /** How long store and server may disagree before that is a finding; one minute when absent. */
  readonly graceMs?: number;
  /** The clock, in epoch ms; the machine's own when absent. */
  readonly now?: () => number;
}

/** What was checked in store and Temporal, besides the violations that were found. */
export interface Verification {
  /** Checks that this server cannot answer, each with the reason. */
  readonly unchecked: readonly string[];
  /** How many turns and agents the store has. */
  readonly turns: number;
  readonly agents: number;
  /** How many turns have not gone on for longer than the grace, and the first hundred of them. They break no promise. */
  readonly stalled: number;
  readonly stalls: readonly StalledTurn[];
}

/** A turn that does not go on, and why. */
export interface StalledTurn {
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly stall: Stall;
}

const GRACE_MS = 60_000;
/** Why a check is left out on servers that lack the search attribute `TemporalReportedProblems`. */
const NO_PROBLEM_REPORTS = 'failing_workflow_task: this server does not mark workflows whose tasks fail';

/** How many findings are passed on at a time. */
const PAGE = 1_000;
const QUEUED_PAGE = 100;
/** How many stalled turns are named. */
const MOST_STALLS = 100;

/**
 * Passes on what is wrong, a page at a time, so that memory does not grow with it; returns how much was checked, and what could not be.
 * Throws `temporal_unreachable`, `namespace_not_found`, and the errors of the store.
 */
export async function verifyInstallation(
  deps: VerifyDeps,
  tell: (found: readonly Violation[]) => void,
): Promise<Verification> {
  const { temporal } = deps;
  const installation = new Comparison(deps);
  try {
    // This comes first, so that a server that is not there is noticed before any finding is passed on.
    const reportsProblems = await hasProblemReports(temporal);
    let page: Violation[] = [];
    for await (const violation of findings(deps, installation, reportsProblems)) {
      page.push(violation);
      if (page.length < PAGE) continue;
      tell(page);
      page = [];
    }
    if (page.length > 0) tell(page);
    const { turns, agents, stalled, stalls } = installation;
    return { unchecked: reportsProblems ? [] : [NO_PROBLEM_REPORTS], turns, agents, stalled, stalls };
  } catch (error) {
    if (!isOfTemporal(error)) throw error;
    const message = `the Temporal server did not answer a question about namespace ${temporal.options.namespace}`;
    throw temporalFailure(error, temporal, `${message} (${error.message})`);
  }
}

async function* findings(
  { store, temporal }: VerifyDeps,
  installation: Comparison,
  reportsProblems: boolean,
): AsyncGenerator<Violation, void> {
  for await (const page of store.violationPages()) yield* page;
  yield* installation.violations();
  if (reportsProblems) yield* failingTasks(temporal);
}

async function hasProblemReports({ connection, options: { namespace } }: Client): Promise<boolean> {
  const { namespaceInfo } = await connection.workflowService.describeNamespace({ namespace });
  return namespaceInfo?.capabilities?.reportedProblemsSearchAttribute === true;
}

/**
 * The run ids of all running turns by their workflow ids. They take memory for as many turns as are open; all else is read page by page.
 */
async function runningTurns({ workflow }: Client): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const query = `WorkflowType = 'agentTurn' AND ExecutionStatus = 'Running'`;
  for await (const { workflowId, runId } of workflow.list({ query })) found.set(workflowId, runId);
  return found;
}

/** The workflows of ours whose tasks fail and are retried by Temporal again and again. Each is asked itself: the list lags behind. */
async function* failingTasks(temporal: Client): AsyncGenerator<Violation, void> {
  const ours = `WorkflowType IN ('agent', 'agentTurn') AND ExecutionStatus = 'Running'`;
  const query = `${ours} AND TemporalReportedProblems IS NOT NULL`;
  for await (const { workflowId, runId } of temporal.workflow.list({ query })) {
    const { status, searchAttributes } = (await describeWorkflow(temporal, workflowId, runId)) ?? {};
    const problems = searchAttributes?.TemporalReportedProblems?.join(', ');
    if (status?.name !== 'RUNNING' || !problems) continue;
    const [, agentId = null, agentTurnId = null] =
      TURN_WORKFLOW_ID.exec(workflowId) ?? AGENT_WORKFLOW_ID.exec(workflowId) ?? [];
    const detail = `the tasks of workflow ${workflowId} fail again and again: ${problems}`;
    yield { check: 'failing_workflow_task', agentId, agentTurnId, detail };
  }
}

/** Compares what store and server say about the same turns, counts what it has compared, and notes which turns do not go on. */
class Comparison {
  readonly #store: ReadStore;
  readonly #temporal: Client;
  readonly #graceMs: number;
  readonly #now: () => number;

  constructor({ store, temporal, graceMs = GRACE_MS, now = Date.now }: VerifyDeps) {
    this.#store = store;
    this.#temporal = temporal;
    this.#graceMs = graceMs;
    this.#now = now;
  }

  /** How many agents have been compared so far. */
  agents = 0;
  /** How many turns these agents have accepted. */
  turns = 0;
  /** How many of them do not go on. */
  stalled = 0;
  readonly stalls: StalledTurn[] = [];

  async *violations(): AsyncGenerator<Violation, void> {
    // The workflows are read before the heads: a workflow that starts between the two is not in the list, and is asked for by itself.
    const running = await runningTurns(this.#temporal);
    for await (const agent of everyAgent(this.#store)) {
      this.agents += 1;
      this.turns += agent.acceptedTurns;
      const { agentId, activeAgentTurnId: active } = agent;
      const isRunning = active !== null && running.delete(turnWorkflowId(agentId, active));
      if (active !== null && !isRunning) yield* this.#lostTurn(agent, active);
      await this.#noteStall(agent);
      yield* this.#strandedTurns(agent);
    }
    for (const [workflowId, runId] of running) yield* this.#orphanWorkflow(workflowId, runId);
  }

  #isOld(since: number): boolean {
    return this.#now() - since > this.#graceMs;
  }

  /** A finding when the head is at work on a turn whose workflow is closed or gone, and no supervisor has noticed. */
  async *#lostTurn({ agentId, status, updatedAt }: AgentView, agentTurnId: string): AsyncGenerator<Violation, void> {
    const turn = await describeWorkflow(this.#temporal, turnWorkflowId(agentId, agentTurnId));
    if (turn?.status.name === 'RUNNING') return;
    // Nobody knows when a workflow vanished; its last write under the lease was not later.
    if (!this.#isOld(turn?.closeTime?.getTime() ?? updatedAt)) return;
    const head = await this.#store.getAgent(agentId);
    if (head?.activeAgentTurnId !== agentTurnId) return;
    const detail = `the head is ${status}, the turn's workflow is ${turn ? turn.status.name : 'unknown'}`;
    yield { check: 'lost_turn', agentId, agentTurnId, detail };
  }

  /** A finding when a workflow runs on though its turn has ended, or was never its agent's active turn. */
  async *#orphanWorkflow(workflowId: string, runId: string): AsyncGenerator<Violation, void> {
    const [, agentId = null, agentTurnId = null] = TURN_WORKFLOW_ID.exec(workflowId) ?? [];
    const why =
      agentId === null || agentTurnId === null ? 'its id names no turn' : await this.#orphaned(agentId, agentTurnId);
    if (why === null || (await describeWorkflow(this.#temporal, workflowId, runId))?.status.name !== 'RUNNING') return;
    yield { check: 'orphan_workflow', agentId, agentTurnId, detail: `workflow ${workflowId} runs: ${why}` };
  }

  async #orphaned(agentId: string, agentTurnId: string): Promise<string | null> {
    const head = await this.#store.getAgent(agentId);
    if (head?.activeAgentTurnId === agentTurnId) return null;
    // The turn is read after the head: one that ended between the two seems to have ended just now.
    const turn = await this.#store.getTurn(agentTurnId);
    if (!turn) return 'the store has no such turn';
    if (turn.agentId !== agentId) return `the turn belongs to agent ${turn.agentId}`;
    if (!isTerminal(turn.status)) return `the turn is ${turn.status} and not what the head points at`;
    return this.#isOld(turn.endedAt ?? 0) ? `the turn has ended ${turn.status}` : null;
  }

  /** One that waits for an answer is not stalled, except for want of workers. */
  async #noteStall(agent: AgentView): Promise<void> {
    const { agentId, activeAgentTurnId: agentTurnId, status, waitingForWorkers, updatedAt } = agent;
    if (agentTurnId === null || (status === 'suspended' && !waitingForWorkers)) return;
    // Each attempt at a call of a provider that fails is written down: the head is young, and the outage old.
    const outage = (await this.#store.getTurn(agentTurnId))?.waitingForProvider;
    if (!this.#isOld(outage?.since ?? updatedAt)) return;
    const stall = await findStall(this.#store, this.#temporal, agentTurnId);
    if (!stall) return;
    this.stalled += 1;
    if (this.stalls.length < MOST_STALLS) this.stalls.push({ agentId, agentTurnId, stall });
  }

  /** A finding for each turn in the inbox of an agent that is free to run it. */
  async *#strandedTurns({ agentId, lifecycle, status, queuedTurns }: AgentView): AsyncGenerator<Violation, void> {
    if (queuedTurns === 0 || lifecycle === 'stopped' || status !== 'idle') return;
    // The agent is read again, because it may have been between two turns.
    if ((await this.#store.getAgent(agentId))?.status !== 'idle') return;
    for (let after = 0; ; ) {
      const queued = await this.#store.listTurns(agentId, { status: 'queued', after, limit: QUEUED_PAGE });
      for (const { agentTurnId, acceptedAt } of queued.filter((turn) => this.#isOld(turn.acceptedAt))) {
        const seconds = Math.round((this.#now() - acceptedAt) / 1_000);
        const detail = `queued for ${seconds} s, and its agent is idle`;
        yield { check: 'stranded_turn', agentId, agentTurnId, detail };
      }
      if (queued.length < QUEUED_PAGE) return;
      after = queued.at(-1)?.acceptSeq ?? 0;
    }
  }
}

/** What the server says of a workflow; null when it knows none. */
async function describeWorkflow(
  temporal: Client,
  workflowId: string,
  runId?: string,
): Promise<WorkflowExecutionDescription | null> {
  try {
    return await temporal.workflow.getHandle(workflowId, runId).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
}

/** What must not be left when everything has ended: workflows that run, parents that were not told, checks that nobody makes. */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import type { Store } from '../../workflows/contract/store.ts';
import type { Problem } from './ledger.ts';
import { readTables } from './rows.ts';

/** A workflow task on its third attempt that failed the time before: not one whose workers were killed, which times out. */
const FAILING_ATTEMPT = 3;
const PROBLEMS = defineSearchAttributeKey('TemporalReportedProblems', SearchAttributeType.KEYWORD_LIST);
const FAILED = 'category=WorkflowTaskFailed';

/** Longer than the lease of a supervisor that is gone, and the pass of the one that follows it. */
const OVERDUE_MS = 60_000;
const MOST = 1_000;

export interface LeftDeps {
  readonly store: Store;
  readonly storeUrl: string;
  readonly temporal: Client;
}

export async function leftBehind({ store, storeUrl, temporal }: LeftDeps): Promise<readonly Problem[]> {
  return [...(await untoldParents(storeUrl)), ...(await overdueChecks(store)), ...(await runningWorkflows(temporal))];
}

/** Turns that ended, and whose parent's call was not told. */
export async function untoldParents(storeUrl: string): Promise<Problem[]> {
  const rows = await readTables(storeUrl, (tables) =>
    tables.selectFrom('turns').select(['agent_id', 'agent_turn_id']).where('settlement', '=', 'due').execute(),
  );
  return rows.map(({ agent_id: agentId, agent_turn_id: agentTurnId }) => {
    const detail = 'it ended, and the call that waits for it was not told';
    return { check: 'parent_not_told', agentId, agentTurnId, detail };
  });
}

async function overdueChecks(store: Store): Promise<Problem[]> {
  const before = Date.now() - OVERDUE_MS;
  return (await store.dueTurns(MOST))
    .filter(({ checkAt }) => checkAt < before)
    .map(({ agentId, agentTurnId, status, checkAt }) => {
      const detail = `${status}, due for a check since ${new Date(checkAt).toISOString()}`;
      return { check: 'check_not_made', agentId, agentTurnId, detail };
    });
}

/** Neither a turn's workflow nor an acceptor's runs on, and no workflow's tasks fail. */
async function runningWorkflows(temporal: Client): Promise<Problem[]> {
  const problems: Problem[] = [];
  for await (const { workflowId, type } of temporal.workflow.list({ query: `ExecutionStatus = 'Running'` })) {
    const attempt = await taskAttempt(temporal, workflowId);
    if (!attempt) continue;
    problems.push({ check: 'left_running', detail: `${type} ${workflowId}` });
    if (!attempt.fails) continue;
    problems.push({ check: 'failing_workflow_task', detail: `${workflowId}, attempt ${attempt.number}` });
  }
  return problems;
}

/** Null when the workflow does not run: the list lags behind. */
async function taskAttempt(temporal: Client, workflowId: string): Promise<{ number: number; fails: boolean } | null> {
  try {
    const { status, raw, typedSearchAttributes } = await temporal.workflow.getHandle(workflowId).describe();
    if (status.name !== 'RUNNING') return null;
    const number = raw.pendingWorkflowTask?.attempt ?? 0;
    const fails = number >= FAILING_ATTEMPT && (typedSearchAttributes.get(PROBLEMS)?.includes(FAILED) ?? false);
    return { number, fails };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
}

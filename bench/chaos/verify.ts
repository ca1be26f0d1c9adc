/** The verdict: the store's own invariants, and what only an observer from outside can know. */
import type { Client } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import { BUILTINS } from '../../workflows/protocol/builtins.ts';
import type { AgentEvent } from '../../workflows/protocol/events.ts';
import type { ClientStore, Store } from '../../workflows/protocol/store.ts';
import { isTerminal } from '../../workflows/protocol/turn.ts';
import type { EdgeView, TurnView } from '../../workflows/protocol/views.ts';
import type { Ledger, Problem } from './ledger.ts';
import { readEffects, SUSPENDING, UNSAFE } from './tools.ts';

/** How one of ours can end when its workflow or its agent's was hit from outside. */
const OUTSIDE_CODES: ReadonlySet<string> = new Set([
  'terminated',
  'worker_lost',
  'protocol_violation',
  'internal_error',
]);
/** An agent's end reaches its turn within this time. */
const REACH_MS = 30_000;
/** A workflow task on its third attempt that failed the time before: not one whose workers were killed, which times out. */
const FAILING_ATTEMPT = 3;
const PROBLEMS = defineSearchAttributeKey('TemporalReportedProblems', SearchAttributeType.KEYWORD_LIST);
const FAILED = 'category=WorkflowTaskFailed';
const PAGE = 1_000;

export interface Verdict {
  readonly turns: number;
  readonly success: number;
  /** Turns that neither a stop nor a fault from outside hit, and how many of those succeeded. */
  readonly untouched: number;
  readonly untouchedSuccess: number;
  readonly endings: Readonly<Record<string, number>>;
  readonly effects: number;
  readonly violations: readonly Problem[];
  readonly unexplained: readonly Problem[];
}

export interface VerifyDeps {
  readonly store: Store;
  readonly temporal: Client;
  readonly ledger: Ledger;
  readonly agentIds: readonly string[];
  readonly effectsPath: string;
}

export async function verify({ store, temporal, ledger, agentIds, effectsPath }: VerifyDeps): Promise<Verdict> {
  const views: TurnView[] = [];
  const violations: Problem[] = [...ledger.problems];
  for (const agentId of agentIds) {
    const turns = await store.listTurns(agentId);
    views.push(...turns);
    violations.push(...overlaps(turns), ...taskEvents(turns, await allEvents(store, agentId)));
    violations.push(...(await lostSteers(store, ledger, agentId, turns)), ...(await wrongEdges(store, turns)));
  }
  for (const { check, agentId, agentTurnId, detail } of await store.violations()) {
    violations.push({ check, agentId: agentId ?? '', agentTurnId: agentTurnId ?? '', detail });
  }
  for (const agentTurnId of await store.overdueReports(0, PAGE)) {
    violations.push({
      check: 'parent_not_told',
      agentTurnId,
      detail: 'it ended, and the call that waits for it was not told',
    });
  }
  const { effects } = readEffects(effectsPath);
  violations.push(...ackedTurns(ledger, views), ...wrongEffects(ledger, views, effects));
  violations.push(...(await leftWorkflows(temporal)));
  const unexplained = views.flatMap((view) => {
    if (!isTerminal(view.status) || view.status === 'success' || explained(ledger, view)) return [];
    const { agentId, agentTurnId, status, errorCode, reason } = view;
    return [{ check: 'unexplained', agentId, agentTurnId, detail: `${status}/${errorCode}: ${reason}` }];
  });
  const untouched = views.filter((view) => !touched(ledger, view));
  return {
    turns: views.length,
    success: countSuccess(views),
    untouched: untouched.length,
    untouchedSuccess: countSuccess(untouched),
    endings: tally(views.map(({ status, errorCode }) => (errorCode === null ? status : `${status}/${errorCode}`))),
    effects: effects.length,
    violations,
    unexplained,
  };
}

const countSuccess = (views: readonly TurnView[]): number => views.filter(({ status }) => status === 'success').length;

async function allEvents(store: ClientStore, agentId: string): Promise<readonly AgentEvent[]> {
  const events: AgentEvent[] = [];
  for (;;) {
    const page = await store.readEvents({ agentId, afterSeq: events.at(-1)?.seq ?? 0, limit: PAGE });
    events.push(...page);
    if (page.length < PAGE) return events;
  }
}

function overlaps(turns: readonly TurnView[]): Problem[] {
  const leased = turns.filter((turn) => turn.turnEpoch !== null);
  const inOrder = leased.toSorted((a, b) => (a.turnEpoch ?? 0) - (b.turnEpoch ?? 0));
  return inOrder.flatMap((turn, index) => {
    const next = inOrder[index + 1];
    if (!next || (turn.endedAt !== null && turn.endedAt <= (next.leasedAt ?? 0))) return [];
    const { agentId, agentTurnId } = turn;
    const detail = `ended at ${turn.endedAt}, ${next.agentTurnId} was leased at ${next.leasedAt}`;
    return [{ check: 'overlap', agentId, agentTurnId, detail }];
  });
}

function taskEvents(turns: readonly TurnView[], events: readonly AgentEvent[]): Problem[] {
  const count = tally(events.flatMap((event) => (event.type === 'task' ? [event.agentTurnId ?? ''] : [])));
  return turns.flatMap(({ agentId, agentTurnId, status, deliverable }) => {
    const problem = (check: string, detail: string): Problem => ({ check, agentId, agentTurnId, detail });
    if (!isTerminal(status)) return [problem('not_ended', `still ${status}`)];
    const seen = count[agentTurnId] ?? 0;
    return [
      ...(seen === 1 ? [] : [problem('task_events', `${seen} task events`)]),
      ...(deliverable === null ? [problem('no_deliverable', status)] : []),
    ];
  });
}

/** Not of the turns it delegated, which are looked at by themselves. A call that waited for one has join edges besides. */
const isOwn = ({ primitive, callId, sourceAgentTurnId, targetAgentTurnId }: EdgeView, agentTurnId: string): boolean => {
  if (primitive === 'join') return false;
  const reportsItsEnd = primitive === 'report' && callId === null;
  return (primitive === 'tool_call' || reportsItsEnd ? sourceAgentTurnId : targetAgentTurnId) === agentTurnId;
};

/** One edge for the request, one for the report; and for each call one for making it and one for its result (T26). */
async function wrongEdges(store: ClientStore, turns: readonly TurnView[]): Promise<Problem[]> {
  const problems: Problem[] = [];
  for (const { agentId, agentTurnId, steps } of turns.filter((turn) => isTerminal(turn.status))) {
    const found = tally(
      (await store.listEdges(agentTurnId))
        .filter((edge) => isOwn(edge, agentTurnId))
        .map(
          ({ primitive, phase, callId }) => `${primitive}/${phase} ${primitive === 'enqueue' ? '' : (callId ?? '')}`,
        ),
    );
    const calls = steps.flatMap((step) => step.calls);
    const expected = [
      ...['enqueue/request ', 'report/response '],
      ...calls.flatMap(({ callId }) => [`tool_call/request ${callId}`, `report/response ${callId}`]),
    ];
    const wrong = expected.filter((edge) => found[edge] !== 1);
    if (wrong.length === 0 && Object.keys(found).length === expected.length) continue;
    const detail = `${wrong.join(', ')} are not there once; there are ${JSON.stringify(found)}`;
    problems.push({ check: 'edges_incomplete', agentId, agentTurnId, detail });
  }
  return problems;
}

function ackedTurns(ledger: Ledger, views: readonly TurnView[]): Problem[] {
  const known = new Set(views.map((view) => view.agentTurnId));
  return [...ledger.acked.values()]
    .filter(({ agentTurnId }) => !known.has(agentTurnId))
    .map((acked) => ({ check: 'acked_and_lost', ...acked, detail: 'no such turn in the store' }));
}

/** An accepted steer was shown to its turn, or has become a turn of its own, and never two. */
async function lostSteers(
  store: ClientStore,
  ledger: Ledger,
  agentId: string,
  turns: readonly TurnView[],
): Promise<Problem[]> {
  const steers = ledger.steers.filter((steer) => steer.agentId === agentId);
  if (steers.length === 0) return [];
  const boxIds = new Set(turns.flatMap(({ outputBoxId }) => (outputBoxId === null ? [] : [outputBoxId])));
  const shown: string[] = [];
  for (const boxId of boxIds) {
    for (const { card } of await store.readBox(boxId, true))
      if (card.type === 'task.instruction') shown.push(card.content.text);
  }
  return steers.flatMap(({ text }) => {
    const asTurn = turns.filter((turn) => turn.instruction === text).length;
    const inBox = shown.filter((one) => one === text).length;
    if (asTurn <= 1 && inBox <= 1 && asTurn + inBox >= 1) return [];
    return [{ check: 'steer_lost', agentId, detail: `"${text}": ${inBox} times in the box, ${asTurn} turns` }];
  });
}

function wrongEffects(
  ledger: Ledger,
  views: readonly TurnView[],
  effects: ReturnType<typeof readEffects>['effects'],
): Problem[] {
  const count = tally(effects.map((effect) => effect.callId));
  const doubled = effects.filter(({ callId, tool }) => UNSAFE.has(tool) && (count[callId] ?? 0) > 1);
  const twice = doubled.map(({ callId, tool, attempt }) => ({
    check: 'unsafe_tool_twice',
    detail: `${tool} ${callId} had ${count[callId]} effects (attempt ${attempt})`,
  }));
  const missing = views.flatMap(({ agentId, agentTurnId, steps }) =>
    steps
      .flatMap((step) => step.calls)
      .filter((call) => call.status === 'success' && !BUILTINS.includes(call.tool) && !count[call.callId])
      .filter((call) => !(SUSPENDING.has(call.tool) && ledger.answeredEarly.has(call.callId)))
      .map(({ tool, callId }) => {
        const detail = `${tool} ${callId} is a success and did nothing`;
        return { check: 'success_without_effect', agentId, agentTurnId, detail };
      }),
  );
  const denied = effects
    .filter(({ callId }) => ledger.denied.has(callId))
    .map(({ tool, callId }) => ({ check: 'denied_call_ran', detail: `${tool} ${callId}` }));
  return [...twice, ...missing, ...denied];
}

/** Nothing of a turn runs on, and no workflow's tasks fail. */
async function leftWorkflows(temporal: Client): Promise<Problem[]> {
  const problems: Problem[] = [];
  for await (const { workflowId, type } of temporal.workflow.list({ query: `ExecutionStatus = 'Running'` })) {
    const description = await temporal.workflow.getHandle(workflowId).describe();
    if (description.status.name !== 'RUNNING') continue;
    if (type === 'agentTurn') problems.push({ check: 'turn_left_running', detail: workflowId });
    const attempt = description.raw.pendingWorkflowTask?.attempt ?? 0;
    if (attempt < FAILING_ATTEMPT || !description.typedSearchAttributes.get(PROBLEMS)?.includes(FAILED)) continue;
    problems.push({ check: 'failing_workflow_task', detail: `${workflowId}, attempt ${attempt}` });
  }
  return problems;
}

function explained(ledger: Ledger, view: TurnView): boolean {
  const { errorCode, reason } = view;
  if (errorCode === 'stopped' || errorCode === 'canceled') return ledger.stopReasons.has(reason ?? '');
  return OUTSIDE_CODES.has(errorCode ?? '') && wasHit(ledger, view);
}

const touched = (ledger: Ledger, view: TurnView): boolean =>
  wasHit(ledger, view) || ledger.stopReasons.has(view.reason ?? '');

function wasHit(ledger: Ledger, { agentId, agentTurnId, leasedAt, acceptedAt, endedAt }: TurnView): boolean {
  const from = (leasedAt ?? acceptedAt) - REACH_MS;
  return ledger.wasHit(agentTurnId) || ledger.agentWasHit(agentId, from, endedAt ?? Date.now());
}

function tally(values: readonly string[]): Record<string, number> {
  const count: Record<string, number> = {};
  for (const value of values) count[value] = (count[value] ?? 0) + 1;
  return count;
}

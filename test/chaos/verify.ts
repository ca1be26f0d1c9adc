/** The verdict: the store's own invariants, and what only an observer from outside can know. */
import type { Client } from '@temporalio/client';
import { builtinTool } from '../../activities/tools/builtin/registry.ts';
import { storedEvents } from '../../client/event-tail.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { ClientStore, Store } from '../../workflows/contract/store.ts';
import type { EdgeView, TurnView } from '../../workflows/contract/views.ts';
import { isTerminal } from '../../workflows/protocol/turn.ts';
import { lostTasks, waits } from './backlog-checks.ts';
import { foreignProblems } from './foreign-checks.ts';
import { badAnswers, endingOf, rightEnding } from './hostile-checks.ts';
import { type Ledger, OUTSIDE, type Problem } from './ledger.ts';
import { leftBehind } from './left.ts';
import type { Life } from './living.ts';
import { livingProblems } from './living-checks.ts';
import { readEffects, SUSPENDING, UNSAFE } from './tools.ts';
import { memoryProblems } from './worker-memory.ts';

/** How the supervisor ends a delegated turn that was to end with its parent's, and the ends of a parent's turn that count. */
const PARENT_GONE = 'the turn that waited for it has ended';
const UNSUCCESSFUL: ReadonlySet<string> = new Set(['failed', 'timeout', 'canceled']);
const CONTINUED = `WorkflowType = 'agentTurn' AND ExecutionStatus = 'ContinuedAsNew'`;
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
  readonly storeUrl: string;
  readonly temporal: Client;
  readonly ledger: Ledger;
  readonly lives: readonly Life[];
  readonly agentIds: readonly string[];
  readonly effectsPath: string;
  readonly workerPeakBytes: number | null;
}

export async function verify(deps: VerifyDeps): Promise<Verdict> {
  const { store, temporal, ledger, agentIds, effectsPath } = deps;
  const views: TurnView[] = [];
  const violations: Problem[] = [...ledger.problems];
  for (const agentId of new Set([...agentIds, ...ledger.foreign.map((request) => request.agentId)])) {
    const turns = await allTurns(store, agentId);
    const events = await allEvents(store, agentId);
    views.push(...turns);
    violations.push(
      ...overlaps(turns),
      ...taskEvents(turns, events),
      ...foreignProblems(ledger, agentId, turns, events),
    );
    violations.push(...(await lostSteers(store, ledger, agentId, turns)), ...(await wrongEdges(store, turns)));
    const life = deps.lives.find((one) => one.agentId === agentId);
    if (life) violations.push(...(await livingProblems(store, life, events)));
  }
  for (const { check, agentId, agentTurnId, detail } of await store.violations()) {
    violations.push({ check, agentId: agentId ?? '', agentTurnId: agentTurnId ?? '', detail });
  }
  const { effects } = readEffects(effectsPath);
  violations.push(...ackedTurns(ledger, views), ...wrongEffects(ledger, views, effects));
  violations.push(...(await leftBehind(deps)), ...memoryProblems(deps.workerPeakBytes));
  violations.push(...views.flatMap((view) => badAnswers(ledger, view)));
  for (const view of views) if (await lostTasks(temporal, view)) ledger.lostTasks.add(view.agentTurnId);
  waits(ledger, views);
  ledger.count('runs that continued as new', (await temporal.workflow.count(CONTINUED)).count);
  const untouched = views.filter((view) => !isTouched(ledger, view, views));
  return {
    turns: views.length,
    success: countSuccess(views),
    untouched: untouched.length,
    untouchedSuccess: countSuccess(untouched),
    endings: tally(views.map(endingOf)),
    effects: effects.length,
    violations,
    unexplained: views.flatMap((view) => unexplained(ledger, view, views)),
  };
}

const countSuccess = (views: readonly TurnView[]): number => views.filter(({ status }) => status === 'success').length;

async function allTurns(store: ClientStore, agentId: string): Promise<readonly TurnView[]> {
  const turns: TurnView[] = [];
  for (;;) {
    const page = await store.listTurns(agentId, { after: turns.at(-1)?.acceptSeq ?? 0, limit: PAGE });
    for (const turn of page) turns.push(turn);
    if (page.length < PAGE) return turns;
  }
}

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

/** An accepted steer was shown to its turn, has become a turn of its own, or was dropped with a turn that was stopped: one of them. */
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
  const dropped: string[] = [];
  for await (const { type, payload } of storedEvents(store, { agentId }))
    if (type === 'dropped' && payload.what === 'steer') dropped.push(payload.reason);
  return steers.flatMap(({ text }) => {
    const asTurn = turns.filter((turn) => turn.instruction === text).length;
    const inBox = shown.filter((one) => one === text).length;
    const gone = dropped.filter((reason) => reason.endsWith(JSON.stringify(text))).length;
    if (asTurn + gone <= 1 && inBox + gone <= 1 && asTurn + inBox + gone >= 1) return [];
    const detail = `"${text}": ${inBox} times in the box, ${asTurn} turns, ${gone} times dropped`;
    return [{ check: 'steer_lost', agentId, detail }];
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
      .filter((call) => call.status === 'success' && !builtinTool(call.tool) && !count[call.callId])
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

function unexplained(ledger: Ledger, view: TurnView, views: readonly TurnView[]): Problem[] {
  const { agentId, agentTurnId, status, errorCode, reason } = view;
  if (!isTerminal(status) || endingOf(view) === rightEnding(view) || wasStopped(ledger, view, views)) return [];
  if (ledger.lostTasks.has(agentTurnId)) return [];
  const hits = ledger.hitsOf(agentTurnId);
  const codes: readonly string[] = hits.flatMap((kind) => OUTSIDE[kind]);
  if (codes.includes(errorCode ?? '')) return [];
  const detail = `${status}/${errorCode}: ${reason}${hits.length > 0 ? `; it was hit by ${hits.join(', ')}` : ''}`;
  return [{ check: 'unexplained', agentId, agentTurnId, detail }];
}

/** By a client, or because the turn that delegated it ended without success. */
function wasStopped(ledger: Ledger, { errorCode, reason, parent }: TurnView, views: readonly TurnView[]): boolean {
  if (errorCode !== 'stopped' && errorCode !== 'canceled') return false;
  if (ledger.stopReasons.has(reason ?? '')) return true;
  const parents = views.filter(({ agentTurnId }) => agentTurnId === parent?.agentTurnId);
  return reason === PARENT_GONE && parents.some(({ status }) => UNSUCCESSFUL.has(status));
}

/** A turn that was only reset goes on as if nothing had happened. One that must not succeed counts as ended by whoever asked for it. */
const isTouched = (ledger: Ledger, view: TurnView, views: readonly TurnView[]): boolean =>
  rightEnding(view) !== 'success' ||
  ledger.lostTasks.has(view.agentTurnId) ||
  ledger.hitsOf(view.agentTurnId).some((kind) => kind !== 'reset') ||
  wasStopped(ledger, view, views);

function tally(values: readonly string[]): Record<string, number> {
  const count: Record<string, number> = {};
  for (const value of values) count[value] = (count[value] ?? 0) + 1;
  return count;
}

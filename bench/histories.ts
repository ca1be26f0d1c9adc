/** How much history a turn costs: events and bytes as the server counts them, of the turn and of the floor. */
import type { TurnHandle } from '../client/api.ts';
import { turnWorkflowId } from '../workflows/protocol/ids.ts';
import type { Side } from './comparison.ts';
import type { Lab } from './lab.ts';
import { enqueue, runFloor, runTurn, succeeded } from './turns.ts';
import { COMPARED, type Compared, LARGE_OUTPUT, type Work } from './workload.ts';

export interface HistorySize {
  readonly events: number;
  readonly bytes: number;
}

export interface TurnSize {
  readonly shape: string;
  /** Tool calls, one a step; null for the shapes that are not counted by calls. */
  readonly calls: number | null;
  readonly turn: HistorySize;
  /** The bare workflow with the same calls; null where it was not run. */
  readonly floor: HistorySize | null;
}

/** What a turn costs the server, counted in its history. */
export interface TurnCost {
  readonly events: number;
  readonly workflowTasks: number;
  /** What Temporal Cloud would bill. */
  readonly actions: number;
}

export interface StepSize {
  readonly from: number;
  readonly to: number;
  readonly eventsPerStep: number;
  readonly bytesPerStep: number;
}

export interface HistoryResults {
  readonly costs: Readonly<Record<Compared, Readonly<Record<Side, TurnCost>>>>;
  readonly sizes: readonly TurnSize[];
  readonly steps: readonly StepSize[];
  /** Events that one suspended call and its step added to a turn without calls. */
  readonly suspendingStepEvents: number;
  readonly timedOutStepEvents: number;
}

export const CALLS = [0, 1, 10, 50, 200] as const;

/** A bare workflow carries the conversation through its history: 200 calls of 10 KiB would not fit into a payload. */
const FLOOR_UP_TO = 50;

/** The start of the bare workflow, and its activities. */
const FLOOR_ACTIONS = { oneTool: 4, noTool: 2 } as const satisfies Record<Compared, number>;

/** Event counts vary a little with what shares a workflow task; of the small shapes the largest of so many runs is taken. */
const RUNS = 3;

export async function measureHistories(lab: Lab, quick: boolean): Promise<HistoryResults> {
  const runs = quick ? 1 : RUNS;
  const sizes: TurnSize[] = [];
  for (const calls of CALLS) {
    if (quick && calls > FLOOR_UP_TO) continue;
    sizes.push(await sizeOf(lab, calls === 1 ? '1 call' : `${calls} calls`, calls, runs));
  }
  const suspended = await sizeOf(lab, 'suspended, answered', null, runs, answered);
  const timedOut = await sizeOf(lab, 'suspended, timed out', null, runs, expired);
  const [none] = sizes;
  const plain = none?.turn.events ?? 0;
  return {
    costs: { oneTool: await measureCosts(lab, 'oneTool', runs), noTool: await measureCosts(lab, 'noTool', runs) },
    sizes: [...sizes, suspended, timedOut],
    steps: stepsBetween(sizes),
    suspendingStepEvents: suspended.turn.events - plain,
    timedOutStepEvents: timedOut.turn.events - plain,
  };
}

type Runner = (lab: Lab, agentId: string) => Promise<TurnHandle>;

const answered: Runner = async (lab, agentId) => {
  const turn = await enqueue(lab, agentId, { tool: 'ask', calls: 1, bytes: 0 });
  const callId = await waitingCall(turn);
  const { ack } = await turn.toolResult({ callId, status: 'success', result: { text: 'x'.repeat(LARGE_OUTPUT) } });
  if (ack !== 'applied') throw new Error(`the result of ${callId} was answered ${ack}`);
  await succeeded(turn);
  return turn;
};

const expired: Runner = (lab, agentId) => runTurn(lab, agentId, { tool: 'ask_briefly', calls: 1, bytes: 0 });

async function waitingCall(turn: TurnHandle): Promise<string> {
  for await (const event of turn.events()) {
    if (event.type !== 'state') continue;
    const [call] = (await turn.get()).waiting;
    if (call) return call.callId;
  }
  throw new Error(`turn ${turn.id} ended without waiting for anything`);
}

/** The first turn of each agent is that of a fresh agent, and the second that of a standing one. */
async function measureCosts(lab: Lab, compared: Compared, runs: number): Promise<Record<Side, TurnCost>> {
  const work = COMPARED[compared];
  const costs: Record<Side, TurnCost[]> = { floor: [], fresh: [], standing: [] };
  for (let round = 0; round < runs; round += 1) {
    costs.floor.push(await costOf(lab, await runFloor(lab, work), FLOOR_ACTIONS[compared]));
    for (const side of ['fresh', 'standing'] as const) {
      const agentId = `cost-${compared}-${round}`;
      const turn = await runTurn(lab, agentId, work);
      const { engine } = await turn.get();
      costs[side].push(await costOf(lab, turnWorkflowId(agentId, turn.id), engine?.actions ?? Number.NaN));
    }
  }
  return { floor: largest(costs.floor), fresh: largest(costs.fresh), standing: largest(costs.standing) };
}

async function costOf(lab: Lab, workflowId: string, actions: number): Promise<TurnCost> {
  const { events } = await closedSize(lab, workflowId);
  const history = await lab.temporal.client.workflow.getHandle(workflowId).fetchHistory();
  const tasks = history.events?.filter((event) => event.workflowTaskCompletedEventAttributes) ?? [];
  return { events, workflowTasks: tasks.length, actions };
}

/** Small shapes run several times, the long ones once. */
async function sizeOf(lab: Lab, shape: string, calls: number | null, runs: number, runner?: Runner): Promise<TurnSize> {
  const work: Work = { tool: 'produce', calls: calls ?? 0, bytes: LARGE_OUTPUT };
  const run = runner ?? ((_, agentId) => runTurn(lab, agentId, work));
  const turns: HistorySize[] = [];
  for (let round = 0; round < ((calls ?? 0) <= 1 ? runs : 1); round += 1) {
    const agentId = `history-${shape.replace(/\W+/g, '-')}-${round}`;
    const turn = await run(lab, agentId);
    turns.push(await closedSize(lab, turnWorkflowId(agentId, turn.id)));
  }
  return {
    shape,
    calls,
    turn: largest(turns),
    floor: calls !== null && calls <= FLOOR_UP_TO ? await closedSize(lab, await runFloor(lab, work)) : null,
  };
}

const largest = <T extends { readonly events: number }>(sizes: readonly T[]): T =>
  sizes.reduce((most, next) => (next.events > most.events ? next : most));

/** Waits until the workflow is closed: `result()` of a turn comes a little before that. */
async function closedSize(lab: Lab, workflowId: string): Promise<HistorySize> {
  const handle = lab.temporal.client.workflow.getHandle(workflowId);
  await handle.result();
  const { historyLength, historySize } = await handle.describe();
  return { events: historyLength, bytes: historySize ?? 0 };
}

function stepsBetween(sizes: readonly TurnSize[]): StepSize[] {
  return sizes.slice(1).flatMap((to, index) => {
    const from = sizes[index];
    if (!from || from.calls === null || to.calls === null) return [];
    const steps = to.calls - from.calls;
    const eventsPerStep = (to.turn.events - from.turn.events) / steps;
    const bytesPerStep = (to.turn.bytes - from.turn.bytes) / steps;
    return [{ from: from.calls, to: to.calls, eventsPerStep, bytesPerStep }];
  });
}

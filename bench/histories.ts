/** How much history a turn costs: events and bytes as the server counts them, of the turn and of its agent, and of the floor. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { TurnHandle } from '../client/agent-client.ts';
import { agentWorkflowId, turnWorkflowId } from '../workflows/protocol/ids.ts';
import { enqueue, type Lab, runFloor, runTurn, succeeded } from './lab.ts';
import { LARGE_OUTPUT, type Work } from './workload.ts';

export interface HistorySize {
  readonly events: number;
  readonly bytes: number;
}

export interface TurnSize {
  readonly shape: string;
  /** Tool calls, one a step; null for the shapes that are not counted by calls. */
  readonly calls: number | null;
  readonly turn: HistorySize;
  /** What the agent's history grew by: for the first turn of a fresh agent, and for a further one (null where none was run). */
  readonly agentFirst: HistorySize;
  readonly agentFurther: HistorySize | null;
  /** The bare workflow with the same calls; null where it was not run. */
  readonly floor: HistorySize | null;
}

export interface StepSize {
  readonly from: number;
  readonly to: number;
  readonly eventsPerStep: number;
  readonly bytesPerStep: number;
}

export interface HistoryResults {
  readonly sizes: readonly TurnSize[];
  readonly steps: readonly StepSize[];
  /** Events that one suspended call and its step added to a turn without calls. */
  readonly suspendingStepEvents: number;
  readonly timedOutStepEvents: number;
}

export const CALLS = [0, 1, 10, 50, 200] as const;

/** A bare workflow carries the conversation through its history: 200 calls of 10 KiB would not fit into a payload. */
const FLOOR_UP_TO = 50;

/** Event counts vary a little with what shares a workflow task; of the small shapes the largest of so many runs is taken. */
const RUNS = 3;

const SETTLED_MS = 10_000;

export async function measureHistories(lab: Lab, quick: boolean): Promise<HistoryResults> {
  const runs = quick ? 1 : RUNS;
  const sizes: TurnSize[] = [];
  for (const calls of CALLS) {
    if (quick && calls > 50) continue;
    sizes.push(await sizeOf(lab, calls === 1 ? '1 call' : `${calls} calls`, calls, runs));
  }
  const suspended = await sizeOf(lab, 'suspended, answered', null, runs, answered);
  const timedOut = await sizeOf(lab, 'suspended, timed out', null, runs, expired);
  const [none] = sizes;
  const plain = none?.turn.events ?? 0;
  return {
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

/** Small shapes run several times, with a further turn on the same agent; the long ones once, as their agent's part is the same. */
async function sizeOf(lab: Lab, shape: string, calls: number | null, runs: number, runner?: Runner): Promise<TurnSize> {
  const work: Work = { tool: 'produce', calls: calls ?? 0, bytes: LARGE_OUTPUT };
  const run = runner ?? ((_, agentId) => runTurn(lab, agentId, work));
  const small = (calls ?? 0) <= 1;
  const turns: HistorySize[] = [];
  const firsts: HistorySize[] = [];
  const furthers: HistorySize[] = [];
  for (let round = 0; round < (small ? runs : 1); round += 1) {
    const agentId = `history-${shape.replace(/\W+/g, '-')}-${round}`;
    turns.push(await closedSize(lab, agentId, await run(lab, agentId)));
    const first = await settledSize(lab, agentId);
    firsts.push(first);
    if (!small) continue;
    turns.push(await closedSize(lab, agentId, await run(lab, agentId)));
    const both = await settledSize(lab, agentId);
    furthers.push({ events: both.events - first.events, bytes: both.bytes - first.bytes });
  }
  return {
    shape,
    calls,
    turn: largest(turns),
    agentFirst: largest(firsts),
    agentFurther: furthers.length > 0 ? largest(furthers) : null,
    floor: calls !== null && calls <= FLOOR_UP_TO ? await describedSize(lab, await runFloor(lab, work)) : null,
  };
}

const largest = (sizes: readonly HistorySize[]): HistorySize => ({
  events: Math.max(...sizes.map((size) => size.events)),
  bytes: Math.max(...sizes.map((size) => size.bytes)),
});

async function closedSize(lab: Lab, agentId: string, turn: TurnHandle): Promise<HistorySize> {
  const workflowId = turnWorkflowId(agentId, turn.id);
  await lab.temporal.client.workflow.getHandle(workflowId).result();
  return describedSize(lab, workflowId);
}

async function describedSize(lab: Lab, workflowId: string): Promise<HistorySize> {
  const { historyLength, historySize } = await lab.temporal.client.workflow.getHandle(workflowId).describe();
  return { events: historyLength, bytes: historySize ?? 0 };
}

/** The agent's size once it has settled the turn and is idle again: `result()` comes before that. */
async function settledSize(lab: Lab, agentId: string): Promise<HistorySize> {
  const handle = lab.temporal.client.workflow.getHandle(agentWorkflowId(agentId));
  const deadline = Date.now() + SETTLED_MS;
  let before = -1;
  while (Date.now() < deadline) {
    const { historyLength, historySize, raw } = await handle.describe();
    const busy = raw.pendingWorkflowTask || raw.pendingChildren?.length || raw.pendingActivities?.length;
    if (!busy && historyLength === before) return { events: historyLength, bytes: historySize ?? 0 };
    before = busy ? -1 : historyLength;
    await sleep(100);
  }
  throw new Error(`agent ${agentId} did not come to rest within ${SETTLED_MS} ms`);
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

/** How long one turn takes, and how many run per second: ours and the floor in turns, so that what disturbs one disturbs the other. */
import { setTimeout as sleep } from 'node:timers/promises';
import { turnWorkflowId } from '../workflows/protocol/ids.ts';
import { type Lab, runFloor, runTurn } from './lab.ts';
import { inLoops, type Spread, spreadOf, timed } from './numbers.ts';
import { SMALL_OUTPUT, type Work } from './workload.ts';

export interface Latency {
  /** Until the client has the result. */
  readonly ours: Spread;
  /** Until the turn's workflow is closed, which comes a little later. */
  readonly oursClosed: Spread;
  readonly floor: Spread;
  /** The floor without its last activity, which does nothing but stand for recording the result. */
  readonly floorWithoutDelivery: Spread;
}

export interface Throughput {
  readonly loops: number;
  readonly turns: number;
  readonly oursPerSecond: number;
  readonly floorPerSecond: number;
}

const WORK: Work = { tool: 'produce', calls: 1, bytes: SMALL_OUTPUT };

/** Turns go to several agents in rotation, for an agent renders what it remembers of its earlier turns. */
const LATENCY_AGENTS = 4;
/** Lets the agent finish its books, so that they do not fall into the next measurement. */
const PAUSE_MS = 50;

const LOOPS = 16;

export async function measureLatency(lab: Lab, quick: boolean): Promise<Latency> {
  const rounds = quick ? 10 : 40;
  const warmUp = quick ? LATENCY_AGENTS : 2 * LATENCY_AGENTS;
  const ours: number[] = [];
  const oursClosed: number[] = [];
  const floor: number[] = [];
  const floorWithoutDelivery: number[] = [];
  for (let round = -warmUp; round < rounds; round += 1) {
    const bare = await timed(() => runFloor(lab, WORK));
    await sleep(PAUSE_MS);
    const barer = await timed(() => runFloor(lab, WORK, false));
    await sleep(PAUSE_MS);
    const turn = await timeTurn(lab, `latency-${Math.abs(round) % LATENCY_AGENTS}`);
    await sleep(PAUSE_MS);
    if (round < 0) continue;
    floor.push(bare);
    floorWithoutDelivery.push(barer);
    ours.push(turn.result);
    oursClosed.push(turn.closed);
  }
  return {
    ours: spreadOf(ours),
    oursClosed: spreadOf(oursClosed),
    floor: spreadOf(floor),
    floorWithoutDelivery: spreadOf(floorWithoutDelivery),
  };
}

async function timeTurn(lab: Lab, agentId: string): Promise<{ result: number; closed: number }> {
  const startedAt = performance.now();
  const turn = await runTurn(lab, agentId, WORK);
  const result = performance.now() - startedAt;
  await lab.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id)).result();
  return { result, closed: performance.now() - startedAt };
}

/** Closed loops, one agent each; ours and the floor take turns block by block. */
export async function measureThroughput(lab: Lab, quick: boolean): Promise<Throughput> {
  const blocks = quick ? 1 : 2;
  const perLoop = quick ? 3 : 7;
  const ourTurn = (loop: number) => runTurn(lab, `throughput-${loop}`, WORK);
  const floorTurn = () => runFloor(lab, WORK);
  await inLoops(LOOPS, 1, ourTurn);
  await inLoops(LOOPS, 1, floorTurn);
  let oursMs = 0;
  let floorMs = 0;
  for (let block = 0; block < blocks; block += 1) {
    oursMs += await timed(() => inLoops(LOOPS, perLoop, ourTurn));
    floorMs += await timed(() => inLoops(LOOPS, perLoop, floorTurn));
  }
  const turns = LOOPS * perLoop * blocks;
  return {
    loops: LOOPS,
    turns,
    oursPerSecond: (turns * 1_000) / oursMs,
    floorPerSecond: (turns * 1_000) / floorMs,
  };
}

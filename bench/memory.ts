/** What open turns cost a worker: its resident memory before and with them, every one waiting for an answer from outside. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkerLimits } from '../workers/worker.ts';
import type { Child } from './child.ts';
import { enqueue, type Lab, runTurn } from './lab.ts';
import { inLoops } from './numbers.ts';
import type { WorkerLook } from './worker-process.ts';
import { SMALL_OUTPUT, type Work } from './workload.ts';

export interface MemoryRow {
  readonly limits: string;
  readonly openTurns: number;
  readonly beforeBytes: number;
  readonly afterBytes: number;
}

const WARM_UP: Work = { tool: 'produce', calls: 1, bytes: SMALL_OUTPUT };
const WAITING: Work = { tool: 'ask', calls: 1, bytes: 0 };
const LOOPS = 10;
const SUSPEND_MS = 60_000;
/** For garbage collectors to come round. */
const REST_MS = 2_000;

export async function measureMemory(lab: Lab, quick: boolean): Promise<MemoryRow[]> {
  const openTurns = quick ? 20 : 100;
  const rows = [await measure(lab, 'default', 'default: 50 cached workflows a queue', openTurns, {})];
  if (quick) return rows;
  const all = { cachedWorkflows: 1_000 };
  return [...rows, await measure(lab, 'all', 'all workflows cached', openTurns, all)];
}

/** A process of its own, warmed up by as many finished turns, so that what remains is what waiting costs. */
async function measure(
  lab: Lab,
  name: string,
  limits: string,
  openTurns: number,
  workerLimits: WorkerLimits,
): Promise<MemoryRow> {
  const worker = await lab.startWorker({ limits: workerLimits });
  try {
    await inLoops(LOOPS, openTurns / LOOPS, (loop) => runTurn(lab, `memory-${name}-warm-${loop}`, WARM_UP));
    const beforeBytes = await residentBytes(worker);
    await inLoops(LOOPS, openTurns / LOOPS, async (loop, round) => {
      const turn = await enqueue(lab, `memory-${name}-${loop}-${round}`, WAITING);
      await untilSuspended(lab, turn.id);
    });
    return { limits, openTurns, beforeBytes, afterBytes: await residentBytes(worker) };
  } finally {
    await worker.stop();
  }
}

async function residentBytes(worker: Child): Promise<number> {
  await sleep(REST_MS);
  return ((await worker.ask('look')) as WorkerLook).rssBytes;
}

async function untilSuspended(lab: Lab, turnId: string): Promise<void> {
  const deadline = Date.now() + SUSPEND_MS;
  while (Date.now() < deadline) {
    if ((await lab.store.getTurnStatus(turnId)) === 'suspended') return;
    await lab.store.changed(1_000);
  }
  throw new Error(`turn ${turnId} did not suspend within ${SUSPEND_MS} ms`);
}

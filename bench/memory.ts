/** What open turns cost a worker: its resident memory before and with them, every one waiting for an answer from outside. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Lab } from './lab.ts';
import { inLoops } from './numbers.ts';
import { residentBytes } from './probes.ts';
import { suspendAll } from './suspended.ts';
import { runTurn } from './turns.ts';
import { SMALL_OUTPUT, type Work } from './workload.ts';

export interface MemoryResults {
  readonly openTurns: number;
  readonly beforeBytes: number;
  readonly afterBytes: number;
}

const WARM_UP: Work = { tool: 'produce', calls: 1, bytes: SMALL_OUTPUT };
const LOOPS = 10;
/** For garbage collectors to come round. */
const REST_MS = 2_000;

/** In a worker of its own, warmed up by as many finished turns, so that what remains is what waiting costs. */
export async function measureMemory(lab: Lab, quick: boolean): Promise<MemoryResults> {
  const openTurns = quick ? 20 : 100;
  const worker = await lab.startWorker({});
  try {
    await inLoops(LOOPS, openTurns / LOOPS, (loop) => runTurn(lab, `memory-${loop}`, WARM_UP));
    await sleep(REST_MS);
    const beforeBytes = residentBytes(worker.pid);
    await suspendAll(lab, openTurns);
    await sleep(REST_MS);
    return { openTurns, beforeBytes, afterBytes: residentBytes(worker.pid) };
  } finally {
    await worker.stop();
  }
}

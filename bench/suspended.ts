/**
 * What thousands of turns cost that wait for an answer from outside, each of an agent of its own, on one worker: until they wait, while
 * they wait, and until all have their answers and are done.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { everyAgent } from '../client/agent-pages.ts';
import type { TurnHandle } from '../client/api.ts';
import { turnWorkflowId } from '../workflows/protocol/ids.ts';
import { type Facts, gatherFacts, loadNow } from './facts.ts';
import type { Lab, StoreKind } from './lab.ts';
import { inLoops, percentile } from './numbers.ts';
import { databaseBytes, type MemorySpread, residentBytes, serverPid, watch } from './probes.ts';
import { enqueue } from './turns.ts';
import type { Work } from './workload.ts';

export interface SuspendedOptions {
  readonly turns: number;
  /** How long to leave them waiting, in seconds: long enough for what looks after them to come round. */
  readonly restSeconds: number;
}

export interface SuspendedResults {
  readonly facts: Facts;
  readonly store: StoreKind;
  readonly turns: number;
  readonly failed: number;
  readonly suspendSeconds: number;
  readonly rest: { readonly seconds: number; readonly workerCpuSeconds: number; readonly serverCpuSeconds: number };
  /** From the first answer: until the last was acknowledged, and until every agent was idle again. */
  readonly answerSeconds: number;
  readonly completeSeconds: number;
  readonly worker: {
    readonly startBytes: number;
    readonly suspending: MemorySpread;
    readonly resting: MemorySpread;
    readonly completing: MemorySpread;
  };
  readonly serverBytes: { readonly resting: number; readonly end: number };
  readonly databases: { readonly store: number; readonly temporal: number };
  /** Of the median turn, while it waits and at its end. */
  readonly events: { readonly waitingTurn: number; readonly turn: number };
}

/** Turns on their way at the same time, until they wait. */
const LOOPS = 32;
/** Callers that bring answers at the same time: as fast as they are acknowledged, whatever the worker makes of them. */
const CALLERS = 16;
const POLL_MS = 100;
const IDLE_POLL_MS = 1_000;
const SUSPEND_MS = 10 * 60_000;
/** Nothing finished for so long: something is stuck. */
const STALL_MS = 3 * 60_000;
/** Histories looked at: they are all alike. */
const SAMPLES = 20;

const WAITING: Work = { tool: 'ask', calls: 1, bytes: 0 };

export async function measureSuspended(
  lab: Lab,
  { turns: count, restSeconds }: SuspendedOptions,
  say: (line: string) => void,
): Promise<SuspendedResults> {
  const facts = await gatherFacts(lab, loadNow());
  const worker = await lab.startWorker({});
  const server = serverPid(lab);
  try {
    const startBytes = residentBytes(worker.pid);
    say(`${count} turns until they wait`);
    const suspending = await watch(worker.pid, () => suspendAll(lab, count, say));
    const turns = suspending.value;
    say(`${restSeconds} s of waiting`);
    const waitingTurn = await eventsOf(lab, turns);
    const rest = await watch(worker.pid, () => watch(server, () => sleep(restSeconds * 1_000)));
    const restingServerBytes = residentBytes(server);
    say('answers');
    const completing = await watch(worker.pid, () => answerAll(lab, turns, say));
    return {
      facts,
      store: lab.storeKind,
      turns: count,
      failed: await countFailed(lab, turns),
      suspendSeconds: suspending.seconds,
      rest: {
        seconds: rest.seconds,
        workerCpuSeconds: rest.cpuSeconds,
        serverCpuSeconds: rest.value.cpuSeconds,
      },
      answerSeconds: completing.value.answerSeconds,
      completeSeconds: completing.seconds,
      worker: { startBytes, suspending: suspending.memory, resting: rest.memory, completing: completing.memory },
      serverBytes: { resting: restingServerBytes, end: residentBytes(server) },
      databases: await databaseBytes(lab),
      events: { waitingTurn, turn: await eventsOf(lab, turns) },
    };
  } finally {
    await worker.stop();
  }
}

/** Resolves with the turns when all of them wait. */
export async function suspendAll(
  lab: Lab,
  count: number,
  say: (line: string) => void = () => {},
): Promise<TurnHandle[]> {
  const turns: TurnHandle[] = [];
  const perLoop = Math.ceil(count / LOOPS);
  await inLoops(LOOPS, perLoop, async (loop, round) => {
    const index = loop * perLoop + round;
    if (index >= count) return;
    const turn = await enqueue(lab, `suspended-${index}`, WAITING);
    await untilSuspended(lab, turn.id);
    turns.push(turn);
    if (turns.length % 500 === 0) say(`${turns.length} wait`);
  });
  return turns;
}

/** Looks by the clock: to be woken by every commit of thousands of turns would be most of this process's work. */
async function untilSuspended(lab: Lab, turnId: string): Promise<void> {
  const deadline = Date.now() + SUSPEND_MS;
  while (Date.now() < deadline) {
    const status = await lab.store.getTurnStatus(turnId);
    if (status === 'suspended') return;
    if (status !== 'queued' && status !== 'dispatched' && status !== 'running') break;
    await sleep(POLL_MS);
  }
  const { status, reason } = await lab.client.turn(turnId).get();
  throw new Error(`turn ${turnId} is ${status} (${reason}) instead of suspended`);
}

async function answerAll(
  lab: Lab,
  turns: readonly TurnHandle[],
  say: (line: string) => void,
): Promise<{ answerSeconds: number }> {
  const startedAt = performance.now();
  await inLoops(CALLERS, Math.ceil(turns.length / CALLERS), async (caller, round) => {
    const turn = turns[round * CALLERS + caller];
    if (turn) await answer(turn);
  });
  const answerSeconds = (performance.now() - startedAt) / 1_000;
  say(`all answered after ${answerSeconds.toFixed(0)} s`);
  await untilIdle(lab, say);
  return { answerSeconds };
}

async function answer(turn: TurnHandle): Promise<void> {
  const [call] = (await turn.get()).waiting;
  if (!call) throw new Error(`turn ${turn.id} waits for nothing`);
  const { ack } = await turn.toolResult({ callId: call.callId, status: 'success', result: { answer: 'yes' } });
  if (ack !== 'applied') throw new Error(`the result of ${call.callId} was answered ${ack}`);
}

async function untilIdle(lab: Lab, say: (line: string) => void): Promise<void> {
  let fewest = Number.POSITIVE_INFINITY;
  let movedAt = Date.now();
  for (let round = 0; ; round += 1) {
    const busy = (await Array.fromAsync(everyAgent(lab.store))).filter(({ status }) => status !== 'idle').length;
    if (busy === 0) return;
    if (busy < fewest) movedAt = Date.now();
    fewest = Math.min(fewest, busy);
    if (Date.now() - movedAt > STALL_MS) throw new Error(`${busy} turns do not end`);
    if (round % 30 === 0) say(`${busy} at work`);
    await sleep(IDLE_POLL_MS);
  }
}

async function countFailed(lab: Lab, turns: readonly TurnHandle[]): Promise<number> {
  let failed = 0;
  for (const { id } of turns) if ((await lab.store.getTurnStatus(id)) !== 'success') failed += 1;
  return failed;
}

/** The median turn of a sample. */
async function eventsOf(lab: Lab, turns: readonly TurnHandle[]): Promise<number> {
  const every = Math.max(1, Math.floor(turns.length / SAMPLES));
  const lengths: number[] = [];
  for (const turn of turns.filter((_, index) => index % every === 0)) {
    const { agentId } = await turn.get();
    const handle = lab.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    lengths.push((await handle.describe()).historyLength);
  }
  return percentile(lengths, 0.5);
}

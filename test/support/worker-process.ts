/** A worker in a process of its own, on the same code as production, for tests that kill or freeze it. */
import { writeSync } from 'node:fs';
import { STORE_WAIT_MS } from '../../workers/commands/worker-process.ts';
import { FolderJournal } from '../../workers/journal/folder-journal.ts';
import type { WorkerCapacity } from '../../workers/worker.ts';
import type { SessionJournal } from '../../workflows/contract/journal.ts';
import type { CommittedStep, Ending, Handover } from '../../workflows/contract/lease.ts';
import type { Store } from '../../workflows/contract/store.ts';
import { holdingApp } from './holding-app.ts';
import { startPlacedWorker, type WorkerPlace } from './placed-worker.ts';
import { storyApp } from './story.ts';

export interface WorkerProcessArgument extends WorkerPlace {
  /** That of holding-app.ts when absent. */
  readonly app?: 'holding' | 'story';
  readonly dir: string;
  readonly acceptor: boolean;
  readonly capacity: WorkerCapacity;
  /** The process kills itself right after this method of the store has committed, the first time. */
  readonly dieAfter?: FaultPoint;
  /** The process kills itself right before or right after its n-th call of this method of the store, from 1. */
  readonly dieAt?: StoreCall;
  /** The folder of journals, and before which of its records the process kills itself, from 1, if it does; none is kept when absent. */
  readonly journal?: { readonly folder: string; readonly dieBefore?: number };
  /** The process freezes right after it has claimed a call for the first time, says so, and goes on when it gets SIGCONT. */
  readonly freezeAfterClaim?: boolean;
  /** Default yes, as in the processes that our commands start. */
  readonly ownsProcess?: boolean;
}

/** A call of the store that a process does not outlive. */
export interface StoreCall {
  readonly when: 'before' | 'after';
  readonly method: 'openStep' | 'commitStepAndEnd' | 'claimCall' | 'settleCall' | 'settleCallAndOpen';
  readonly nth: number;
}

export type FaultPoint = 'commitStepAndEnd' | 'reapTurn' | 'leaseNext' | 'delegate';

const argument = JSON.parse(process.argv[2] ?? 'null') as WorkerProcessArgument;
// Our end of this pipe closes when the test is gone, however it ended.
process.stdin.resume().once('end', () => process.exit(1));
/** The store as it is, but for the one method that this process does not outlive. */
function doomed(store: Store, dieAfter: FaultPoint | undefined): Store {
  if (dieAfter === undefined) return store;
  const run = store[dieAfter] as (...args: unknown[]) => Promise<unknown>;
  const last = async (...args: unknown[]): Promise<unknown> => {
    const result = await run(...args);
    // A reap that was refused, or a lease of nothing, is not the moment.
    if (isDecisive(result)) process.kill(process.pid, 'SIGKILL');
    return result;
  };
  return { ...store, [dieAfter]: last };
}

function dyingAt(store: Store, at: StoreCall | undefined): Store {
  if (at === undefined) return store;
  const run = store[at.method] as (...args: unknown[]) => Promise<unknown>;
  let calls = 0;
  const last = async (...args: unknown[]): Promise<unknown> => {
    calls += 1;
    const isLast = calls === at.nth;
    if (isLast && at.when === 'before') process.kill(process.pid, 'SIGKILL');
    const result = await run(...args);
    if (isLast) process.kill(process.pid, 'SIGKILL');
    return result;
  };
  return { ...store, [at.method]: last };
}

function freezing(store: Store, once: boolean): Store {
  let armed = once;
  const claimCall: Store['claimCall'] = async (...args) => {
    const outcome = await store.claimCall(...args);
    if (armed && outcome.kind === 'go') {
      armed = false;
      writeSync(1, 'frozen\n');
      process.kill(process.pid, 'SIGSTOP');
    }
    return outcome;
  };
  return { ...store, claimCall };
}

function dyingJournal(
  store: Store,
  { folder, dieBefore = Number.POSITIVE_INFINITY }: NonNullable<WorkerProcessArgument['journal']>,
): SessionJournal {
  const journal = new FolderJournal(folder, store);
  let records = 0;
  return {
    demandWritable: (agentId, sessionId) => journal.demandWritable(agentId, sessionId),
    record(agentId) {
      records += 1;
      if (records === dieBefore) process.kill(process.pid, 'SIGKILL');
      return journal.record(agentId);
    },
  };
}

const isDecisive = (result: unknown): boolean => {
  if (result === null) return false;
  const { ending, handover = ending?.handover, next } = result as Partial<CommittedStep & Ending & Handover>;
  return Boolean(handover ? handover.next : next);
};

const { app = 'holding', acceptor, capacity, dieAfter, dieAt, freezeAfterClaim = false, ownsProcess = true } = argument;
const { journal } = argument;
const worker = await startPlacedWorker(argument, app === 'story' ? storyApp : holdingApp(argument.dir), {
  acceptor,
  capacity,
  ownsProcess,
  storeWaitMs: STORE_WAIT_MS,
  ...(journal ? { journalOf: (store) => dyingJournal(store, journal) } : {}),
  wrapStore: (store) => freezing(dyingAt(doomed(store, dieAfter), dieAt), freezeAfterClaim),
});
// A fault that no tool is to blame for, when the test writes something.
process.stdin.on('data', () => {
  throw new Error('of nobody');
});
process.once('SIGTERM', () => void worker.stop());
console.log('ready');
await worker.done;
process.exit(0);

/** Measures how long `step` takes, how large its state is as JSON and in memory, and how large the bundle is that it is part of. */
import { Buffer } from 'node:buffer';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { bundleWorkflows } from '../../workers/bundle.ts';
import type { KernelState } from '../../workflows/kernel/state.ts';
import { step } from '../../workflows/kernel/step.ts';
import { type MachineFacts, machineFacts } from '../facts.ts';
import { type Spread, spreadOf } from '../numbers.ts';
import { type Case, casesOf } from './cases.ts';

export const SIZES = [100, 1_000, 10_000] as const;

export interface Timing {
  readonly name: string;
  /** The times of a step in microseconds. */
  readonly micros: Spread;
}

export interface SizeResults {
  readonly handles: number;
  readonly timings: readonly Timing[];
  readonly snapshotBytes: number;
  /** The bytes of the heap that one state takes. */
  readonly heapBytes: number;
}

export interface KernelResults {
  readonly facts: MachineFacts;
  readonly sizes: readonly SizeResults[];
  readonly bundleBytes: number;
}

/** Measures all sizes; `rounds` is how often each event is fed to its state. */
export async function measureKernel(rounds: number, say: (line: string) => void): Promise<KernelResults> {
  const facts = machineFacts();
  const sizes = SIZES.map((handles) => {
    say(`${handles} handles`);
    return measureSize(handles, rounds);
  });
  say('the bundle');
  const { code } = await bundleWorkflows('ERROR');
  return { facts, sizes, bundleBytes: Buffer.byteLength(code) };
}

function measureSize(handles: number, rounds: number): SizeResults {
  const cases = casesOf(handles);
  const timings = time(cases, rounds);
  const { state } = cases.find(({ name }) => name === 'tool_results, all there') ?? { state: null };
  if (!state) throw new Error('no state to weigh');
  const snapshot = JSON.stringify(state);
  return { handles, timings, snapshotBytes: Buffer.byteLength(snapshot), heapBytes: heapBytes(snapshot, handles) };
}

/** Times the cases by turns, so that no event finds caches that it alone has filled. The first rounds only warm up. */
function time(cases: readonly Case[], rounds: number): readonly Timing[] {
  const taken = cases.map(({ name }) => ({ name, micros: [] as number[] }));
  for (let round = -Math.ceil(rounds / 2); round < rounds; round += 1) {
    for (const [index, { state, event }] of cases.entries()) {
      const startedAt = process.hrtime.bigint();
      step(state, event);
      const micros = Number(process.hrtime.bigint() - startedAt) / 1_000;
      if (round >= 0) taken[index]?.micros.push(micros);
    }
  }
  return taken.map(({ name, micros }) => ({ name, micros: spreadOf(micros) }));
}

/** How many handles are held in memory at once, so that what is measured is much more than noise. */
const WEIGHED_HANDLES = 200_000;

function heapBytes(snapshot: string, handles: number): number {
  const copies = Math.ceil(WEIGHED_HANDLES / handles);
  const before = heapUsed();
  const states = Array.from({ length: copies }, () => JSON.parse(snapshot) as KernelState);
  const after = heapUsed();
  // The states are used after the second measurement, so that they are alive until then.
  return (after - before) / states.length;
}

function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

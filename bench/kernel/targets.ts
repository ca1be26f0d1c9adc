/** What the kernel must keep to, on any machine that is not much slower than the one of the docs. */
import type { BudgetLine } from '../budget.ts';
import type { KernelResults, SizeResults } from './measure.ts';

const STEP_HANDLES = 1_000;
const STEP_MICROS = 50;
const SNAPSHOT_HANDLES = 10_000;
const SNAPSHOT_BYTES = 256 * 1024;
const BUNDLE_BYTES = 2_000_000;
/** The most that the bytes per handle may grow from the middle size to the largest, as a factor. */
const MEMORY_GROWTH = 1.2;

export function kernelTargets({ sizes, bundleBytes }: KernelResults): readonly BudgetLine[] {
  const middle = sizeOf(sizes, STEP_HANDLES);
  const largest = sizeOf(sizes, SNAPSHOT_HANDLES);
  const slowest = middle.timings.reduce((worst, next) => (next.micros.p50 > worst.micros.p50 ? next : worst));
  const growth = largest.heapBytes / largest.handles / (middle.heapBytes / middle.handles);
  return [
    line(`µs of a step at 1,000 handles, p50 of the slowest event (${slowest.name})`, slowest.micros.p50, STEP_MICROS),
    line('bytes of a snapshot at 10,000 handles', largest.snapshotBytes, SNAPSHOT_BYTES),
    line('memory per handle, 10,000 handles over 1,000', growth, MEMORY_GROWTH),
    line('bytes of the workflow bundle', bundleBytes, BUNDLE_BYTES),
  ];
}

function sizeOf(sizes: readonly SizeResults[], handles: number): SizeResults {
  const found = sizes.find((size) => size.handles === handles);
  if (found) return found;
  throw new RangeError(`the targets are about ${handles} handles, and those were not measured`);
}

const line = (what: string, measured: number, limit: number): BudgetLine => ({
  what,
  measured,
  limit,
  ok: measured <= limit,
});

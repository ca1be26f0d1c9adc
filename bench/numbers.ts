/** Small statistics. */

/** Nearest rank, so that it is a value that was measured. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

export interface Spread {
  readonly n: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

export const spreadOf = (values: readonly number[]): Spread => ({
  n: values.length,
  p50: percentile(values, 0.5),
  p99: percentile(values, 0.99),
  max: percentile(values, 1),
});

/** How long `work` took, in milliseconds. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** Runs `work` `perLoop` times in each of `loops` closed loops side by side. */
export async function inLoops(
  loops: number,
  perLoop: number,
  work: (loop: number, round: number) => Promise<unknown>,
): Promise<void> {
  const loop = async (index: number) => {
    for (let round = 0; round < perLoop; round += 1) await work(index, round);
  };
  await Promise.all(Array.from({ length: loops }, (_, index) => loop(index)));
}

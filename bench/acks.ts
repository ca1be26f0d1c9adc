/** How long `enqueue` takes until it is acknowledged: the request is in the store, and Temporal has the doorbell. */
import { enqueue, type Lab } from './lab.ts';
import { inLoops, type Spread, spreadOf, timed } from './numbers.ts';
import type { Work } from './workload.ts';

export interface AckResults {
  /** Callers at the same time, each to an agent of its own. */
  readonly one: Spread;
  readonly many: Spread;
}

export const MANY_CALLERS = 16;

const WORK: Work = { tool: 'produce', calls: 0, bytes: 0 };

/** The turns run while the next ones are accepted when a worker is there; else they stay queued. */
export async function measureAcks(lab: Lab, name: string, quick: boolean): Promise<AckResults> {
  const perCaller = quick ? 10 : 30;
  const measure = async (callers: number, rounds: number): Promise<Spread> => {
    const took: number[] = [];
    await inLoops(callers, rounds, async (caller) => {
      took.push(await timed(() => enqueue(lab, `acks-${name}-${callers}-${caller}`, WORK)));
    });
    return spreadOf(took);
  };
  // Connections and statements are made with the first calls.
  await measure(2, 5);
  return { one: await measure(1, quick ? 50 : 200), many: await measure(MANY_CALLERS, perCaller) };
}

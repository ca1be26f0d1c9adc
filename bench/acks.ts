/** How long `enqueue` takes until it is acknowledged: the request is in the store, and Temporal has been told. */
import type { CallerTask, CallerTimes } from './caller-process.ts';
import type { Child } from './child.ts';
import { type Spread, spreadOf } from './numbers.ts';

export interface AckResults {
  /** Callers at the same time, every request to an agent of its own. */
  readonly one: Spread;
  readonly many: Spread;
}

export const MANY_CALLERS = 16;

/** The turns run while the next ones are accepted when a worker is there; else they stay queued. */
export async function measureAcks(callers: Child, quick: boolean): Promise<AckResults> {
  const measure = async (count: number): Promise<Spread> => {
    const task: CallerTask = { call: 'enqueue', work: 'noTool', callers: count, ms: quick ? 300 : 1_500, pauseMs: 0 };
    return spreadOf(((await callers.ask({ ...task })) as CallerTimes).tookMs);
  };
  return { one: await measure(1), many: await measure(MANY_CALLERS) };
}

/** All the usual measurements, one after the other on one installation. */
import { measureAcks } from './acks.ts';
import { checkBudget } from './budget.ts';
import type { Child } from './child.ts';
import { compareWithFloor } from './comparison.ts';
import { gatherFacts, loadNow } from './facts.ts';
import { measureHistories } from './histories.ts';
import type { Lab } from './lab.ts';
import { measureMemory } from './memory.ts';
import type { Results } from './results.ts';
import type { Compared } from './workload.ts';

export async function measure(lab: Lab, quick: boolean, say: (line: string) => void): Promise<Results> {
  const startedAt = performance.now();
  const facts = await gatherFacts(lab, loadNow());
  const callers = await lab.startCallers();
  try {
    const { histories, comparisons } = await withWorker(lab, true, async (worker) => {
      say('histories');
      const histories = await measureHistories(lab, quick);
      say('beside a bare workflow');
      const compared = (work: Compared) => compareWithFloor({ lab, worker, callers, say }, work, quick);
      return { histories, comparisons: { oneTool: await compared('oneTool'), noTool: await compared('noTool') } };
    });
    say('memory');
    const memory = await measureMemory(lab, quick);
    // Last, because they leave queued turns behind.
    say('acknowledgements');
    const idle = await measureAcks(callers, quick);
    const busy = await withWorker(lab, false, () => measureAcks(callers, quick));
    const seconds = (performance.now() - startedAt) / 1_000;
    const budget = checkBudget(histories, comparisons, { judgesTime: !quick, store: lab.storeKind });
    return { store: lab.storeKind, facts, histories, budget, comparisons, memory, acks: { idle, busy }, seconds };
  } finally {
    await callers.stop();
  }
}

async function withWorker<T>(lab: Lab, floor: boolean, work: (worker: Child) => Promise<T>): Promise<T> {
  const worker = await lab.startWorker({ floor });
  try {
    return await work(worker);
  } finally {
    await worker.stop();
  }
}

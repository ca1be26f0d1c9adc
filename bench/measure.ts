/** All the usual measurements, one after the other on one installation. */
import { measureAcks } from './acks.ts';
import { checkBudget } from './budget.ts';
import { gatherFacts, loadNow } from './facts.ts';
import { measureHistories } from './histories.ts';
import type { Lab } from './lab.ts';
import { measureMemory } from './memory.ts';
import type { Results } from './report.ts';
import { measureLatency, measureThroughput } from './speed.ts';

export async function measure(lab: Lab, quick: boolean, say: (line: string) => void): Promise<Results> {
  const startedAt = performance.now();
  const facts = await gatherFacts(lab, loadNow());
  const { histories, latency, throughput } = await withWorker(lab, true, async () => {
    say('histories');
    const histories = await measureHistories(lab, quick);
    say('latency');
    const latency = await measureLatency(lab, quick);
    say('throughput');
    return { histories, latency, throughput: await measureThroughput(lab, quick) };
  });
  say('memory');
  const memory = await measureMemory(lab, quick);
  // Last, because they leave queued turns behind.
  say('acknowledgements');
  const idle = await measureAcks(lab, 'idle', quick);
  const busy = await withWorker(lab, false, () => measureAcks(lab, 'busy', quick));
  const seconds = (performance.now() - startedAt) / 1_000;
  const budget = checkBudget(histories);
  return { store: lab.storeKind, facts, histories, budget, latency, throughput, memory, acks: { idle, busy }, seconds };
}

async function withWorker<T>(lab: Lab, floor: boolean, work: () => Promise<T>): Promise<T> {
  const worker = await lab.startWorker({ floor });
  try {
    return await work();
  } finally {
    await worker.stop();
  }
}

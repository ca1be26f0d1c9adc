/**
 * A process that uses a store, and prints one line of JSON for each thing that happened. `accept`: one request to an agent.
 * `write`: as many requests as it can, to agents of its own, for some seconds.
 */

import { openStore } from '../../workers/open-store.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';

const [mode, storeUrl = '', agentId = '', seconds = '0'] = process.argv.slice(2);
const SIDE_BY_SIDE = 4;
const tell = (what: object) => process.stdout.write(`${JSON.stringify(what)}\n`);

const store = await openStore(storeUrl);
const accept = (agent: string) => store.accept({ agentId: agent, request: { instruction: 'go', priority: 'normal' } });
const outcome = (error: unknown) =>
  error instanceof CodedError ? { code: error.code, message: error.message } : { message: String(error) };
tell({ ready: true });

if (mode === 'accept') {
  tell(await accept(agentId).then(({ kind }) => ({ kind }), outcome));
} else {
  const until = performance.now() + 1_000 * Number(seconds);
  const told = { writes: 0, longestMs: 0, failures: [] as object[] };
  const write = async (_: unknown, index: number) => {
    while (performance.now() < until) {
      const startedAt = performance.now();
      await accept(`${agentId}-${index}-${told.writes % 50}`).catch((error) => told.failures.push(outcome(error)));
      told.writes += 1;
      told.longestMs = Math.max(told.longestMs, performance.now() - startedAt);
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, write));
  tell(told);
}
await store.close();

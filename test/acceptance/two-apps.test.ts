/** Two apps whose agents run on one worker target: each turn is worked on by workers of its own app (W2). */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import { z } from 'zod';
import { type App, defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import type { ModelAnswer } from '../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';

const open: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

/** An app with an agent and a tool of that name. */
function appOf(name: string): App {
  const tool = defineTool({
    name,
    description: 'Says whose it is.',
    parameters: z.object({}),
    sideEffects: 'unsafe',
    execute: () => ({ by: name }),
  });
  return defineApp({ agents: [defineAgent({ name })], tools: [tool] });
}

/** A model that calls the tool of that name, and then says it. */
async function modelOf(name: string): Promise<ModelServer> {
  const call: ModelAnswer = { kind: 'message', toolCalls: [{ name, arguments: {} }] };
  const model = await startModelServer({
    answer: ({ messages }) => (messages.at(-1)?.role === 'tool' ? { kind: 'message', content: `by ${name}` } : call),
  });
  open.push(() => model.close());
  return model;
}

async function started(harness: Harness, name: string): Promise<string[]> {
  const lines: string[] = [];
  await harness.startWorker(appOf(name), await modelOf(name), { log: (line) => lines.push(line) });
  return lines;
}

test.each(scenarioStores(import.meta.url))(
  'on %s: turns of two apps at once, with a worker of each',
  async (backend) => {
    const harness = await openHarness(backend);
    open.push(() => harness.close());
    expect(await started(harness, 'red')).toEqual([]);
    expect((await started(harness, 'blue')).join()).toMatch(/red: not in this app.* target worker_generic/);
    const names = Array.from({ length: 12 }, (_, index) => (index % 2 === 0 ? 'red' : 'blue'));
    const turns = await Promise.all(names.map((name) => harness.client.run(name, { instruction: 'go' })));
    for (const [index, turn] of turns.entries()) {
      const { status, deliverable, steps } = await turn.result();
      expect({ status, text: deliverable?.text }).toEqual({ status: 'success', text: `by ${names[index]}` });
      expect(steps[0]?.calls).toMatchObject([{ tool: names[index], status: 'success' }]);
    }
    expect(await harness.store.violations()).toEqual([]);
  },
);

test('a turn waits for a worker of its app, however often a worker of another one has handed it on', async () => {
  const harness = await openHarness();
  open.push(() => harness.close());
  await harness.store.registerProfiles([...appOf('red').agents.values()]);
  await started(harness, 'blue');
  const turn = await harness.client.run('red', { instruction: 'go' });
  let stall = await turn.stall();
  while (!(stall?.kind === 'activity' && stall.attempt > 10)) {
    await sleep(200);
    stall = await turn.stall();
  }
  expect(stall).toMatchObject({ message: expect.stringContaining("this worker's app has no agent red") });
  expect(await turn.get()).toMatchObject({ status: 'dispatched', stepCount: 0 });
  await started(harness, 'red');
  const { status, deliverable } = await turn.result();
  expect({ status, text: deliverable?.text }).toEqual({ status: 'success', text: 'by red' });
});

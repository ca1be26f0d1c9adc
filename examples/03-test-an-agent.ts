/**
 * A test of an agent without a model provider: a real worker, store and Temporal server, and a model that answers as it is told to. It needs a
 * Temporal server, `npx agentturn dev` in another terminal, say:
 *
 *   node 03-test-an-agent.ts                                                 beside a package.json with agentturn
 */
import assert from 'node:assert/strict';
import { connect, defineAgent, defineApp, defineTool } from 'agentturn';
import { startScriptedModel } from 'agentturn/testing';
import { startWorker } from 'agentturn/worker';
import { z } from 'zod';

const forecast = defineTool({
  name: 'forecast',
  description: 'The forecast of a city for tomorrow.',
  parameters: z.object({ city: z.string() }),
  sideEffects: 'none',
  execute: ({ city }) => ({ city, sky: 'sunny' }),
});
// A worker target of its own keeps the turns of this test apart from those of other apps on the same server.
const weather = defineAgent({ name: 'weather-under-test', workerTarget: 'tests' });
const app = defineApp({ agents: [weather], tools: [forecast] });

// The answers of the model to one turn, in their order; a turn chooses them by the marker in its request.
const model = await startScriptedModel({
  scripts: {
    rome: [
      { kind: 'message', toolCalls: [{ name: 'forecast', arguments: { city: 'Rome' } }] },
      { kind: 'message', content: 'It will be sunny in Rome.' },
    ],
  },
});
const client = await connect();
const worker = await startWorker({
  temporal: client.temporal,
  store: client.store,
  app,
  targets: ['tests'],
  model: { apiKey: undefined, baseUrl: model.url, defaultModel: 'scripted' },
});

const turn = await client.run('weather-under-test', { instruction: '[script:rome] What will the weather be?' });
const { status, deliverable, steps } = await turn.result();
assert.equal(status, 'success');
assert.equal(deliverable?.text, 'It will be sunny in Rome.');
assert.equal(steps[0]?.calls[0]?.status, 'success');
// Every answer was asked for, and no request was refused.
model.assertDone();
console.log('the agent does as it should');

await worker.stop();
await client.close();
await model.close();

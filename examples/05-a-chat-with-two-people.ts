/**
 * A chat that two people share with one agent. What they write while it is at work is collected into one next turn, in order, and the model is
 * told whose words it reads. Its model answers as it is told to. It needs a Temporal server, `npx agentturn dev` in another terminal, say:
 *
 *   node 05-a-chat-with-two-people.ts                                        beside a package.json with agentturn
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { connect, defineAgent, defineApp, defineTool } from 'agentturn';
import { startScriptedModel } from 'agentturn/testing';
import { startWorker } from 'agentturn/worker';
import { z } from 'zod';

/** Resolved by this program, so that the first turn is still at work when the others write. */
const { promise: found, resolve: find } = Promise.withResolvers<string>();
const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
const searchTables = defineTool({
  name: 'search_tables',
  description: 'Finds a restaurant with a free table.',
  parameters: z.object({ people: z.number() }),
  sideEffects: 'none',
  async execute() {
    begin();
    return { restaurant: await found };
  },
});
const host = defineAgent({ name: 'host-under-test', workerTarget: 'hosts' });
const app = defineApp({ agents: [host], tools: [searchTables] });

const model = await startScriptedModel({
  scripts: {
    table: [
      { kind: 'message', toolCalls: [{ name: 'search_tables', arguments: { people: 2 } }] },
      { kind: 'message', content: 'Da Luigi has a table for two.' },
    ],
    // The model reads who has said what.
    changes: [
      ({ messages }) => {
        const said = [...JSON.stringify(messages.at(-1)).matchAll(/from=\\+"(\w+)\\+">\\n(.*?)(?: \[script|\\n)/g)];
        return {
          kind: 'message',
          content: `Noted: ${said.map(([, who, what]) => `${who} wants ${what}`).join('; ')}.`,
        };
      },
    ],
  },
});
const client = await connect();
const { temporal, store } = client;
const worker = await startWorker({
  temporal,
  store,
  app,
  targets: ['hosts'],
  model: { apiKey: undefined, baseUrl: model.url, defaultModel: 'scripted' },
});

const chat = client.chat('host-under-test', `dinner-${randomUUID()}`);
const first = await chat.send('[script:table] Find us a table for two.', { sender: 'ann' });
await begun;
// The agent is at work: what comes now waits, and becomes one turn.
const second = await chat.send('a window seat [script:changes]', { sender: 'bob' });
const third = await chat.send('a late start', { sender: 'ann' });
for (const { payload, sender, status } of await chat.messages())
  console.log(`${sender.agentId}: ${payload.text.replace(/ ?\[script:\w+\] ?/, '')} (${status})`);
find('Da Luigi');

const ended = [await first.terminal(), await second.terminal(), await third.terminal()];
assert.equal(ended[0]?.deliverable?.text, 'Da Luigi has a table for two.');
assert.equal(ended[1]?.deliverable?.text, 'Noted: bob wants a window seat; ann wants a late start.');
assert.deepEqual(ended[2], ended[1]);
model.assertDone();
console.log(`host: ${ended[1]?.deliverable?.text}`);

await worker.stop();
await client.close();
await model.close();

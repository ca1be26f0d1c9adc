/** What a user of the package may write: an app, a worker, a turn whose one call needs approval. Prints what came of it as JSON. */
import { createRequire } from 'node:module';
import { type AgentEvent, connect, defineAgent, defineApp, defineTool, type TurnView } from 'agentturn';
import { startScriptedModel } from 'agentturn/testing';
import { startWorker } from 'agentturn/worker';
import { z } from 'zod';

const book = defineTool({
  name: 'book',
  description: 'Books a trip.',
  parameters: z.object({ city: z.string(), price: z.number().positive() }),
  sideEffects: 'idempotent',
  execute: ({ city, price }, { idempotencyKey }) => ({ booked: city, price, once: idempotencyKey !== '' }),
});
const clerk = defineAgent({
  name: 'clerk',
  governance: { rules: [{ tool: 'book', action: 'ask', reason: 'it costs money' }] },
});
const app = defineApp({ agents: [clerk], tools: [book] });

const model = await startScriptedModel([
  { kind: 'message', toolCalls: [{ name: 'book', arguments: { city: 'Rome', price: 120 } }] },
  { kind: 'message', content: 'Booked.' },
]);
const events: AgentEvent['type'][] = [];
let ended: TurnView;
{
  await using client = await connect();
  const { temporal, store } = client;
  const options = { apiKey: undefined, baseUrl: model.url, defaultModel: 'scripted' };
  const worker = await startWorker({ temporal, store, app, model: options });
  const turn = await client.run('clerk', { instruction: 'Book a trip to Rome.' });
  for await (const event of turn.events()) {
    events.push(event.type);
    if (event.type !== 'approval' || event.payload.phase !== 'asked') continue;
    const [question] = await client.approvals({ rootTurnId: turn.id });
    if (question) await turn.answer({ callId: question.callId, decision: 'approved', by: 'ann' });
  }
  ended = await turn.result();
  await worker.stop();
}
await model.close();
const loaded = Object.keys(createRequire(import.meta.url).cache);
const bundled = loaded.some((file) => file.endsWith('/webpack/lib/Compiler.js'));
console.log(JSON.stringify({ status: ended.status, text: ended.deliverable?.text, events, bundled }));

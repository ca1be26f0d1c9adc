/** As program.ts, without types, and by `require`. */
const { AgentClient, connectClient, defineAgent, defineApp, defineTool } = require('agentturn');
const { openStore } = require('agentturn/store');
const { startScriptedModel } = require('agentturn/testing');
const { startWorker } = require('agentturn/worker');
const { z } = require('zod');

const book = defineTool({
  name: 'book',
  description: 'Books a trip.',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => ({ booked: city }),
});
const agent = defineAgent({ name: 'clerk-cjs', governance: { rules: [{ tool: 'book', action: 'ask' }] } });

async function main() {
  const { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, AGENTTURN_STORE } = process.env;
  const model = await startScriptedModel([
    { kind: 'message', toolCalls: [{ name: 'book', arguments: { city: 'Rome' } }] },
    { kind: 'message', content: 'Booked.' },
  ]);
  const store = await openStore(AGENTTURN_STORE);
  const temporal = await connectClient({ address, namespace });
  const app = defineApp({ agents: [agent], tools: [book] });
  const worker = await startWorker({ temporal, store, app, model: { baseUrl: model.url, defaultModel: 'scripted' } });
  const client = new AgentClient({ temporal: temporal.client, store });
  const turn = await client.run('clerk-cjs', { instruction: 'Book a trip to Rome.' });
  const events = [];
  for await (const { type, payload } of turn.events()) {
    events.push(type);
    if (type !== 'approval' || payload.phase !== 'asked') continue;
    const [question] = await client.approvals({ rootTurnId: turn.id });
    await turn.answer({ callId: question.callId, decision: 'approved', by: 'ann' });
  }
  const { status, deliverable } = await turn.result();
  await worker.stop();
  await temporal.connection.close();
  await store.close();
  await model.close();
  const bundled = Object.keys(require.cache).some((file) => file.endsWith('/webpack/lib/Compiler.js'));
  console.log(JSON.stringify({ status, text: deliverable.text, events, bundled }));
}

void main();

/**
 * An agent that lives on between its turns: it plans its work, goes on by itself, waits for something outside and then for a person, and
 * comes to its end. Its model answers as it is told to, and its trigger is hit as a carrier would hit it. It needs a Temporal server,
 * `npx agentturn dev` in another terminal, say:
 *
 *   node 04-an-agent-that-waits.ts                                           beside a package.json with agentturn
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { AGENT_STATE_TOOLS, type AgentSchedulingPosture, connect, defineAgent, defineApp } from 'agentturn';
import { createGateway } from 'agentturn/gateway';
import { type ScriptStep, startScriptedModel } from 'agentturn/testing';
import { startWorker } from 'agentturn/worker';

const clerk = defineAgent({ name: 'clerk-under-test', workerTarget: 'clerks', builtins: [...AGENT_STATE_TOOLS] });
const app = defineApp({ agents: [clerk], tools: [] });

const say = (content: string) => ({ kind: 'message', content }) as const;
const call = (name: string, args: object, content = '') =>
  ({ kind: 'message', content, toolCalls: [{ name, arguments: args }] }) as const;
/** A call that names a work item: that of this place in the order in which the agent has made them. */
const ofItem =
  (place: number, name: string, args: (workItemId: string | undefined) => object): ScriptStep =>
  ({ messages }) =>
    call(name, args([...new Set(JSON.stringify(messages).match(/work_[0-9a-f]{16}/g))][place]));
const complete = (place: number, result_summary: string) =>
  ofItem(place, 'complete_work_item', (work_item_id) => ({ work_item_id, result_summary }));

// A turn chooses its answers by the marker in what makes it: a request, a work item, what has come from outside.
const model = await startScriptedModel({
  scripts: {
    plan: [
      call('create_work_item', { objective: '[script:order] order the desk' }),
      ofItem(0, 'create_work_item', (id) => ({ objective: '[script:delivery] see it delivered', blocked_by: [id] })),
      ofItem(1, 'create_work_item', (id) => ({ objective: '[script:bill] pay the bill', blocked_by: [id] })),
      say('It is planned.'),
    ],
    order: [complete(0, 'ordered at the shop'), say('The desk is ordered.')],
    delivery: [
      ofItem(1, 'pick_work_item', (work_item_id) => ({ work_item_id })),
      call('wait_for', { wake: 'external', reason: 'the carrier brings the desk', deadline_seconds: 86_400 }),
    ],
    carrier: [call('wait_for', { wake: 'operator_input', reason: 'the desk has a scratch: is it kept?' })],
    kept: [complete(1, 'delivered and kept'), say('The desk stays.')],
    bill: [complete(2, 'paid'), say('The bill is paid.')],
  },
});
const client = await connect();
const { temporal, store } = client;
const worker = await startWorker({
  temporal,
  store,
  app,
  targets: ['clerks'],
  model: { apiKey: undefined, baseUrl: model.url, defaultModel: 'scripted' },
});
// The gateway without a server around it: a function from a request to its response.
const gateway = createGateway({
  client,
  store,
  temporalAnswers: async () => true,
  tokens: [],
  onError: (error) => console.error(error),
});

const agent = client.agent(`clerk-${randomUUID()}`, { profile: 'clerk-under-test' });
let afterSeq = 0;

/** Follows the agent's events, and tells what it is at, until it is at that. */
async function until(wanted: AgentSchedulingPosture): Promise<void> {
  let told = '';
  for await (const { seq } of agent.events({ afterSeq })) {
    afterSeq = seq;
    const { posture, reason } = (await agent.get())?.schedulingPosture ?? { posture: 'idle', reason: '' };
    if (`${posture}: ${reason}` !== told) console.log(`${posture}: ${reason}`);
    told = `${posture}: ${reason}`;
    if (posture === wanted) return;
  }
}

/** Says that the desk is there to whoever has made the path, and returns what became of it. */
async function deliver(path: string): Promise<unknown> {
  const request = new Request(`http://gateway${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': 'delivery-1' },
    body: JSON.stringify({ note: '[script:carrier] the desk is at the door, with a scratch' }),
  });
  const { disposition } = (await (await gateway.fetch(request)).json()) as { disposition?: unknown };
  return disposition;
}

await agent.enqueue({ instruction: '[script:plan] Get me a desk.' });
await until('waiting_for_external');
const [wait] = await agent.waits({ open: true });
assert.equal(wait?.reason, 'the carrier brings the desk');

const { path } = await agent.triggers.create({ name: 'carrier' });
assert.equal(await deliver(path), 'woken');
await until('waiting_for_operator');
// A carrier that has got no answer delivers again, and it counts once.
assert.equal(await deliver(path), 'duplicate');

await agent.enqueue({ instruction: '[script:kept] Keep it.' });
await until('idle');
const items = await agent.workItems();
assert.deepEqual(
  items.map(({ state, resultSummary }) => [state, resultSummary]),
  [
    ['completed', 'ordered at the shop'],
    ['completed', 'delivered and kept'],
    ['completed', 'paid'],
  ],
);
const waits = await agent.waits();
assert.deepEqual(
  waits.map(({ kind, status }) => [kind, status]),
  [
    ['external', 'resolved'],
    ['operator', 'resolved'],
  ],
);
const turns = await agent.turns();
assert.deepEqual(
  turns.map(({ status }) => status),
  Array.from({ length: 6 }, () => 'success'),
);
// Every answer was asked for, and no request was refused.
model.assertDone();
console.log('the agent has done its work in six turns, and rested between them');

await worker.stop();
await client.close();
await model.close();

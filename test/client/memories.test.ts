/** Whose words reach whose model: runs and agents of one profile, as the model server sees their requests on the wire. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { defineAgent, defineApp } from '../../activities/app/app.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { agentWorkflowId, CONTROL_QUEUE } from '../../workflows/protocol/ids.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

describe.each(scenarioStores(import.meta.url))('two users of one profile, on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({ default: () => ({ kind: 'message', content: 'noted' }) });
    const app = defineApp({
      agents: [defineAgent({ name: 'weather' }), defineAgent({ name: 'oracle', singleton: true })],
      tools: [],
    });
    await harness.startWorker(app, model, { acceptor: true });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  /** What the model was asked with the request of these words. */
  const askedWith = (words: string): string => {
    const requests = model.requests.map(({ messages }) => JSON.stringify(messages));
    return requests.findLast((request) => request.includes(words)) ?? '';
  };
  const told = async (turn: Promise<{ result(options: { timeoutMs: number }): Promise<{ status: string }> }>) =>
    expect(await (await turn).result(WAIT)).toMatchObject({ status: 'success' });

  test('that run it: the second request has no word of the first', async () => {
    await told(harness.client.run('weather', { instruction: 'my secret is plover' }));
    await told(harness.client.run('weather', { instruction: 'what do you know of me?' }));
    expect(askedWith('my secret is plover')).toContain('plover');
    expect(askedWith('what do you know of me?')).not.toMatch(/plover|noted/);
  });

  test('that each have an agent: each remembers its own words and none of the other', async () => {
    const [ann, bob] = ['ann', 'bob'].map((id) => harness.client.agent(id, { profile: 'weather' }));
    if (!ann || !bob) throw new Error('no agents');
    await told(ann.enqueue({ instruction: 'my secret is curlew' }));
    await told(bob.enqueue({ instruction: 'what does bob know?' }));
    await told(ann.enqueue({ instruction: 'what does ann know?' }));
    expect(askedWith('what does bob know?')).not.toContain('curlew');
    expect(askedWith('what does ann know?')).toContain('curlew');
  });

  test('that name only the profile are refused, by whatever client', async () => {
    for (const agent of [harness.client.agent('weather'), harness.client.agent('weather', { profile: 'weather' })]) {
      const refused = agent.enqueue({ instruction: 'hello' });
      const message = expect.stringMatching(/client\.run\('weather'.*client\.agent\('ID', \{ profile: 'weather' \}\)/);
      await expect(refused).rejects.toMatchObject({ code: 'invalid_request', message });
    }
    expect(await harness.client.agent('weather').get()).toBeNull();
    const acceptor = await harness.temporal.client.workflow.signalWithStart('agent', {
      workflowId: agentWorkflowId('weather'),
      taskQueue: CONTROL_QUEUE,
      args: [{ agentId: 'weather' }],
      signal: 'enqueue',
      signalArgs: [{ instruction: 'hello' }],
    });
    await acceptor.result();
    expect(await harness.client.agent('weather').turns()).toEqual([]);
    const reason = expect.stringContaining('invalid_request: weather is a profile and not an agent');
    expect(await harness.store.readEvents({ agentId: 'weather' })).toMatchObject([
      { type: 'dropped', payload: { what: 'enqueue', reason } },
    ]);
  });

  test('that is one agent for all may be asked by its name', async () => {
    await told(harness.client.agent('oracle').enqueue({ instruction: 'for all to know' }));
    await told(harness.client.agent('oracle').enqueue({ instruction: 'what do all know?' }));
    expect(askedWith('what do all know?')).toContain('for all to know');
  });

  test('a run with an idempotency key is one turn, however often, and another one under another profile', async () => {
    const request = { instruction: 'once', idempotencyKey: v7() };
    const first = await harness.client.run('weather', request);
    expect((await harness.client.run('weather', request)).id).toBe(first.id);
    expect((await harness.client.run('oracle', request)).id).not.toBe(first.id);
    const other = harness.client.run('weather', { ...request, instruction: 'twice' });
    await expect(other).rejects.toMatchObject({ code: 'idempotency_conflict' });
  });

  test('a mistyped profile is refused with the nearest name, and leaves no agent', async () => {
    const message = expect.stringContaining('no profile is named wheather: did you mean weather? registered');
    const refusal = { code: 'profile_not_found', message };
    await expect(harness.client.run('wheather', { instruction: 'hi' })).rejects.toMatchObject(refusal);
    const agent = harness.client.agent('carl', { profile: 'wheather' });
    await expect(agent.enqueue({ instruction: 'hi' })).rejects.toMatchObject(refusal);
    expect(await agent.get()).toBeNull();
  });
});

/** Webhooks: what happens is told to receivers that fail, are slow, go away and come back; at least once, and in order for each agent. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import type { TellingTimes } from '../../../client/webhooks/teller.ts';
import { newWebhook, type Webhook, type WebhookInput } from '../../../client/webhooks/webhook.ts';
import { type RunningWebhooks, startWebhooks } from '../../../client/webhooks/webhooks.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import { openStore } from '../../../workers/open-store.ts';
import type { Store } from '../../../workflows/contract/store.ts';
import { TOPICS } from '../../../workflows/contract/webhooks.ts';
import { askTool, calls, say, suspended } from '../../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';
import { expectSigned, Receiver, verified } from './receiver.ts';

/** A failure is soon tried again, and what was committed late is soon found. */
const SOON = { pauseMs: 20, longestPauseMs: 200, timeoutMs: 1_000, againMs: 500, leaseMs: 3_000 };

describe.each(scenarioStores(import.meta.url))('webhooks, on %s', (backend) => {
  let harness: Harness;
  let model: ModelServer;
  let other: Store;
  const running: RunningWebhooks[] = [];
  const receivers: Receiver[] = [];
  const lines: string[] = [];

  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    parameters: z.object({}),
    execute: () => 'paid',
  });

  beforeAll(async () => {
    harness = await openHarness(backend);
    other = await openStore(harness.storeUrl);
    const steps = [calls('ask'), calls('pay'), say('the secret word')];
    model = await startModelServer({
      answer: ({ messages }) => steps[messages.filter(({ role }) => role === 'assistant').length] ?? say('more'),
    });
    const asking = defineAgent({
      name: 'asking',
      governance: { rules: [{ tool: 'pay', action: 'ask', reason: 'it costs' }] },
      budgets: { maxSteps: 50 },
    });
    // Its turns are run by nobody.
    const idle = defineAgent({ name: 'idle', workerTarget: 'nobody' });
    await harness.startWorker(defineApp({ agents: [asking, idle], tools: [askTool, pay] }), model);
  }, WAIT.timeoutMs);
  afterEach(async () => {
    await Promise.all(running.splice(0).map((each) => each.stop()));
    await Promise.all(receivers.splice(0).map((each) => each.close()));
    lines.splice(0);
  });
  afterAll(async () => {
    await other?.close();
    await harness?.close();
    await model?.close();
  });

  async function receiver(): Promise<Receiver> {
    const opened = await new Receiver().open();
    receivers.push(opened);
    return opened;
  }

  const hook = (url: string, more: Partial<WebhookInput> = {}): Webhook =>
    newWebhook({ name: 'hook', url, events: [...TOPICS], format: 'standard', ...more }, undefined, false);

  /** Begins to tell, and resolves when the webhooks are known: nothing that happens from now on is missed. */
  async function tell(webhooks: readonly Webhook[], times: TellingTimes = {}, store = harness.store) {
    for (const { id } of webhooks) await store.openWebhook(id);
    const started = startWebhooks({
      store,
      webhooks,
      times: { ...SOON, ...times },
      log: (line) => void lines.push(line),
    });
    running.push(started);
    return started;
  }

  /** Ends so many turns of an agent that nobody runs; returns their ids in the order of their ends. */
  async function ends(agentId: string, count: number): Promise<string[]> {
    const ended: string[] = [];
    for (let made = 0; made < count; made += 1) {
      const turn = await harness.client.agent(agentId, { profile: 'idle' }).enqueue({ instruction: 'x' });
      await turn.stop();
      ended.push(turn.id);
    }
    return ended;
  }

  const newAgent = (prefix = 'agent') => `${prefix}-${v7()}`;
  const view = async ({ id }: Webhook) => (await other.listWebhooks()).find(({ webhookId }) => webhookId === id);

  test('are told when a turn ended and when something waits for a person, signed, and with no word of agents', async () => {
    const to = await receiver();
    const webhook = hook(to.url);
    await ends(newAgent(), 1);
    await tell([webhook]);
    const agentId = newAgent();
    const turn = await harness.client.agent(agentId, { profile: 'asking' }).enqueue({ instruction: 'the question' });
    const [callId = ''] = await suspended(turn);
    await to.until(() => to.taken.length === 1);
    await turn.toolResult({ callId, status: 'success', result: 'the answer' });
    await to.until(() => to.taken.length === 2);
    await turn.answer({ callId: to.taken[1]?.json.data.callId, decision: 'approved' });
    await to.until(() => to.taken.length === 3);
    expect(to.taken.map(({ json }) => json)).toMatchObject([
      {
        type: 'call.waiting',
        timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
        data: { agentId, agentTurnId: turn.id, callId, tool: 'ask', deadline: expect.any(Number) },
        text: expect.stringContaining('ask waits for a result'),
      },
      { type: 'approval.asked', data: { agentTurnId: turn.id, tool: 'pay' }, text: expect.stringContaining('pay') },
      { type: 'turn.ended', data: { status: 'success', errorCode: null }, text: expect.stringContaining('success') },
    ]);
    expect(JSON.stringify(to.came)).not.toMatch(/the (question|answer|secret word)|it costs/);
    await expectSigned(to.came, webhook.secrets[0] ?? '');
    expect(new Set(to.came.map(({ id }) => id)).size).toBe(3);
    // What the receiver has taken is written down a moment later.
    while ((await view(webhook))?.agentsBehind !== 0) await other.changed(1_000);
    expect(await view(webhook)).toMatchObject({ sent: 3, failed: 0 });
    expect(lines).toEqual([]);
  });

  test('are told at least once and in order by a receiver that fails, is slow, goes away and comes back', async () => {
    const to = await receiver();
    const healthy = await receiver();
    const [webhook, beside] = [hook(to.url), hook(healthy.url, { name: 'beside' })];
    const agents = Array.from({ length: 12 }, () => newAgent());
    let asked = 0;
    to.behaviour = (_, response) => {
      asked += 1;
      if (asked % 5 === 1) return 500;
      if (asked % 5 === 2) return void response.destroy();
      // Never answered: the sender's patience ends.
      if (asked % 20 === 3) return undefined;
      return 200;
    };
    await tell([webhook, beside], { timeoutMs: 300 });
    const first = await Promise.all(agents.map((agentId) => ends(agentId, 3)));
    const reached = (count: number) => agents.every((agentId) => healthy.turnsOf(agentId).length === count);
    await healthy.until(() => reached(3));
    await to.close();
    const second = await Promise.all(agents.map((agentId) => ends(agentId, 2)));
    // What is dead delays nobody else.
    await healthy.until(() => reached(5));
    await to.open();
    const all = () => agents.every((agentId) => to.turnsOf(agentId).length === 5);
    await to.until(all);
    for (const [index, agentId] of agents.entries()) {
      const order = [...(first[index] ?? []), ...(second[index] ?? [])];
      expect(to.turnsOf(agentId)).toEqual(order);
      expect(healthy.turnsOf(agentId)).toEqual(order);
    }
    // The same message has the same id, however often it is sent.
    const ids = new Map(to.came.map(({ id, json }) => [json.data.agentTurnId, id]));
    expect(to.came.every(({ id, json }) => ids.get(json.data.agentTurnId) === id)).toBe(true);
    expect(new Set(ids.values()).size).toBe(60);
    await expectSigned(to.taken, webhook.secrets[0] ?? '');
    expect((await view(webhook))?.failed).toBeGreaterThan(0);
    expect(lines.join('\n')).toMatch(/webhook hook: a message was not taken/);
    expect(lines.join('\n')).toMatch(/webhook hook: takes messages again/);
  });

  test('an agent whose message is refused holds up no other agent', async () => {
    const to = await receiver();
    const webhook = hook(to.url);
    const [bad, good] = [newAgent(), newAgent()];
    let refuses = true;
    to.behaviour = ({ json }) => (refuses && json.data.agentId === bad ? 422 : 200);
    await tell([webhook]);
    const refused = await ends(bad, 2);
    for (let round = 0; round < 5; round += 1) await ends(good, 2);
    await to.until(() => to.turnsOf(good).length === 10);
    expect(to.turnsOf(bad)).toEqual([]);
    while ((await view(webhook))?.agentsBehind !== 1) await other.changed(1_000);
    expect(await view(webhook)).toMatchObject({ sent: 10, lastError: 'status 422' });
    // Only the first of them was tried: the next one waits behind it.
    expect(new Set(to.came.flatMap(({ json }) => (json.data.agentId === bad ? [json.data.agentTurnId] : [])))).toEqual(
      new Set([refused[0]]),
    );
    refuses = false;
    await to.until(() => to.turnsOf(bad).length === 2);
    expect(to.turnsOf(bad)).toEqual(refused);
  });

  test('a receiver that takes nothing gets one message now and then, however many agents wait', async () => {
    const to = await receiver();
    let underWay = 0;
    let most = 0;
    let isDown = true;
    to.behaviour = (_, response) => {
      if (!isDown) return 200;
      underWay += 1;
      if (to.came.length > 16) most = Math.max(most, underWay);
      setTimeout(() => {
        underWay -= 1;
        response.writeHead(503).end();
      }, 5);
      return undefined;
    };
    await tell([hook(to.url)]);
    const agents = Array.from({ length: 30 }, () => newAgent());
    await Promise.all(agents.map((agentId) => ends(agentId, 1)));
    await to.until(() => to.came.length >= 22);
    expect(most).toBe(1);
    isDown = false;
    await to.until(() => agents.every((agentId) => to.turnsOf(agentId).length === 1));
  });

  test('two processes tell each message once, and one goes on where the other stopped', async () => {
    const to = await receiver();
    const webhook = hook(to.url);
    const agentId = newAgent();
    const one = await tell([webhook]);
    await tell([webhook], {}, other);
    const first = await ends(agentId, 5);
    await to.until(() => to.turnsOf(agentId).length === 5);
    await one.stop();
    const second = await ends(agentId, 5);
    await to.until(() => to.turnsOf(agentId).length === 10);
    expect(to.turnsOf(agentId)).toEqual([...first, ...second]);
    expect(to.came).toHaveLength(10);
  });

  test('a redirect is not followed, and of a long answer little is read', async () => {
    const [to, elsewhere] = [await receiver(), await receiver()];
    const webhook = hook(to.url);
    const agentId = newAgent();
    let written = 0;
    const chunk = Buffer.alloc(64 * 1024, 'x');
    to.behaviour = (_, response) => {
      if (to.came.length === 1) {
        response.writeHead(307, { location: elsewhere.url }).end();
        return undefined;
      }
      response.writeHead(200);
      const more = () => {
        while (!response.destroyed && response.write(chunk)) written += chunk.length;
      };
      response.on('drain', more);
      more();
      return undefined;
    };
    await tell([webhook]);
    await ends(agentId, 2);
    while ((await view(webhook))?.sent !== 2) await other.changed(1_000);
    expect(elsewhere.came).toEqual([]);
    expect(await view(webhook)).toMatchObject({ failed: 1, lastError: 'status 307' });
    // What fits into the buffers between, and no more.
    expect(written).toBeLessThan(50_000_000);
  });

  test('are told of the events and agents that they want, as they want it', async () => {
    const [team, slack] = [await receiver(), await receiver()];
    await tell([
      hook(team.url, { name: 'team', agents: ['team-'], events: ['turn.ended'] }),
      hook(slack.url, { name: 'slack', format: 'slack' }),
    ]);
    const [own, foreign] = [newAgent('team'), newAgent()];
    await ends(foreign, 2);
    const turns = await ends(own, 2);
    const asked = await harness.client.agent(newAgent('team'), { profile: 'asking' }).enqueue({ instruction: 'x' });
    await suspended(asked);
    await asked.stop();
    await team.until(() => team.taken.length === 3);
    expect(team.turnsOf(own)).toEqual(turns);
    expect(team.came.every(({ json }) => json.data.agentId.startsWith('team-') && json.type === 'turn.ended')).toBe(
      true,
    );
    await slack.until(() => slack.taken.length === 6);
    expect(slack.taken.every(({ json }) => Object.keys(json).join() === 'text')).toBe(true);
    expect(slack.taken.filter(({ json }) => json.text.startsWith(`${own}: ended, `))).toHaveLength(2);
  });

  test('are signed with the new secret and the one before it, and with no older one', async () => {
    const to = await receiver();
    const input: WebhookInput = { name: 'hook', url: to.url, events: [...TOPICS], format: 'standard' };
    const first = newWebhook(input, undefined, false);
    const second = newWebhook(input, first, true);
    const third = newWebhook(input, second, true);
    expect(newWebhook(input, third, false).secrets).toEqual(third.secrets);
    expect([second.id, third.id]).toEqual([first.id, first.id]);
    await tell([third]);
    await ends(newAgent(), 1);
    await to.until(() => to.taken.length === 1);
    const [message] = to.taken;
    if (!message) throw new Error('nothing came');
    await verified(message, third.secrets[0] ?? '');
    await verified(message, second.secrets[0] ?? '');
    await expect(verified(message, first.secrets[0] ?? '')).rejects.toThrow();
  });

  test('a stop waits for the message under way, which then is not told again', async () => {
    const to = await receiver();
    const webhook = hook(to.url);
    const reached = Promise.withResolvers<() => void>();
    to.behaviour = (_, response) => {
      reached.resolve(() => void response.writeHead(204).end());
      return undefined;
    };
    const one = await tell([webhook], { timeoutMs: 60_000 });
    await ends(newAgent(), 1);
    const answer = await reached.promise;
    const stopped = one.stop();
    answer();
    await stopped;
    expect(await view(webhook)).toMatchObject({ sent: 1, agentsBehind: 0 });
  });

  if (backend === 'postgres')
    test('what is committed long after events with higher ids is told all the same', async () => {
      const to = await receiver();
      await tell([hook(to.url)]);
      const late = new pg.Client({ connectionString: harness.storeUrl });
      await late.connect();
      const agentId = newAgent();
      await late.query('begin');
      await late.query(
        `insert into events (agent_id, seq, agent_turn_id, subject, type, payload, topic, created_at)
         values ($1, 1, 'late', 's', 'task', '{"status":"success"}', 'turn.ended', 1)`,
        [agentId],
      );
      const soon = newAgent();
      await ends(soon, 2);
      await to.until(() => to.turnsOf(soon).length === 2);
      await late.query('commit');
      await late.end();
      await to.until(() => to.turnsOf(agentId).length === 1);
      expect(to.came).toHaveLength(3);
    });
});

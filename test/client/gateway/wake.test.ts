/** Triggers over HTTP: something outside that has nothing but a token wakes one agent. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { MadeTrigger } from '../../../client/api.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import type { FAILURES } from '../../../workflows/protocol/failures.ts';
import { testApp } from '../../support/app.ts';
import { askTool, calls, say, suspended } from '../../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';
import { type Answer, type GatewayBench, openGateway } from './bench.ts';

const TEXT = { 'content-type': 'text/plain' };

describe.each(scenarioStores(import.meta.url))('a trigger, on %s', (backend) => {
  let harness: Harness;
  let model: ModelServer;
  let gateway: GatewayBench;
  let temporalIsUp = true;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startModelServer({
      answer: ({ messages }) => (messages.at(-1)?.content === 'hold' ? calls('ask') : say('done')),
    });
    gateway = await openGateway(harness, { temporalAnswers: async () => temporalIsUp });
    await harness.startWorker(testApp([askTool]), model);
  }, WAIT.timeoutMs);
  beforeEach(() => void gateway.errors.splice(0));
  afterAll(async () => {
    await gateway?.server.close();
    await harness?.close();
    await model?.close();
  });

  /** An agent that has had a turn, with a trigger that was made over HTTP. */
  async function triggered(prefix = '') {
    const agent = harness.client.agent(`${prefix}agent-${v7()}`, { profile: 'tester' });
    await (await agent.enqueue({ instruction: 'hello' })).result();
    const made = await gateway.call('POST', `/v1/agents/${agent.id}/triggers`, { body: { name: 'mail' } });
    expect(made.status).toBe(201);
    const trigger: MadeTrigger = made.json;
    return { agent, trigger, log: () => harness.store.readEvents({ agentId: agent.id, limit: 1_000 }) };
  }

  const hit = (path: string, body?: unknown, headers = {}) =>
    gateway.call('POST', path, { body, token: null, headers });

  function expectRefused(answer: Answer, status: number, code: keyof typeof FAILURES): void {
    expect({ status: answer.status, ...answer.json }).toMatchObject({ status, code });
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(gateway.errors).toEqual([]);
  }

  /** The turn of that number, once it has ended. */
  async function turnOf(agentId: string, number: number) {
    for (;;) {
      const [turn] = await harness.store.listTurns(agentId, { after: number - 1, limit: 1 });
      if (turn?.endedAt) return turn;
      await harness.store.changed(200);
    }
  }

  test.each<[string, unknown, Record<string, string>, string]>([
    ['JSON', '{ "from": "ann",\n "n": [1] }', {}, '{"from":"ann","n":[1]}'],
    ['JSON of another name', { a: 1 }, { 'content-type': 'application/cloudevents+json; charset=utf-8' }, '{"a":1}'],
    ['text', 'a letter\u0000 came: ü', TEXT, 'a letter\u0000 came: ü'],
  ])('wakes its agent with %s, whoever has the token, and tells nobody whose it is', async (_, body, headers, told) => {
    const { agent, trigger } = await triggered();
    const answer = await hit(trigger.path, body, headers);
    expect({ status: answer.status, json: answer.json }).toEqual({ status: 200, json: { disposition: 'woken' } });
    const turn = await turnOf(agent.id, 2);
    expect(turn).toMatchObject({ status: 'success' });
    expect(turn.instruction).toContain(told);
    expect(await agent.triggers.list()).toMatchObject([{ hits: 1 }]);
  });

  test('that says nothing is noted, and makes no turn', async () => {
    const { agent, trigger } = await triggered();
    expect((await hit(trigger.path)).json).toEqual({ disposition: 'noted' });
    expect((await hit(trigger.path, ' \n', TEXT)).json).toEqual({ disposition: 'noted' });
    expect(await agent.get()).toMatchObject({ agent: { turnIndex: 1, came: 0 } });
  });

  test('counts a delivery that is repeated with its key once', async () => {
    const { agent, trigger } = await triggered();
    for (const name of ['idempotency-key', 'webhook-id']) {
      const key = { [name]: `${name}-7` };
      const first = await Promise.all([1, 2, 3].map(() => hit(trigger.path, { n: 1 }, key)));
      expect(first.map(({ status }) => status)).toEqual([200, 200, 200]);
      const others = first.map(({ json }) => json.disposition).filter((each) => each !== 'duplicate');
      expect(others).toHaveLength(1);
      expect((await hit(trigger.path, { n: 2 }, key)).json).toEqual({ disposition: 'duplicate' });
    }
    expect(await agent.triggers.list()).toMatchObject([{ hits: 2 }]);
  });

  test('64 hits while the agent is busy are kept, and make one turn (A9)', async () => {
    const { agent, trigger } = await triggered();
    const turn = await agent.enqueue({ instruction: 'hold' });
    const [callId = ''] = await suspended(turn);
    const answers = await Promise.all(Array.from({ length: 64 }, (_, n) => hit(trigger.path, { n })));
    expect(answers.map(({ json }) => json)).toEqual(answers.map(() => ({ disposition: 'kept' })));
    expect(await agent.get()).toMatchObject({ agent: { came: 64 } });
    await turn.toolResult({ callId, status: 'success', result: 'yes' });
    await turn.result();
    expect(await turnOf(agent.id, 3)).toMatchObject({ status: 'success' });
    expect(await agent.get()).toMatchObject({ agent: { turnIndex: 3, came: 0, pending: 0 } });
    expect(await agent.triggers.list()).toMatchObject([{ hits: 64 }]);
  });

  test('all that the system says to a busy agent is told, in order', async () => {
    const { agent } = await triggered();
    const turn = await agent.enqueue({ instruction: 'hold' });
    const [callId = ''] = await suspended(turn);
    for (const reason of ['the first', 'the second', 'the third', 'the last']) {
      const { json } = await gateway.call('POST', `/v1/agents/${agent.id}/wake`, { body: { reason } });
      expect(json).toEqual({ agentId: agent.id, disposition: 'kept' });
    }
    await turn.toolResult({ callId, status: 'success', result: 'yes' });
    const { instruction } = await turnOf(agent.id, 3);
    expect(instruction.match(/the (first|second|third|last)$/gm)).toEqual([
      'the first',
      'the second',
      'the third',
      'the last',
    ]);
  });

  test('is unknown when it is guessed, cut, changed or revoked, also while its agent is stopped', async () => {
    const { agent, trigger, log } = await triggered();
    const before = await log();
    const { token, triggerId } = trigger;
    for (const other of ['x', token.slice(0, -1), `${token}x`, token.toUpperCase(), `wk_${'A'.repeat(5_000)}`])
      expectRefused(await hit(`/v1/wake/${other}`, { n: 1 }), 404, 'trigger_unknown');
    expect((await hit('/v1/wake/%ff', { n: 1 })).status).toBeLessThan(500);
    const revoked = await gateway.call('DELETE', `/v1/agents/${agent.id}/triggers/${triggerId}`);
    expect([revoked.status, revoked.json]).toEqual([200, { revoked: true }]);
    expectRefused(await hit(trigger.path, { n: 1 }), 404, 'trigger_unknown');
    await agent.stop();
    expectRefused(await hit(trigger.path, { n: 1 }), 404, 'trigger_unknown');
    expect((await log()).filter(({ type }) => type === 'wake')).toEqual([]);
    expect(before.filter(({ type }) => type === 'wake')).toEqual([]);
  });

  test('of a stopped agent is told so, without its name, and works when it is started', async () => {
    const { agent, trigger } = await triggered();
    await agent.stop();
    const refused = await hit(trigger.path, { n: 1 }, { 'idempotency-key': 'k' });
    expectRefused(refused, 409, 'agent_stopped');
    expect(refused.text).not.toContain(agent.id);
    await agent.start();
    expect((await hit(trigger.path, { n: 1 }, { 'idempotency-key': 'k' })).json).toEqual({ disposition: 'woken' });
  });

  test.each<[string, unknown, number, keyof typeof FAILURES, Record<string, string>?]>([
    ['broken JSON', '{"n":', 400, 'invalid_request'],
    ['too much', 'x'.repeat(1_000_000), 413, 'payload_too_large', TEXT],
    ['a little too much', 'ü'.repeat(33_000), 413, 'payload_too_large', TEXT],
    ['a form', 'n=1', 415, 'unsupported_media_type', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['too long a key', { n: 1 }, 400, 'invalid_request', { 'idempotency-key': 'k'.repeat(201) }],
    ['an empty key', { n: 1 }, 400, 'invalid_request', { 'webhook-id': '' }],
  ])('with %s is refused, and counts for nothing', async (_, body, status, code, headers = {}) => {
    const { agent, trigger } = await triggered();
    expectRefused(await hit(trigger.path, body, headers), status, code);
    expect(await agent.triggers.list()).toMatchObject([{ hits: 0 }]);
    const answer = await hit(trigger.path, `${'['.repeat(30_000)}${']'.repeat(30_000)}`);
    expect(answer.status).toBeLessThan(500);
  });

  test('takes POST alone, and waits while Temporal does not answer', async () => {
    const { agent, trigger } = await triggered();
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const answer = await gateway.call(method, trigger.path, { token: null });
      expectRefused(answer, 405, 'method_not_allowed');
      expect(answer.headers.get('allow')).toBe('POST');
    }
    const { json: document } = await gateway.call('GET', '/openapi.json', { token: null });
    expect(document.paths['/v1/wake/{token}'].post.security).toEqual([]);
    temporalIsUp = false;
    try {
      expect((await hit(trigger.path, { n: 1 })).json).toMatchObject({ code: 'temporal_unreachable' });
      expect((await gateway.call('GET', `/v1/agents/${agent.id}`)).status).toBe(200);
    } finally {
      temporalIsUp = true;
      gateway.errors.splice(0);
    }
    expect(await agent.triggers.list()).toMatchObject([{ hits: 0 }]);
  });

  /** Asks so often at once, and more often until some are refused: a busy machine asks too slowly to be. Where nothing is refused, it fails. */
  async function refusedAmong<T extends { readonly status: number }>(
    first: number,
    ask: () => Promise<T>,
  ): Promise<T[]> {
    for (let times = first; times <= first * 16; times *= 2) {
      const answers = await Promise.all(Array.from({ length: times }, ask));
      const refused = answers.filter(({ status }) => status === 429);
      if (refused.length > 0) return refused;
    }
    throw new Error(`${first * 16} requests at once, and none was refused`);
  }

  test('is bounded in number, and so are guesses, which stand in the way of nobody who is known', async () => {
    const own = await openGateway(harness);
    try {
      const { trigger } = await triggered();
      const [other, more] = [await triggered(), await triggered()];
      const at = (path: string, body: unknown = { n: 1 }) => own.call('POST', path, { body, token: null });
      expect((await at(trigger.path)).status).toBe(200);
      expect((await at(other.trigger.path)).status).toBe(200);
      const refused = await refusedAmong(150, () => at(trigger.path, '""'));
      expect(Number(refused[0]?.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(refused[0]?.json).toMatchObject({ code: 'too_many_requests' });
      await refusedAmong(400, async () => {
        const guess = await at(`/v1/wake/wk_${v7()}`);
        expect([404, 429]).toContain(guess.status);
        return guess;
      });
      expect((await at(other.trigger.path)).status).toBe(200);
      // One that was never hit here waits as long as it is told.
      await harness.store.changed(1_000);
      expect([200, 429]).toContain((await at(more.trigger.path)).status);
    } finally {
      await own.server.close();
    }
  });

  test('is made, listed and revoked by those who see its agent alone', async () => {
    const [own, other] = [await triggered('team-'), await triggered()];
    const ask = (method: string, path: string, body?: unknown) =>
      gateway.call(method, path, { body, token: 'token-of-team' });
    const of = (agentId: string) => `/v1/agents/${agentId}/triggers`;
    expectRefused(await ask('POST', of(other.agent.id), { name: 'x' }), 404, 'agent_not_found');
    expectRefused(await ask('GET', of(other.agent.id)), 404, 'agent_not_found');
    const foreign = `${of(other.agent.id)}/${other.trigger.triggerId}`;
    expectRefused(await ask('DELETE', foreign), 404, 'agent_not_found');
    // That of another agent under the name of one's own.
    const planted = await ask('DELETE', `${of(own.agent.id)}/${other.trigger.triggerId}`);
    expect(planted.json).toEqual({ revoked: false });
    expectRefused(await ask('POST', `/v1/agents/${other.agent.id}/wake`, { reason: 'x' }), 404, 'agent_not_found');
    expect((await ask('GET', of(own.agent.id))).json).toMatchObject({ items: [{ name: 'mail' }], next: null });
    expect((await ask('GET', of(own.agent.id))).text).not.toContain(own.trigger.token);
    expectRefused(
      await gateway.call('POST', of(own.agent.id), { body: { name: 'x'.repeat(101) } }),
      400,
      'invalid_request',
    );
    const { json } = await ask('GET', '/v1/agents?count=true&limit=1&posture=idle');
    expect(json).toMatchObject({ items: [{ agentId: own.agent.id }], total: 1, readAt: expect.any(Number) });
    expect((await hit(other.trigger.path, { n: 1 })).json).toEqual({ disposition: 'woken' });
  });
});

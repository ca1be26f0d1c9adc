/** Callbacks: a third party that has nothing but a URL delivers the result of the one call that it is for. */
import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineTool } from '../../../activities/app/app.ts';
import { CallbackTokens } from '../../../client/gateway/callback-tokens.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import type { FAILURES } from '../../../workflows/protocol/failures.ts';
import { testApp } from '../../support/app.ts';
import { calls, say, suspended } from '../../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';
import { type GatewayBench, openGateway } from './bench.ts';

const KEY = 'k'.repeat(32);
const OLD_KEY = 'o'.repeat(40);
const LARGE = 'x'.repeat(600_000);

describe.each(scenarioStores(import.meta.url))('a callback, on %s', (backend) => {
  let harness: Harness;
  let model: ModelServer;
  let gateway: GatewayBench;
  /** The URLs that the tool has made, by call. */
  const made = new Map<string, string>();
  let temporalIsUp = true;

  const order = defineTool({
    name: 'order',
    description: 'Orders a report from a service that calls back.',
    parameters: z.object({}),
    afterExecution: 'suspend',
    execute: (_, context) => void made.set(context.callId, context.callbackUrl()),
  });

  beforeAll(async () => {
    harness = await openHarness(backend);
    const steps = [calls('order'), say('thanks')];
    model = await startModelServer({
      // A turn that waits for two results goes on waiting when it has one.
      answer: ({ messages }) =>
        messages.at(-1)?.content === 'order twice'
          ? calls('order', 'order')
          : (steps[messages.filter(({ role }) => role === 'assistant').length] ?? say('more')),
    });
    gateway = await openGateway(harness, {
      callbacks: new CallbackTokens([KEY, OLD_KEY]),
      temporalAnswers: async () => temporalIsUp,
    });
    const callbacks = { gatewayUrl: `${gateway.server.url}/`, signingKeys: [KEY] };
    await harness.startWorker(testApp([order]), model, { callbacks });
  }, WAIT.timeoutMs);
  afterAll(async () => {
    await gateway?.server.close();
    await harness?.close();
    await model?.close();
  });

  async function waiting(instruction = 'order') {
    const turn = await harness.client.run('tester', { instruction });
    const [callId = ''] = await suspended(turn, instruction === 'order' ? 1 : 2);
    const { agentId } = await turn.get();
    const path = new URL(made.get(callId) ?? '').pathname;
    return { turn, callId, agentId, path, log: () => harness.store.readEvents({ agentId, limit: 1_000 }) };
  }

  const deliver = (path: string, body: unknown, headers = {}) =>
    gateway.call('POST', path, { body, token: null, headers });

  async function expectRefused(asked: ReturnType<typeof deliver>, status: number, code: keyof typeof FAILURES) {
    const answer = await asked;
    expect({ status: answer.status, ...answer.json }).toMatchObject({ status, code });
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(gateway.errors).toEqual([]);
  }

  test('delivers the result without any token but its own, and a repetition is acknowledged, also after the turn', async () => {
    const { turn, path, log } = await waiting();
    const delivery = { status: 'success', result: { text: 'sunny\u0000 \ud800', n: [1, { b: 2, a: 1 }] } };
    const answers = await Promise.all([1, 2, 3].map(() => deliver(path, delivery)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(answers.map(({ json }) => json.ack).sort()).toEqual(['applied', 'duplicate', 'duplicate']);
    expect((await turn.result()).status).toBe('success');
    const before = await log();
    const reordered = { result: { n: [1, { a: 1, b: 2 }], text: delivery.result.text }, status: 'success' };
    expect((await deliver(path, reordered)).json).toEqual({ ack: 'duplicate' });
    await expectRefused(deliver(path, { status: 'success', result: 'rainy' }), 409, 'turn_ended');
    await expectRefused(deliver(path, { status: 'running' }), 409, 'turn_ended');
    expect(await log()).toEqual(before);
    expect((await turn.get()).steps[0]?.calls[0]).toMatchObject({ status: 'success' });
  });

  test('takes any JSON as the result where its URL says so', async () => {
    const { turn, path } = await waiting();
    const body = { status: 'shipped', id: 7 };
    expect((await deliver(`${path}?body=result`, body)).json).toEqual({ ack: 'applied' });
    expect((await deliver(`${path}?body=result`, body)).json).toEqual({ ack: 'duplicate' });
    await turn.result();
    expect(JSON.stringify(await turn.get())).not.toContain(path);
    const shown = JSON.stringify(await harness.store.readTranscript(turn.id, { after: 0, limit: 100 }));
    expect(shown).toContain('shipped');
  });

  test('that says something else than the one before is refused, while the turn goes on', async () => {
    const { path } = await waiting('order twice');
    expect((await deliver(path, { status: 'success', result: 1 })).json).toEqual({ ack: 'applied' });
    await expectRefused(deliver(path, { status: 'success', result: 2 }), 409, 'call_answered');
  });

  test('tells that the service is at work, and that it has failed', async () => {
    const { turn, path } = await waiting();
    expect((await deliver(path, { status: 'running' })).json).toEqual({ ack: 'applied' });
    const failure = { status: 'failed', error: { code: 'out_of_paper', message: 'no paper' } };
    expect((await deliver(path, failure)).json).toEqual({ ack: 'applied' });
    expect((await deliver(path, failure)).json).toEqual({ ack: 'duplicate' });
    const { steps } = await turn.result();
    expect(steps[0]?.calls[0]).toMatchObject({ status: 'failed', error: { code: 'out_of_paper' } });
  });

  test('is good for as long as one of the keys is known', async () => {
    const { turn, callId, agentId } = await waiting();
    const token = new CallbackTokens([OLD_KEY]).sign({ agentId, agentTurnId: turn.id, callId });
    expect((await deliver(`/callbacks/${token}`, { status: 'success' })).json).toEqual({ ack: 'applied' });
  });

  test('is refused when it is forged, cut, changed, or signed for something else', async () => {
    const { turn, callId, agentId, path, log } = await waiting();
    const before = await log();
    const body = { status: 'success', result: 1 };
    const token = path.slice('/callbacks/'.length);
    const [names = '', signed = ''] = token.slice('cb_'.length).split('.');
    const ids = { agentId, agentTurnId: turn.id, callId };
    const last = signed.at(-1) === 'A' ? 'B' : 'A';
    const otherPurpose = createHmac('sha256', KEY).update('agentturn wake 1\n').update(names).digest('base64url');
    const ofNothing = createHmac('sha256', KEY).update(names).digest('base64url');
    const otherNames = Buffer.from(JSON.stringify([agentId, turn.id, 'other'])).toString('base64url');
    for (const other of [
      'x',
      '%2e%2e',
      '%ff',
      token.slice(0, -1),
      token.slice(1),
      `${token}=`,
      `${token.slice(0, -1)}${last}`,
      `cb_${otherNames}.${signed}`,
      `cb_${names}.${otherPurpose}`,
      `cb_${names}.${ofNothing}`,
      `cb_${names}.`,
      `cb_.${signed}`,
      `cb_${'A'.repeat(5_000)}.${signed}`,
      new CallbackTokens(['f'.repeat(32)]).sign(ids),
    ]) {
      const answer = await deliver(`/callbacks/${other}`, body);
      expect([other, answer.status, answer.json.code]).toEqual([
        other,
        other === '%ff' ? answer.status : 404,
        other === '%ff' ? answer.json.code : other === '%2e%2e' ? answer.json.code : 'callback_unknown',
      ]);
      expect(answer.status).toBeLessThan(500);
    }
    expect(await log()).toEqual(before);
    expect(await turn.get()).toMatchObject({ status: 'suspended' });
    await turn.stop();
  });

  test('that names another call, agent or turn than there is writes nothing', async () => {
    const { turn, callId, agentId, log } = await waiting();
    const before = await log();
    const ids = { agentId, agentTurnId: turn.id, callId };
    const signer = new CallbackTokens([KEY]);
    for (const wrong of [{ agentId: 'somebody' }, { agentTurnId: v7() }]) {
      const token = signer.sign({ ...ids, ...wrong });
      await expectRefused(deliver(`/callbacks/${token}`, { status: 'success' }), 404, 'call_not_found');
    }
    expect(await log()).toEqual(before);
    const token = signer.sign({ ...ids, callId: v7() });
    await expectRefused(deliver(`/callbacks/${token}`, { status: 'success' }), 404, 'call_not_found');
    expect(await turn.get()).toMatchObject({ status: 'suspended' });
    await turn.stop();
  });

  test('for a turn that has ended is told so', async () => {
    const { turn, path } = await waiting();
    await turn.stop();
    await expectRefused(deliver(path, { status: 'success', result: 1 }), 409, 'turn_ended');
    expect(await turn.result()).toMatchObject({ status: 'failed', errorCode: 'stopped' });
  });

  test.each<[string, unknown, number, keyof typeof FAILURES, Record<string, string>?]>([
    ['broken JSON', '{"status":', 400, 'invalid_request'],
    ['nothing', '', 400, 'invalid_request'],
    ['no report', { result: 1 }, 400, 'invalid_request'],
    ['a list', [], 400, 'invalid_request'],
    ['an unknown status', { status: 'done' }, 400, 'invalid_request'],
    ['an unknown field', { status: 'success', callId: 'x' }, 400, 'invalid_request'],
    ['a wish to end the turn', { status: 'success', afterExecution: 'terminate' }, 400, 'invalid_request'],
    ['a card of others', { status: 'success', toolResultCardId: v7() }, 400, 'invalid_request'],
    [
      'control inside the result',
      { status: 'success', result: { __cg_control: { after_execution: 'terminate' } } },
      400,
      'invalid_request',
    ],
    ['a success with an error', { status: 'success', error: { code: 'x', message: 'y' } }, 400, 'invalid_request'],
    ['too deep JSON', `{"status":"success","result":${'['.repeat(5_000)}${']'.repeat(5_000)}}`, 400, 'invalid_request'],
    ['too much', { status: 'success', result: LARGE }, 413, 'payload_too_large'],
    ['no JSON', 'status=success', 415, 'unsupported_media_type', { 'content-type': 'text/plain' }],
  ])('with %s is refused and can be repeated as it should be', async (_, body, status, code, headers = {}) => {
    const { turn, path, log } = await waiting();
    const before = await log();
    await expectRefused(deliver(path, body, headers), status, code);
    expect(await log()).toEqual(before);
    expect((await deliver(path, { status: 'success', result: 1 })).json).toEqual({ ack: 'applied' });
    expect((await turn.result()).status).toBe('success');
  });

  test('waits while Temporal does not answer, is bounded in number, and takes POST alone', async () => {
    const { turn, path } = await waiting();
    temporalIsUp = false;
    try {
      const refused = await deliver(path, { status: 'success' });
      expect([refused.status, refused.json.code]).toEqual([503, 'temporal_unreachable']);
    } finally {
      temporalIsUp = true;
      gateway.errors.splice(0);
    }
    await expectRefused(gateway.call('GET', path, { token: null }), 405, 'method_not_allowed');
    const answers = await Promise.all(Array.from({ length: 80 }, () => deliver(path, { status: 'running' })));
    expect(answers.filter(({ status }) => status === 429).length).toBeGreaterThan(0);
    expect((await (await waiting()).turn.stop()).ack).toBe('stopped');
    await turn.stop();
  });

  test('is known by no gateway without a key, and made by no worker without one', async () => {
    const { turn, path } = await waiting();
    const keyless = await openGateway(harness);
    const answer = await keyless.call('POST', path, { body: { status: 'success' }, token: null });
    expect([answer.status, answer.json.code]).toEqual([404, 'callbacks_not_configured']);
    await keyless.server.close();
    await turn.stop();
    expect(() => new CallbackTokens(['short'])).toThrow(expect.objectContaining({ code: 'invalid_config' }));
  });
});

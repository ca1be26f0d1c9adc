/** The gateway: who may do what, what it refuses and how, and what it says of itself. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { SCOPES, type Scope } from '../../../client/gateway/caller.ts';
import { FAILURES } from '../../../workflows/protocol/failures.ts';
import { testApp } from '../../support/app.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { ALL, type Answer, type GatewayBench, openGateway, tokenOf } from './bench.ts';

let harness: Harness;
let gateway: GatewayBench;
let temporalIsUp = true;

beforeAll(async () => {
  harness = await openHarness();
  await harness.store.registerProfiles([...testApp([]).agents.values()]);
  gateway = await openGateway(harness, { temporalAnswers: async () => temporalIsUp });
});
beforeEach(() => void gateway.errors.splice(0));
afterAll(async () => {
  await gateway?.server.close();
  await harness?.close();
});

/** Errors: those of an answer that is no problem with this code. */
function expectProblem(answer: Answer, status: number, code: keyof typeof FAILURES): void {
  expect({ status: answer.status, ...answer.json }).toMatchObject({ status, code, title: FAILURES[code].message });
  expect(answer.headers.get('content-type')).toBe('application/problem+json');
  expect(answer.json.detail).not.toBe('');
}

/** A turn that is queued, of a new agent whose id begins like that. */
async function queued(prefix = ''): Promise<{ readonly agentId: string; readonly agentTurnId: string }> {
  const agentId = `${prefix}agent-${v7()}`;
  const { json, status } = await gateway.call('POST', `/v1/agents/${agentId}/turns`, {
    body: { instruction: 'x', profile: 'tester' },
  });
  expect(status).toBe(202);
  return json;
}

/** Every route, with what it takes. */
async function everyRoute() {
  const { agentId, agentTurnId } = await queued();
  const turn = `/v1/turns/${agentTurnId}`;
  const agent = `/v1/agents/${agentId}`;
  const said = { chatId: 'c', payload: { text: 'x' } };
  expect((await gateway.call('POST', `${agent}/messages`, { body: said })).status).toBe(202);
  const routes: readonly [Scope, string, string, unknown?][] = [
    ['read', 'GET', '/v1/caller'],
    ['read', 'GET', '/v1/agents'],
    ['read', 'GET', agent],
    ['read', 'GET', `${agent}/turns`],
    ['read', 'GET', `${agent}/work-items`],
    ['read', 'GET', `${agent}/waits?open=true`],
    ['read', 'GET', `${agent}/timers`],
    ['read', 'GET', `${agent}/triggers?after=trigger_0`],
    ['read', 'GET', '/v1/chats'],
    ['read', 'GET', `${agent}/chats/c`],
    ['read', 'GET', `${agent}/chats/c/messages?last=1`],
    ['read', 'GET', '/v1/turns'],
    ['read', 'GET', turn],
    ['read', 'GET', `${turn}/transcript`],
    ['read', 'GET', `${turn}/tree`],
    ['read', 'GET', `${turn}/stall`],
    ['read', 'GET', '/v1/approvals'],
    ['read', 'GET', '/v1/inbox'],
    ['read', 'GET', '/v1/spending?by=agent&since=0'],
    ['write', 'POST', '/v1/cards', { text: 'a' }],
    ['write', 'POST', '/v1/boxes', { texts: ['a'] }],
    ['write', 'POST', `${agent}/turns`, { instruction: 'again' }],
    ['write', 'POST', `${agent}/wake`, { reason: 'go on' }],
    ['write', 'POST', `${agent}/messages`, said],
    ['write', 'POST', `${turn}/steer`, { text: 'a' }],
    ['write', 'POST', `${turn}/tool-results/c`, { status: 'success' }],
    ['approve', 'POST', `${turn}/approvals`, { callId: 'c', decision: 'denied' }],
    ['operate', 'DELETE', `${agent}/timers/timer_0`],
    ['operate', 'POST', `${agent}/triggers`, { name: 'mail' }],
    ['operate', 'DELETE', `${agent}/triggers/trigger_0`],
    ['operate', 'PUT', `${turn}/budgets`, { maxSteps: 9 }],
    ['write', 'POST', `${turn}/stop`, {}],
    ['write', 'POST', `${turn}/interrupt`, {}],
    ['write', 'POST', `${turn}/rollback`, { reason: 'x' }],
    ['operate', 'POST', `${agent}/stop`, {}],
    ['operate', 'POST', `${agent}/start`, {}],
    ['operate', 'PUT', `${agent}/boxes`, { expectedBoxId: 'b', cardIds: [] }],
  ];
  return { agentId, agentTurnId, routes };
}

describe('who calls', () => {
  test('every route is closed without its scope, open with it, and has no effect before', async () => {
    const { agentId, agentTurnId, routes } = await everyRoute();
    const before = await harness.store.readEvents({ agentId });
    for (const [scope, method, path, body] of routes) {
      for (const other of SCOPES.filter((each) => each !== scope))
        expectProblem(await gateway.call(method, path, { body, token: tokenOf(other) }), 403, 'permission_denied');
      expectProblem(await gateway.call(method, path, { body, token: null }), 401, 'unauthenticated');
      expectProblem(await gateway.call(method, path, { body, token: 'guessed' }), 401, 'unauthenticated');
    }
    expect(await harness.store.readEvents({ agentId })).toEqual(before);
    expect(await harness.store.getTurn(agentTurnId)).toMatchObject({ status: 'dispatched' });
    for (const [scope, method, path, body] of routes) {
      const { status, text } = await gateway.call(method, path, { body, token: tokenOf(scope) });
      expect([path, text, status < 300 || path.endsWith('/boxes')]).toEqual([path, text, true]);
    }
    expect(gateway.errors).toEqual([]);
  });

  test('a token of some agents sees those, and nothing of others', async () => {
    const [own, other] = [await queued('team-'), await queued()];
    const ask = (method: string, path: string, body?: unknown) =>
      gateway.call(method, path, { body, token: 'token-of-team' });
    for (const path of ['/v1/agents', '/v1/turns']) {
      const { items } = (await ask('GET', `${path}?limit=1000`)).json;
      expect(items.some((item: { agentId: string }) => item.agentId === own.agentId)).toBe(true);
      expect(items.filter((item: { agentId: string }) => !item.agentId.startsWith('team-'))).toEqual([]);
    }
    const spending = (await ask('GET', '/v1/spending?by=agent&since=0&limit=1000')).json.items;
    expect(spending.filter(({ of }: { of: string }) => !of.startsWith('team-'))).toEqual([]);
    expect((await ask('GET', `/v1/turns/${own.agentTurnId}`)).status).toBe(200);
    const agent = `/v1/agents/${other.agentId}`;
    const turn = `/v1/turns/${other.agentTurnId}`;
    for (const path of ['', '/turns', '/events', '/work-items', '/waits', '/timers', '/triggers'].map(
      (part) => agent + part,
    ))
      expectProblem(await ask('GET', path), 404, 'agent_not_found');
    expectProblem(await ask('POST', `${agent}/turns`, { instruction: 'x', profile: 'tester' }), 404, 'agent_not_found');
    expectProblem(await ask('POST', `${agent}/stop`, {}), 404, 'agent_not_found');
    expectProblem(await ask('POST', `${agent}/wake`, { reason: 'x' }), 404, 'agent_not_found');
    expectProblem(await ask('DELETE', `${agent}/timers/timer_0`), 404, 'agent_not_found');
    for (const path of [turn, `${turn}/events`, `${turn}/stream`, `${turn}/transcript`, `${turn}/tree`])
      expectProblem(await ask('GET', path), 404, 'turn_not_found');
    expect((await ask('GET', `${turn}/stall`)).json).toEqual({ stall: null });
    const said = {
      steer: { text: 'x' },
      approvals: { callId: 'c', decision: 'approved' },
      'tool-results/c': { status: 'success' },
    };
    for (const [path, body] of Object.entries({ stop: {}, interrupt: {}, rollback: {}, ...said }))
      expect((await ask('POST', `${turn}/${path}`, body)).json).toMatchObject({ ack: 'unknown' });
    expect(await harness.store.getTurn(other.agentTurnId)).toMatchObject({ status: 'dispatched' });
    const foreign = (await harness.store.getTurn(other.agentTurnId))?.outputBoxId ?? '';
    // What is refused does not tell that there is such a thing.
    await harness.client.turn(other.agentTurnId).stop();
    const card = (await harness.store.getTurn(other.agentTurnId))?.deliverableCardId ?? '';
    const hidden = await ask('GET', `/v1/cards/${card}`);
    expectProblem(hidden, 404, 'not_found');
    expect(hidden.text).not.toContain(other.agentTurnId);
    expect((await gateway.call('GET', `/v1/cards/${card}`)).status).toBe(200);
    const cards = { expectedBoxId: 'b', cardIds: [card] };
    expectProblem(await ask('PUT', `/v1/agents/${own.agentId}/boxes`, cards), 422, 'box_unavailable');
    expectProblem(await ask('GET', `/v1/boxes/${foreign}`), 404, 'not_found');
    const request = { instruction: 'x', profile: 'tester', outputBoxId: foreign };
    expectProblem(await ask('POST', `/v1/agents/team-${v7()}/turns`, request), 422, 'box_unavailable');
  });

  test('an answer is recorded as the one whom the token names, and as nobody else', async () => {
    const { agentTurnId } = await queued();
    const body = { callId: 'c', decision: 'denied' };
    const path = `/v1/turns/${agentTurnId}/approvals`;
    expectProblem(await gateway.call('POST', path, { body: { ...body, by: 'boss' } }), 403, 'permission_denied');
    expect((await gateway.call('POST', path, { body: { ...body, by: 'ann' } })).json).toEqual({ ack: 'unknown' });
  });

  test('a token that asks too often waits, and others do not', async () => {
    const limited = await openGateway(harness, { limits: { requestsPerSecond: 5, burst: 3, streams: 1 } });
    const answers: Answer[] = [];
    for (let asked = 0; asked < 5; asked += 1) answers.push(await limited.call('GET', '/v1/agents?limit=1'));
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThanOrEqual(1);
    for (const answer of refused) expectProblem(answer, 429, 'too_many_requests');
    expect(Number(refused[0]?.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect((await limited.call('GET', '/v1/agents?limit=1', { token: 'token-of-read' })).status).toBe(200);
    await sleep(1_000);
    const { agentTurnId } = await queued();
    const headers = { authorization: `Bearer token-of-read` };
    const first = new AbortController();
    const path = `${limited.server.url}/v1/turns/${agentTurnId}/events`;
    const stream = await fetch(path, { headers, signal: first.signal });
    expect(stream.status).toBe(200);
    expectProblem(
      await limited.call('GET', `/v1/turns/${agentTurnId}/events`, { token: 'token-of-read' }),
      429,
      'too_many_requests',
    );
    first.abort();
    await limited.server.close();
  });
});

describe('HEAD of a stream', () => {
  test('answers as GET does and leaves no stream open', async () => {
    const limited = await openGateway(harness, { limits: { streams: 1 } });
    const { agentTurnId } = await queued();
    const path = `/v1/turns/${agentTurnId}/events`;
    for (let asked = 0; asked < 3; asked += 1) {
      const head = await limited.call('HEAD', path);
      expect([head.status, head.headers.get('content-type'), head.text]).toEqual([200, 'text/event-stream', '']);
    }
    const leaving = new AbortController();
    const headers = { authorization: `Bearer ${ALL}` };
    const stream = await fetch(`${limited.server.url}${path}`, { headers, signal: leaving.signal });
    expect(stream.status).toBe(200);
    leaving.abort();
    await limited.server.close();
  });
});

describe('what is wrong', () => {
  test.each<[string, string, string, unknown, number, keyof typeof FAILURES]>([
    ['an unknown path', 'GET', '/v1/agentz', undefined, 404, 'not_found'],
    ['a path outside', 'GET', '/v2/agents', undefined, 404, 'not_found'],
    ['a wrong method', 'DELETE', '/v1/agents', undefined, 405, 'method_not_allowed'],
    ['an agent id that is none', 'GET', '/v1/agents/..%2f..%2fetc', undefined, 400, 'invalid_request'],
    ['a broken escape', 'GET', '/v1/agents/%ff', undefined, 400, 'invalid_request'],
    ['an unknown query', 'GET', '/v1/agents?limt=1', undefined, 400, 'invalid_request'],
    ['a posture that is none', 'GET', '/v1/agents?posture=lazy', undefined, 400, 'invalid_request'],
    ['a wake without a reason', 'POST', '/v1/agents/a/wake', { reason: ' ' }, 400, 'invalid_request'],
    ['an id of a timer that is none', 'DELETE', '/v1/agents/a/timers/a%20b', undefined, 400, 'invalid_request'],
    ['a limit out of bounds', 'GET', '/v1/agents?limit=100000', undefined, 400, 'invalid_request'],
    ['a status that is none', 'GET', '/v1/turns?status=done', undefined, 400, 'invalid_request'],
    ['a page that is none', 'GET', '/v1/turns?before=yesterday', undefined, 400, 'invalid_request'],
    ['broken JSON', 'POST', '/v1/cards', '{"text":', 400, 'invalid_request'],
    ['JSON that is no object', 'POST', '/v1/agents/a/turns', '[]', 400, 'invalid_request'],
    ['an unknown field', 'POST', '/v1/agents/a/turns', { instruction: 'x', profil: 'tester' }, 400, 'invalid_request'],
    [
      'waiting for too long',
      'POST',
      '/v1/agents/a/turns',
      { instruction: 'x', waitSeconds: 3_600 },
      400,
      'invalid_request',
    ],
    [
      'an unknown profile',
      'POST',
      '/v1/agents/a/turns',
      { instruction: 'x', profile: 'testr' },
      422,
      'profile_not_found',
    ],
    ['a turn that is not there', 'GET', '/v1/turns/none', undefined, 404, 'turn_not_found'],
    ['a stream of none', 'GET', '/v1/turns/none/stream', undefined, 404, 'turn_not_found'],
    ['an agent that is not there', 'GET', '/v1/agents/none', undefined, 404, 'agent_not_found'],
    ['a card that is not there', 'GET', '/v1/cards/none', undefined, 404, 'not_found'],
    ['a box that is not there', 'GET', '/v1/boxes/none', undefined, 404, 'not_found'],
    [
      'too deep JSON',
      'POST',
      '/v1/cards',
      `{"value":${'['.repeat(5_000)}${']'.repeat(5_000)}}`,
      400,
      'invalid_request',
    ],
    ['a body that is too large', 'POST', '/v1/cards', { text: 'x'.repeat(2_200_000) }, 413, 'payload_too_large'],
    ['a card that is too large', 'POST', '/v1/cards', { text: 'x'.repeat(1_100_000) }, 413, 'payload_too_large'],
  ])('%s is told with its code', async (_, method, path, body, status, code) => {
    const answer = await gateway.call(method, path, { body });
    expect(gateway.errors.map(String)).toEqual([]);
    expectProblem(answer, status, code);
  });

  test('a body that is not JSON is refused by its type', async () => {
    const asked = gateway.call('POST', '/v1/cards', { body: 'text=a', headers: { 'content-type': 'text/plain' } });
    expectProblem(await asked, 415, 'unsupported_media_type');
  });

  test('a place from the future is refused, in events and in streams', async () => {
    const { agentId, agentTurnId } = await queued();
    for (const id of ['999', 'x', '-1', '1e3']) {
      const headers = { 'last-event-id': id };
      for (const path of [
        `/v1/agents/${agentId}/events`,
        `/v1/turns/${agentTurnId}/events`,
        `/v1/turns/${agentTurnId}/stream`,
      ])
        expectProblem(await gateway.call('GET', path, { headers }), 400, 'invalid_request');
    }
  });
});

describe('what it says of itself', () => {
  test('health and readiness need no token', async () => {
    expect(await gateway.call('GET', '/healthz', { token: null })).toMatchObject({
      status: 200,
      json: { status: 'ok' },
    });
    const ready = await gateway.call('GET', '/readyz', { token: null });
    expect(ready).toMatchObject({ status: 200, json: { store: 'ok', temporal: 'ok' } });
  });

  test('an idle connection is kept for longer than a load balancer keeps it', async () => {
    const { headers } = await gateway.call('GET', '/healthz', { token: null });
    expect(Number(/timeout=(\d+)/.exec(headers.get('keep-alive') ?? '')?.[1])).toBeGreaterThan(60);
  });

  test('while Temporal does not answer, all can be read and nothing is written', async () => {
    const { agentId, routes } = await everyRoute();
    const before = await harness.store.readEvents({ agentId });
    temporalIsUp = false;
    try {
      const ready = await gateway.call('GET', '/readyz', { token: null });
      expect(ready).toMatchObject({ status: 503, json: { store: 'ok', temporal: 'unreachable' } });
      for (const [, method, path, body] of routes) {
        const answer = await gateway.call(method, path, { body });
        if (method === 'GET') {
          expect([path, answer.status]).toEqual([path, path.endsWith('/stall') ? answer.status : 200]);
          expect(answer.headers.get('agentturn-temporal')).toBe('unreachable');
        } else {
          expectProblem(answer, 503, 'temporal_unreachable');
          expect(answer.headers.get('retry-after')).toBe('5');
        }
      }
      expect(await harness.store.readEvents({ agentId })).toEqual(before);
    } finally {
      temporalIsUp = true;
    }
  });

  test('the OpenAPI document names every route with its scope', async () => {
    const { json } = await gateway.call('GET', '/openapi.json', { token: null });
    expect(json.openapi).toBe('3.1.0');
    const { routes } = await everyRoute();
    const documented = Object.entries<Record<string, { security: unknown }>>(json.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { security }]) => ({ path, method, security })),
    );
    for (const [scope, method, path] of routes) {
      const plain = path.replace(/\?.*/, '');
      const found = documented.find(
        (each) =>
          each.method.toUpperCase() === method &&
          new RegExp(`^${each.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(plain),
      );
      expect(found?.security).toEqual([{ bearer: [scope] }]);
    }
  });

  test('a browser of another origin is let in nowhere', async () => {
    const answer = await gateway.call('OPTIONS', '/v1/agents', {
      headers: { origin: 'https://evil.example' },
      token: null,
    });
    expect(answer.headers.get('access-control-allow-origin')).toBeNull();
  });

  test('a gateway that stops ends its streams, and its port is free', async () => {
    const other = await openGateway(harness);
    const { agentTurnId } = await queued();
    const following = other.client.turn(agentTurnId).events();
    await following.next();
    const response = await fetch(`${other.server.url}/v1/turns/${agentTurnId}/events`, {
      headers: { authorization: 'Bearer token-of-read' },
    });
    const text = response.text();
    await other.server.close();
    // Its reader is to come back, so nothing says that this was all.
    expect(await text).not.toContain('event: done');
    await expect(fetch(`${other.server.url}/healthz`)).rejects.toThrow();
    await following.return();
  });
});

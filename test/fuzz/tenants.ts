/**
 * `npm run fuzz -- --tenants`: two tenants in one installation, a phrase planted in everything that one of them has, and every route, list, stream,
 * delegation and webhook asked for it by the other one and by tokens that may only read or are none, with all ids of the first in every place
 * that takes one. No phrase may come out, and nothing may have happened to the first. Bounded: some thousand requests, a few minutes.
 */
import { mkdtempSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { v7 } from 'uuid';
import { AgentHttpClient } from '../../client/http/http-client.ts';
import { startCli } from '../client/cli/processes.ts';

const APP = fileURLToPath(new URL('tenants-app.ts', import.meta.url));
/** How many ids stand in the second place of a path, for each in the first. */
const SECOND_IDS = 4;
/** How long a stream is listened to. */
const STREAM_MS = 150;
/** A gateway takes 100 requests a second of one token. */
const PAUSE_MS = 12;

/** Everything of one tenant. */
interface Estate {
  readonly phrase: string;
  /** Every id that somebody of another tenant might have come by. */
  readonly ids: readonly string[];
  readonly agents: readonly string[];
}

type Call = (method: string, path: string, body?: unknown) => Promise<{ status: number; text: string }>;

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const caller =
  (url: string, token: string | null, tenant?: string): Call =>
  async (method, path, body) => {
    await sleep(PAUSE_MS);
    const ending = AbortSignal.timeout(/stream|events|chat$/.test(path) ? STREAM_MS : 30_000);
    const response = await fetch(`${url}${path}`, {
      method,
      signal: ending,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(tenant === undefined ? {} : { 'agentturn-tenant': tenant }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }).catch(() => null);
    let text = '';
    try {
      for await (const part of response?.body ?? []) text += Buffer.from(part).toString();
    } catch {
      // The time of a stream is over.
    }
    return { status: response?.status ?? 0, text };
  };

/** Waits until it says so. */
async function until<T>(ask: () => Promise<T | undefined | null>): Promise<T> {
  for (let tries = 0; tries < 300; tries += 1) {
    const found = await ask();
    if (found !== undefined && found !== null) return found;
    await sleep(200);
  }
  throw new Error('it did not happen within a minute');
}

/** Plants the phrase in one of everything. */
async function plant(client: AgentHttpClient): Promise<Estate> {
  const phrase = `sesame-${v7()}`;
  const clerk = client.agent('desk', { profile: 'clerk' });
  await (await clerk.enqueue({ instruction: phrase })).result({ timeoutMs: 60_000 });
  const context = await client.writeContext([phrase]);
  const instructionCardId = await client.writeInstruction(phrase);
  const output = await client.writeResult({ phrase });
  const delegated = `call delegate_async ${JSON.stringify({ target_strategy: 'new', target_ref: 'clerk', instruction: `call ask_person {"question":"${phrase}"}` })}`;
  const parent = await client
    .agent('boss', { profile: 'clerk' })
    .enqueue({ instruction: delegated, contextBoxId: context });
  await parent.result({ timeoutMs: 60_000 });
  const asking = await clerk.enqueue({
    instruction: `call ask_person {"question":"${phrase}"}`,
    contextBoxId: context,
  });
  const paying = await client
    .agent('payer', { profile: 'clerk' })
    .enqueue({ instruction: `call pay {"to":"${phrase}"}` });
  const trigger = await clerk.triggers.create({ name: 'mail' });
  await client.agent('boss').wake({ reason: phrase });
  await client.chat('desk', 'trip', { profile: 'clerk' }).send(phrase);
  const inbox = await until(async () => {
    const found = await client.inbox();
    return found.length >= 3 ? found : null;
  });
  await client.fireTrigger(trigger.token, { text: phrase });
  const agents = await Array.fromAsync(client.listAgents({ oneShot: 'with' }));
  const turns = await Array.fromAsync(client.turns());
  const views = await Promise.all(turns.map(({ agentTurnId }) => client.turn(agentTurnId).get()));
  const entries = await Promise.all(
    turns.map(({ agentTurnId }) => Array.fromAsync(client.turn(agentTurnId).transcript())),
  );
  const ids = [
    ...agents.flatMap(({ agentId, outputBoxId }) => [agentId, agentId.replace(/^[^~]*~/, ''), outputBoxId]),
    ...views.flatMap((view) => [view.agentTurnId, view.outputBoxId, view.deliverableCardId]),
    ...inbox.map(({ callId }) => callId),
    ...Array.from(JSON.stringify(entries).matchAll(/"cardId":"([^"]+)"/g), ([, id]) => id),
    ...[context, instructionCardId, output, trigger.triggerId, 'trip', asking.id, paying.id],
  ];
  return {
    phrase,
    ids: [...new Set(ids.filter((id) => id !== null && id !== undefined))],
    agents: agents.map(({ agentId }) => agentId),
  };
}

interface Operation {
  readonly method: string;
  readonly path: string;
  readonly query: readonly string[];
  readonly body: readonly string[];
}

/** What a body must have to be taken at all. */
const BODIES: Readonly<Record<string, object>> = {
  '/v1/agents/{agentId}/turns': { instruction: 'x', profile: 'clerk' },
  '/v1/agents/{agentId}/messages': { chatId: 'trip', payload: { text: 'x' } },
  '/v1/agents/{agentId}/chat': {
    id: 'trip',
    messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'x' }] }],
  },
  '/v1/agents/{agentId}/wake': { reason: 'x' },
  '/v1/agents/{agentId}/triggers': { name: 'x' },
  '/v1/turns/{agentTurnId}/steer': { text: 'x' },
  '/v1/turns/{agentTurnId}/tool-results/{callId}': { status: 'success' },
  '/v1/turns/{agentTurnId}/approvals': { decision: 'approved' },
  '/v1/turns/{agentTurnId}/budgets': { maxSteps: 1 },
};
/** Fields of bodies that take an id, where the document does not name them. */
const ID_FIELDS = [
  'instructionCardId',
  'contextBoxId',
  'outputBoxId',
  'toolResultCardId',
  'callId',
  'chatId',
  'id',
  'expectedBoxId',
];

async function operations(url: string): Promise<readonly Operation[]> {
  type Parameter = { readonly in: string; readonly name: string };
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { parameters?: Parameter[]; requestBody?: unknown }>>;
    components: { schemas: Record<string, { properties?: object }> };
  };
  const takes = (body: unknown, name: string): boolean => {
    const text = JSON.stringify(body);
    const [, named = ''] = /#\/components\/schemas\/(\w+)/.exec(text) ?? [];
    return `${text}${JSON.stringify(document.components.schemas[named] ?? {})}`.includes(`"${name}"`);
  };
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], requestBody }]) => ({
      method: method.toUpperCase(),
      path,
      query: parameters.filter((parameter) => parameter.in === 'query').map(({ name }) => name),
      body: requestBody === undefined ? [] : ID_FIELDS.filter((name) => takes(requestBody, name)),
    })),
  );
}

/** The requests of an operation with ids in every place that takes one. */
function* requests({ method, path, query, body }: Operation, ids: readonly string[]) {
  const places = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  const base = BODIES[path] ?? {};
  const fill = (values: readonly string[]) =>
    places.reduce((filled, name, at) => filled.replace(`{${name}}`, encodeURIComponent(values[at] ?? '')), path);
  const combinations: (readonly string[])[] =
    places.length === 0
      ? [[]]
      : places.length === 1
        ? ids.map((id) => [id])
        : ids.flatMap((first) =>
            ids
              .filter((id) => id.length < 70)
              .slice(0, SECOND_IDS)
              .map((second) => [first, second]),
          );
  for (const values of combinations) {
    const filled = fill(values);
    if (body.length === 0) yield { method, path: filled, body: undefined };
    else yield { method, path: filled, body: base };
  }
  const [first = []] = combinations;
  for (const name of query)
    for (const id of ids)
      yield {
        method,
        path: `${fill(first)}?${name}=${encodeURIComponent(id)}&limit=100`,
        body: body.length > 0 ? base : undefined,
      };
  for (const name of body)
    for (const id of ids) {
      const { instruction: _, ...others } = base as { readonly instruction?: string };
      const own = name === 'instructionCardId' ? others : base;
      yield { method, path: fill(places.map(() => `own-${v7().slice(-8)}`)), body: { ...own, [name]: id } };
    }
  if (path.endsWith('/boxes') && method === 'PUT')
    yield { method, path: fill(['desk']), body: { expectedBoxId: 'b', cardIds: ids } };
}

/** Asks an agent of the attacker's own for everything by delegation, and reads what has become of it. */
async function delegations(client: AgentHttpClient, { agents, ids }: Estate): Promise<string> {
  let said = '';
  const calls = agents.flatMap((agent) => [
    `call ask_expert ${JSON.stringify({ agent_id: agent, question: 'x', instruction: 'x' })}`,
    `call delegate_async ${JSON.stringify({ target_strategy: 'clone', target_ref: agent, instruction: 'x' })}`,
    `call delegate_async ${JSON.stringify({ target_strategy: 'reuse', target_ref: agent, instruction: 'x' })}`,
    `call agent_get ${JSON.stringify({ agent_id: agent })}`,
  ]);
  const boxes = ids.filter((id) => /^[\da-f-]{36}$/.test(id)).slice(0, 20);
  calls.push(
    ...boxes.flatMap((id) => [
      `call delegate_async ${JSON.stringify({ target_strategy: 'new', target_ref: 'clerk', instruction: 'x', context_box_id: id })}`,
      `call read_result ${JSON.stringify({ call_id: id })}`,
    ]),
  );
  for (const [index, instruction] of calls.entries()) {
    const turn = await client.agent(`spy-${index}`, { profile: 'clerk' }).enqueue({ instruction });
    await turn.result({ timeoutMs: 60_000 });
    said += JSON.stringify(await Array.fromAsync(turn.transcript()));
  }
  for await (const each of client.turns())
    said += JSON.stringify(await Array.fromAsync(client.turn(each.agentTurnId).transcript()));
  return said;
}

/** The log of everything that a tenant has. */
const logOf = async (call: Call, agents: readonly string[]) => {
  const states: string[] = [];
  for (const agent of agents)
    states.push((await call('GET', `/v1/agents/${agent}`)).text, (await call('GET', `/v1/agents/${agent}/turns`)).text);
  return states.join('\n').replaceAll(/"readAt":\d+/g, '');
};

/** What is read twice with a pause between, and is the same. */
async function settled(read: () => Promise<string>): Promise<string> {
  let before = await read();
  for (let tries = 0; tries < 10; tries += 1) {
    await sleep(3_000);
    const now = await read();
    if (now === before) return now;
    console.log(`waits until all rests: ${difference(before, now)}`);
    before = now;
  }
  throw new Error('the first tenant does not come to rest');
}

/** The first place at which two texts differ. */
function difference(one: string, other: string): string {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  return `${one.slice(Math.max(0, at - 200), at + 100)} → ${other.slice(at, at + 100)}`;
}

/** Whether the border held; what was wrong is printed. */
export async function tenantsHold(): Promise<boolean> {
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-fuzz-'));
  const heard: string[] = [];
  const receiver = createServer((request, reply) => {
    request.setEncoding('utf8').on('data', (text: string) => void heard.push(text));
    request.on('end', () => reply.end());
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  const hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const made = async (name: string, ...options: string[]) =>
    (await startCli(['gateway', 'token', name, ...options, '--data-dir', dir]).finished()).stdout.trim();
  const ALL = 'read,write,approve,operate';
  const tokens = {
    acme: await made('acme', '--scopes', ALL, '--tenant', 'acme'),
    beta: await made('beta', '--scopes', ALL, '--tenant', 'beta'),
    reader: await made('reader', '--scopes', 'read', '--tenant', 'beta'),
    narrow: await made('narrow', '--scopes', ALL, '--agents', 'acme,desk'),
    begins: await made('begins', '--scopes', ALL, '--tenant', 'acm'),
  };
  await startCli(['gateway', 'webhook', 'spy', '--url', hook, '--tenant', 'beta', '--data-dir', dir]).finished();
  const env = { AGENTTURN_GATEWAY_PORT: '0', NODE_OPTIONS: '--conditions=agentturn:source' };
  const dev = startCli(['dev', '--app', APP, '--data-dir', dir, '--port', '0', '--ui-port', '0', '--json'], { env });
  const wrong: string[] = [];
  try {
    const [line] = await dev.until(/\{"ready".*\n/);
    const { url } = (JSON.parse(line) as { ready: { gateway: { url: string } } }).ready.gateway;
    const estate = await plant(new AgentHttpClient({ url, token: tokens.acme }));
    const owner = caller(url, tokens.acme);
    const before = await settled(() => logOf(owner, estate.agents));
    if (!before.includes(estate.phrase)) wrong.push('the phrase was not planted');
    const callers: readonly (readonly [string, Call])[] = [
      ['beta', caller(url, tokens.beta)],
      ['beta, for acme', caller(url, tokens.beta, 'acme')],
      ['beta, reading', caller(url, tokens.reader)],
      ['operators of a part', caller(url, tokens.narrow)],
      ['acm', caller(url, tokens.begins)],
      ['a token that is none', caller(url, `${tokens.acme}x`)],
    ];
    const all = await operations(url);
    let asked = 0;
    const askedBy = async ([name, call]: (typeof callers)[number]): Promise<void> => {
      for (const operation of all) {
        for (const request of requests(operation, estate.ids)) {
          const { status, text } = await call(request.method, request.path, request.body);
          asked += 1;
          if (text.includes(estate.phrase)) wrong.push(`${name}: ${request.method} ${request.path} told the phrase`);
          if (status >= 500)
            wrong.push(`${name}: ${request.method} ${request.path} answered ${status}: ${text.slice(0, 200)}`);
        }
      }
      console.log(`${name}: everything was asked, ${asked} requests so far`);
    };
    await Promise.all(callers.map(askedBy));
    if ((await delegations(new AgentHttpClient({ url, token: tokens.beta }), estate)).includes(estate.phrase))
      wrong.push('a delegation told the phrase');
    const after = await logOf(owner, estate.agents);
    if (after !== before) wrong.push(`something happened to the first tenant: ${difference(before, after)}`);
    const told = heard.join('\n');
    if (estate.agents.some((agent) => told.includes(`"${agent}"`)) || told.includes(estate.phrase))
      wrong.push('a webhook told of the first tenant');
    if (!told.includes('beta~')) wrong.push('the webhook was told of nothing at all');
    console.log(`${asked} requests, ${heard.length} messages of the webhook: ${wrong.length === 0 ? 'held' : 'WRONG'}`);
  } finally {
    await dev.end('SIGTERM');
    receiver.close();
  }
  for (const each of wrong.slice(0, 20)) console.log(`WRONG: ${each}`);
  return wrong.length === 0;
}

/** A chat front end, `useChat` of the AI SDK in a browser, talks to agents through a gateway. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Hono } from 'hono';
import { proxy } from 'hono/proxy';
import type { Browser, Page } from 'playwright-core';
import { v7 } from 'uuid';
import webpack from 'webpack';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import { type GatewayServer, listen } from '../../../workers/gateway-server.ts';
import type { ModelAnswer } from '../../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import { describeInBrowser, launchBrowser } from '../../support/browser.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';
import { ALL, type GatewayBench, openGateway } from './bench.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const MODULES = fileURLToPath(new URL('../../../node_modules', import.meta.url));

const forecast = defineTool({
  name: 'forecast',
  description: 'The weather.',
  parameters: z.object({ city: z.string() }),
  sideEffects: 'none',
  execute: ({ city }) => ({ city, warm: true }),
});
const book = defineTool({
  name: 'book',
  description: 'Books a trip.',
  parameters: z.object({ city: z.string() }),
  sideEffects: 'idempotent',
  execute: ({ city }) => ({ booked: city }),
});
const askPerson = defineTool({
  name: 'ask_person',
  description: 'Asks a person.',
  parameters: z.object({ question: z.string() }),
  afterExecution: 'suspend',
  suspendTimeoutMs: 3_600_000,
});
const app = defineApp({
  agents: [
    defineAgent({
      name: 'travel',
      model: { name: 'scripted' },
      governance: { rules: [{ tool: 'book', action: 'ask', reason: 'it costs money' }] },
    }),
  ],
  tools: [forecast, book, askPerson],
});

const says = (content: string, chunkDelayMs = 0): ModelAnswer => ({ kind: 'message', content, chunkDelayMs });
const calls = (...toolCalls: { name: string; arguments: object }[]): ModelAnswer => ({
  kind: 'message',
  content: 'One moment.',
  toolCalls,
});
/** What the model answers to a request, one answer for each step. */
const scripts: Readonly<Record<string, readonly ModelAnswer[]>> = {
  'Is it warm in Rome?': [calls({ name: 'forecast', arguments: { city: 'Rome' } }), says('It is warm in Rome.', 10)],
  'And in Oslo?': [says('It is cold in Oslo.')],
  'Book Rome.': [
    calls({ name: 'forecast', arguments: { city: 'Rome' } }, { name: 'book', arguments: { city: 'Rome' } }),
    says('Rome is booked.'),
  ],
  'Book Oslo.': [calls({ name: 'book', arguments: { city: 'Oslo' } }), says('Oslo is not booked.')],
  'Ask ann.': [calls({ name: 'ask_person', arguments: { question: 'Warm?' } }), says('Ann says yes.')],
  'Fail once.': [{ kind: 'error', status: 400 }],
};

let harness: Harness;
let model: ModelServer;
let gateway: GatewayBench;
let site: GatewayServer;
let browser: Browser;

beforeAll(async () => {
  harness = await openHarness();
  model = await startModelServer({
    answer: ({ messages }) => {
      const asked = messages.findLastIndex(({ role, content }) => role === 'user' && String(content) in scripts);
      const step = messages.slice(asked).filter(({ role }) => role === 'assistant').length;
      return scripts[String(messages[asked]?.content)]?.[step] ?? says('nothing more');
    },
  });
  await harness.startWorker(app, model);
  gateway = await openGateway(harness);
  site = await listen(
    { fetch: frontEnd(await bundle()).fetch as never, stop: () => {} },
    { host: '127.0.0.1', port: 0 },
  );
}, WAIT.timeoutMs);
afterAll(async () => {
  await site?.close();
  await gateway?.server.close();
  await harness?.close();
  await model?.close();
});

/** The page and what it imports, as one script. */
async function bundle(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-chat-page-'));
  try {
    const source = readFileSync(join(HERE, 'chat-page.ts'), 'utf8');
    writeFileSync(join(folder, 'page.mjs'), stripTypeScriptTypes(source));
    const compiler = webpack({
      mode: 'production',
      optimization: { minimize: false },
      entry: join(folder, 'page.mjs'),
      output: { path: folder, filename: 'bundle.js' },
      resolve: { modules: [MODULES] },
      performance: false,
    });
    const stats = await promisify(compiler.run.bind(compiler))();
    expect(stats?.toJson({ all: false, errors: true }).errors).toEqual([]);
    return readFileSync(join(folder, 'bundle.js'), 'utf8');
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A site of its own, which passes on what it does not know to the gateway. */
function frontEnd(script: string): Hono {
  const served = new Hono();
  served.get('/', (c) => c.html('<!doctype html><title>Chat</title><body></body><script src="/page.js"></script>'));
  served.get('/page.js', (c) => c.body(script, 200, { 'content-type': 'text/javascript' }));
  served.all('/gateway/*', (c) => proxy(`${gateway.server.url}${c.req.path.slice('/gateway'.length)}`, { ...c.req }));
  return served;
}

const newAgent = () => `chat-${v7().slice(-6)}`;
/** The turns of the chat that a page has with that agent, or of another one. */
const turnsOf = (agent: string, chatId = `chat-${agent}`) => gateway.client.chat(agent, chatId).agent.turns();

async function open(agent: string, { resume = false } = {}): Promise<Page> {
  const page = await browser.newPage();
  page.setDefaultTimeout(WAIT.timeoutMs);
  const query = new URLSearchParams({ agent, profile: 'travel', token: ALL, ...(resume ? { resume: '1' } : {}) });
  await page.goto(`${site.url}/?${query}`);
  await page.getByLabel('Message').waitFor();
  return page;
}

async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel('Message').fill(text);
  await page.getByLabel('Message').press('Enter');
}

const ready = (page: Page) => page.locator('output').getByText('ready').waitFor();
const lines = (page: Page, what: string) => page.locator(what).allTextContents();

describeInBrowser('useChat', () => {
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser?.close());

  test('a chat of two messages, with a call and streamed text, is two turns of one session', async () => {
    const agent = newAgent();
    const page = await open(agent);
    await say(page, 'Is it warm in Rome?');
    await page.getByText('It is warm in Rome.').waitFor();
    await ready(page);
    expect(await lines(page, '.assistant .call')).toEqual([
      'tool-forecast output-available {"city":"Rome"} {"city":"Rome","warm":true}',
    ]);
    expect(await lines(page, '.assistant .text')).toEqual(['One moment.', 'It is warm in Rome.']);
    await say(page, 'And in Oslo?');
    await page.getByText('It is cold in Oslo.').waitFor();
    await ready(page);
    expect(await lines(page, 'main > div')).toHaveLength(4);
    const turns = await turnsOf(agent);
    expect(turns.map(({ status, instruction }) => [status, instruction])).toEqual([
      ['success', 'Is it warm in Rome?'],
      ['success', 'And in Oslo?'],
    ]);
    await page.close();
  });

  test.each([
    ['Approve', 'Book Rome.', 'Rome is booked.', 'tool-book output-available {"city":"Rome"} {"booked":"Rome"}'],
    ['Deny', 'Book Oslo.', 'Oslo is not booked.', 'tool-book output-denied {"city":"Oslo"} '],
  ])('%s: an approval is answered in the chat, and the message goes on', async (name, request, text, call) => {
    const agent = newAgent();
    const page = await open(agent);
    await say(page, request);
    await page.getByRole('button', { name }).click();
    await page.getByText(text).waitFor();
    await ready(page);
    expect((await lines(page, '.assistant .call')).at(-1)).toBe(call);
    expect(await lines(page, '.assistant .text')).toEqual(['One moment.', text]);
    const [turn] = await turnsOf(agent);
    const recorded = JSON.stringify(turn?.steps[0]?.calls.at(-1));
    expect(recorded).toContain(`${name} in the chat`);
    const answer = (await harness.store.readEvents({ agentId: `${agent}~chat-${agent}` })).findLast(
      ({ type }) => type === 'approval',
    );
    expect(answer?.payload).toMatchObject({ by: 'ann', phase: name === 'Approve' ? 'approved' : 'denied' });
    await page.close();
  });

  test('a page that is opened anew goes on with the message that is being written', async () => {
    const agent = newAgent();
    const page = await open(agent);
    await say(page, 'Ask ann.');
    await page.getByText('tool-ask_person').waitFor();
    await page.close();
    const again = await open(agent, { resume: true });
    await again.getByText('tool-ask_person').waitFor();
    const [turn] = await turnsOf(agent);
    const callId = turn?.waiting[0]?.callId ?? '';
    await gateway.client.turn(turn?.agentTurnId ?? '').toolResult({ callId, status: 'success', result: 'yes' });
    await again.getByText('Ann says yes.').waitFor();
    expect(await lines(again, '.assistant .text')).toEqual(['One moment.', 'Ann says yes.']);
    await ready(again);
    await again.close();
    // Nothing is written any more.
    const idle = await open(agent, { resume: true });
    await ready(idle);
    expect(await lines(idle, 'main > div')).toEqual([]);
    await idle.close();
  });

  test('a turn that fails is told of, and what was asked can be asked again', async () => {
    const agent = newAgent();
    const page = await open(agent);
    await say(page, 'Fail once.');
    await page.getByRole('alert').getByText(/^\w+/).waitFor();
    expect(await page.locator('output').textContent()).toBe('error');
    const { status } = (await turnsOf(agent))[0] ?? {};
    expect(status).toBe('failed');
    await page.getByRole('button', { name: 'Again' }).click();
    await page.locator('output').getByText('submitted').or(page.locator('output').getByText('error')).waitFor();
    await page.locator('output').getByText('error').waitFor();
    expect(await turnsOf(agent)).toHaveLength(2);
    await page.close();
  });
});

describe('the wire', () => {
  const message = (text: string) => ({ id: v7(), role: 'user', parts: [{ type: 'text', text }] });
  const asked = (...messages: unknown[]) => ({ id: 'c', messages, profile: 'travel' });
  const post = (agent: string, body: unknown, token = ALL) =>
    gateway.call('POST', `/v1/agents/${agent}/chat`, { body, token });

  test('it is the protocol of UI messages, and a message that is sent again is no second request', async () => {
    const agent = newAgent();
    const body = asked(message('And in Oslo?'));
    const [first, again] = [await post(agent, body), await post(agent, body)];
    expect(first.headers.get('x-vercel-ai-ui-message-stream')).toBe('v1');
    expect(first.headers.get('content-type')).toBe('text/event-stream');
    const text = (answer: string) => [...answer.matchAll(/"delta":"(.*?)"/g)].map(([, delta]) => delta).join('');
    expect([text(first.text), text(again.text)]).toEqual(['It is cold in Oslo.', 'It is cold in Oslo.']);
    expect(first.text).toMatch(/data: \[DONE\]\n\n$/);
    expect(await turnsOf(agent, 'c')).toHaveLength(1);
  });

  test('two chats with an agent are two sessions, of which each remembers its own', async () => {
    const agent = newAgent();
    for (const id of ['c', 'd']) await post(agent, { ...asked(message('And in Oslo?')), id });
    expect([await turnsOf(agent, 'c'), await turnsOf(agent, 'd')]).toMatchObject([
      [{ chat: { chatId: 'c', correlationId: 'c' } }],
      [{ chat: { chatId: 'd', correlationId: 'd' } }],
    ]);
    const [said] = await gateway.client.chat(agent, 'c').messages();
    expect(said).toMatchObject({ sender: { agentId: 'ann' }, payload: { text: 'And in Oslo?' }, status: 'done' });
  });

  test('a message that comes while a turn is open follows its policy', async () => {
    const agent = newAgent();
    const chat = gateway.client.chat(agent, 'c', { profile: 'travel' });
    const first = await chat.send('Ask ann.');
    const waits = (await first.turn?.stream())?.[Symbol.asyncIterator]();
    while ((await waits?.next())?.value?.type !== 'waiting');
    const busy = await post(agent, { ...asked(message('And in Oslo?')), policy: 'reject' });
    expect([busy.status, busy.json.code]).toEqual([409, 'agent_busy']);
    const resumed = await fetch(`${gateway.server.url}/v1/agents/${agent}/chat/c/stream`, {
      headers: { authorization: `Bearer ${ALL}` },
    });
    const next = await post(agent, { ...asked(message('And in Oslo?')), policy: 'interrupt' });
    expect(next.text).toContain('"finishReason":"stop"');
    // Who had come back to the chat was with the turn that was open then.
    const { turnId, ...ended } = await first.terminal();
    expect(ended).toMatchObject({ status: 'failed', failure: { code: 'stopped' } });
    expect(await resumed.text()).toMatch(new RegExp(`"messageId":"${turnId}".*"type":"abort"`, 's'));
  });

  test('an approval is answered by whoever may approve', async () => {
    const agent = newAgent();
    const page = await post(agent, asked(message('Book Oslo.')));
    const chunks = [...page.text.matchAll(/^data: (\{.*\})$/gm)].map(([, data]) => JSON.parse(data ?? ''));
    const { messageMetadata: metadata } = chunks.at(-1);
    const { approvalId, toolCallId } = chunks.find(({ type }) => type === 'tool-approval-request');
    const answered = (approved: boolean) =>
      asked({
        id: metadata.agentTurnId,
        role: 'assistant',
        metadata,
        parts: [{ type: 'tool-book', toolCallId, state: 'approval-responded', approval: { id: approvalId, approved } }],
      });
    expect(await post(agent, answered(true), 'token-of-write')).toMatchObject({
      status: 403,
      json: { code: 'permission_denied' },
    });
    expect((await post(newAgent(), answered(true))).json).toMatchObject({ code: 'turn_not_found' });
    expect((await post(agent, answered(false))).text).toContain('Oslo is not booked.');
    // An answer that came too late changes nothing.
    expect((await post(agent, answered(true))).text).toContain('Oslo is not booked.');
  });

  test.each<[string, unknown, string]>([
    ['no message', asked(), 'invalid_request'],
    ['a message of the system', asked({ ...message('x'), role: 'system' }), 'invalid_request'],
    ['a message without text', asked({ ...message('x'), parts: [] }), 'invalid_request'],
    ['a file', asked({ ...message('x'), parts: [{ type: 'file', url: 'data:,' }] }), 'invalid_request'],
    [
      'a message of the assistant without answers',
      asked({ ...message('x'), role: 'assistant', metadata: { cursor: 'x' } }),
      'turn_not_found',
    ],
    ['an unknown profile', { ...asked(message('x')), profile: 'nobody' }, 'profile_not_found'],
    ['a profile that is none', { ...asked(message('x')), profile: '../x' }, 'invalid_input'],
    ['a policy that is none', { ...asked(message('x')), policy: 'shout' }, 'invalid_request'],
    ['a chat whose id is none', { ...asked(message('x')), id: 'c/../d' }, 'invalid_input'],
  ])('%s is refused', async (_, body, code) => {
    const { status, json } = await post(newAgent(), body);
    expect([json?.code, status < 500]).toEqual([code, true]);
  });

  test('a chat is closed without its scopes, and to those who may not see the agent', async () => {
    const agent = newAgent();
    const body = asked(message('And in Oslo?'));
    expect((await post(agent, body, 'token-of-read')).status).toBe(403);
    expect((await post(agent, body, 'token-of-team')).json).toMatchObject({ code: 'agent_not_found' });
    const path = `/v1/agents/${agent}/chat/c/stream`;
    expect((await gateway.call('GET', path, { token: 'token-of-write' })).status).toBe(403);
    expect((await gateway.call('GET', path, { token: 'token-of-team' })).json).toMatchObject({
      code: 'agent_not_found',
    });
    expect(await harness.store.readEvents({ agentId: `${agent}~c` })).toEqual([]);
  });
});

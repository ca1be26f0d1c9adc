/** Texts that cost more than their length where somebody is careless: every entrance takes or refuses them as fast as others, and nobody waits. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { testApp } from '../../support/app.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { type GatewayBench, openGateway } from './bench.ts';

const LENGTH = 250_000;
const filled = (begin: string, unit: string, end = '') =>
  begin + unit.repeat(Math.ceil((LENGTH - begin.length - end.length) / unit.length)) + end;

/** Each is the worst case of some expression, parser or renderer. */
const TEXTS: readonly (readonly [string, string])[] = [
  ['an element that never ends', filled('<', ' ')],
  ['elements that are begun', filled('', '<data ')],
  ['ends without a beginning', filled('', '</data> ')],
  ['brackets', filled('', '[')],
  ['braces and quotes', filled('{"a":"', '\\"', '"}')],
  ['nested arrays', `${'['.repeat(LENGTH / 2)}${']'.repeat(LENGTH / 2)}`],
  ['blanks before a word', filled('', ' ', 'x')],
  ['line ends', filled('', '\n', 'x')],
  ['carriage returns', filled('', '\r')],
  ['tildes and dashes', filled('', '~-')],
  ['slashes', filled('', '/', 'x')],
  ['one letter', filled('', 'a')],
  ['digits', filled('', '1')],
  ['a word without end', filled('', 'a', '!')],
  ['ampersands', filled('', '&')],
  ['links', filled('', '[](')],
  ['stars', filled('', '*', 'x')],
  ['backticks', filled('', '`', 'x')],
  ['marks that combine', filled('a', '\u0301')],
  ['what turns the direction', filled('', '\u202e')],
  ['families', filled('', '👨‍👩‍👧')],
  ['control characters', filled('', '\u001b[')],
  ['halves of characters', filled('', '\ud83d')],
];

const WORDS = filled('', 'some words of no interest, and a line.\n');

describe('a text of the largest size', () => {
  let harness: Harness;
  let gateway: GatewayBench;
  const agentId = `agent-${v7()}`;
  let agentTurnId = '';
  let wake = '';

  beforeAll(async () => {
    harness = await openHarness();
    await harness.store.registerProfiles([...testApp([]).agents.values()]);
    gateway = await openGateway(harness);
    const made = await gateway.call('POST', `/v1/agents/${agentId}/turns`, {
      body: { instruction: 'x', profile: 'tester' },
    });
    agentTurnId = made.json.agentTurnId;
    const { json } = await gateway.call('POST', `/v1/agents/${agentId}/triggers`, { body: { name: 'mail' } });
    wake = json.path;
  });
  afterAll(async () => {
    await gateway?.server.close();
    await harness?.close();
  });

  const turn = () => `/v1/turns/${agentTurnId}`;
  const entrances: readonly (readonly [string, (text: string) => Promise<unknown>])[] = [
    ['a request', (text) => gateway.call('POST', `/v1/agents/${agentId}/turns`, { body: { instruction: text } })],
    ['a card', (text) => gateway.call('POST', '/v1/cards', { body: { text } })],
    ['a result', (text) => gateway.call('POST', '/v1/cards', { body: { value: { text } } })],
    ['a context box', (text) => gateway.call('POST', '/v1/boxes', { body: { texts: [text] } })],
    [
      'a message of a chat',
      (text) =>
        gateway.call('POST', `/v1/agents/${agentId}/messages`, {
          body: { chatId: v7(), profile: 'tester', payload: { text } },
        }),
    ],
    [
      'a message of useChat',
      (text) =>
        gateway.call('POST', `/v1/agents/${agentId}/chat`, {
          body: { id: 'c', messages: [{ id: v7(), role: 'assistant', parts: [{ type: 'text', text }] }] },
        }),
    ],
    ['a steer', (text) => gateway.call('POST', `${turn()}/steer`, { body: { text } })],
    [
      'a report',
      (text) => gateway.call('POST', `${turn()}/tool-results/c`, { body: { status: 'success', result: text } }),
    ],
    [
      'an error of a tool',
      (text) =>
        gateway.call('POST', `${turn()}/tool-results/c`, {
          body: { status: 'failed', error: { code: text.slice(0, 60), message: text } },
        }),
    ],
    [
      'an answer',
      (text) =>
        gateway.call('POST', `${turn()}/approvals`, { body: { callId: 'c', decision: 'denied', comment: text } }),
    ],
    ['a word of the system', (text) => gateway.call('POST', `/v1/agents/${agentId}/wake`, { body: { reason: text } })],
    ['a hit on a trigger', (text) => gateway.call('POST', wake, { body: { text: text.slice(0, 60_000) } })],
    [
      'a path',
      (text) => gateway.call('GET', `/v1/agents/${encodeURIComponent(text.slice(0, 2_000).toWellFormed())}/turns`),
    ],
    [
      'a query',
      (text) => gateway.call('GET', `/v1/turns?before=${encodeURIComponent(text.slice(0, 2_000).toWellFormed())}`),
    ],
  ];

  test.each(entrances)('%s takes no longer for one that somebody has thought up', async (name, enter) => {
    const timed = async (text: string) => {
      const begun = performance.now();
      await enter(text);
      return performance.now() - begun;
    };
    await timed(WORDS);
    const usual = Math.max(await timed(WORDS), await timed(WORDS), await timed(WORDS));
    const waits: number[] = [];
    const stop = new AbortController();
    const bystander = (async () => {
      while (!stop.signal.aborted) {
        const begun = performance.now();
        await gateway.call('GET', `/v1/agents/${agentId}/timers`);
        waits.push(performance.now() - begun);
      }
    })();
    const slow: string[] = [];
    let longest = 0;
    for (const [kind, text] of TEXTS) {
      const took = await timed(text);
      longest = Math.max(longest, took);
      // Quadratic, such a text takes minutes.
      if (took > 20 * usual + 2_000)
        slow.push(`${kind}: ${Math.round(took)} ms, and words of that length ${Math.round(usual)} ms`);
    }
    stop.abort();
    await bystander;
    const p99 = waits.toSorted((a, b) => a - b)[Math.floor(waits.length * 0.99)] ?? 0;
    console.info({ name, longestMs: Math.round(longest), usualMs: Math.round(usual), bystanderP99Ms: Math.round(p99) });
    expect(slow).toEqual([]);
    expect(p99).toBeLessThan(20 * usual + 2_000);
  });
});

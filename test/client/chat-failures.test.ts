/** Each class of failure in a real turn of a chat: its one terminal says why, and what a person can do next. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import type { ModelAnswer } from '../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import { FAILURE_CLASSES, type FailureClass } from '../../workflows/chat/terminal.ts';
import { type Harness, openHarness } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

let harness: Harness;
let model: ModelServer;

const calling = (name: string): ModelAnswer => ({ kind: 'message', toolCalls: [{ name, arguments: {} }] });

/** What the model answers to a message that says how it fails. */
const ANSWERS: Readonly<Record<string, ModelAnswer>> = {
  'be refused': { kind: 'message', refusal: 'I cannot help with that.' },
  'quit badly': calling('quit'),
  'call for ever': calling('look'),
  'be broken': { kind: 'error', status: 400, message: 'no such thing' },
  'be slow': { kind: 'stall', afterChunks: 1 },
  'be locked out': { kind: 'error', status: 401, message: 'bad key' },
};

const tools = [
  defineTool({ name: 'look', description: 'Looks.', parameters: z.object({}), execute: () => `seen ${v7()}` }),
  defineTool({
    name: 'quit',
    description: 'Ends the turn, badly.',
    parameters: z.object({}),
    afterExecution: 'terminate',
    execute: () => Promise.reject(new Error('the till is empty')),
  }),
];

const agents = [
  defineAgent({ name: 'friend', providerPatienceMs: 0 }),
  defineAgent({ name: 'busy', chat: { maxToolCallsPerTurn: 2 } }),
  defineAgent({ name: 'narrow', chat: { maxContextTokens: 2_000 } }),
  defineAgent({
    name: 'careful',
    inputPolicy: { deny: [{ contains: ['password'], reason: 'secrets are not discussed' }] },
  }),
];

beforeAll(async () => {
  harness = await openHarness();
  model = await startModelServer({
    answer: ({ messages }) => {
      const said = messages.map(({ content }) => (typeof content === 'string' ? content : ''));
      const [, answer] = Object.entries(ANSWERS).find(([words]) => said.some((each) => each.includes(words))) ?? [];
      return answer ?? { kind: 'message', content: 'well' };
    },
  });
});
afterAll(async () => {
  await harness?.close();
  await model?.close();
});

const chatWith = (profile: string) => harness.client.chat('somebody', `c-${v7()}`, { profile });

/** The failure of each class, seen. */
const seen = new Set<FailureClass>();

describe('a chat turn that fails', () => {
  // First of all: the message comes before any worker, and the app that comes then does not define its profile.
  test('for want of its profile is invalid_input (C4, C6)', async () => {
    const sent = await chatWith('ghost').send('hello');
    expect(sent.message.status).toBe('queued');
    await harness.startWorker(defineApp({ agents, tools }), model);
    const terminal = await sent.terminal(WAIT);
    expect(terminal).toMatchObject({
      status: 'failed',
      failure: { class: 'invalid_input', code: 'profile_not_found', reason: expect.stringContaining('ghost') },
    });
    expect(terminal.failure?.nextAction).toContain('Start a worker whose app defines the profile');
    if (terminal.failure) seen.add(terminal.failure.class);
  });

  test.each<[string, string, string, object]>([
    [
      'by the policy of its profile',
      'careful',
      'my password is x',
      {
        status: 'denied',
        failure: {
          class: 'policy_denied',
          code: 'policy_denied',
          reason: 'secrets are not discussed',
          nextAction: expect.stringContaining('Ask for what the policy allows'),
        },
      },
    ],
    [
      'because the model refuses',
      'friend',
      'be refused',
      {
        status: 'denied',
        failure: {
          class: 'policy_denied',
          code: 'provider_refusal',
          nextAction: expect.stringContaining('other words'),
        },
      },
    ],
    [
      'because a tool ends it',
      'friend',
      'quit badly',
      {
        status: 'failed',
        failure: {
          class: 'tool_runtime_error',
          code: 'tool_failed',
          reason: expect.stringContaining('quit'),
          nextAction: expect.stringContaining('another way'),
        },
      },
    ],
    [
      'by the bound of its calls',
      'busy',
      'call for ever',
      {
        status: 'failed',
        failure: {
          class: 'timeout',
          code: 'budget_tool_calls',
          nextAction: expect.stringContaining('raise the limit'),
        },
      },
    ],
    [
      'with its provider',
      'friend',
      'be broken',
      {
        status: 'failed',
        failure: { class: 'provider_error', code: 'provider_error', nextAction: expect.stringContaining('status') },
      },
    ],
    [
      'with its credentials',
      'friend',
      'be locked out',
      {
        status: 'failed',
        failure: { class: 'auth_error', code: 'provider_auth', nextAction: expect.stringContaining('credentials') },
      },
    ],
    [
      'because what was said does not fit',
      'narrow',
      'a word '.repeat(10_000),
      {
        status: 'failed',
        failure: {
          class: 'context_build_error',
          code: 'context_overflow',
          nextAction: expect.stringContaining('Shorten'),
        },
      },
    ],
  ])('%s says so, and what to do (C4, C6, C7)', async (_, profile, text, expected) => {
    const terminal = await (await chatWith(profile).send(text, { traceId: 'trace', correlationId: 'chain' })).terminal(
      WAIT,
    );
    expect(terminal).toMatchObject({ ...expected, traceId: 'trace', correlationId: 'chain' });
    if (terminal.failure) seen.add(terminal.failure.class);
  });

  test('because it was stopped is one without a report (C4, C6)', async () => {
    const sent = await chatWith('friend').send('be slow');
    await sent.turn?.stop('enough');
    const terminal = await sent.terminal(WAIT);
    expect(terminal.failure).toMatchObject({
      class: 'report_missing',
      code: 'stopped',
      reason: 'enough',
      nextAction: expect.stringContaining('Send the next message'),
    });
    if (terminal.failure) seen.add(terminal.failure.class);
  });

  test('of a message that steered what the agent was asked otherwise has the ids of the message (C4)', async () => {
    const chat = chatWith('friend');
    await (await chat.send('hello')).terminal(WAIT);
    const turn = await chat.agent.enqueue({ instruction: 'be broken' });
    const sent = await chat.send('look', { policy: 'steer', traceId: 'trace', correlationId: 'chain' });
    const terminal = await sent.terminal(WAIT);
    expect(terminal).toMatchObject({ chatId: chat.chatId, sessionId: chat.agent.id, traceId: 'trace' });
    expect((await turn.result(WAIT)).errorCode).toBe('provider_error');
  });

  test('has been seen to be of each class (C6)', () => {
    expect([...seen].toSorted()).toEqual([...FAILURE_CLASSES].toSorted());
  });
});

/**
 * A turn that is interrupted or taken back after any of its events: what the model is asked next is a conversation that a provider takes, and
 * has what it should (C8). The model server refuses conversations as a provider does.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import type { TurnHandle } from '../../client/api.ts';
import type { ChatRequest } from '../../workers/model-server/chat-request.ts';
import type { ModelAnswer, ToolCallAnswer } from '../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import { isTerminal } from '../../workflows/protocol/turn.ts';
import { type Harness, openHarness } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

let harness: Harness;
let model: ModelServer;
const refusals: unknown[] = [];

const calls = (...names: readonly string[]): ModelAnswer => ({
  kind: 'message',
  content: 'step by step',
  toolCalls: names.map((name): ToolCallAnswer => ({ name, arguments: {} })),
});

/** The long turn: calls side by side, one that needs a person, one that waits for its result, an answer. */
const STEPS: readonly ModelAnswer[] = [
  calls('look', 'listen', 'look'),
  calls('spend', 'look'),
  calls('ask'),
  { kind: 'message', content: 'all done' },
];

const isUser = ({ role }: { role: string }): boolean => role === 'user';

function answer({ messages }: ChatRequest): ModelAnswer {
  const start = messages.findLastIndex((message) => isUser(message) && String(message.content).startsWith('say '));
  const said = String(messages[start]?.content ?? '');
  if (!said.includes('the long one')) return { kind: 'message', content: `heard ${said}` };
  const step = messages.slice(start).filter(({ role }) => role === 'assistant').length;
  return STEPS[step] ?? { kind: 'message', content: 'all done' };
}

beforeAll(async () => {
  harness = await openHarness();
  model = await startModelServer({ answer, onRefusal: (error) => refusals.push(error) });
  const empty = z.object({});
  const tools = [
    defineTool({ name: 'look', description: 'Looks.', parameters: empty, execute: () => 'seen' }),
    defineTool({ name: 'listen', description: 'Listens.', parameters: empty, execute: () => 'heard' }),
    defineTool({ name: 'spend', description: 'Spends.', parameters: empty, execute: () => 'spent' }),
    defineTool({
      name: 'ask',
      description: 'Asks.',
      parameters: empty,
      afterExecution: 'suspend',
      suspendTimeoutMs: 600_000,
    }),
  ];
  const governance = { rules: [{ tool: 'spend', action: 'ask' as const }], approvals: { deadlineMs: 600_000 } };
  await harness.startWorker(defineApp({ agents: [defineAgent({ name: 'friend', governance })], tools }), model);
});
afterAll(async () => {
  await harness?.close();
  await model?.close();
});

/** Does what the turn waits for from outside, until it is told to stop. */
async function helping(turn: TurnHandle, stopped: AbortSignal): Promise<void> {
  while (!stopped.aborted) {
    const { status, steps } = await turn.get();
    if (isTerminal(status)) return;
    const open = steps.flatMap(({ calls: all }) => all.filter((call) => call.status === 'open'));
    for (const { callId, tool } of status === 'suspended' ? open : []) {
      if (tool === 'spend') await turn.answer({ callId, decision: 'approved' });
      if (tool === 'ask') await turn.toolResult({ callId, status: 'success', result: 'a person says yes' });
    }
    await harness.store.changed(1_000);
  }
}

/** Begins the long turn, helps it on up to its n-th event, and says something else there. */
async function brokenOffAfter(n: number, policy: 'interrupt' | 'rollback') {
  const chat = harness.client.chat('friend', `c-${v7()}`);
  await (await chat.send('say before')).terminal(WAIT);
  const first = await chat.send('say the long one');
  if (!first.turn) throw new Error('the message has no turn');
  const stop = new AbortController();
  const help = helping(first.turn, stop.signal);
  let count = 0;
  for await (const _ of first.turn.events()) {
    count += 1;
    if (count >= n) break;
  }
  stop.abort();
  const requests = model.requests.length;
  const words = `say next to ${chat.chatId}`;
  const next = await chat.send(words, { policy });
  await help;
  const [ended, terminal] = [await first.terminal(WAIT), await next.terminal(WAIT)];
  const prompt = model.requests.slice(requests).findLast(({ messages }) => JSON.stringify(messages).includes(words));
  return { next, ended, terminal, prompt, count };
}

describe.each(['interrupt', 'rollback'] as const)('a message that comes to %s', (policy) => {
  test('after any event of the turn goes on with a conversation that a provider takes (C8)', async () => {
    const whole = await brokenOffAfter(Number.POSITIVE_INFINITY, policy);
    expect(whole.ended).toMatchObject({ status: 'completed', deliverable: { text: 'all done' } });
    const points = Array.from({ length: whole.count - 1 }, (_, n) => n + 1);
    let broken = 0;
    for (let from = 0; from < points.length; from += 4)
      await Promise.all(
        points.slice(from, from + 4).map(async (n) => {
          const { next, ended, terminal, prompt } = await brokenOffAfter(n, policy);
          expect(terminal).toMatchObject({
            status: 'completed',
            deliverable: { text: expect.stringContaining('heard say next') },
          });
          const shown = JSON.stringify(prompt?.messages);
          expect(shown).toContain('say before');
          if (next.endedTurnId === null) return expect(ended.status).toBe('completed');
          broken += 1;
          expect(ended).toMatchObject({ status: 'failed', failure: { code: 'stopped', class: 'report_missing' } });
          for (const words of ['say the long one', 'step by step', 'seen', 'the turn ended before'])
            if (policy === 'rollback') expect(shown).not.toContain(words);
          if (policy === 'interrupt') expect(shown).toContain('say the long one');
        }),
      );
    expect(broken).toBeGreaterThan(points.length / 2);
    expect(refusals).toEqual([]);
    expect(await harness.store.violations()).toEqual([]);
  });
});

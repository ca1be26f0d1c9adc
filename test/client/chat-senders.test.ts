/** Who has sent a message makes no difference: the same script with a person and with an agent comes to the same (C5). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import type { ChatRequest } from '../../workers/model-server/chat-request.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import type { Sender } from '../../workflows/protocol/chat.ts';
import { type Harness, openHarness } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

let harness: Harness;
let model: ModelServer;

const lastAsked = (messages: ChatRequest['messages']): string =>
  String(messages.findLast(({ role }) => role === 'user')?.content ?? '');

beforeAll(async () => {
  harness = await openHarness();
  model = await startModelServer({
    answer: ({ messages }) => {
      const asked = lastAsked(messages);
      if (messages.at(-1)?.role === 'tool') return { kind: 'message', content: 'it was looked at' };
      if (asked.includes('look')) return { kind: 'message', toolCalls: [{ name: 'look', arguments: {} }] };
      if (asked.includes('wait')) return { kind: 'stall', afterChunks: 3 };
      if (asked.includes('refuse')) return { kind: 'message', refusal: 'no' };
      return { kind: 'message', content: 'well' };
    },
  });
  const look = defineTool({ name: 'look', description: 'Looks.', parameters: z.object({}), execute: () => 'seen' });
  const inputPolicy = { deny: [{ contains: ['password'], reason: 'secrets are not discussed' }] };
  await harness.startWorker(
    defineApp({ agents: [defineAgent({ name: 'friend', inputPolicy })], tools: [look] }),
    model,
  );
});
afterAll(async () => {
  await harness?.close();
  await model?.close();
});

/** Says the same each time; returns all that can be seen of it. */
async function script(sender: Sender, other: Sender) {
  const chat = harness.client.chat('friend', `c-${v7()}`);
  const requests = model.requests.length;
  const terminals: unknown[] = [];
  const said = async (text: string, options: Parameters<typeof chat.send>[1] = {}) => {
    const sent = await chat.send(text, { sender, ...options });
    terminals.push(await sent.terminal(WAIT).catch(({ code }: { code: unknown }) => ({ code })));
  };
  await said('hello');
  await said('look at it');
  await said('the password is x');
  await said('refuse it');
  const begun = async (text: string) => {
    const sent = await chat.send(text, { sender });
    for await (const part of sent.turn?.stream() ?? []) if (part.type === 'text') break;
    return sent;
  };
  const open = await begun('wait');
  await chat.send('one', { sender });
  await chat.send('two', { sender: other });
  await said('no', { policy: 'reject' });
  await said('never mind', { policy: 'interrupt' });
  terminals.push(await open.terminal(WAIT));
  await begun('wait again');
  await said('back', { policy: 'rollback', sender: other });
  const events = await harness.store.readEvents({ agentId: chat.agent.id, limit: 1_000 });
  return { events, messages: await chat.messages(), terminals, prompts: model.requests.slice(requests), chat };
}

/** What was seen, with ids as numbers in the order in which they come up, senders by their parts, and without times. */
function comparable({ chat, ...seen }: Awaited<ReturnType<typeof script>>, sender: Sender, other: Sender): unknown {
  const ids = new Map<string, number>();
  const number = (id: string): string => {
    if (!ids.has(id)) ids.set(id, ids.size);
    return `#${ids.get(id)}`;
  };
  const json = JSON.stringify(seen, (key, value) =>
    /At$|Ms$|^(?:id|cursor|contextHash)$/.test(key) && !Array.isArray(value) ? undefined : value,
  );
  const named = json
    .replaceAll(JSON.stringify(sender), '"the sender"')
    .replaceAll(JSON.stringify(other), '"the other"')
    .replaceAll(`\\"${sender.agentId}\\"`, 'the sender')
    .replaceAll(`\\"${other.agentId}\\"`, 'the other')
    .replaceAll(`"${sender.agentId}: `, '"the sender: ')
    .replaceAll(`"${other.agentId}: `, '"the other: ')
    .replaceAll(chat.chatId, 'the chat');
  // The beginning of what is asked may end in the middle of an id.
  const cut = named.replaceAll(/[0-9a-f]{8}-[0-9a-f-]*…/g, '#cut');
  return JSON.parse(cut.replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, number));
}

test('a person and an agent come to the same: events, messages, prompts and ends (C5)', async () => {
  const people = [{ agentId: 'ann' }, { agentId: 'bob' }] as const;
  const agents = [
    { agentId: 'pal', instanceId: 'pal/turn-7' },
    { agentId: 'bot', instanceId: 'bot~c1' },
  ] as const;
  const byPeople = await script(...people);
  const byAgents = await script(...agents);
  expect(byPeople.terminals).toHaveLength(8);
  expect(comparable(byAgents, ...agents)).toEqual(comparable(byPeople, ...people));
  expect(byAgents.messages.map(({ sender }) => sender)).toContainEqual(agents[0]);
  expect(await harness.store.violations()).toEqual([]);
});

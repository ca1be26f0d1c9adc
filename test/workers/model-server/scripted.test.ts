import { afterEach, describe, expect, test } from '@jest/globals';
import type { ChatCompletionMessageParam } from 'openai/resources';
import {
  attempts,
  type Script,
  type ScriptedModelOptions,
  type ScriptedServer,
  startScriptedModel,
} from '../../../workers/model-server/scripted.ts';
import { clientOf, refusalOf } from './support.ts';

const servers: ScriptedServer[] = [];
const serve = async (script: Script | ScriptedModelOptions) => {
  const server = await startScriptedModel(script);
  servers.push(server);
  return server;
};
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const say = (content: string) => ({ kind: 'message', content }) as const;
const user = (content: string): ChatCompletionMessageParam => ({ role: 'user', content });
const assistant = (content: string): ChatCompletionMessageParam => ({ role: 'assistant', content });

const ask = async (server: ScriptedServer, ...messages: ChatCompletionMessageParam[]) => {
  const completion = await clientOf(server).chat.completions.create({ model: 'm', messages });
  return completion.choices[0]?.message.content;
};

describe('by position', () => {
  test('the answers follow one another, and a retried request gets the same again', async () => {
    const server = await serve([say('one'), say('two')]);
    expect(await ask(server, user('go'))).toBe('one');
    expect(await ask(server, user('go'))).toBe('one');
    expect(await ask(server, user('go'), assistant('one'), user('more'))).toBe('two');
    server.assertDone();
  });

  test('conversations at the same time follow the scripts their markers name', async () => {
    const server = await serve({ scripts: { a: [say('a1'), say('a2')], b: [say('b1')] }, default: [say('d1')] });
    const answers = await Promise.all([
      ask(server, user('go [script:b]')),
      ask(server, user('go [script:a]'), assistant('a1'), user('note')),
      ask(server, user('go')),
      ask(server, user('go [script:a]')),
    ]);
    expect(answers).toEqual(['b1', 'a2', 'd1', 'a1']);
    server.assertDone();
  });

  test('the last marker counts, and positions begin after it', async () => {
    const server = await serve({ scripts: { a: [say('a1')], b: [say('b1')] } });
    expect(await ask(server, user('[script:a]'), assistant('a1'), user('[script:b]'))).toBe('b1');
  });

  test('a marker in the words of the assistant changes nothing', async () => {
    const server = await serve({ scripts: { a: [say('a1'), say('a2')] } });
    expect(await ask(server, user('[script:a]'), assistant('[script:zzz]'), user('on'))).toBe('a2');
  });

  test('a step may be a function of the request', async () => {
    const server = await serve([(request) => say(`${request.messages.length} message`)]);
    expect(await ask(server, user('go'))).toBe('1 message');
  });

  test('attempts give one answer after another at the same position, then stay', async () => {
    const server = await serve([attempts({ kind: 'error', status: 500 }, say('recovered'))]);
    expect((await refusalOf(ask(server, user('go')))).status).toBe(500);
    expect(await ask(server, user('go'))).toBe('recovered');
    expect(await ask(server, user('go'))).toBe('recovered');
  });

  test('scripts can be added later', async () => {
    const server = await serve({});
    server.add('late', [say('here')]);
    expect(await ask(server, user('[script:late]'))).toBe('here');
    server.assertDone();
  });
});

test('by counter, every request takes the next answer', async () => {
  const server = await serve({ by: 'counter', default: [say('one'), say('two')] });
  expect([await ask(server, user('go')), await ask(server, user('go'))]).toEqual(['one', 'two']);
  expect((await refusalOf(ask(server, user('go')))).status).toBe(400);
});

test('a default function answers every conversation without a marker', async () => {
  const server = await serve({ default: (request) => say(String(request.messages.at(-1)?.content)) });
  expect(await ask(server, user('echo'))).toBe('echo');
  server.assertDone();
});

describe('loud', () => {
  test('when a script runs out', async () => {
    const server = await serve({ scripts: { a: [say('a1')] } });
    await ask(server, user('[script:a]'));
    const error = await refusalOf(ask(server, user('[script:a]'), assistant('a1'), user('on')));
    expect(error).toMatchObject({ status: 400, code: 'script_exhausted' });
    expect(error.message).toContain('script "a" ran out after 1 answers');
    expect(server.failures).toEqual(['script "a" ran out after 1 answers']);
    expect(server.assertDone).toThrow('script "a" ran out after 1 answers');
  });

  test('when no script fits', async () => {
    const server = await serve({ scripts: { a: [say('a1')] } });
    expect((await refusalOf(ask(server, user('[script:b]')))).message).toContain('no script "b"');
    expect((await refusalOf(ask(server, user('go')))).message).toContain('no script "(default)"');
    expect(server.failures).toHaveLength(2);
  });

  test('when answers are left over', async () => {
    const server = await serve({ scripts: { a: [say('a1'), say('a2'), say('a3')] } });
    await ask(server, user('[script:a]'));
    expect(server.assertDone).toThrow('script "a": answer 2, 3 of 3 was never asked for');
  });

  test('when a step throws', async () => {
    const server = await serve([
      () => {
        throw new Error('expected 3 cards');
      },
    ]);
    expect((await refusalOf(ask(server, user('go')))).status).toBe(400);
    expect(server.assertDone).toThrow('threw at answer 1: expected 3 cards');
  });

  test('when a conversation is malformed', async () => {
    const server = await serve([say('x')]);
    const orphan: ChatCompletionMessageParam = { role: 'tool', tool_call_id: 'a', content: '1' };
    await refusalOf(ask(server, user('go'), orphan));
    expect(server.assertDone).toThrow("a request was refused: Invalid parameter: messages with role 'tool'");
  });
});

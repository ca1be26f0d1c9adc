/** What a person types in a chat, and what is made of it. */
import { text as textOf } from 'node:stream/consumers';
import { describe, expect, test } from '@jest/globals';
import { senderName } from '../../../../client/cli/chat/chat.ts';
import { onlyAgent } from '../../../../client/cli/chat/choose-agent.ts';
import { FoldedText, PasteFilter } from '../../../../client/cli/chat/paste.ts';
import { writtenAnswer } from '../../../../client/cli/chat/questions.ts';
import { completedLine, typedLine } from '../../../../client/cli/chat/slash-commands.ts';

describe('what is typed', () => {
  test.each([
    ['hello', { kind: 'message', text: 'hello' }],
    ['//etc/hosts', { kind: 'message', text: '/etc/hosts' }],
    ['/stop', { kind: 'command', name: '/stop', rest: '' }],
    ['/steer  be brief\nplease ', { kind: 'command', name: '/steer', rest: 'be brief\nplease' }],
    ['/stauts', { kind: 'unknown', word: '/stauts', meant: '/status' }],
    ['/Stop', { kind: 'unknown', word: '/Stop', meant: '/stop' }],
    ['/frobnicate', { kind: 'unknown', word: '/frobnicate', meant: undefined }],
  ])('%j', (line, typed) => {
    expect(typedLine(line)).toEqual(typed);
  });

  test.each([
    ['/he', '/help'],
    ['/st', '/st'],
    ['/sto', '/stop'],
    ['/queue in', '/queue interrupt'],
    ['/queue r', '/queue r'],
    ['he', 'he'],
    ['/none', '/none'],
  ])('Tab makes %j %j', (line, completed) => {
    expect(completedLine(line)).toBe(completed);
  });
});

describe('an answer to a question', () => {
  test.each([
    ['y', { answer: { decision: 'approved' } }],
    [' Yes ', { answer: { decision: 'approved' } }],
    ['n', { answer: { decision: 'denied' } }],
    ['no too much', { answer: { decision: 'denied', reason: 'too much' } }],
    ['{"amount":10}', { answer: { decision: 'approved', arguments: { amount: 10 } } }],
    ['{"amount":', { wrong: expect.stringContaining('no JSON object') }],
    ['not now', null],
    ['yesterday', null],
  ])('%j about a call', (text, answer) => {
    expect(writtenAnswer(text, 'call')).toEqual(answer);
  });

  test.each([
    ['{"maxSteps":100}', { answer: { decision: 'approved', budgets: { maxSteps: 100 } } }],
    ['{"steps":1}', { wrong: expect.stringContaining('no budgets') }],
    ['n', { answer: { decision: 'denied' } }],
  ])('%j about a budget', (text, answer) => {
    expect(writtenAnswer(text, 'budget')).toEqual(answer);
  });
});

describe('what is pasted', () => {
  async function typedBy(folded: FoldedText, ...chunks: readonly (string | Buffer)[]): Promise<string> {
    const filter = new PasteFilter(folded);
    for (const chunk of chunks) filter.write(chunk);
    filter.end();
    return textOf(filter);
  }

  test.each([
    ['keys', ['he', 'y\r'], 'hey\r', 'hey\r'],
    ['one line', ['\u001b[200~a line\n\u001b[201~'], 'a line', 'a line'],
    ['several', ['\u001b[200~a\r\n\tb\rc\u001b[201~ d\r'], 'a [+2 lines #1] d\r', 'a\n\tb\nc d\r'],
    ['in pieces', ['x\u001b[200~a', '\nb\u001b[2', '01~', 'y'], 'xa [+1 line #1]y', 'xa\nby'],
    ['without marks', ['a\rb\r'], 'a [+1 line #1]\r', 'a\nb\r'],
    ['keys that end a line', ['a\r'], 'a\r', 'a\r'],
    ['with control characters', ['\u001b[200~a\u0003\u0004b\u001b[201~'], 'ab', 'ab'],
    ['a mark that nobody made', ['a [+9 lines #7]'], 'a [+9 lines #7]', 'a [+9 lines #7]'],
  ])('%s', async (_, chunks, shown, sent) => {
    const folded = new FoldedText();
    const line = await typedBy(folded, ...chunks);
    expect(line).toBe(shown);
    expect(folded.unfold(line)).toBe(sent);
  });

  test('a character whose bytes come in two pieces is one', async () => {
    const bytes = Buffer.from('ü');
    expect(await typedBy(new FoldedText(), bytes.subarray(0, 1), bytes.subarray(1))).toBe('ü');
  });
});

test.each([
  ['ann', 'ann'],
  ['DOMAIN\\ann b', 'DOMAIN-ann-b'],
  ['_svc', 'svc'],
  ['日本', 'user'],
  ['', 'user'],
])('the user %j writes as %s', (name, id) => {
  expect(senderName(name)).toBe(id);
});

describe('with whom one chats who names nobody', () => {
  const profile = (name: string, singleton = false) => ({ name, singleton, workerTarget: 'w', hash: 'h' });
  test('the only agent, else the only one that all share', () => {
    expect(onlyAgent([profile('a')])).toBe('a');
    expect(onlyAgent([profile('a'), profile('b', true)])).toBe('b');
  });

  test.each([
    ['several', [profile('a'), profile('b')], 'say with whom to chat: a, b'],
    ['none', [], 'no agent is there to chat with'],
  ])('%s are said', (_, profiles, message) => {
    expect(() => onlyAgent(profiles)).toThrow(
      expect.objectContaining({ code: 'invalid_request', message: expect.stringContaining(message) }),
    );
  });
});

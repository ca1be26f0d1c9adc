import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import { toMessages as project } from '../../../activities/llm/projection.ts';
import { shownResult } from '../../../activities/spool.ts';
import { parseChatRequest } from '../../../workers/model-server/chat-request.ts';
import { checkConversation } from '../../../workers/model-server/conversation.ts';
import { RESIDENCIES } from '../../../workflows/kernel/pressure.ts';
import type { Card } from '../../../workflows/protocol/cards.ts';
import { card, conversations, deliverable, instruction, proposed, result, thought } from './cards.ts';

/** Why a provider would refuse these messages; undefined when it would take them. */
function refusal(messages: readonly ChatCompletionMessageParam[]): string | undefined {
  const parsed = parseChatRequest({ model: 'm', messages });
  return parsed.ok ? checkConversation(parsed.request)?.message : parsed.error.message;
}

/** Each call is answered once, right after the message that made it, in the order of the calls. */
function expectAnswersInOrder(messages: readonly ChatCompletionMessageParam[]): void {
  for (const [index, message] of messages.entries()) {
    if (message.role !== 'assistant' || !message.tool_calls) continue;
    const ids = message.tool_calls.map((call) => call.id);
    const answers = messages.slice(index + 1, index + 1 + ids.length);
    expect(answers.map((answer) => (answer.role === 'tool' ? answer.tool_call_id : answer.role))).toEqual(ids);
  }
}

const toMessages = (cards: Parameters<typeof project>[0]) => project(cards, 128_000);

describe('a card', () => {
  test('of an instruction or of context is said by the user (W19)', () => {
    expect(toMessages([instruction('do it'), card('context.note', { text: 'mind this' })])).toEqual([
      { role: 'user', content: 'do it' },
      { role: 'user', content: 'mind this' },
    ]);
  });

  test('of a summary is said by the user, so that a conversation begins with one (K14, K15)', () => {
    const [first] = toMessages([card('context.summary', { text: 'in short' }), thought('so I went on')]);
    expect(first).toEqual({ role: 'user', content: expect.stringContaining('in short') });
  });

  test('of a thought is said by the assistant, with its calls as the model wrote them (W19)', () => {
    const call = proposed('c1', 'add', { arguments: '{ "a":1 }' });
    expect(toMessages([thought('let me see', [call]), result('c1', { result: { sum: 3 } })])).toEqual([
      {
        role: 'assistant',
        content: 'let me see',
        tool_calls: [{ id: 'wire-c1', type: 'function', function: { name: 'add', arguments: '{ "a":1 }' } }],
      },
      { role: 'tool', tool_call_id: 'wire-c1', content: '{"sum":3}' },
    ]);
  });

  test('of a thought without a text has calls only, and without either says nothing (W19)', () => {
    for (const text of ['', ' \n'])
      expect(toMessages([thought(text, [proposed('c1')]), result('c1')])[0]).toMatchObject({ content: null });
    expect(toMessages([thought('')])).toEqual([]);
    expect(toMessages([thought(' \n')])).toEqual([]);
  });

  test('of a call says nothing by itself (W19)', () => {
    expect(toMessages([card('tool.call', { callId: 'c1', tool: 'add', arguments: {} })])).toEqual([]);
  });

  test.each(['sys.must_end_with_required', 'sys.final_report', 'sys.rolled_back', 'sys.go_on'] as const)(
    'of %s is a system note (W19)',
    (type) => {
      expect(toMessages([card(type, { text: 'end now' })])).toEqual([{ role: 'system', content: 'end now' }]);
    },
  );
});

describe('a result', () => {
  const contentOf = (more: Parameters<typeof result>[1]): unknown =>
    toMessages([thought('', [proposed('c1')]), result('c1', more)])[1]?.content;

  test.each([
    ['an object', { a: 1 }, '{"a":1}'],
    ['a list', [1, 'x'], '[1,"x"]'],
    ['a number', 7, '7'],
    ['a text, as it is', 'plain "text"', 'plain "text"'],
    ['an empty text, which stays visible', '', '""'],
    ['null', null, 'null'],
    ['nothing', undefined, 'null'],
    ['false', false, 'false'],
  ])('that is %s is answered as such (W19)', (_, value, content) => {
    expect(contentOf(value === undefined ? { result: null } : { result: value })).toBe(content);
  });

  test.each(['failed', 'timeout', 'canceled', 'partial'] as const)(
    'that is %s is answered by its error and status (W19)',
    (status) => {
      const error = { code: 'tool_failed', message: 'no' };
      const body = JSON.parse(String(contentOf({ status, error, result: 'half' }))) as unknown;
      expect(body).toEqual({ error, status, result: 'half' });
    },
  );

  test.each(RESIDENCIES)('that is shown %s answers its call all the same (K15)', (residency) => {
    const long = { ...result('c1', { result: 'word '.repeat(9_000) }), residency };
    const messages = toMessages([thought('', [proposed('c1')]), long]);
    expect(messages[1]).toMatchObject({ role: 'tool', tool_call_id: 'wire-c1' });
    expect(messages[1]?.content).toBe(shownResult('word '.repeat(9_000), 'c1', residency, 128_000));
  });

  test('that never came is answered as canceled, so that an aborted turn does no harm to the next (W19)', () => {
    const aborted = [instruction('first'), thought('', [proposed('c1'), proposed('c2')]), result('c2')];
    const messages = toMessages([...aborted, instruction('second', 't2')]);
    expect(refusal(messages)).toBeUndefined();
    expect(messages.map((message) => message.role)).toEqual(['user', 'assistant', 'tool', 'tool', 'user']);
    expect(JSON.parse(String(messages[2]?.content))).toMatchObject({ error: { code: 'canceled' } });
  });

  test('that came late, after other cards, is answered in its place (T15)', () => {
    const call = [instruction('first'), thought('', [proposed('c1')])];
    const later = [deliverable({ text: 'done' }), instruction('second', 't2')];
    expect(toMessages([...call, ...later, result('c1')])).toEqual(toMessages([...call, result('c1'), ...later]));
  });
});

describe('a deliverable', () => {
  test('that a thought of its turn already says is left out (W19)', () => {
    expect(toMessages([thought('42'), deliverable({ text: '42' })])).toHaveLength(1);
  });

  test('whose parts are thoughts in a row is left out, and is said where it is made of others (W19, K11)', () => {
    const go = card('sys.go_on', { text: 'go on' });
    const called = [thought('let me see', [proposed('c1')]), result('c1')];
    const parts = [...called, thought('one '), go, thought('two '), go, thought('three')];
    expect(toMessages([...parts, deliverable({ text: 'one two three' })])).toEqual(toMessages(parts));
    for (const text of ['two one ', 'one three', 'one two three four', 'one tw'])
      expect(toMessages([...parts, deliverable({ text })]).at(-1)).toEqual({ role: 'assistant', content: text });
  });

  test('that a tool made is said by the assistant (W19)', () => {
    expect(toMessages([thought('', [proposed('c1')]), result('c1'), deliverable({ text: 'made' })]).at(-1)).toEqual({
      role: 'assistant',
      content: 'made',
    });
  });

  test('is said also when a thought of another turn happens to say the same (W19)', () => {
    const first = [instruction('one'), thought('ok'), deliverable({ text: 'ok' })];
    const calls = thought('', [proposed('c1')], 't2');
    const second = [instruction('two', 't2'), calls, result('c1', {}, 't2'), deliverable({ text: 'ok' }, 't2')];
    expect(toMessages([...first, ...second]).at(-1)).toEqual({ role: 'assistant', content: 'ok' });
  });

  test('of submitted fields is left out, as the call that made them says it (W19)', () => {
    const fields = [{ name: 'answer', value: 42 }];
    const call = proposed('c1', 'submit_result', { arguments: JSON.stringify({ fields }) });
    const messages = toMessages([thought('', [call]), result('c1'), deliverable({ fields })]);
    expect(messages.map((message) => message.role)).toEqual(['assistant', 'tool']);
  });

  test('of fields whose call is not rendered is said by the assistant (W19)', () => {
    const fields = [{ name: 'answer', value: 42 }];
    expect(toMessages([deliverable({ fields })])).toEqual([{ role: 'assistant', content: JSON.stringify(fields) }]);
  });

  test('that is a fallback tells why there was no answer (T7)', () => {
    const ended = deliverable({ fallback: { reason: 'it was stopped', toolResults: 2 } });
    const said = { role: 'assistant', content: expect.stringContaining('it was stopped') };
    expect(toMessages([instruction('do it'), ended]).at(-1)).toEqual(said);
    expect(toMessages([thought('hm'), ended]).at(-1)).toEqual(said);
  });

  test('of a queued turn that was cancelled has no place: nothing else of that turn is there (T8)', () => {
    const canceled = deliverable({ fallback: { reason: 'it was cancelled', toolResults: 0 } }, 't9');
    expect(toMessages([instruction('do it'), canceled, thought('done')])).toHaveLength(2);
  });
});

describe('a blank text', () => {
  test.each([
    ['an instruction card', instruction('')],
    ['a context card', card('context.note', { text: '' })],
    ['a deliverable of a tool that returned an empty text', deliverable({ text: '' })],
  ])('in %s leaves the request well-formed: a provider refuses empty messages (W19)', (_, blank) => {
    expect(refusal(toMessages([instruction('hello'), thought('hi'), blank, instruction('more')]))).toBeUndefined();
  });
});

describe('whatever the cards', () => {
  test('the messages are such that a provider takes them, each call answered once and in order (W19, T15)', () => {
    fc.assert(
      fc.property(conversations, (cards) => {
        const messages = toMessages(cards);
        expect(refusal(messages)).toBeUndefined();
        expectAnswersInOrder(messages);
      }),
      { numRuns: 500 },
    );
  });

  test('the place of the results among them makes no difference (T15)', () => {
    const placed = fc.tuple(conversations, fc.infiniteStream(fc.nat(1_000)));
    fc.assert(
      fc.property(placed, ([cards, dice]) => {
        const moved: Card[] = cards.filter((each) => each.type !== 'tool.result');
        for (const each of cards) {
          if (each.type === 'tool.result') moved.splice((dice.next().value ?? 0) % (moved.length + 1), 0, each);
        }
        expect(toMessages(moved)).toEqual(toMessages(cards));
      }),
      { numRuns: 500 },
    );
  });

  test('they are read only: projecting the same cards twice gives the same bytes (W18)', () => {
    fc.assert(
      fc.property(conversations, (cards) => {
        const before = JSON.stringify(cards);
        expect(JSON.stringify(toMessages(cards))).toBe(JSON.stringify(toMessages(cards)));
        expect(JSON.stringify(cards)).toBe(before);
      }),
    );
  });
});

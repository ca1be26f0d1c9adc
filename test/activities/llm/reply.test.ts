import { describe, expect, test } from '@jest/globals';
import { REPLY_BOUNDS, ReplyBuilder, type StreamedReply } from '../../../activities/llm/reply.ts';
import { proposalsOf } from '../../support/proposed-calls.ts';

const finished = { choices: [{ delta: {}, finish_reason: 'stop' }] };
const said = (content: unknown) => ({ choices: [{ delta: { content } }] });
const called = (...pieces: readonly unknown[]) => ({ choices: [{ delta: { tool_calls: pieces } }] });
const piece = (index: unknown, id?: unknown, name?: unknown, args?: unknown) => ({
  index,
  id,
  function: { name, arguments: args },
});

/** The reply to a whole stream; throws when it has no end. */
function replyOf(chunks: readonly unknown[]): StreamedReply {
  const builder = new ReplyBuilder('asked-for');
  for (const chunk of chunks) if (!builder.add(chunk, 1)) break;
  return builder.finish();
}

const callsOf = (...chunks: readonly unknown[]) =>
  replyOf([...chunks, finished]).calls.map(({ id, name, arguments: args }) => [id, name, args]);

describe('calls of a stream', () => {
  test.each([4_294_967_294, -1, 1.5, Number.MAX_SAFE_INTEGER, null, '0', {}])(
    'are found under any index, in the order in which they appear: %p (W15)',
    (index) => {
      const first = called(piece(index, 'a', 'add', '{"n":'));
      const rest = called(piece(index, undefined, undefined, '1}'));
      expect(callsOf(first, rest, called(piece(7, 'b', 'look', '{}')))).toEqual([
        ['a', 'add', '{"n":1}'],
        ['b', 'look', '{}'],
      ]);
    },
  );

  test('that all have the index 0 are told apart by their ids (W15)', () => {
    const whole = [piece(0, 'a', 'add', '{"n":1}'), piece(0, 'b', 'add', '{"n":2}')];
    const both = [
      ['a', 'add', '{"n":1}'],
      ['b', 'add', '{"n":2}'],
    ];
    expect(callsOf(called(...whole))).toEqual(both);
    const inPieces = [
      piece(0, 'a', 'add', '{"n"'),
      piece(0, '', '', ':1}'),
      piece(0, 'b', 'add', ''),
      piece(0, '', '', '{"n":2}'),
    ];
    expect(callsOf(...inPieces.map((one) => called(one)))).toEqual(both);
  });

  test('that all have the index 0 and no id are told apart by a name behind arguments (W15)', () => {
    const pieces = [
      piece(0, '', 'add', '{"a":"}\\"{"}'),
      piece(0, '', 'add', '{"n":2}'),
      piece(0, '', 'look', ''),
      piece(0, '', '', '{'),
      piece(0, '', '', '}'),
    ];
    expect(callsOf(...pieces.map((one) => called(one)))).toEqual([
      ['', 'add', '{"a":"}\\"{"}'],
      ['', 'add', '{"n":2}'],
      ['', 'look', '{}'],
    ]);
  });

  test('may say their id and name again with each piece (W15)', () => {
    const pieces = [
      piece(0, 'a', 'add', ''),
      piece(0, 'a', 'add', '{"n"'),
      piece(0, 'a', 'add', ':1}'),
      piece(0, 'a', 'add', ''),
    ];
    expect(callsOf(...pieces.map((one) => called(one)))).toEqual([['a', 'add', '{"n":1}']]);
  });

  test.each([
    ['no id again', [piece(0, 'a', 'add', '{"n"'), piece(0, '', 'add', ':1}'), piece(0, '', 'add', '')]],
    ['neither index nor id', [piece(null, '', 'add', '{"n"'), piece(null, '', 'add', ':1}')]],
    ['a blank piece behind them', [piece(0, 'a', 'add', '{"n":1}'), piece(0, 'a', 'add', '\n')]],
  ])('that say their name with each piece are one call, with %s (W15)', (_, pieces) => {
    const [[, name, args] = [], ...more] = callsOf(...pieces.map((one) => called(one)));
    expect({ name, args: args?.trim(), more }).toEqual({ name: 'add', args: '{"n":1}', more: [] });
  });

  test('may be interleaved, and have their names in pieces (W15)', () => {
    const pieces = [
      piece(0, 'a', 'a'),
      piece(1, 'b', 'look'),
      piece(0, '', 'dd'),
      piece(1, '', '', '{}'),
      piece(0, '', '', '{"n":1}'),
    ];
    expect(callsOf(...pieces.map((one) => called(one)))).toEqual([
      ['a', 'add', '{"n":1}'],
      ['b', 'look', '{}'],
    ]);
  });

  test('may have no index, each whole, or in pieces behind one another (W15)', () => {
    const none = undefined;
    const pieces = [
      piece(none, 'a', 'add', '{}'),
      piece(none, 'a', 'add', '{"n":1}'),
      piece(none, '', 'look', '{'),
      piece(none, '', '', '}'),
    ];
    expect(callsOf(...pieces.map((one) => called(one)))).toEqual([
      ['a', 'add', '{}'],
      ['a', 'add', '{"n":1}'],
      ['', 'look', '{}'],
    ]);
  });

  test('may have arguments that are an object; anything else is no reason to take them for none (W15)', () => {
    expect(callsOf(called(piece(0, 'a', 'add', { n: 1 })), called(piece(1, 'b', 'add', 5)))).toEqual([
      ['a', 'add', '{"n":1}'],
      ['b', 'add', '5'],
    ]);
  });

  test('are at most so many: the answer ends there (W15)', () => {
    const many = Array.from({ length: 1_000 }, (_, index) => called(piece(index, `id${index}`, 'add', '{}')));
    const { calls, finishReason } = replyOf(many);
    expect(calls).toHaveLength(REPLY_BOUNDS.calls);
    expect(calls.at(-1)?.id).toBe(`id${REPLY_BOUNDS.calls - 1}`);
    expect(finishReason).toBe('length');
  });

  test('are read in time that grows with their length, however they come (W15)', () => {
    const builder = new ReplyBuilder('m');
    const open = '{"a":"';
    builder.add(called(piece(0, 'a', 'add', open)), 1);
    for (let at = 0; at < 200_000; at += 1) builder.add(called(piece(0, 'a', 'add', '}')), 1);
    builder.add(finished, 1);
    expect(builder.finish().calls).toEqual([{ id: 'a', name: 'add', arguments: open + '}'.repeat(200_000) }]);
  });

  test('of an answer that was cut are kept; one that had no arguments yet is not taken for one without any (W15)', () => {
    const cut = { choices: [{ delta: {}, finish_reason: 'length' }] };
    const whole = called(piece(0, 'a', 'look', ''), piece(1, 'b', 'look', '{}'));
    expect(replyOf([whole, called(piece(2, 'c', 'look', '')), cut]).calls.map((call) => call.id)).toEqual(['a', 'b']);
    expect(replyOf([whole, called(piece(2, 'c', 'look', '{"n')), cut]).calls.map((call) => call.id)).toEqual([
      'a',
      'b',
      'c',
    ]);
  });
});

describe('a reply', () => {
  test.each([
    ['stop', 'whole'],
    ['tool_calls', 'whole'],
    ['function_call', 'whole'],
    ['STOP', 'whole'],
    ['end_turn', 'whole'],
    ['eos_token', 'whole'],
    ['COMPLETE', 'whole'],
    ['length', 'cut'],
    ['max_tokens', 'cut'],
    ['MAX_TOKENS', 'cut'],
    ['model_length', 'cut'],
    ['content_filter', 'filtered'],
    ['refusal', 'filtered'],
    ['SAFETY', 'filtered'],
    ['PROHIBITED_CONTENT', 'filtered'],
    ['end', 'whole'],
    ['MALFORMED_FUNCTION_CALL', 'unknown'],
    ['function_call_filter: MALFORMED_FUNCTION_CALL', 'unknown'],
    ['content_filter: RECITATION', 'filtered'],
    ['unstoppable', 'unknown'],
    ['reason 7', 'unknown'],
  ])('that ends with %s is %s: a part never counts as a whole (K11)', (word, finish) => {
    const last = { choices: [{ delta: {}, finish_reason: word }] };
    expect(replyOf([said('half a'), last])).toMatchObject({ text: 'half a', finish, cutHere: false });
  });

  test.each(['error', 'abort', 'insufficient_system_resource', 'network_error'])(
    'that the provider broke off with %s is none (W14)',
    (word) => {
      const last = { choices: [{ delta: {}, finish_reason: word }] };
      expect(() => replyOf([said('half a'), last])).toThrow(`the provider broke off its answer, ${word}`);
    },
  );

  test('goes on where the provider says by the word null that it has not ended (W15)', () => {
    const open = { choices: [{ delta: { content: 'one ' }, finish_reason: 'null' }] };
    expect(replyOf([open, said('two'), finished])).toMatchObject({ text: 'one two', finish: 'whole' });
    expect(() => replyOf([open])).toThrow('before it was finished');
  });

  test('may have its text in parts (W15)', () => {
    const parts = [{ type: 'text', text: 'one ' }, 'two ', { type: 'thinking', thinking: [] }, null, { text: 'three' }];
    expect(replyOf([said(parts), finished]).text).toBe('one two three');
  });

  test.each([
    null,
    7,
    'text',
    [],
    {},
    { choices: null },
    { choices: {} },
    { choices: [] },
    { choices: [null] },
    { choices: [{}] },
    { choices: [{ delta: null }] },
    { choices: [{ delta: [] }] },
    { choices: [{ delta: { content: 5, refusal: {}, tool_calls: {} }, finish_reason: 5 }] },
    { choices: [{ delta: { tool_calls: [null, 5, 'x', [], {}, { function: null }, { index: 3, function: 7 }] } }] },
    { model: 5, usage: 'many', choices: [{ delta: { content: null, refusal: null, tool_calls: null } }] },
  ])('passes over a chunk that says nothing: %j (W15)', (chunk) => {
    const expected = { text: 'ok', refusal: '', calls: [], model: 'asked-for', finishReason: 'stop', usage: null };
    expect(replyOf([chunk, said('ok'), chunk, finished, chunk])).toMatchObject(expected);
  });

  test('is not there when its stream did not come to an end (W14)', () => {
    const builder = new ReplyBuilder('m');
    builder.add(said('half'), 1);
    expect(() => builder.finish()).toThrow('the stream ended before it was finished');
  });

  test('keeps as much text as there is room for, cut between characters, and ends there (W15)', () => {
    for (const shift of ['', 'a', 'ab', 'abc']) {
      const { text, finishReason } = replyOf([said(shift), said('🧬"\n'.repeat(100_000)), said('more'), finished]);
      expect(finishReason).toBe('length');
      expect(text.isWellFormed()).toBe(true);
      expect(text.startsWith(`${shift}🧬"\n🧬`)).toBe(true);
      const bytes = Buffer.byteLength(JSON.stringify(text));
      expect(bytes).toBeLessThanOrEqual(REPLY_BOUNDS.bytes + 2);
      expect(bytes).toBeGreaterThan(REPLY_BOUNDS.bytes - 256);
    }
  });

  test('counts what it holds as it is stored: control characters take six bytes each (W15)', () => {
    expect(replyOf([said('\u0000'.repeat(REPLY_BOUNDS.bytes))]).text).toMatch(/^\0{87300,87381}$/);
  });

  test('is well-formed, whatever came in halves (W15)', () => {
    expect(replyOf([said('\ud83d'), said('\ude00 \ud83d'), finished]).text).toBe('😀 \ufffd');
    const args = '{"a":"\ud83d","b":"\\ud83d","c":"\\\\ud83d","d":"\\uD83D\\uDE00\\ude00","\\udc00":1}';
    expect(callsOf(called(piece(0, 'a', 'add', args)))[0]?.[2]).toBe(
      '{"a":"\ufffd","b":"\\ufffd","c":"\\\\ud83d","d":"\\uD83D\\uDE00\\ufffd","\\ufffd":1}',
    );
  });

  test('is given by a model with a plain name, and ends for a plain reason (W15)', () => {
    const odd = { model: 'x'.repeat(1_000), choices: [{ delta: {}, finish_reason: 'a reason\u0000'.repeat(1_000) }] };
    expect(replyOf([odd])).toMatchObject({ model: 'asked-for', finishReason: 'other' });
  });
});

const oneCall = async (args: string, name = 'look', id = 'a') => {
  const { proposed, calls } = await proposalsOf(replyOf([called(piece(0, id, name, args)), finished]));
  return { proposed: proposed[0], error: calls[0]?.result?.error, call: calls[0] };
};

describe('a call of a reply', () => {
  test.each([
    ['lists', '['.repeat(5_000) + ']'.repeat(5_000)],
    ['objects', `${'{"x":'.repeat(5_000)}1${'}'.repeat(5_000)}`],
    ['just more than is taken', '['.repeat(REPLY_BOUNDS.depth) + ']'.repeat(REPLY_BOUNDS.depth)],
  ])('with arguments nested too deeply in %s fails, says so and goes back empty (W9, W15)', async (_, value) => {
    for (const name of ['look', 'add', 'submit_result', 'read_result', 'nobody']) {
      const { proposed, error } = await oneCall(`{"x":${value}}`, name);
      expect(error).toMatchObject({ code: 'invalid_arguments', message: expect.stringContaining('200 deep') });
      expect(proposed?.arguments).toBe('{}');
    }
  });

  test('with arguments as deep as is taken is run (W9)', async () => {
    const value = '['.repeat(REPLY_BOUNDS.depth - 2) + ']'.repeat(REPLY_BOUNDS.depth - 2);
    expect(await oneCall(`{"n":${value}}`, 'add')).toMatchObject({ error: undefined });
  });

  test('with numbers that are short when written once and long when written again fails (W15)', async () => {
    const { error, call } = await oneCall(`{"n":[${'1e20,'.repeat(60_000)}1]}`);
    expect(error).toMatchObject({ code: 'invalid_arguments', message: expect.stringContaining('512 KiB') });
    expect(call?.content.arguments).toEqual({});
  });

  test('whose every item is wrong is told of the first ones (W9)', async () => {
    const { error } = await oneCall(`{"fields":[${'1,'.repeat(100_000)}1]}`, 'submit_result');
    expect(error?.code).toBe('invalid_arguments');
    expect(Buffer.byteLength(error?.message ?? '')).toBeLessThan(9_000);
  });

  test.each(['', 'two words', 'x'.repeat(129), 'tab\t', 'naïve', '\ud83d', 'nul\u0000'])(
    'has an id of ours on the wire in place of %j (W15)',
    async (id) => {
      expect((await oneCall('{}', 'look', id)).proposed?.providerCallId).toMatch(/^[0-9a-f-]{36}$/);
    },
  );
});

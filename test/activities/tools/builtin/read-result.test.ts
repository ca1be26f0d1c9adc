import { describe, expect, test } from '@jest/globals';
import type { ToolResultContent } from '../../../../workflows/protocol/cards.ts';
import { proposalContext, readOne } from '../../../support/proposed-calls.ts';

const stored = (result: string): ToolResultContent => ({
  callId: 'c7',
  tool: 'add',
  status: 'success',
  afterExecution: 'continue',
  result,
});

/** What a call of `read_result` is answered, where only the call `c7` has a result. */
async function answer(args: object, result = '0123456789') {
  const readResult = async (callId: string) => (callId === 'c7' ? stored(result) : null);
  return (await readOne('read_result', args, proposalContext({ readResult }))).call?.result;
}

describe('read_result', () => {
  test.each([
    [{ call_id: 'c7' }, { text: '0123456789', offset: 0, total: 10, next_offset: null }],
    [
      { call_id: 'c7', offset: 2, limit: 3 },
      { text: '234', offset: 2, total: 10, next_offset: 5 },
    ],
    [
      { call_id: 'c7', offset: 99 },
      { text: '', offset: 99, total: 10, next_offset: null },
    ],
  ])('of %j is answered by that part, while it is proposed (W11)', async (args, result) => {
    expect(await answer(args)).toMatchObject({ status: 'success', afterExecution: 'continue', result });
  });

  test('never parts the halves of a character, and reads on to the end (W11)', async () => {
    const text = '😀ab😀😀c';
    for (const limit of [1, 2, 3, 4]) {
      const parts: string[] = [];
      for (let offset: unknown = 0; typeof offset === 'number' && parts.length < 20; ) {
        const read = (await answer({ call_id: 'c7', offset, limit }, text))?.result as {
          text: string;
          next_offset: number | null;
        };
        parts.push(read.text);
        offset = read.next_offset;
      }
      expect(parts.join('')).toBe(text);
      expect(parts.every((part) => part.isWellFormed())).toBe(true);
    }
    const inTheMiddle = await answer({ call_id: 'c7', offset: 1, limit: 3 }, text);
    expect(inTheMiddle?.result).toMatchObject({ text: '😀a', offset: 0, next_offset: 3 });
  });

  test('of a call that nobody made is an error (W11)', async () => {
    expect(await answer({ call_id: 'c8' })).toMatchObject({ status: 'failed', error: { code: 'invalid_arguments' } });
  });

  test('of a call with a very long id says in few words that there is none (W11)', async () => {
    const { message = '' } = (await answer({ call_id: '🧬'.repeat(50_000) }))?.error ?? {};
    expect(message.isWellFormed()).toBe(true);
    expect(Buffer.byteLength(message)).toBeLessThan(9_000);
    expect(message).not.toBe('');
  });
});

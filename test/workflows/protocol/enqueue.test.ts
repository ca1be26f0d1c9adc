import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { enqueueRequestSchema } from '../../../workflows/protocol/enqueue.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';

/** What is wrong with a request, as one text; empty when nothing is. */
function problems(request: unknown): string {
  const parsed = enqueueRequestSchema.safeParse(request);
  return parsed.success ? '' : z.prettifyError(parsed.error);
}

const request = (more: object) => ({ instruction: 'do it', ...more });

describe('an instruction', () => {
  test.each([
    ['ascii', 'a', 1],
    ['two bytes', 'é', 2],
    ['three bytes', '€', 3],
    ['four bytes', '🙂', 4],
  ])('of %s may have exactly 32 KiB, and not one byte more (T4)', (_, char, size) => {
    const chars = Math.floor((32 * 1024) / size);
    const full = char.repeat(chars) + 'a'.repeat(32 * 1024 - chars * size);
    expect(Buffer.byteLength(full)).toBe(SIZES.instructionBytes);
    expect(problems({ instruction: full })).toBe('');
    expect(problems({ instruction: `${full}a` })).toMatch(
      /at most 32768 bytes.*instructionCardId[\s\S]*at instruction/,
    );
    if (size > 1) expect(problems({ instruction: full.replace(/a*$/, char) })).not.toBe('');
  });

  test('is given as text or as a card, and as exactly one of them (T4)', () => {
    expect(problems({ instructionCardId: v7() })).toBe('');
    expect(problems({ instruction: 'x', instructionCardId: v7() })).toContain('exactly one of');
    expect(problems({})).toContain('exactly one of');
    expect(problems({ instruction: '' })).toContain('at instruction');
  });
});

describe('a request', () => {
  test('has normal priority unless it says otherwise (T9)', () => {
    expect(enqueueRequestSchema.parse(request({}))).toEqual({ instruction: 'do it', priority: 'normal' });
  });

  test.each([
    ['instructionCardId', 'not-a-uuid'],
    ['contextBoxId', 'not-a-uuid'],
    ['profile', 'no spaces allowed'],
    ['profile', ''],
    ['idempotencyKey', ''],
    ['idempotencyKey', 'k'.repeat(257)],
    ['priority', 'urgent'],
    ['correlationId', 'c'.repeat(257)],
    ['traceparent', 't'.repeat(129)],
    ['metadata', { key: 7 }],
    ['metadata', { key: 'v'.repeat(1025) }],
    ['instruction', 7],
  ])('with a bad %s is refused by that name (T8)', (field, value) => {
    const base = field.startsWith('instruction') ? {} : { instruction: 'do it' };
    expect(problems({ ...base, [field]: value })).toContain(`at ${field}`);
  });

  test('with a field nobody knows is refused by its name', () => {
    expect(problems(request({ prioritty: 'now' }))).toContain('prioritty');
  });

  test.each([
    ['a text', 'nonsense', 'at resultFields'],
    ['null', null, 'at resultFields'],
    ['a list', [{ name: 'a' }], 'at resultFields'],
    ['no list of fields', { fields: 'x' }, 'at resultFields.fields'],
    ['a name alone', { fields: ['a'] }, 'at resultFields.fields[0]'],
    ['an empty name', { fields: [{ name: '' }] }, 'at resultFields.fields[0].name'],
    ['a key nobody knows', { fields: [{ name: 'a', desc: 'x' }] }, '"desc"'],
    ['a key beside the fields', { fields: [], strict: true }, '"strict"'],
    ['a name twice', { fields: [{ name: 'a' }, { name: 'b' }, { name: 'a' }] }, 'at resultFields.fields[2].name'],
  ])('with %s as its result fields is refused with the path (T28)', (_, resultFields, path) => {
    expect(problems(request({ resultFields }))).toContain(path);
  });

  test('has the defaults of its result fields filled in (T28)', () => {
    const { resultFields } = enqueueRequestSchema.parse(request({ resultFields: { fields: [{ name: 'a' }] } }));
    expect(resultFields).toEqual({ fields: [{ name: 'a', description: '', required: true }] });
  });

  test('may carry 64 KiB of result fields and metadata, and not one byte more (T4)', () => {
    const wanted = (description: string) => ({ fields: [{ name: 'a', description, required: true }] });
    const around = JSON.stringify([wanted(''), { k: 'v' }]).length;
    const fill = (bytes: number) => request({ resultFields: wanted('€'.repeat(bytes / 3)), metadata: { k: 'v' } });
    const room = SIZES.requestBytes - around;
    const fits = room - (room % 3);
    expect(problems(fill(fits))).toBe('');
    expect(problems(fill(fits + 3))).toMatch(/at most 65536 bytes/);
  });

  test('with parts nested thousands deep is refused, not thrown: an error there is retried for ever (T4, T8)', () => {
    const resultFields: unknown = JSON.parse('['.repeat(20_000) + ']'.repeat(20_000));
    expect(outcomeOf(() => problems(request({ resultFields })))).toContain('at resultFields');
  });
});

/** An overflowing stack has thousands of lines: only its message is of use. */
function outcomeOf(check: () => string): string {
  try {
    return check();
  } catch (error) {
    return `thrown: ${String(error)}`;
  }
}

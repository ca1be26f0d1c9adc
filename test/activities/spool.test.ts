import { beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { callId as idOf } from '../../activities/ids.ts';
import { SPOOL_BYTES, shownResult } from '../../activities/spool.ts';
import { countTokens, loadTokenizer } from '../../activities/tokens.ts';
import { RESIDENCIES, renderedTokens } from '../../workflows/kernel/pressure.ts';
import { utf8Bytes } from '../../workflows/protocol/sizes.ts';

beforeAll(loadTokenizer);

const WINDOW = 10_000;
const CALL = idOf('turn', 3, 1);
const SHORTENED = RESIDENCIES.filter((residency) => residency !== 'full');

/** Of every density: prose, JSON, noise, characters of one to four bytes, control characters. */
const texts = fc
  .tuple(
    fc.oneof(
      fc.string({ unit: 'binary', minLength: 1, maxLength: 300 }),
      fc.string({ unit: 'grapheme', minLength: 1, maxLength: 300 }),
      fc.constantFrom('word and word ', '{"id":1,"x":0.25},', '🧬', '\u0001\u0002', '\ue000\ue0ff', 'é', ' '),
      fc.stringMatching(/^[0-9a-z]{40,300}$/),
    ),
    fc.integer({ min: 1, max: 60 }),
  )
  .map(([text, times]) => text.repeat(times));

describe('what is shown of a result', () => {
  test('is whole up to the limit, and at 0 bytes (W11)', () => {
    for (const text of ['', 'short', 'x'.repeat(SPOOL_BYTES)])
      expect(shownResult(text, CALL, 'full', WINDOW)).toBe(text);
  });

  test('above the limit is its head, with the exact size and how to read on (W11)', () => {
    const text = 'x'.repeat(60 * 1024);
    const shown = shownResult(text, CALL, 'full', WINDOW);
    expect(utf8Bytes(shown)).toBeLessThan(8 * 1024);
    expect(shown.startsWith('x'.repeat(2_000))).toBe(true);
    expect(shown).toContain(`[${60 * 1024} bytes in all; read_result {"call_id":"${CALL}"} reads them]`);
  });

  test('is whole at any residency when it is short (K15)', () => {
    for (const residency of RESIDENCIES) expect(shownResult('it is done', CALL, residency, WINDOW)).toBe('it is done');
  });

  test('shows the head and the tail, and names the call (K15)', () => {
    const text = `begin ${'middle '.repeat(5_000)} end`;
    for (const residency of ['snipped', 'preview'] as const) {
      const shown = shownResult(text, CALL, residency, WINDOW);
      expect(shown).toMatch(/^begin/);
      expect(shown).toMatch(/ end$/);
      expect(shown).toContain(CALL);
    }
    expect(shownResult(text, CALL, 'collapsed', WINDOW)).toMatch(/^begin[\s\S]*reads them\]$/);
  });

  test('never takes more tokens than the kernel counts with, whatever the text (K15)', () => {
    const windows = fc.constantFrom(2_000, 3_000, WINDOW, 128_000);
    fc.assert(
      fc.property(texts, fc.constantFrom(...SHORTENED), windows, (text, residency, window) => {
        const shown = shownResult(text, CALL, residency, window);
        expect(countTokens(shown)).toBeLessThanOrEqual(renderedTokens(Number.POSITIVE_INFINITY, residency, window));
      }),
      { numRuns: 500 },
    );
  });

  test('is less from one residency to the next, in windows of any size (K15)', () => {
    const text = 'one of many words, '.repeat(500);
    for (const window of [2_000, 2_500, 3_000, 3_999, 4_000, WINDOW]) {
      const shown = RESIDENCIES.map((residency) => countTokens(shownResult(text, CALL, residency, window)));
      expect(shown).toEqual(shown.toSorted((a, b) => b - a));
    }
  });

  test('is cut at code points, at the front and at the end (K15)', () => {
    fc.assert(
      fc.property(texts, fc.nat(3), fc.constantFrom(...RESIDENCIES), (text, shift, residency) => {
        const shown = shownResult(`${'a'.repeat(shift)}${text}`, CALL, residency, 2_000);
        expect(shown.isWellFormed()).toBe(true);
      }),
      { numRuns: 500 },
    );
    const emoji = '🧬'.repeat(20_000);
    for (let shift = 0; shift < 4; shift += 1)
      expect(shownResult('a'.repeat(shift) + emoji, CALL, 'full', WINDOW).isWellFormed()).toBe(true);
  });
});

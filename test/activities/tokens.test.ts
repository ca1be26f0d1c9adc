import { describe, expect, test } from '@jest/globals';
import { countTokens, loadTokenizer } from '../../activities/tokens.ts';

describe('tokens', () => {
  // In this order: what is loaded stays loaded.
  test('are estimated by bytes while the tokenizer is not there (K15)', () => {
    expect([countTokens(''), countTokens('abcd'), countTokens('abcde'), countTokens('ä'.repeat(4))]).toEqual([
      0, 1, 2, 2,
    ]);
  });

  test('are counted as the current OpenAI families count them once it is (K15)', async () => {
    await loadTokenizer();
    expect(countTokens('hello world')).toBe(2);
    expect(countTokens('The quick brown fox jumps over the lazy dog.')).toBe(10);
    expect(countTokens('<|endoftext|>')).toBeGreaterThan(1);
  });

  test('are counted in pieces that part no character (K15)', () => {
    const odd = `a${'🧬'.repeat(1_000)}`;
    expect(countTokens(odd)).toBe(countTokens('a🧬') - countTokens('🧬') + 1_000 * countTokens('🧬'));
  });

  test('of long runs without a boundary are counted piece by piece, in time that grows with their length (K15)', () => {
    const started = performance.now();
    expect(countTokens('a'.repeat(2_000_000))).toBeGreaterThan(200_000);
    // A fraction of a second, and a quarter of an hour in time that grows with the square.
    expect(performance.now() - started).toBeLessThan(60_000);
  });
});

import { describe, expect, test } from '@jest/globals';
import { costOf } from '../../../activities/llm/pricing.ts';

const prices = new Map([
  ['small', { input: 2, output: 10 }],
  ['cached', { input: 2, output: 10, cachedInput: 0.5 }],
  ['local', { input: 0, output: 0 }],
]);
const usage = { input: 1_000_000, output: 100_000, cached: 400_000 };

describe('the cost of a model call', () => {
  test('is what its tokens cost per million, cached ones like the others unless they have a price (W17)', () => {
    expect(costOf(prices, ['small'], usage)).toBeCloseTo(2 + 1);
    expect(costOf(prices, ['cached'], usage)).toBeCloseTo(1.2 + 0.2 + 1);
  });

  test('is that of the first of its names which has a price: the dated one the provider reports, or the one asked for (W17)', () => {
    expect(costOf(prices, ['small-2026-01-01', 'small'], usage)).toBeCloseTo(3);
  });

  test('is unknown for a model without a price, and 0 only for one that costs nothing (W17)', () => {
    expect(costOf(prices, ['other', 'another'], usage)).toBeNull();
    expect(costOf(new Map(), ['small'], usage)).toBeNull();
    expect(costOf(prices, ['local'], usage)).toBe(0);
  });

  test('is unknown for tokens that no provider counted (W17)', () => {
    for (const model of ['small', 'local']) expect(costOf(prices, [model], { ...usage, estimated: true })).toBeNull();
  });
});

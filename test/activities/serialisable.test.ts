import { describe, expect, test } from '@jest/globals';
import { throughJson } from '../../activities/serialisable.ts';

describe('what a tool returns', () => {
  test('is taken as JSON holds it: dates are texts, members without a value are left out (T20)', () => {
    const at = new Date(0);
    class Money {
      readonly #cents = 5;
      toJSON() {
        return { cents: this.#cents };
      }
    }
    expect(throughJson({ at, gone: undefined, list: [1, null], price: new Money() })).toEqual({
      at: '1970-01-01T00:00:00.000Z',
      list: [1, null],
      price: { cents: 5 },
    });
    expect(throughJson(undefined)).toBeNull();
  });

  test.each([
    ['a function', { wind: { refresh: () => 1 } }, 'a function under "refresh" is no JSON'],
    ['a symbol', [Symbol('s')], 'a symbol under "0" is no JSON'],
    ['a bigint', { n: 1n }, 'a bigint under "n" is no JSON'],
    ['a Map', { seen: new Map() }, 'a Map under "seen" is no JSON'],
    ['a Set', new Set([1]), 'a Set is no JSON'],
    ['a promise', { later: Promise.resolve(1) }, 'a promise that was not awaited under "later" is no JSON'],
    ['nothing, by its toJSON', { toJSON: () => undefined }, 'undefined is no JSON'],
  ])('is refused where JSON would drop or empty it without a word: %s (T20)', (_, value, message) => {
    expect(() => throughJson(value)).toThrow(new TypeError(message));
  });
});

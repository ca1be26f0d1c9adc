import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { atCodePoint, clip, utf8Bytes } from '../../../workflows/protocol/sizes.ts';

/** Also lone surrogates: texts come from models and from anywhere else. */
const text = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: 'binary' }),
  fc.array(fc.constantFrom('a', 'é', '€', '🙂', '\ud83d', '\ude42', '…')).map((parts) => parts.join('')),
);

describe('the length of a text', () => {
  test('is what Node counts for UTF-8, lone surrogates included (T4)', () => {
    fc.assert(
      fc.property(text, (value) => {
        expect(utf8Bytes(value)).toBe(Buffer.byteLength(value));
      }),
      { numRuns: 2_000 },
    );
  });
});

test('a place to cut is never between the halves of a character, nor behind the one that was asked for', () => {
  fc.assert(
    fc.property(text, fc.nat(50), (value, index) => {
      const at = atCodePoint(value, index);
      expect(index - at === 0 || index - at === 1).toBe(true);
      if (value.isWellFormed()) expect(value.slice(0, at).isWellFormed() && value.slice(at).isWellFormed()).toBe(true);
    }),
    { numRuns: 2_000 },
  );
});

describe('a clipped text', () => {
  test('is the text itself when it fits, to the byte', () => {
    expect(clip('ab€', 5)).toBe('ab€');
    expect(clip('ab€', 4)).toBe('a…');
    expect(clip('', 3)).toBe('');
  });

  test('fits, starts as the text does, and never cuts a character in two', () => {
    fc.assert(
      fc.property(text, fc.integer({ min: 3, max: 40 }), (value, maxBytes) => {
        const clipped = clip(value, maxBytes);
        expect(Buffer.byteLength(clipped)).toBeLessThanOrEqual(maxBytes);
        if (clipped === value) return;
        const kept = clipped.slice(0, -1);
        expect(clipped.at(-1)).toBe('…');
        expect(value.startsWith(kept)).toBe(true);
        if (value.isWellFormed()) expect(clipped.isWellFormed()).toBe(true);
        // One more character would not have fitted.
        const [next = ''] = value.slice(kept.length);
        expect(Buffer.byteLength(`${kept}${next}…`)).toBeGreaterThan(maxBytes);
      }),
      { numRuns: 2_000 },
    );
  });
});

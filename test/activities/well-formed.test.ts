import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { storedJson } from '../../activities/well-formed.ts';

const HALF = '\ud83d';

describe('what is stored as JSON', () => {
  test('is in well-formed Unicode, values and keys, however deep', () => {
    const stored = storedJson({ text: `a${HALF}b`, list: [{ [`k${HALF}`]: HALF }], other: null });
    expect(JSON.parse(stored)).toEqual({ text: 'a\ufffdb', list: [{ 'k\ufffd': '\ufffd' }], other: null });
  });

  test('keeps whole characters, and letters that only look like an escape', () => {
    const value = { text: '\u{1f600} \\ud83d \\\\ud83d', lone: '\\udxyz' };
    expect(JSON.parse(storedJson(value))).toEqual(value);
  });

  test('is what JSON.stringify writes for any value without a lone surrogate, and well-formed for any other', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
        const stored = storedJson(value);
        expect(stored).not.toMatch(/(?<!\\)(\\\\)*\\ud[89a-f]/);
        if (!/\\ud[89a-f]/.test(JSON.stringify(value))) expect(stored).toBe(JSON.stringify(value));
      }),
    );
  });
});

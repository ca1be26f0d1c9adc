import { describe, expect, test } from '@jest/globals';
import { CodedError, FAILURES, isFailureCode } from '../../../workflows/protocol/failures.ts';

describe('the failure catalogue', () => {
  test.each(Object.entries(FAILURES))('says for %s what it means and what cures it, in sentences', (code, entry) => {
    expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
    for (const text of [entry.message, entry.cure]) expect(text).toMatch(/^[A-Za-z_].*[.]$/);
  });

  test('knows its own codes and no inherited names', () => {
    expect(isFailureCode('stopped')).toBe(true);
    for (const stranger of ['toString', 'constructor', '__proto__', '', undefined, 7]) {
      expect(isFailureCode(stranger)).toBe(false);
    }
  });
});

describe('a coded error', () => {
  test('carries its code, message and cause', () => {
    const cause = new Error('below');
    const error = new CodedError('store_locked', 'the store is locked', { cause });
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: 'CodedError', code: 'store_locked', message: 'the store is locked', cause });
  });
});

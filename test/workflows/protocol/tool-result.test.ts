import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { toolResultReportSchema } from '../../../workflows/protocol/tool-result.ts';

function problems(report: unknown): string {
  const parsed = toolResultReportSchema.safeParse(report);
  return parsed.success ? '' : z.prettifyError(parsed.error);
}

const error = { code: 'quota', message: 'used up' };

describe('a reported result', () => {
  test.each(['success', 'failed', 'timeout', 'canceled', 'partial', 'running'])('may be %s (T14)', (status) => {
    expect(problems({ callId: 'c', status })).toBe('');
  });

  test('may carry an epoch, a body, an error and what comes after it (T14, T19)', () => {
    const full = {
      turnEpoch: 3,
      result: { n: [1, null] },
      error: { ...error, kind: 'fatal', retryable: true, detail: 1 },
    };
    expect(problems({ callId: 'c', status: 'failed', afterExecution: 'terminate', ...full })).toBe('');
  });

  test.each([
    ['no call id', { status: 'success' }, 'at callId'],
    ['an empty call id', { callId: '', status: 'success' }, 'at callId'],
    ['no status', { callId: 'c' }, 'at status'],
    ['an unknown status', { callId: 'c', status: 'great' }, 'at status'],
    ['an epoch of zero', { callId: 'c', status: 'success', turnEpoch: 0 }, 'at turnEpoch'],
    ['an error without code', { callId: 'c', status: 'failed', error: { message: 'm' } }, 'at error.code'],
    [
      'an error without message',
      { callId: 'c', status: 'failed', error: { code: 'x', message: '' } },
      'at error.message',
    ],
    ['an unknown kind of error', { callId: 'c', status: 'failed', error: { ...error, kind: 'odd' } }, 'at error.kind'],
    ['an unknown effect', { callId: 'c', status: 'success', afterExecution: 'explode' }, 'at afterExecution'],
    ['an unknown field', { callId: 'c', status: 'success', reslt: 1 }, 'reslt'],
    ['a body that is not JSON', { callId: 'c', status: 'success', result: 1n }, 'at result'],
  ])('with %s is refused by name (T14, T20)', (_, report, expected) => {
    expect(problems(report)).toContain(expected);
  });

  test('that succeeded has no error (T20)', () => {
    expect(problems({ callId: 'c', status: 'success', error })).toMatch(/a success has no error[\s\S]*at error/);
    expect(problems({ callId: 'c', status: 'partial', error })).toBe('');
  });

  test('nested thousands deep is refused, not thrown: an error there is retried for ever (T4, T20)', () => {
    const result: unknown = JSON.parse('['.repeat(20_000) + ']'.repeat(20_000));
    expect(outcomeOf(() => problems({ callId: 'c', status: 'success', result }))).toContain('at result');
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

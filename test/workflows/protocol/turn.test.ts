import { describe, expect, test } from '@jest/globals';
import { addUsage, isTerminal, NO_USAGE, shownTokens } from '../../../workflows/protocol/turn.ts';

describe('a turn status', () => {
  test.each(['success', 'failed', 'partial', 'timeout', 'canceled'])('%s is terminal (T8)', (status) => {
    expect(isTerminal(status)).toBe(true);
  });

  test.each(['queued', 'dispatched', 'running', 'suspended', ''])('%j is not terminal (T8)', (status) => {
    expect(isTerminal(status)).toBe(false);
  });
});

test('usage adds up part by part (W17)', () => {
  const usage = { input: 10, output: 5, cached: 4 };
  expect(addUsage(NO_USAGE, usage)).toEqual(usage);
  expect(addUsage(usage, { input: 1, output: 2, cached: 3 })).toEqual({ input: 11, output: 7, cached: 7 });
});

test('a sum that holds a count of ours says so, and is shown as about so much (W17)', () => {
  const counted = { input: 10, output: 5, cached: 4 };
  const estimated = { input: 1, output: 2, cached: 0, estimated: true } as const;
  for (const sum of [addUsage(counted, estimated), addUsage(estimated, counted)]) {
    expect(sum).toEqual({ input: 11, output: 7, cached: 4, estimated: true });
    expect(shownTokens(sum.input, sum)).toBe('~11');
  }
  expect(shownTokens(10, counted)).toBe('10');
});

import { expect, test } from '@jest/globals';
import { nextFiring } from '../../../workflows/agent-state/timers.ts';

test.each([
  ['in time', 1_000, 1_000, 1_100],
  ['a little late', 1_000, 1_099, 1_100],
  ['at the next place itself', 1_000, 1_100, 1_200],
  ['long after', 1_000, 5_555, 5_600],
  ['before its time, by a clock that was set back', 1_000, 900, 1_100],
])('a timer of every 100 ms that fires %s fires next on its grid (A9)', (_, nextAt, nowMs, expected) => {
  expect(nextFiring({ nextAt, everyMs: 100 }, nowMs)).toBe(expected);
});

test('a timer without a distance fires once (A9)', () => {
  expect(nextFiring({ nextAt: 1_000, everyMs: null }, 2_000)).toBeNull();
});

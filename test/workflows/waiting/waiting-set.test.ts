/** The waiting set by itself: in whatever order reports, heartbeats, deadlines and noise come, the model sees the same results. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { MAX_WAIT_MS } from '../../../workflows/protocol/time.ts';
import type { ReportAnswer, ToolResultReport } from '../../../workflows/protocol/tool-result.ts';
import {
  DEFERRAL_TRIES,
  type Deferral,
  deferredAgain,
  onReport,
  onResolve,
} from '../../../workflows/waiting/decisions.ts';
import { reduce, transcript, type WaitingEvent, waitingSet } from './waiting-set.ts';

const EPOCH = 3;
const WINDOW_MS = 1_000;
const SOON = 10;
const LATE = 5_000;

const report = (callId: string, more: Partial<ToolResultReport> = {}, nowMs = SOON): WaitingEvent => ({
  type: 'report',
  report: { callId, status: 'success', result: `result of ${callId}`, ...more },
  nowMs,
});
const suspend = (callId: string): WaitingEvent => ({ type: 'suspend', callId, nowMs: 0, windowMs: WINDOW_MS });

function play(callIds: readonly string[], events: readonly WaitingEvent[]) {
  let set = waitingSet(EPOCH, callIds);
  const acks: (ReportAnswer | null)[] = [];
  for (const event of events) {
    const next = reduce(set, event);
    set = next.set;
    acks.push(next.ack);
  }
  return { set, acks, transcript: transcript(set) };
}

const permuted = <T>(items: readonly T[]): fc.Arbitrary<T[]> =>
  fc.shuffledSubarray([...items], { minLength: items.length, maxLength: items.length });

describe('the order of what comes', () => {
  const calls = ['a', 'b', 'c'];
  const results = calls.map((callId) => report(callId));
  const noise = [
    report('a', { turnEpoch: EPOCH - 1, result: 'of a stale epoch' }),
    report('nobody'),
    report('b', { status: 'running', result: undefined }),
    { type: 'resolve', nowMs: SOON } as const,
  ];
  const expected = calls.map((callId) => ({ status: 'success', body: `result of ${callId}` }));

  test('of two results, a duplicate, a stale one, an unknown one and a heartbeat changes nothing (T14, T15)', () => {
    fc.assert(
      fc.property(permuted([...calls.map(suspend), ...results, ...results, ...noise]), (events) => {
        expect(play(calls, events).transcript).toEqual(expected);
      }),
      { numRuns: 2_000 },
    );
  });

  test('gives each call exactly one winner: the others are duplicates (T14)', () => {
    fc.assert(
      fc.property(permuted([...calls.map(suspend), ...results, ...results, ...results]), (events) => {
        const acks = play(calls, events).acks.filter((ack) => ack !== null);
        expect(acks.filter((ack) => ack === 'applied' || ack === 'buffered')).toHaveLength(calls.length);
        expect(acks.filter((ack) => ack === 'duplicate')).toHaveLength(2 * calls.length);
      }),
    );
  });

  test('of deadlines and results: exactly the overdue calls time out, the others keep waiting (T13, T17)', () => {
    const timeOfLook = LATE;
    fc.assert(
      fc.property(fc.subarray(calls), permuted(calls), (answered, order) => {
        const events = [
          ...calls.map(suspend),
          ...order.filter((callId) => answered.includes(callId)).map((callId) => report(callId)),
          { type: 'resolve', nowMs: timeOfLook } as const,
          ...order.map((callId) => report(callId, { result: 'too late' }, timeOfLook)),
        ];
        const outcomes = calls.map((callId) =>
          answered.includes(callId)
            ? { status: 'success', body: `result of ${callId}` }
            : { status: 'timeout', body: null },
        );
        const played = play(calls, events);
        expect(played.transcript).toEqual(outcomes);
        expect(played.acks.slice(-calls.length)).toEqual(calls.map(() => 'duplicate'));
      }),
    );
  });

  test('after the end of the turn is stale, and changes no result (T14)', () => {
    fc.assert(
      fc.property(fc.subarray(calls), permuted(calls), (answered, order) => {
        const early = order.filter((callId) => answered.includes(callId)).map((callId) => report(callId));
        const before = play(calls, [...calls.map(suspend), ...early, { type: 'close' }]);
        const after = play(calls, [...calls.map(suspend), ...early, { type: 'close' }, ...results]);
        expect(after.transcript).toEqual(before.transcript);
        expect(after.acks.slice(-calls.length)).toEqual(
          calls.map((callId) => (answered.includes(callId) ? 'duplicate' : 'stale')),
        );
      }),
    );
  });
});

describe('a heartbeat', () => {
  test('moves it by a year at most (T13, T16)', () => {
    const call = { phase: 'waiting', deadline: 1e300, windowMs: 1e300, deferral: null } as const;
    const turn = { turnEpoch: EPOCH, closed: false };
    expect(onReport(turn, call, { status: 'running' }, false, SOON)).toMatchObject({ deadline: SOON + MAX_WAIT_MS });
  });

  test("moves its call's deadline by the whole window, and no other's (T13, T16)", () => {
    const { set } = play(
      ['a', 'b'],
      [suspend('a'), suspend('b'), report('a', { status: 'running', result: undefined }, 900)],
    );
    expect(set.calls.map((call) => call.deadline)).toEqual([900 + WINDOW_MS, WINDOW_MS]);
    expect(onResolve(set.calls[0] as never, WINDOW_MS)).toEqual({ wakeAt: 900 + WINDOW_MS });
    expect(onResolve(set.calls[1] as never, WINDOW_MS)).toBe('time_out');
  });

  test('of a call that does not wait yet says nothing (T16)', () => {
    const { set, acks } = play(['a'], [report('a', { status: 'running', result: undefined })]);
    expect([acks, transcript(set)]).toEqual([['buffered'], [null]]);
  });
});

describe('a report whose card is missing', () => {
  const turn = { turnEpoch: EPOCH, closed: false };
  const waiting = { phase: 'waiting', deadline: 600_000, windowMs: 600_000, deferral: null } as const;

  test('is tried again after 1, 2, 4 … s, six times in all, then given up (T18)', () => {
    const first = onReport(turn, waiting, { status: 'success' }, false, 0);
    expect(first).toMatchObject({ ack: 'deferred', effect: 'defer' });
    const tries: number[] = [];
    let deferral: Deferral | null = 'deferral' in first ? first.deferral : null;
    while (deferral) {
      tries.push(deferral.nextRetryAt);
      expect(onResolve({ ...waiting, deferral }, deferral.nextRetryAt - 1)).toEqual({ wakeAt: deferral.nextRetryAt });
      expect(onResolve({ ...waiting, deferral }, deferral.nextRetryAt)).toBe('retry');
      deferral = deferredAgain(deferral, waiting.deadline, deferral.nextRetryAt);
    }
    expect(tries).toEqual([1_000, 3_000, 7_000, 15_000, 31_000, 63_000]);
    expect(tries).toHaveLength(DEFERRAL_TRIES);
  });

  test('is not tried beyond the deadline of its call (T17, T18)', () => {
    const deferral = { reason: 'card_not_found', retryCount: 2, nextRetryAt: 7_000 } as const;
    expect(onResolve({ ...waiting, deadline: 5_000, deferral }, 5_000)).toBe('retry');
    expect(deferredAgain(deferral, 5_000, 5_000)).toBeNull();
  });

  test('gives way to a report with a body; another without one changes nothing (T14, T18)', () => {
    const deferral = { reason: 'card_not_found', retryCount: 0, nextRetryAt: 1_000 } as const;
    const again = onReport(turn, { ...waiting, deferral }, { status: 'success' }, false, 500);
    expect(again).toEqual({ ack: 'deferred', effect: 'nothing' });
    const full = onReport(turn, { ...waiting, deferral }, { status: 'success' }, true, 500);
    expect(full).toEqual({ ack: 'applied', effect: 'settle' });
  });
});

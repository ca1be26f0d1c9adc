import { expect, test } from '@jest/globals';
import type { BurstItem } from '../../../workflows/contract/burst.ts';
import { short, whole } from '../../../workflows/turn/burst-items.ts';

const step: Extract<BurstItem, { kind: 'step' }> = {
  kind: 'step',
  nowMs: 7,
  record: {
    stepIndex: 2,
    thoughtCardId: 'card',
    thoughtSeq: 5,
    thoughtTokens: 43,
    noteSeq: null,
    noteTokens: 0,
    steers: [],
    hasText: false,
    answeredAt: 7,
    refused: false,
    calls: [],
    usage: { input: 1, output: 2, cached: 0 },
    cost: null,
    latencyMs: 4,
  },
};
const call = { callId: 'c', status: 'success', afterExecution: 'continue', seq: 7, tokens: 9 } as const;
const results = (...settled: readonly object[]) =>
  ({ kind: 'event', event: { type: 'tool_results', nowMs: 8, settled, suspended: [] } }) as unknown as BurstItem;

test.each<[string, BurstItem]>([
  ['a usual step', step],
  [
    'a step that says and takes something',
    {
      ...step,
      record: {
        ...step.record,
        answeredAt: 3,
        hasText: true,
        noteSeq: 4,
        noteTokens: 6,
        steers: [{ seq: 1, tokens: 2 }],
        calls: [{ callId: 'c', tool: 't', digest: 'd' }],
        shown: { text: 'hm', calls: { c: '{}' } },
        items: [{ kind: 'budgets', seq: 3, budgets: { maxSteps: 3 } }],
      },
    },
  ],
  ['usual results', results(call, { ...call, callId: 'd' })],
  [
    'other results',
    results({ ...call, status: 'failed', errorCode: 'tool_failed' }, { ...call, afterExecution: 'terminate' }),
  ],
  [
    'a summary',
    {
      kind: 'event',
      event: {
        type: 'summarized',
        nowMs: 1,
        stepIndex: 3,
        summary: [9, 'summary', 80],
        usage: { input: 1, output: 1, cached: 0 },
        cost: 0,
      },
    },
  ],
  [
    'a delivery',
    { kind: 'inbox', nowMs: 5, delivery: { items: [{ kind: 'budgets', seq: 3, budgets: { maxSteps: 3 } }] } },
  ],
])('%s comes out as it went in', (_what, item) => {
  expect(whole(JSON.parse(JSON.stringify(short([item]))))).toEqual([item]);
});

test('a result names its call by its place in the step before', () => {
  const calls = ['b', 'c'].map((callId) => ({ callId, tool: 't', digest: 'd' }));
  const proposing: BurstItem = {
    ...step,
    record: { ...step.record, calls, shown: { text: '', calls: { c: '{"n":1}' } } },
  };
  const items = [proposing, results(call, { ...call, callId: 'of another step' }), step, results(call)];
  const crossed = JSON.parse(JSON.stringify(short(items)));
  expect(crossed[1].event.settled[0]).toEqual({ call: 1, seq: 7, tokens: 9 });
  expect(whole(crossed)).toEqual(items);
});

test('what is as usual is left out', () => {
  expect(JSON.stringify(short([step])).length).toBeLessThan(180);
  expect(JSON.stringify(short([results(call)]))).not.toContain('continue');
});

import { describe, expect, test } from '@jest/globals';
import type { StartEvent } from '../../../workflows/kernel/events.ts';
import { governance, NOW, OUTPUT_BOX, Turn } from './turn.ts';

const start: StartEvent = {
  type: 'start',
  nowMs: NOW,
  outputBoxId: OUTPUT_BOX,
  earlier: [],
  instruction: [1, 'user', 7],
  transcript: [
    [2, 'assistant', 5],
    [3, 'tool', 3],
    [4, 'assistant', 5],
  ],
};
const pending = [
  { callId: 'a-0', tool: 'a' },
  { callId: 'b-0', tool: 'b' },
];

describe('a conversation that is taken up again', () => {
  test('goes on with a model call when every call has its result, without another instruction (K22)', () => {
    const turn = new Turn();
    expect(turn.feed(start)).toMatchObject({
      type: 'call_llm',
      stepIndex: 1,
      plan: { ranges: [{ boxId: OUTPUT_BOX, fromSeq: 1, toSeq: 4 }] },
    });
  });

  test('judges and runs its unanswered calls before any model call (K22)', () => {
    const turn = new Turn({ governance: governance({ veto: ['b'] }) });
    expect(turn.feed({ ...start, pending })).toMatchObject({
      type: 'execute_tools',
      calls: [{ callId: 'a-0', tool: 'a' }],
      refuse: [{ callId: 'b-0', code: 'governance_denied' }],
    });
    expect(turn.results({ a: { seq: 5 }, b: { seq: 6, status: 'failed' } })).toMatchObject({ type: 'call_llm' });
  });

  test('loses no more than its last step when one of those calls fails for good (K13, K22)', () => {
    const turn = new Turn();
    turn.feed({ ...start, pending: pending.slice(0, 1) });
    const fatal = { status: 'failed', errorCode: 'broken', errorKind: 'fatal', seq: 5 } as const;
    expect(turn.results({ a: fatal })).toMatchObject({ type: 'call_llm', hide: [4, 5], note: { kind: 'rolled_back' } });
    expect(turn.state.handles.map(([seq]) => seq)).toEqual([1, 2, 3]);
  });
});

import { describe, expect, test } from '@jest/globals';
import { TurnProgress } from '../../../client/cli/progress.ts';
import type { AgentEvent, EventBody } from '../../../workflows/contract/events.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';

let seq = 0;
const at = (createdAt: number, body: EventBody): AgentEvent => {
  seq += 1;
  return { ...body, id: seq, seq, agentId: 'alice', agentTurnId: 't1', createdAt };
};
const state = { status: 'running', turnEpoch: 3, waitingToolCount: 0, resumeDeadline: null } as const;
const call = { callId: 'c1', tool: 'add' } as const;

const linesOf = (events: readonly AgentEvent[]): string[] => {
  const progress = new TurnProgress(1_000);
  return events.flatMap((event) => progress.lines(event));
};

describe('progress of a turn', () => {
  test('tells the lease once, however many states follow', () => {
    const events = [at(1_100, { type: 'state', payload: state }), at(1_200, { type: 'state', payload: state })];
    expect(linesOf(events)).toEqual(['   0.10 s  leased, epoch 3']);
  });

  test('tells that no worker serves the turn, and the lease all the same when a worker has come (T12)', () => {
    const stalled = { ...state, status: 'dispatched', activity: 'waiting_for_workers' } as const;
    const events = [at(11_000, { type: 'state', payload: stalled }), at(12_000, { type: 'state', payload: state })];
    expect(linesOf(events)).toEqual(['  10.00 s  waits for a worker', '  11.00 s  leased, epoch 3']);
  });

  test('tells how long model and tool took, by the times of the events', () => {
    const lines = linesOf([
      at(2_000, { type: 'step', payload: { stepIndex: 1, phase: 'started' } }),
      at(2_250, { type: 'step', payload: { stepIndex: 1, phase: 'executing', tools: ['add', 'add'] } }),
      at(2_300, { type: 'call', payload: { ...call, phase: 'settled', status: 'success', durationMs: 12 } }),
      at(2_400, { type: 'step', payload: { stepIndex: 1, phase: 'completed' } }),
    ]);
    expect(lines).toEqual(['   1.25 s  step 1: model 250 ms -> add, add', '   1.30 s    add success 12 ms']);
  });

  test('tells what a tool says of its progress, on one line', () => {
    const said = (progress: JsonValue) =>
      at(2_000, { type: 'call', payload: { ...call, phase: 'progress', progress } });
    expect(linesOf([said('half\ndone'), said({ done: 7 })])).toEqual([
      '   1.00 s    add: half done',
      '   1.00 s    add: {"done":7}',
    ]);
  });

  test('a call that the model step settled comes after the step', () => {
    const lines = linesOf([
      at(2_000, { type: 'step', payload: { stepIndex: 1, phase: 'started' } }),
      at(2_250, { type: 'call', payload: { ...call, tool: 'submit_result', phase: 'settled', status: 'success' } }),
      at(2_250, { type: 'step', payload: { stepIndex: 1, phase: 'executing', tools: ['submit_result'] } }),
    ]);
    expect(lines).toEqual(['   1.25 s  step 1: model 250 ms -> submit_result', '   1.25 s    submit_result success']);
  });

  test('tells what the kernel noticed', () => {
    const payload = { type: 'rolled_back', reason: 'add failed', cards: 2, inARow: 1 } as const;
    expect(linesOf([at(1_500, { type: 'notice', payload })])).toEqual([
      '   0.50 s  a step was taken back, 1 in a row: add failed',
    ]);
  });

  test('a suspended call took as long as it waited', () => {
    const lines = linesOf([
      at(2_000, { type: 'call', payload: { ...call, phase: 'suspended', deadline: 5_000 } }),
      at(4_500, { type: 'call', payload: { ...call, phase: 'settled', status: 'timeout' } }),
    ]);
    expect(lines[0]).toContain('add waits for a result until 1970-01-01T00:00:05.000Z (call c1)');
    expect(lines[1]).toBe('   3.50 s    add timeout 2.5 s');
  });

  test('the end names the code', () => {
    const payload = { status: 'failed', errorCode: 'stopped', deliverableCardId: 'd', outputBoxId: 'b' } as const;
    expect(linesOf([at(3_000, { type: 'task', payload })])).toEqual(['   2.00 s  ended: failed (stopped)']);
  });
});

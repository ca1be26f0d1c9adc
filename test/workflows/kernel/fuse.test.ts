import { describe, expect, test } from '@jest/globals';
import type { KernelAction } from '../../../workflows/kernel/actions.ts';
import { type ConfigPart, Turn } from './turn.ts';

const started = (more: ConfigPart = {}): Turn => {
  const turn = new Turn(more);
  turn.start();
  return turn;
};

const REFUSED = { status: 'failed', errorCode: 'repeated_call' } as const;

/** The model proposes the same call once more, and the call gets a result; returns the action that follows. */
function again(turn: Turn, digest = 'same', tool = 'a'): { proposed?: KernelAction; next?: KernelAction } {
  const proposed = turn.respond({ calls: [{ callId: turn.idOf(tool), tool, digest }] });
  const refused = proposed?.type === 'execute_tools' && proposed.calls.length === 0;
  const next = turn.results({ [tool]: refused ? REFUSED : {} });
  return { ...(proposed ? { proposed } : {}), ...(next ? { next } : {}) };
}

const times = (turn: Turn, count: number) => Array.from({ length: count }, () => again(turn));

const warned = (action: KernelAction | undefined): boolean =>
  action?.type === 'call_llm' && (action.stateBlock ?? []).some(({ kind }) => kind === 'repeating');

describe('the repeat fuse', () => {
  test('warns from the third time on, in the state block (K12)', () => {
    const turn = started();
    expect(times(turn, 4).map(({ next }) => warned(next))).toEqual([false, false, true, true]);
    expect(turn.actions.at(-1)).toMatchObject({ stateBlock: [{ kind: 'repeating', tool: 'a', times: 4 }] });
    expect(turn.observations.at(-1)).toEqual({ type: 'repeating', tool: 'a', times: 4 });
  });

  test('runs the call five times and refuses it from the sixth on (K12)', () => {
    const turn = started();
    const ran = times(turn, 8).map(({ proposed }) => proposed?.type === 'execute_tools' && proposed.calls.length === 1);
    expect(ran).toEqual([true, true, true, true, true, false, false, false]);
    expect(turn.state.toolCalls).toBe(5);
  });

  test('asks for a report after the ninth time, and then ends the turn no_progress (K12)', () => {
    const turn = started();
    const nexts = times(turn, 9).map(({ next }) => next?.type === 'call_llm' && next.note?.kind);
    expect(nexts).toEqual([...Array.from({ length: 8 }, () => undefined), 'final_report']);
    expect(turn.say()).toMatchObject({
      type: 'done',
      termination: { status: 'partial', errorCode: 'no_progress' },
      deliverable: { from: 'thought' },
    });
  });

  test('asks no operator for more: a budget would not help (K12)', () => {
    const turn = started({ budgets: { onExhausted: 'ask' } });
    expect(times(turn, 9).at(-1)?.next).toMatchObject({ note: { kind: 'final_report' } });
  });

  test('is only about the call that repeats: its sibling runs (K12)', () => {
    const turn = started();
    times(turn, 5);
    const same = { callId: turn.idOf('a'), tool: 'a', digest: 'same' };
    const action = turn.respond({ calls: [same, { callId: turn.idOf('b'), tool: 'b', digest: 'new' }] });
    expect(action).toMatchObject({ calls: [{ tool: 'b' }], refuse: [{ tool: 'a', code: 'repeated_call' }] });
  });
});

describe('a streak', () => {
  test('is of the same tool with the same arguments (K12)', () => {
    const turn = started();
    for (let call = 0; call < 12; call += 1) again(turn, `other-${call}`);
    for (let call = 0; call < 12; call += 1) again(turn, 'same', call % 2 === 0 ? 'a' : 'b');
    expect(turn.observations).toEqual([]);
    expect(turn.state.streaks).toEqual({ 'b:same': 1 });
  });

  test('counts a call once in a step, however often it stands in it (K12)', () => {
    const turn = started();
    const calls = ['x', 'y', 'z'].map((callId) => ({ callId, tool: 'a', digest: 'same' }));
    expect(turn.respond({ calls })).toMatchObject({ calls: [{}, {}, {}] });
    expect(turn.state.streaks).toEqual({ 'a:same': 1 });
  });

  test('is broken by a step without the call (K12)', () => {
    const turn = started();
    times(turn, 4);
    again(turn, 'other');
    expect(warned(times(turn, 2).at(-1)?.next)).toBe(false);
    expect(warned(again(turn).next)).toBe(true);
  });

  test('is neither added to nor broken by a step of meta tools alone (K12)', () => {
    const turn = started();
    times(turn, 2);
    for (let call = 0; call < 12; call += 1) {
      const settled = turn.settled('read_result');
      turn.respond({ calls: [{ callId: settled.callId, tool: 'read_result', digest: 'same', settled }] });
    }
    expect(turn.state.streaks).toEqual({ 'a:same': 2 });
    expect(warned(again(turn).next)).toBe(true);
  });

  test('never counts calls that were recorded without a digest (K12)', () => {
    const turn = started();
    for (let call = 0; call < 12; call += 1) {
      turn.call('a');
      turn.results({ a: {} });
    }
    expect(turn.observations).toEqual([]);
  });

  test('survives a rollback (K12, K13)', () => {
    const turn = started();
    times(turn, 2);
    turn.respond({ calls: [{ callId: turn.idOf('a'), tool: 'a', digest: 'same' }] });
    const next = turn.results({ a: { status: 'failed', errorCode: 'broken', errorKind: 'fatal' } });
    expect(next).toMatchObject({ note: { kind: 'rolled_back' }, stateBlock: [{ kind: 'repeating', times: 3 }] });
  });
});

import { describe, expect, test } from '@jest/globals';
import type { KernelEvent } from '../../../workflows/kernel/events.ts';
import { type KernelState, restored } from '../../../workflows/kernel/state.ts';
import { step } from '../../../workflows/kernel/step.ts';
import { NOW, Turn, turnIn } from './turn.ts';

const throughJson = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/** As the first version had it: without a count of the conversation. */
function firstVersion({ config, context: _, departing: _d, asked: _a, asks: _k, ...state }: KernelState): KernelState {
  const { context: _c, ...leased } = config;
  const checkpoint = state.checkpoint && { ...state.checkpoint, skills: undefined };
  return throughJson({ ...state, checkpoint, config: leased, version: 1 }) as unknown as KernelState;
}

/** What each of these turns waits for. */
const PLACES = ['thinking', 'acting', 'suspended', 'gated', 'done'] as const;

function awaited(turn: Turn): KernelEvent {
  const { stepIndex, outstanding } = turn.state;
  const open = outstanding.filter((call) => call.settled === null);
  if (open.some((call) => call.gated !== undefined))
    return { type: 'approval', nowMs: NOW, answers: open.map(({ callId }) => ({ callId, decision: 'approved' })) };
  const settled = open.map(({ callId }, index) => {
    return { callId, status: 'success', afterExecution: 'continue', seq: 90 + index, tokens: 1 } as const;
  });
  if (open.length > 0) return { type: 'tool_results', nowMs: NOW, settled, suspended: [] };
  return {
    type: 'llm_response',
    nowMs: NOW,
    stepIndex,
    handles: [[90, 'assistant', 1]],
    thoughtCardId: 't',
    hasText: true,
    refused: false,
    calls: [],
    usage: { input: 1, output: 1, cached: 0 },
  };
}

describe('a snapshot', () => {
  test.each(Object.keys(turnIn) as (keyof typeof turnIn)[])(
    'of a turn that is %s is carried on as it is (K22)',
    (place) => {
      const { state } = turnIn[place]();
      expect(restored(throughJson(state))).toEqual(state);
    },
  );

  test.each(PLACES)('of the first version, of a turn that is %s, steps the same (K22)', (place) => {
    const turn = turnIn[place]();
    const event = awaited(turn);
    const { actions, observations } = step(restored(firstVersion(turn.state)), event);
    expect({ actions, observations }).toEqual({
      actions: step(turn.state, event).actions,
      observations: step(turn.state, event).observations,
    });
  });

  test('of the first version goes on to the end of its turn (K22)', () => {
    const old = turnIn.acting();
    const turn = turnIn.acting();
    turn.state = restored(firstVersion(old.state));
    expect(turn.results({ a: {}, b: { status: 'failed', errorKind: 'fatal' } })).toMatchObject({ stepIndex: 2 });
    turn.call('a');
    expect(turn.results({ a: {} })).toMatchObject({ type: 'call_llm', stepIndex: 3 });
    expect(turn.fail('context_overflow')).toMatchObject({ type: 'call_llm', stepIndex: 4 });
    expect(turn.say()).toMatchObject({ type: 'done', termination: { status: 'success' } });
  });

  test('of the first version, of a turn whose operator is asked, asks anew under another id (K9, K22)', () => {
    const turn = new Turn({ budgets: { maxSteps: 1, onExhausted: 'ask' } });
    turn.start();
    turn.call('a');
    turn.results({ a: {} });
    const askId = turn.state.operator?.askId ?? '';
    turn.state = restored(firstVersion(turn.state));
    turn.approve({ callId: askId, decision: 'approved', limits: { maxTokens: 9 } });
    expect(turn.state.operator?.askId).toBe(`${askId}-2`);
  });

  test('of the first version, of a step that is taken back, keeps the skills in use (K13, K22)', () => {
    const rules = [{ name: 'debug', allowedTools: ['a'] }];
    const turn = new Turn({ exposure: { declared: ['a', 'b', 'skill'], core: [], skills: rules } });
    turn.start();
    const settled = turn.settled('skill');
    turn.respond({ calls: [{ callId: settled.callId, tool: 'skill', skill: 'debug', settled }] });
    turn.state = restored(firstVersion(turn.state));
    turn.call('a');
    const next = turn.results({ a: { status: 'failed', errorKind: 'fatal' } });
    expect(next).toMatchObject({ onlyTools: ['a', 'skill', 'submit_result', 'read_result'] });
  });

  test('keeps the budgets as an operator changed them (K22)', () => {
    const turn = new Turn({ budgets: { maxSteps: 3 } });
    turn.start();
    turn.feed({ type: 'limits', nowMs: NOW, limits: { maxSteps: 9 } });
    expect(restored(firstVersion(turn.state)).limits.maxSteps).toBe(9);
  });
});

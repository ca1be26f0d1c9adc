import { describe, expect, test } from '@jest/globals';
import { endingOf } from '../../../workflows/kernel/phase.ts';
import type { FailureCode } from '../../../workflows/protocol/failures.ts';
import { Turn, turnIn } from './turn.ts';

describe('a turn', () => {
  test('has done nothing and waits for nothing before its start (K1)', () => {
    expect(new Turn().state).toMatchObject({
      phase: { kind: 'ready' },
      stepIndex: 0,
      handles: [],
    });
  });

  test('starts with one model call over its earlier turns and its instruction (T24)', () => {
    const turn = new Turn();
    const earlier = [{ boxId: 'output', fromSeq: 1, toSeq: 4 }];
    expect(turn.start(earlier)).toEqual({
      type: 'call_llm',
      stepIndex: 1,
      plan: { ranges: [{ boxId: 'output', fromSeq: 1, toSeq: 5 }] },
      room: expect.any(Number),
    });
    expect(turn.state).toMatchObject({ phase: { kind: 'reasoning' }, stepIndex: 1 });
  });

  test('ends with the text of a message that calls nothing (T8)', () => {
    const turn = turnIn.thinking();
    expect(turn.say()).toEqual({
      type: 'done',
      termination: { status: 'success' },
      deliverable: { from: 'thought', cardId: 'thought-1' },
    });
    expect(turn.state.phase).toEqual({ kind: 'done', termination: { status: 'success' } });
  });

  test('ends with the thought also when the message is empty: the store puts a placeholder there (W13)', () => {
    const turn = turnIn.thinking();
    expect(turn.respond({ hasText: false })).toMatchObject({ type: 'done', deliverable: { from: 'thought' } });
  });

  test('keeps the last text as the deliverable, not one said beside tool calls (T8)', () => {
    const turn = turnIn.thinking();
    turn.respond({ hasText: true, calls: [{ callId: 'a-1', tool: 'a' }] });
    turn.results({ a: {} });
    expect(turn.say()).toMatchObject({ deliverable: { from: 'thought', cardId: 'thought-2' } });
  });

  test('that the model refuses is failed with provider_refusal, whatever else the message holds (W14)', () => {
    const turn = turnIn.thinking();
    const calls = [{ callId: 'a-1', tool: 'a' }];
    expect(turn.respond({ hasText: true, refused: true, calls })).toMatchObject({
      type: 'done',
      termination: { status: 'failed', errorCode: 'provider_refusal' },
      deliverable: { from: 'fallback' },
    });
  });

  test.each<FailureCode>([
    'provider_error',
    'provider_auth',
    'provider_refusal',
    'context_build_error',
    'profile_not_found',
    'internal_error',
  ])('whose model call failed with %s is failed with that code and reason (T8)', (code) => {
    const turn = turnIn.thinking();
    expect(turn.fail(code, 'the reason')).toEqual({
      type: 'done',
      termination: { status: 'failed', errorCode: code, reason: 'the reason' },
      deliverable: { from: 'fallback' },
    });
  });

  test.each(['ready', 'thinking', 'shortening', 'acting', 'suspended', 'gated'] as const)(
    'that is stopped while %s is failed with the code of the stop and a fallback (T8, T21)',
    (place) => {
      for (const code of ['stopped', 'terminated'] as const) {
        const turn = turnIn[place]();
        expect(turn.feed({ type: 'stop', nowMs: 2, code, reason: 'by hand' })).toEqual({
          type: 'done',
          termination: { status: 'failed', errorCode: code, reason: 'by hand' },
          deliverable: { from: 'fallback' },
        });
        const termination = { status: 'failed', errorCode: code, reason: 'by hand' };
        expect(turn.state.phase).toEqual({ kind: 'done', termination });
      }
    },
  );

  test('that is stopped during its final report is stopped, not partial (T21)', () => {
    const turn = new Turn({ budgets: { maxSteps: 1, maxTokens: 1_000 } });
    turn.start();
    turn.call('a');
    turn.results({ a: {} });
    expect(endingOf(turn.state)).not.toBeNull();
    expect(turn.stop()).toMatchObject({ termination: { status: 'failed', errorCode: 'stopped' } });
  });

  test('stays done: late results, answers and another stop are observed and change nothing (K1)', () => {
    const turn = turnIn.suspended();
    turn.stop();
    const ended = turn.state;
    turn.results({ b: {} });
    turn.say();
    turn.stop();
    turn.start();
    expect(turn.state).toBe(ended);
    expect(turn.observations.map((observation) => observation.type)).toEqual(Array(4).fill('event_ignored'));
  });
});

describe('the accounts', () => {
  test('sum the usage of every model call and count the calls that were started, not those refused unrun (K9, W17)', () => {
    const turn = turnIn.thinking();
    const refused = turn.settled('b', { status: 'failed', errorCode: 'unknown_tool' });
    const calls = [
      { callId: 'a-1', tool: 'a' },
      { callId: 'b-1', tool: 'b', settled: refused },
    ];
    turn.respond({ calls, usage: { input: 100, output: 10, cached: 60 } });
    turn.results({ a: {} });
    turn.respond({ hasText: true, usage: { input: 200, output: 5, cached: 0 } });
    expect(turn.state).toMatchObject({ usage: { input: 300, output: 15, cached: 60 }, toolCalls: 1, stepIndex: 2 });
  });

  test('leave out what did not apply (K1)', () => {
    const turn = turnIn.acting();
    const { usage } = turn.state;
    turn.respond({ usage: { input: 1_000, output: 1_000, cached: 0 } });
    expect(turn.state.usage).toEqual(usage);
  });
});

import { describe, expect, test } from '@jest/globals';
import { Turn } from './turn.ts';

const bound = (...tools: readonly string[]): Turn => {
  const turn = new Turn({ mustEndWith: tools });
  turn.start();
  return turn;
};

describe('a turn that must end with a tool', () => {
  test('reminds a model that only talks, and offers nothing but those tools (W13)', () => {
    const turn = bound('publish', 'reject');
    expect(turn.say()).toEqual({
      type: 'call_llm',
      stepIndex: 2,
      plan: { ranges: [{ boxId: 'output', fromSeq: 1, toSeq: 2 }] },
      onlyTools: ['publish', 'reject'],
      requireTool: true,
      note: { kind: 'must_end_with', tools: ['publish', 'reject'] },
      room: expect.any(Number),
    });
    expect(turn.observations).toEqual([{ type: 'reminded', tools: ['publish', 'reject'] }]);
  });

  test('gives up after nine answers in a row without the tool, with a report, whatever they say (K12)', () => {
    const turn = bound('publish');
    const nexts = Array.from({ length: 9 }, () => turn.say());
    const notes = nexts.map((next) => next?.type === 'call_llm' && next.note?.kind);
    expect(notes).toEqual([...Array.from({ length: 8 }, () => 'must_end_with'), 'final_report']);
    expect(nexts.map((next) => next?.type === 'call_llm' && next.stateBlock)).not.toContainEqual(
      expect.arrayContaining([expect.objectContaining({ kind: 'repeating' })]),
    );
    expect(turn.say()).toMatchObject({
      type: 'done',
      termination: { errorCode: 'no_progress', reason: expect.stringContaining('answered 9 times in a row') },
    });
  });

  test('counts answers anew once the model has tried another tool (K12)', () => {
    const turn = bound('publish');
    for (let round = 0; round < 3; round += 1) {
      for (let answers = 0; answers < 8; answers += 1)
        expect(turn.say()).toMatchObject({ note: { kind: 'must_end_with' } });
      turn.call('a');
      turn.results({ a: {} });
    }
  });

  test('ends naturally once one of them succeeded (W13)', () => {
    const turn = bound('publish', 'reject');
    turn.say();
    turn.call('reject');
    const next = turn.results({ reject: {} });
    expect(next).toMatchObject({ type: 'call_llm', stepIndex: 3 });
    expect(next).not.toHaveProperty('onlyTools');
    expect(next).not.toHaveProperty('note');
    expect(turn.say()).toMatchObject({ termination: { status: 'success' }, deliverable: { from: 'thought' } });
  });

  test('ends without a reminder when the tool came first by itself (W13)', () => {
    const turn = bound('publish');
    turn.call('a', 'publish');
    turn.results({ a: { status: 'failed' }, publish: {} });
    expect(turn.say()).toMatchObject({ type: 'done', termination: { status: 'success' } });
    expect(turn.observations).toEqual([]);
  });

  test('reminds again when the tool failed (W13)', () => {
    const turn = bound('publish');
    turn.call('publish');
    turn.results({ publish: { status: 'failed' } });
    expect(turn.say()).toMatchObject({ type: 'call_llm', note: { kind: 'must_end_with' } });
  });

  test('reminds again when other tools ran after it: the last batch counts (W13)', () => {
    const turn = bound('publish');
    turn.call('publish');
    turn.results({ publish: {} });
    turn.call('a');
    turn.results({ a: {} });
    expect(turn.say()).toMatchObject({ type: 'call_llm', note: { kind: 'must_end_with' } });
  });

  test('is bypassed by a terminating tool (W13)', () => {
    const turn = bound('publish');
    turn.call('abort');
    expect(turn.results({ abort: { afterExecution: 'terminate' } })).toMatchObject({
      type: 'done',
      termination: { status: 'success' },
    });
  });

  test('ends when the tool is submit_result and it was accepted (W12, W13)', () => {
    const turn = bound('submit_result');
    turn.say();
    const settled = turn.settled('submit_result', { afterExecution: 'terminate' });
    const calls = [{ callId: settled.callId, tool: 'submit_result', settled }];
    expect(turn.respond({ calls })).toMatchObject({ type: 'done', deliverable: { from: 'submit_result' } });
  });

  test('counts each reminder as a step, so that a stubborn model meets the step budget (W13, K9)', () => {
    const turn = new Turn({ mustEndWith: ['publish'], budgets: { maxSteps: 3, maxTokens: 1_000 } });
    turn.start();
    turn.say();
    turn.say();
    expect(turn.say()).toMatchObject({ stepIndex: 4, onlyTools: ['submit_result'], note: { kind: 'final_report' } });
    expect(turn.say()).toMatchObject({ termination: { status: 'partial', errorCode: 'max_steps_reached' } });
  });
});

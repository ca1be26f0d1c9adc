import { describe, expect, test } from '@jest/globals';
import type { Handle } from '../../../workflows/kernel/handles.ts';
import { OUTPUT_BOX, Turn } from './turn.ts';

function work(turn: Turn, steps: number): void {
  for (let index = 0; index < steps; index += 1) {
    turn.call(`tool-${index}`);
    turn.results({ [`tool-${index}`]: {} });
  }
}

/** A user sends a message, which the next step shows; the model calls a tool. */
function steered(turn: Turn): number {
  const said: Handle = [turn.seq(), 'user', 3];
  const thought: Handle = [turn.seq(), 'assistant', 5];
  const tool = `steered-${said[0]}`;
  turn.respond({ calls: [{ callId: turn.idOf(tool), tool }], handles: [said, thought] });
  turn.results({ [tool]: {} });
  return said[0];
}

const messagesLine = (turn: Turn) => {
  const action = turn.actions.at(-1);
  const lines = action?.type === 'call_llm' ? (action.stateBlock ?? []) : [];
  return lines.find((line) => line.kind === 'user_messages');
};

describe('what users said', () => {
  test('is said again only when ten cards have come behind it (K14)', () => {
    const turn = new Turn();
    turn.start();
    work(turn, 4);
    expect(messagesLine(turn)).toBeUndefined();
    work(turn, 1);
    expect(messagesLine(turn)).toEqual({ kind: 'user_messages', boxId: OUTPUT_BOX, seqs: [1] });
  });

  test('is the task first, then the messages since, as far as they lie behind (K14)', () => {
    const turn = new Turn();
    turn.start();
    const first = steered(turn);
    work(turn, 5);
    const second = steered(turn);
    expect(messagesLine(turn)).toMatchObject({ seqs: [1, first] });
    work(turn, 5);
    expect(messagesLine(turn)).toMatchObject({ seqs: [1, first, second] });
  });

  test('is short to name after many messages (K3)', () => {
    const turn = new Turn({ budgets: { maxSteps: 500 } });
    turn.start();
    for (let index = 0; index < 40; index += 1) steered(turn);
    work(turn, 5);
    expect(messagesLine(turn)?.seqs).toHaveLength(1 + 16);
  });
});

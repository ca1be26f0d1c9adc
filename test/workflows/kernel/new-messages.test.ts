import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { KernelEvent } from '../../../workflows/kernel/events.ts';
import { drainNewMessages } from '../../../workflows/kernel/new-messages.ts';
import { initialState, type KernelState } from '../../../workflows/kernel/state.ts';
import { step } from '../../../workflows/kernel/step.ts';
import { NOW, OUTPUT_BOX, Turn } from './turn.ts';
import { configs, dice, Walk } from './walk.ts';

const stretch = (fromSeq: number, toSeq: number) => ({
  cards: { boxId: OUTPUT_BOX, fromSeq, toSeq },
  mark: toSeq,
});

function cardsOf(event: KernelEvent): readonly number[] {
  switch (event.type) {
    case 'start':
      return [event.instruction[0]];
    case 'llm_response':
      return [...event.handles.map(([seq]) => seq), ...event.calls.flatMap(({ settled }) => settled?.seq ?? [])];
    case 'tool_results':
      return event.settled.map(({ seq }) => seq);
    case 'summarized':
      return [event.summary[0]];
    default:
      return [];
  }
}

/** The places of the cards that this event brings, if it applies; also of those that are summarised or taken back later. */
function taken(state: KernelState, event: KernelEvent): readonly number[] {
  const ignored = step(state, event).observations.some(({ type }) => type === 'event_ignored');
  return ignored ? [] : cardsOf(event);
}

describe('new messages', () => {
  test('are none where nothing came, and each one once (K22)', () => {
    const turn = new Turn();
    expect(drainNewMessages(turn.state, 0)).toEqual({ cards: null, mark: 0 });
    turn.start();
    expect(drainNewMessages(turn.state, 0)).toEqual(stretch(1, 1));
    turn.call('a');
    turn.results({ a: {} });
    expect(drainNewMessages(turn.state, 1)).toEqual(stretch(2, 3));
    expect(drainNewMessages(turn.state, 3)).toEqual({ cards: null, mark: 3 });
  });

  test('of a step that still waits are not out before a result that lies among them (K22)', () => {
    const turn = new Turn();
    turn.start();
    turn.call('a', 'b');
    turn.results({ b: { seq: 4 } }, { a: 5_000 });
    const first = drainNewMessages(turn.state, 0);
    expect(first).toEqual(stretch(1, 2));
    turn.feed({ type: 'tool_results', nowMs: NOW, settled: [{ ...turn.settled('a'), seq: 3 }], suspended: [] });
    expect(drainNewMessages(turn.state, first.mark)).toEqual(stretch(3, 4));
  });

  test('of a conversation that is taken up again begin behind it, also when it was shortened since (K22)', () => {
    const turn = new Turn({ context: { windowTokens: 4_000, answerTokens: 200, fixedTokens: 0 } });
    const before = [2, 3, 4, 5, 6, 7, 8, 9, 10] as const;
    const start = {
      type: 'start',
      nowMs: NOW,
      outputBoxId: OUTPUT_BOX,
      earlier: [],
      instruction: [1, 'user', 7],
      transcript: before.map((seq) => [seq, 'assistant', 450] as const),
    } as const;
    const asked = turn.feed(start);
    expect(asked).toMatchObject({ type: 'summarize' });
    const usage = { input: 0, output: 0, cached: 0 };
    turn.feed({ type: 'summarized', nowMs: NOW, stepIndex: 1, summary: [11, 'summary', 50], usage, cost: 0 });
    turn.respond({ handles: [[12, 'assistant', 5]], hasText: true });
    expect(turn.state.handles.length).toBeLessThan(before.length);
    expect(drainNewMessages(turn.state, 10)).toEqual(stretch(11, 12));
  });

  test('give every card once in whatever walk, through summaries and steps taken back (K13, K15, K22)', () => {
    const property = fc.property(configs, dice, (config, rolls) => {
      const way = new Walk();
      const cards: number[] = [];
      const seen: number[] = [];
      let state = initialState(config);
      let mark = 0;
      for (const roll of rolls) {
        const event = way.event(state, roll);
        cards.push(...taken(state, event));
        ({ state } = step(state, event));
        const fresh = drainNewMessages(state, mark);
        const { fromSeq = 1, toSeq = 0 } = fresh.cards ?? {};
        for (let seq = fromSeq; seq <= toSeq; seq += 1) if (cards.includes(seq)) seen.push(seq);
        mark = fresh.mark;
      }
      const settled = state.phase.kind !== 'acting';
      expect(seen).toEqual(cards.filter((seq) => seq <= mark).toSorted((a, b) => a - b));
      if (settled) expect(state.handles.filter(([seq]) => seq > mark)).toEqual([]);
    });
    fc.assert(property, { numRuns: 2_000 });
  });
});

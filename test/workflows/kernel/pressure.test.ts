import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Marks } from '../../../workflows/kernel/context.ts';
import type { Handle } from '../../../workflows/kernel/handles.ts';
import {
  estimates,
  MESSAGE_TOKENS,
  raised,
  renderedTokens,
  residencyAt,
  roomLeft,
  unitTokens,
} from '../../../workflows/kernel/pressure.ts';
import { initialState, type KernelState } from '../../../workflows/kernel/state.ts';
import { config, OUTPUT_BOX } from './turn.ts';

const FIXED = 100;

const cards = fc
  .array(fc.tuple(fc.constantFrom<Handle[1]>('user', 'assistant', 'tool', 'tool', 'note'), fc.nat(3_000)))
  .map((list) => list.map(([role, tokens], index): Handle => [index * 2 + 11, role, tokens]));
const place = fc.nat(120);
const marks = fc.record<Marks>({ snipped: place, preview: place, collapsed: place }, { noNullPrototype: true });

/** The estimate as a plain sum, card by card, each with the residency of its place. */
function counted({ handles, context, config }: KernelState, at: Marks): number {
  const { windowTokens } = config.context;
  const own = handles.map(([seq, role, tokens]) => {
    const rendered = role === 'tool' ? renderedTokens(tokens, residencyAt(at, seq), windowTokens) : tokens;
    return MESSAGE_TOKENS + rendered;
  });
  const units = [
    ...context.earlier.map((unit) => unitTokens(unit, at)),
    ...context.given.map(({ tokens }) => tokens[0]),
  ];
  return [...own, ...units].reduce((sum, tokens) => sum + tokens, FIXED + (context.summary?.[2] ?? 0));
}

describe('the estimates of a prompt', () => {
  test('are those of its cards one by one: as they are, snipped, and as previews (K3, K15)', () => {
    const windows = fc.constantFrom(2_000, 3_999, 16_000, 1_000_000);
    const property = fc.property(cards, marks, place, windows, (handles, at, upTo, windowTokens) => {
      const fresh = initialState(config({ context: { windowTokens, answerTokens: 0, fixedTokens: FIXED } }));
      const unit = { boxId: OUTPUT_BOX, fromSeq: 1, toSeq: 9, tokens: [900, 700, 500, 300] } as const;
      const summary: Handle = [10, 'summary', 77];
      const context = { ...fresh.context, earlier: [unit], given: [{ ...unit, boxId: 'given' }], summary, marks: at };
      const state = { ...fresh, handles, context };
      expect(estimates(state, upTo)).toEqual({
        asIs: counted(state, at),
        snipped: counted(state, raised(at, { snipped: upTo })),
        previews: counted(state, raised(at, { preview: upTo })),
      });
    });
    fc.assert(property, { numRuns: 500 });
  });

  test('never rise from one level to the next (K15)', () => {
    const windows = fc.oneof(fc.integer({ min: 1, max: 5_000 }), fc.constantFrom(16_000, 1_000_000));
    const property = fc.property(cards, marks, windows, (handles, at, windowTokens) => {
      const fresh = initialState(config({ context: { windowTokens, answerTokens: 0, fixedTokens: FIXED } }));
      const state = { ...fresh, handles, context: { ...fresh.context, marks: at } };
      const last = handles.at(-1)?.[0] ?? 0;
      const { asIs, snipped, previews } = estimates(state, last);
      const levels = [asIs, snipped, previews, counted(state, raised(at, { collapsed: last }))];
      expect(levels).toEqual(levels.toSorted((a, b) => b - a));
    });
    fc.assert(property, { numRuns: 500 });
  });
});

describe('the room for messages that the plan does not know', () => {
  const context = { windowTokens: 10_000, answerTokens: 2_000, fixedTokens: FIXED };
  const state = initialState({ ...config(), context });

  test('is half of what the prompt leaves of the window, in tokens as we count them, and never less than nothing (T22)', () => {
    expect([roomLeft(state, 1_000), roomLeft(state, 8_000), roomLeft(state, 9_000)]).toEqual([3_500, 0, 0]);
    const denser = { ...state, context: { ...state.context, correction: 2 } };
    expect(roomLeft(denser, 1_000)).toBe(1_500);
  });
});

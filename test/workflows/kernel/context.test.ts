import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { NO_MARKS, withMarks } from '../../../workflows/kernel/context.ts';
import { makeRoom } from '../../../workflows/kernel/eviction.ts';
import type { Handle } from '../../../workflows/kernel/handles.ts';
import { planOf } from '../../../workflows/kernel/plan.ts';
import type { KernelState } from '../../../workflows/kernel/state.ts';
import { context, conversation, departureOf, endOf, type Sized, units, upTo, WINDOW } from './conversation.ts';
import { NOW, OUTPUT_BOX, pressure } from './turn.ts';

const room = (state: KernelState) => makeRoom(state, NOW);

describe('under little pressure', () => {
  test('nothing changes, up to 0.70 of the window (K15)', () => {
    const state = conversation([...units(6, 50, 1_000), ['assistant', 600]]);
    expect(pressure(state)).toBe(0.7);
    expect(room(state)).toEqual({ kind: 'fits', marks: NO_MARKS, tokens: 7_000 });
  });

  test('what the answer needs is no room for the prompt (K15)', () => {
    const cards = units(6, 50, 1_000);
    const tight = conversation(cards, { context: { ...context, answerTokens: 1_000 } });
    expect(room(conversation(cards)).marks).toEqual(NO_MARKS);
    expect(room(tight).marks.snipped).toBeGreaterThan(0);
  });

  test('old results become previews after an hour without an answer of the model (K15)', () => {
    const state = conversation(units(5, 50, 300));
    const hour = 3_600_000;
    expect(makeRoom(state, NOW + hour - 1).marks).toEqual(NO_MARKS);
    expect(makeRoom(state, NOW + hour).marks).toEqual({ ...NO_MARKS, preview: endOf(3) });
  });
});

describe('as the pressure grows', () => {
  test('above 0.70 results are snipped, but for the newest units (K15)', () => {
    expect(room(conversation(units(7, 50, 1_000))).marks).toEqual({ ...NO_MARKS, snipped: endOf(5) });
  });

  test('above 0.80 it stops where snipping reached the target of 0.65 (K15)', () => {
    const state = conversation(units(8, 50, 1_000));
    expect(pressure(state)).toBeGreaterThan(0.8);
    const snipped = room(state);
    expect(snipped.marks).toEqual({ ...NO_MARKS, snipped: endOf(6) });
    expect(pressure(withMarks(state, snipped.marks))).toBeLessThanOrEqual(0.65);
  });

  test('above 0.80 results become previews, when snipping was not enough (K15)', () => {
    const state = conversation(units(15, 50, 500));
    expect(room(state).marks).toEqual({ snipped: endOf(13), preview: endOf(13), collapsed: 0 });
  });

  test('above 0.90 results are collapsed, oldest first, and no more than the target takes (K15)', () => {
    const state = conversation(units(37, 50, 200));
    const after = room(state);
    expect(after.kind).toBe('fits');
    expect(after.marks).toEqual({ snipped: endOf(35), preview: endOf(35), collapsed: endOf(22) });
    expect(pressure(withMarks(state, after.marks))).toBeLessThanOrEqual(0.65);
    expect(pressure(withMarks(state, after.marks))).toBeGreaterThan(0.65 - 132 / WINDOW);
  });

  test('above 0.95 a summary takes the place of the oldest units, as many as the target takes (K15)', () => {
    const state = conversation(units(87, 50, 60));
    expect(departureOf(state)).toEqual({ mode: 'summary', units: 0, seqs: upTo(endOf(38)) });
  });

  test('a summary takes what earlier turns left before what this one said (K15)', () => {
    const state = conversation(units(80, 50, 60));
    const earlier = [1, 2, 3].map((place) => ({
      boxId: OUTPUT_BOX,
      fromSeq: -place * 10,
      toSeq: -place * 10 + 5,
      tokens: [250, 250, 250, 250] as const,
    }));
    const remembering = { ...state, context: { ...state.context, earlier } };
    const { units: gone, seqs } = departureOf(remembering);
    expect(gone).toBe(3);
    expect(seqs[0]).toBe(2);
  });

  test('above 0.98, with nothing left to summarise, a sprint begins (K15, K16)', () => {
    const state = conversation(units(2, 50, 4_860));
    expect(departureOf(state)).toEqual({ mode: 'sprint', units: 0, seqs: upTo(endOf(1)) });
  });

  test('marks never go back (K15)', () => {
    const state = conversation(units(37, 50, 200));
    const { marks } = room(state);
    const small = { ...conversation(units(3, 50, 200)), context: { ...state.context, marks } };
    expect(room(small).marks).toEqual(marks);
  });
});

describe('when nothing more can go', () => {
  test('the newest result is collapsed as a last resort (K15)', () => {
    const state = conversation(units(1, 50, 20_000));
    expect(room(state)).toMatchObject({ kind: 'fits', marks: { collapsed: endOf(1) } });
  });

  test('and that does not help, the turn cannot go on (K15)', () => {
    expect(room(conversation([['assistant', 20_000]])).kind).toBe('overflow');
  });
});

describe('what stays', () => {
  const cards = fc.array(
    fc.tuple(fc.constantFrom('user', 'thought', 'thought', 'noted'), fc.integer({ min: 20, max: 900 }), fc.nat(3)),
    { minLength: 3, maxLength: 60 },
  );
  const sized = (drawn: readonly (readonly [string, number, number])[]): readonly Sized[] =>
    drawn.flatMap(([kind, tokens, results]): readonly Sized[] => {
      if (kind === 'user') return [['user', tokens]];
      const note: readonly Sized[] = kind === 'noted' ? [['note', 30]] : [];
      return [...note, ['assistant', 40], ...Array.from({ length: results }, (): Sized => ['tool', tokens * 2])];
    });

  /** For each result the place of the message that made its call; for every other card its own place. */
  function thoughtOf(handles: readonly Handle[]): ReadonlyMap<number, number> {
    let thought = 0;
    return new Map(
      handles.map(([seq, role]) => {
        if (role === 'assistant') thought = seq;
        return [seq, role === 'tool' ? thought : seq];
      }),
    );
  }

  test('of any conversation is whole units, the task, what users said last and the newest units (K15, K16)', () => {
    const modes = new Set<string>();
    fc.assert(
      fc.property(cards, (drawn) => {
        const state = conversation(sized(drawn));
        const after = room(state);
        modes.add(after.kind === 'depart' ? after.departure.mode : after.kind);
        if (after.kind === 'fits') expect(pressure(withMarks(state, after.marks))).toBeLessThanOrEqual(1);
        if (after.kind !== 'depart') return;
        const { mode, seqs } = after.departure;
        const gone = new Set(seqs);
        const owner = thoughtOf(state.handles);
        for (const [seq, thought] of owner) expect(gone.has(seq)).toBe(gone.has(thought));
        const users = state.handles.filter(([, role]) => role === 'user').map(([seq]) => seq);
        for (const seq of [...users.slice(0, 1), ...users.slice(1).slice(-8)]) expect(gone.has(seq)).toBe(false);
        const thoughts = state.handles.filter(([, role]) => role === 'assistant').map(([seq]) => seq);
        const newest = mode === 'summary' ? thoughts.slice(-2) : thoughts.slice(-1);
        for (const seq of newest) expect(gone.has(seq)).toBe(false);
      }),
      { numRuns: 500 },
    );
    expect([...modes]).toEqual(expect.arrayContaining(['fits', 'summary']));
  });

  test('after an hour without an answer are previews of old results, whatever else is done (K15)', () => {
    fc.assert(
      fc.property(cards, (drawn) => {
        const state = conversation(sized(drawn));
        const thoughts = state.handles.flatMap(([seq, role]) => (role === 'assistant' ? [seq] : []));
        const newest = thoughts.at(-2) ?? thoughts[0] ?? 1;
        const { marks } = makeRoom(state, NOW + 3_600_000);
        expect(marks.preview).toBeGreaterThanOrEqual(newest - 1);
      }),
      { numRuns: 300 },
    );
  });

  test('of users are the task and the eight newest messages; older ones are summarised (K15)', () => {
    const said = Array.from({ length: 10 }, (): Sized => ['user', 200]);
    const state = conversation([...said, ...units(70, 50, 60)]);
    expect(departureOf(state).seqs.slice(0, 3)).toEqual([2, 3, 12]);
  });

  test('of the newest units are their notes too: a note is no unit of its own (K15)', () => {
    const state = conversation([
      ['assistant', 100],
      ['assistant', 7_500],
      ['note', 100],
      ['assistant', 2_000],
    ]);
    expect(departureOf(state)).toEqual({ mode: 'summary', units: 0, seqs: [2] });
  });
});

describe('a sprint', () => {
  test.each([
    ['both fit', 250, 250, []],
    ['the older one does not', 251, 250, [3]],
    ['even the newest does not, which stays all the same', 20, 600, [3]],
  ])('carries over the newest units that fit 5 % of the window: %s (K16)', (_, older, newest, gone) => {
    const state = conversation([
      ['user', 9_350],
      ['assistant', older],
      ['assistant', newest],
    ]);
    const after = room(state);
    expect(after).toMatchObject(
      gone.length === 0 ? { kind: 'fits' } : { kind: 'depart', departure: { mode: 'sprint', seqs: gone } },
    );
  });

  test('keeps what users said, wherever it stands (K16)', () => {
    const state = conversation([
      ['user', 300],
      ['assistant', 4_900],
      ['user', 200],
      ['assistant', 4_800],
    ]);
    expect(departureOf(state)).toEqual({ mode: 'sprint', units: 0, seqs: [3] });
  });
});

describe('a plan', () => {
  const extent = (boxId: string, fromSeq: number, toSeq: number) => ({ boxId, fromSeq, toSeq });
  const sizes = [40, 30, 20, 10] as const;

  test('puts the summary first, then earlier turns, then what came with the request, then this turn (K14)', () => {
    const state = conversation(units(4, 50, 60));
    const handles = state.handles.map(([seq, role, tokens]): Handle => [seq + 100, role, tokens]);
    const view = {
      ...state.context,
      earlier: [{ ...extent(OUTPUT_BOX, 1, 90), tokens: sizes }],
      given: [{ ...extent('context', 1, 3), tokens: sizes }],
      summary: [95, 'summary', 50] as const,
      marks: { snipped: 104, preview: 102, collapsed: 90 },
    };
    expect(planOf({ ...state, handles, context: view }).ranges).toEqual([
      extent(OUTPUT_BOX, 95, 95),
      { ...extent(OUTPUT_BOX, 1, 90), residency: 'collapsed' },
      extent('context', 1, 3),
      { ...extent(OUTPUT_BOX, 101, 102), residency: 'preview' },
      { ...extent(OUTPUT_BOX, 103, 104), residency: 'snipped' },
      extent(OUTPUT_BOX, 105, 109),
    ]);
  });

  test('of 10,000 cards takes less than 1 KiB, and their snapshot less than 256 KiB (K3)', () => {
    const state = conversation(units(5_000, 150, 1_500));
    const earlier = Array.from({ length: 200 }, (_, turn) => ({
      ...extent(OUTPUT_BOX, 1 + turn * 50, 50 + turn * 50),
      tokens: sizes,
    }));
    const handles = state.handles.map(([seq, role, tokens]): Handle => [seq + 10_001, role, tokens]);
    const marks = { snipped: 19_000, preview: 18_000, collapsed: 15_000 };
    const view = { ...state.context, earlier, summary: [10_001, 'summary', 900] as const, marks };
    expect(handles).toHaveLength(10_001);
    const ranges = planOf({ ...state, handles, context: view });
    expect(JSON.stringify(ranges).length).toBeLessThan(1_024);
    expect(JSON.stringify({ ...state, handles }).length).toBeLessThan(256 * 1_024);
  });
});

import { describe, expect, test } from '@jest/globals';
import { readShown } from '../../../activities/llm/shown.ts';
import type { PlanRange } from '../../../workflows/kernel/actions.ts';
import type { Card } from '../../../workflows/protocol/cards.ts';
import { card, instruction, result, thought } from './cards.ts';

const summary = (text: string): Card => card('context.summary', { text });

/** Shows these ranges of boxes that hold these cards, from place 1 on. */
async function shown(boxes: Readonly<Record<string, readonly Card[]>>, ...ranges: readonly PlanRange[]) {
  const readExtents = async ([range]: readonly PlanRange[]) =>
    range ? (boxes[range.boxId] ?? []).slice(range.fromSeq - 1, range.toSeq) : [];
  return readShown({ readExtents }, ranges);
}

const texts = (cards: readonly Card[]) => cards.map((one) => ('text' in one.content ? one.content.text : one.content));

const range = (boxId: string, fromSeq: number, toSeq: number): PlanRange => ({ boxId, fromSeq, toSeq });

describe('a summary', () => {
  const earlier = [instruction('task'), thought('step 8'), thought('step 9'), summary('steps 1 to 7'), thought('done')];

  test('of an earlier turn is shown before the newer messages it was put down behind (K15)', async () => {
    const out = [...earlier, instruction('next task', 't2')];
    expect(texts(await shown({ out }, range('out', 1, 5), range('out', 6, 6)))).toEqual([
      'steps 1 to 7',
      'task',
      'step 8',
      'step 9',
      'done',
      'next task',
    ]);
  });

  test('of this turn comes behind an older one of earlier turns, which stands for what came before (K15)', async () => {
    const out = [...earlier, instruction('next task', 't2'), thought('on it', [], 't2'), summary('more')];
    const planned = [range('out', 8, 8), range('out', 1, 5), range('out', 6, 7)];
    expect(texts(await shown({ out }, ...planned)).slice(0, 3)).toEqual(['steps 1 to 7', 'more', 'task']);
  });

  test('stays in front of the rest of its own box (K15, T24)', async () => {
    const boxes = { out: [instruction('earlier'), instruction('task', 't2')], given: earlier };
    const planned = [range('out', 1, 1), range('given', 1, 5), range('out', 2, 2)];
    expect(texts(await shown(boxes, ...planned))).toEqual([
      'earlier',
      'steps 1 to 7',
      'task',
      'step 8',
      'step 9',
      'done',
      'task',
    ]);
  });
});

describe('a card', () => {
  test('that is named again keeps its last place, as that range shows it (K3, T24)', async () => {
    const out = [result('c1'), thought('x')];
    const again = await shown({ out }, range('out', 1, 2), { ...range('out', 1, 1), residency: 'preview' });
    expect(again.map(({ type, residency }) => [type, residency])).toEqual([
      ['agent.thought', undefined],
      ['tool.result', 'preview'],
    ]);
  });
});

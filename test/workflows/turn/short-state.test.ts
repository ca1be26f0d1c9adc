import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Handle } from '../../../workflows/kernel/handles.ts';
import type { KernelState } from '../../../workflows/kernel/state.ts';
import { shortState, wholeState } from '../../../workflows/turn/short-state.ts';

const state = (handles: readonly Handle[]) => ({ stepIndex: 3, handles }) as unknown as KernelState;
const handle = fc.tuple(
  fc.nat(1_000_000),
  fc.constantFrom('user', 'assistant', 'tool', 'note', 'summary'),
  fc.nat(),
) as fc.Arbitrary<Handle>;

test('the state comes out as it went in, whatever its cards are', () => {
  fc.assert(
    fc.property(fc.array(handle), (handles) => {
      expect(wholeState(shortState(state(handles)))).toEqual(state(handles));
    }),
  );
});

test('a step of a long turn takes some twelve bytes', () => {
  const handles = Array.from({ length: 200 }, (_, step): Handle[] => [
    [3 * step + 2, 'assistant', 43],
    [3 * step + 4, 'tool', 2_592],
  ]).flat();
  expect(shortState(state(handles)).handles.length).toBeLessThan(200 * 14);
});

test('what nobody has written so is refused', () => {
  expect(() => wholeState({ ...shortState(state([])), handles: 'x1.2' })).toThrow('not understood: x1.2');
});

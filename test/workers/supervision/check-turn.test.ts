import { expect, test } from '@jest/globals';
import { type CheckDeps, checkTurn, type Queues } from '../../../workers/supervision/check-turn.ts';
import type { DueTurn } from '../../../workflows/contract/supervision.ts';

test('waits that began while a clock was ahead are counted anew before anything is decided by them (T17)', async () => {
  const recounted: string[] = [];
  const store = { recountWaits: async (id: string) => void recounted.push(id) };
  // Neither the server nor the schedule of the turn is asked for, which this has none of.
  const deps = { store } as unknown as CheckDeps;
  const turn = { agentTurnId: 't', waitsAhead: true } as DueTurn;
  expect(await checkTurn(deps, turn, {} as Queues, 0)).toBe('nothing');
  expect(recounted).toEqual(['t']);
});

/** Where a person sees how far a tool is. */
import { afterEach, expect, test } from '@jest/globals';
import { eventLine } from '../../../client/cli/events.ts';
import { turnPage } from '../../../client/cli/turn-table.ts';
import { call, closeCalls, work } from '../../activities/tools/proposed-call.ts';

afterEach(closeCalls);

test('the page of a turn and the lines of its events show what an open call said of its progress', async () => {
  const { turn, callId } = await call(work(() => null, { sideEffects: 'none' }));
  const { store, fence } = turn;
  await store.noteProgress(fence, { callId, attempt: 1 }, { done: 7, of: 10 });
  const view = await store.getTurn(fence.agentTurnId);
  expect(view && turnPage(view).join('\n')).toMatch(/work +open: \{"done":7,"of":10\}/);
  const lines = (await store.readEvents(fence)).map(eventLine);
  expect(lines.at(-1)).toContain(`work progress {"done":7,"of":10} (call ${callId})`);
});

import { expect, test } from '@jest/globals';
import { proposalContext, readOne } from '../../../support/proposed-calls.ts';

test('update_plan is accepted while it is proposed, and kept with its defaults (K14)', async () => {
  const { call } = await readOne('update_plan', { plan: [{ label: 'look' }] }, proposalContext());
  expect(call).toMatchObject({
    content: { arguments: { plan: [{ label: 'look', done: false }] } },
    result: { status: 'success', result: { accepted: true } },
  });
});

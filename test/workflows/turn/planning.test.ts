/** What a model writes down of its plan stands at the end of every later prompt, and survives a summary (K14, K15). */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { textOf } from '../../../workers/model-server/chat-request.ts';
import { startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { testApp } from '../../support/app.ts';
import { say } from '../../support/asking.ts';
import { openHarness, scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

const plan = (done: boolean) =>
  ({
    kind: 'message',
    toolCalls: [
      { name: 'update_plan', arguments: { plan: [{ label: 'look', done }, { label: 'tell' }], progress: 'begun' } },
    ],
  }) as const;

describe('a plan', () => {
  test.each(scenarioStores(import.meta.url))('is shown last, as it stands, on %s (K14)', async (backend) => {
    const harness = await openHarness(backend);
    const model = await startScriptedModel({ scripts: { plans: [plan(false), plan(true), say('told')] } });
    await harness.startWorker(testApp([], { planning: true }), model);
    try {
      const agent = harness.client.agent(`agent-${v7()}`);
      const turn = await agent.enqueue({ instruction: '[script:plans] go', profile: 'tester' });
      expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'told' } });
      const last = model.requests.map(({ messages }) => messages.map(textOf).at(-1));
      expect(last).toEqual([
        '[script:plans] go',
        'Your plan:\n[ ] look\n[ ] tell\nProgress: begun',
        'Your plan:\n[x] look\n[ ] tell\nProgress: begun',
      ]);
    } finally {
      await harness.close();
      await model.close();
    }
  });
});

/** A steer that comes in the same instant as the end of its turn: the model is told of it once, in that turn or in the next one (C8). */
import { expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { ChatHandle, SentMessage } from '../../client/chat/api.ts';
import { startModelServer } from '../../workers/model-server/wire.ts';
import { testApp } from '../support/app.ts';
import { openHarness, scenarioStores } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

/** With `AGENTTURN_TEST_RACES=200` it takes a minute. */
const TIMES = Number(process.env.AGENTTURN_TEST_RACES ?? 30);
const SIDE_BY_SIDE = 10;

test.each(scenarioStores(import.meta.url))('many times on %s: never lost, never told twice (C8)', async (backend) => {
  const harness = await openHarness(backend);
  const steers = new Map<string, () => void>();
  const model = await startModelServer({
    keepRequests: 1,
    answer: ({ messages }) => {
      // The steer is sent while the model's last word is on its way.
      const said = messages.map(({ content }) => String(content)).join();
      const [, key = ''] = /go (\S+)/.exec(said) ?? [];
      steers.get(key)?.();
      steers.delete(key);
      return { kind: 'message', content: 'well' };
    },
  });
  try {
    await harness.startWorker(testApp([]), model);
    const inTurns = { first: 0, next: 0 };
    const one = async () => {
      const key = v7();
      const chat: ChatHandle = harness.client.chat('friend', `c-${key}`, { profile: 'tester' });
      const steered = Promise.withResolvers<SentMessage>();
      steers.set(key, () => void chat.send('mind the gap', { policy: 'steer' }).then(steered.resolve, steered.reject));
      const first = await chat.send(`go ${key}`);
      const steer = await steered.promise;
      expect(await first.terminal(WAIT)).toMatchObject({ status: 'completed' });
      expect(await steer.terminal(WAIT)).toMatchObject({ status: 'completed' });
      const [, message] = await chat.messages();
      const told: string[] = [];
      for (const turn of new Set([first.turn?.id, steer.turn?.id, message?.agentTurnId]))
        for await (const entry of harness.client.turn(turn ?? '').transcript())
          if ('text' in entry && entry.text.includes('mind the gap')) told.push(turn ?? '');
      expect(told).toEqual([message?.agentTurnId]);
      inTurns[message?.agentTurnId === first.turn?.id ? 'first' : 'next'] += 1;
    };
    for (let n = 0; n < TIMES; n += SIDE_BY_SIDE) await Promise.all(Array.from({ length: SIDE_BY_SIDE }, one));
    expect(inTurns.first + inTurns.next).toBe(TIMES);
    expect(await harness.store.violations()).toEqual([]);
  } finally {
    await harness.close();
    await model.close();
  }
});

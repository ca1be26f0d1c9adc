/** A process that stood still, or waited long for its store: what it held may be over, and only its clock tells it so. */

import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { callModel } from '../../../activities/llm/call-model.ts';
import { ChunkWriter } from '../../../activities/llm/chunk-writer.ts';
import { openAiModel } from '../../../activities/llm/openai.ts';
import { runTool } from '../../../activities/tools/run-tool.ts';
import { startModelServer } from '../../../workers/model-server/wire.ts';
import type { Store } from '../../../workflows/contract/store.ts';
import { testApp } from '../../support/app.ts';
import { attempt, leaseTurn, modelInput } from '../llm/leased-turn.ts';
import { type Call, call, closeCalls, NO_WORKFLOWS, work } from './proposed-call.ts';

/** How far the clock of the process has jumped, in ms, as it does after a time in which the process did not run. */
let jumpedMs = 0;

beforeEach(() => {
  jumpedMs = 0;
  const now = performance.now.bind(performance);
  jest.spyOn(performance, 'now').mockImplementation(() => now() + jumpedMs);
});

afterEach(async () => {
  jest.restoreAllMocks();
  await closeCalls();
});

interface Scene {
  readonly on: Call;
  readonly ran: () => number;
  /** How often the store was asked whether the lease holds. */
  readonly asked: () => number;
  run(): Promise<unknown>;
}

/** `meanwhile` is what others do while the answer to the claim is on its way, which takes `lateMs`. */
async function claimed(lateMs: number, meanwhile: (on: Call) => Promise<unknown> = async () => {}): Promise<Scene> {
  let ran = 0;
  let asked = 0;
  const tool = work(() => {
    ran += 1;
    return null;
  });
  const on = await call(tool);
  const { store } = on.turn;
  const slow: Store = {
    ...store,
    async claimCall(...args) {
      const claim = await store.claimCall(...args);
      await meanwhile(on);
      jumpedMs += lateMs;
      return claim;
    },
    checkLease(...args) {
      asked += 1;
      return store.checkLease(...args);
    },
  };
  const run = runTool({ store: slow, app: testApp([tool]), workflows: NO_WORKFLOWS });
  return { on, ran: () => ran, asked: () => asked, run: () => attempt(run, on.input) };
}

const stop = (on: Call) => on.turn.store.stopTurn(on.turn.fence.agentTurnId, 'test');

describe('a tool whose claim is old when its turn comes', () => {
  test('does not start when the turn has ended (T5, W10)', async () => {
    const scene = await claimed(5_001, stop);
    await expect(scene.run()).rejects.toMatchObject({ code: 'stale_epoch' });
    expect(scene.ran()).toBe(0);
  });

  test('does not start when another attempt has said that its outcome is unknown (W10)', async () => {
    const scene = await claimed(5_001, (on) => attempt(on.run, on.input, 2));
    await expect(scene.run()).rejects.toMatchObject({ code: 'call_overtaken' });
    expect(scene.ran()).toBe(0);
    expect(await scene.on.result()).toMatchObject({ error: { code: 'outcome_unknown' } });
  });

  test('does not start when the time of its attempt is over (W10)', async () => {
    const scene = await claimed(24 * 3_600_000);
    await expect(scene.run()).rejects.toMatchObject({ code: 'call_overtaken' });
    expect(scene.ran()).toBe(0);
  });

  test('starts when the lease still holds, after one more look (W10)', async () => {
    const scene = await claimed(5_001);
    expect(await scene.run()).toMatchObject({ settled: { status: 'success' } });
    expect([scene.ran(), scene.asked()]).toEqual([1, 1]);
  });

  test('starts only once the store says in time that the lease holds (W10)', async () => {
    const scene = await claimed(5_001, async ({ turn: { store } }) => {
      const { checkLease } = store;
      jest.spyOn(store, 'checkLease').mockImplementation(async (...args) => {
        if (scene.asked() < 3) jumpedMs += 5_001;
        await checkLease(...args);
      });
    });
    expect(await scene.run()).toMatchObject({ settled: { status: 'success' } });
    expect([scene.ran(), scene.asked()]).toEqual([1, 3]);
  });

  test('asks nobody when it is not old', async () => {
    const scene = await claimed(1_000);
    expect(await scene.run()).toMatchObject({ settled: { status: 'success' } });
    expect([scene.ran(), scene.asked()]).toEqual([1, 0]);
  });
});

describe('a tool that runs when its process stands still', () => {
  /** Runs a tool until its signal fires or `test` lets it go; heartbeats come every 5 s, the next one after the standstill. */
  async function standing(meanwhile: (on: Call) => Promise<unknown>): Promise<{ on: Call; aborted: boolean }> {
    let aborted = false;
    const on = await call(
      work(async (_, { signal }) => {
        await meanwhile(on);
        jumpedMs += 25_000;
        const beat = Promise.withResolvers<void>();
        const timer = setTimeout(beat.resolve, 7_000);
        signal.addEventListener('abort', () => {
          aborted = true;
          beat.resolve();
        });
        await beat.promise;
        clearTimeout(timer);
        return 'went on';
      }),
    );
    const outcome = await attempt(on.run, on.input).catch((error: { code: string }) => error.code);
    expect(outcome).toEqual(aborted ? 'stale_epoch' : expect.objectContaining({ kind: 'settled' }));
    return { on, aborted };
  }

  test('is aborted by its next heartbeat when the turn has ended (T5)', async () => {
    expect(await standing(stop)).toMatchObject({ aborted: true });
  });

  test('goes on when the lease still holds', async () => {
    const { on, aborted } = await standing(async () => {});
    expect(aborted).toBe(false);
    expect(await on.result()).toMatchObject({ result: 'went on' });
  });
});

test('a model is not called under a lease that ended while the request was built (T5)', async () => {
  let asked = 0;
  const server = await startModelServer({
    answer: () => {
      asked += 1;
      return { kind: 'message', content: 'hello' };
    },
  });
  const app = testApp([]);
  const turn = await leaseTurn(app);
  const { store, fence } = turn;
  const slow: Store = {
    ...store,
    async readExtents(extents) {
      const cards = await store.readExtents(extents);
      await store.stopTurn(fence.agentTurnId, 'test');
      jumpedMs += 5_001;
      return cards;
    },
  };
  const model = openAiModel({ apiKey: 'k', baseUrl: server.url, defaultModel: 'm' });
  await expect(
    attempt(callModel({ store: slow, app, model, chunks: new ChunkWriter(slow) }), modelInput(turn)),
  ).rejects.toMatchObject({
    code: 'stale_epoch',
  });
  expect(asked).toBe(0);
  await Promise.all([turn.close(), server.close()]);
});

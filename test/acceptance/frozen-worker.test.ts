/** A worker that is frozen in the middle of its activities, replaced, and wakes up: what it still does counts for nothing (T5, W10). */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { TurnHandle } from '../../client/api.ts';
import { attempts, type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { calls, say, taskEvents } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { holdingApp, letGo, whatWasDone } from '../support/holding-app.ts';
import { startWorkerProcess, temporalCli, type WorkerProcess } from '../support/processes.ts';
import { WAIT } from '../support/wait.ts';

const BACKENDS = scenarioStores(import.meta.url);

interface Scene {
  readonly harness: Harness;
  readonly model: ScriptedServer;
  readonly frozen: WorkerProcess;
  readonly dir: string;
  /** How many model requests hold. */
  readonly thinking: () => number;
  /** Lets the model requests of the frozen worker have their answers. */
  readonly answerLate: () => void;
}

/**
 * As many as it has to do: the server still hands tasks to the open polls of a frozen worker, each of which is lost until its timeout, and
 * a worker that is busy has none open.
 */
const BUSY = { activities: 5, workflowTasks: 2 };

const LOOK_EVERY_MS = 50;
const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await sleep(LOOK_EVERY_MS);
};

/** The frozen worker does all turns; another process supervises, and goes on. */
async function openScene(backend: (typeof BACKENDS)[number]): Promise<Scene> {
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-frozen-'));
  const harness = await openHarness(backend);
  const late = Promise.withResolvers<void>();
  let thinking = 0;
  const holding = (text: string) => async () => {
    thinking += 1;
    await late.promise;
    return say(text);
  };
  const model = await startScriptedModel({
    scripts: {
      answer: [say('done')],
      hold: [calls('hold'), say('held')],
      hold_reaped: [calls('hold'), say('never said')],
      hold_unsafe: [calls('hold_unsafe'), say('held, or not')],
      think: [attempts(holding('thought by the frozen worker'), say('thought by the other'))],
      think_reaped: [holding('thought too late')],
    },
  });
  await harness.startWorker(holdingApp(dir), model, { acceptor: true, targets: [] });
  const frozen = await startWorkerProcess(harness, model.url, dir, { capacity: BUSY });
  return { harness, model, frozen, dir, thinking: () => thinking, answerLate: late.resolve };
}

describe('scenario 3: a worker frozen in the middle of its activities', () => {
  test.concurrent.each(BACKENDS)(
    'gives one result and one thought, and writes nothing when it wakes, on %s',
    async (backend) => {
      const scene = await openScene(backend);
      const { harness, model, frozen, dir } = scene;
      try {
        const ask = (script: string, agentId = `agent-${v7()}`): Promise<TurnHandle> =>
          harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });
        const scripts = ['hold', 'hold_unsafe', 'think', 'hold_reaped', 'think_reaped'] as const;
        const turns = await Promise.all(scripts.map((script) => ask(script)));
        await until(() => whatWasDone(dir).length === 3 && scene.thinking() === 2);
        frozen.signal('SIGSTOP');
        const [held, unsafe, thought, stopped, closed] = turns as [
          TurnHandle,
          TurnHandle,
          TurnHandle,
          TurnHandle,
          TurnHandle,
        ];
        const reaped = await Promise.all([stopped, closed].map((turn) => turn.get()));
        const next = await Promise.all(reaped.map(({ agentId }) => ask('answer', agentId)));
        expect((await stopped.stop()).ack).toBe('stopped');
        const workflowId = turnWorkflowId(reaped[1]?.agentId ?? '', closed.id);
        await temporalCli(harness, ['workflow', 'terminate', '--workflow-id', workflowId]);
        await harness.startWorker(holdingApp(dir), model);
        expect(await held.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'held' } });
        expect(await unsafe.result(WAIT)).toMatchObject({
          status: 'success',
          steps: [{ calls: [{ error: { code: 'outcome_unknown' } }] }, {}],
        });
        expect(await thought.result(WAIT)).toMatchObject({ deliverable: { text: 'thought by the other' } });
        expect(await stopped.result(WAIT)).toMatchObject({ status: 'failed', errorCode: 'stopped' });
        expect(await closed.result(WAIT)).toMatchObject({ status: 'failed', errorCode: 'terminated' });
        for (const turn of next) expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
        const before = await everything(harness);
        letGo(dir);
        scene.answerLate();
        frozen.signal('SIGCONT');
        await until(
          () => whatWasDone(dir).filter(({ pid, phase }) => pid === frozen.pid && phase === 'ended').length === 3,
        );
        await frozen.end('SIGTERM');
        expect(await everything(harness)).toEqual(before);
        for (const turn of turns) expect(await taskEvents(harness.store, turn)).toHaveLength(1);
        expect(await harness.store.violations()).toEqual([]);
      } finally {
        await frozen.end('SIGKILL');
        await harness.close();
        await model.close();
      }
    },
    180_000,
  );
});

describe('a worker frozen between the claim of a call and its effect', () => {
  test.concurrent.each(BACKENDS)(
    'does not begin when it wakes after others have taken over, on %s (T5, W10)',
    async (backend) => {
      const dir = mkdtempSync(join(tmpdir(), 'agentturn-frozen-'));
      const harness = await openHarness(backend);
      const model = await startScriptedModel({ scripts: { count: [calls('count'), say('counted, or not')] } });
      await harness.startWorker(holdingApp(dir), model, { acceptor: true, targets: [] });
      const capacity = { activities: 1, workflowTasks: 2 };
      const frozen = await startWorkerProcess(harness, model.url, dir, {
        freezeAfterClaim: true,
        capacity,
      });
      try {
        const agent = harness.client.agent(`agent-${v7()}`);
        const turn = await agent.enqueue({ instruction: '[script:count] go', profile: 'tester' });
        await frozen.frozen;
        await harness.startWorker(holdingApp(dir), model);
        expect(await turn.result(WAIT)).toMatchObject({
          status: 'success',
          steps: [{ calls: [{ error: { code: 'outcome_unknown' } }] }, {}],
        });
        frozen.signal('SIGCONT');
        await frozen.end('SIGTERM');
        expect(whatWasDone(dir)).toEqual([]);
        expect(await harness.store.violations()).toEqual([]);
      } finally {
        await frozen.end('SIGKILL');
        await harness.close();
        await model.close();
      }
    },
    180_000,
  );
});

/** All that the store says of every agent: turns, events, and what is in their boxes. */
async function everything({ client, store }: Harness): Promise<unknown> {
  const agents = await Array.fromAsync(client.listAgents({ oneShot: 'with' }));
  return Promise.all(
    agents.map(async ({ agentId }) => {
      const turns = await store.listTurns(agentId);
      const boxIds = new Set(turns.flatMap(({ outputBoxId }) => (outputBoxId === null ? [] : [outputBoxId])));
      const boxes = await Promise.all([...boxIds].map((boxId) => store.readBox(boxId)));
      return { turns, boxes, events: await store.readEvents({ agentId, limit: 1_000 }) };
    }),
  );
}

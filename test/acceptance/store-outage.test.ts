/**
 * The store is gone for a while: what is under way waits and goes on, and histories grow by a bounded number of events.
 *
 * A workflow that waits for the store in a local activity keeps its task alive by a heartbeat, which is three events every 8 s; one that
 * waits for anything else adds none.
 */
import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { TurnHandle } from '../../client/api.ts';
import { textOf } from '../../workers/model-server/chat-request.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import type { AnswerFunction } from '../../workers/model-server/wire.ts';
import type { TurnSnapshot } from '../../workflows/messages/messages.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { type ChaosDatabase, startDatabase } from '../chaos/databases.ts';
import { signalAcceptor } from '../support/acceptor.ts';
import { calls, say, suspended, taskEvents } from '../support/asking.ts';
import { type Backend, type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { holdingApp, letGo, whatWasDone } from '../support/holding-app.ts';
import { WAIT } from '../support/wait.ts';

/** Longer than a worker's write waits for SQLite's lock. */
const OUTAGE_MS = Number(process.env.AGENTTURN_TEST_OUTAGE_MS ?? 12_000);
const LOOK_EVERY_MS = 50;

/** Beyond a turn that met no outage: per 8 s one heartbeat, also for the last pause between two tries, and how tasks happen to be cut. */
const MOST_MORE_EVENTS = 3 * Math.ceil((OUTAGE_MS + 15_000) / 8_000) + 12;

const echo: AnswerFunction = ({ messages }) => say(messages.map(textOf).at(-1) ?? '');

interface Scene {
  readonly harness: Harness;
  readonly model: ScriptedServer;
  readonly database: ChaosDatabase;
  readonly dir: string;
  /** How often the script that thinks was asked. */
  readonly asks: { readonly think: number };
  /** Resolves when the model is asked by the script that thinks. */
  readonly asked: Promise<void>;
  readonly goOn: () => void;
}

async function openScene(backend: Backend): Promise<Scene> {
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-outage-'));
  // PostgreSQL may run as another user, in a folder below.
  chmodSync(dir, 0o755);
  const database = await startDatabase({ store: backend, pooled: false }, dir);
  const harness = await openHarness(backend, { storeUrl: database.url });
  const asked = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const asks = { think: 0 };
  const model = await startScriptedModel({
    scripts: {
      answer: [say('done')],
      ask: [calls('ask'), say('thanks')],
      hold: [calls('hold_unsafe'), echo],
      think: [
        async () => {
          asks.think += 1;
          asked.resolve();
          await held.promise;
          return say('done');
        },
      ],
      // The same shapes without anything in their way.
      quick: [calls('hold_unsafe'), say('held')],
    },
  });
  await harness.startWorker(holdingApp(dir), model, { acceptor: true });
  return { harness, model, database, dir, asks, asked: asked.promise, goOn: held.resolve };
}

const enqueue = ({ harness }: Scene, script: string, agentId = `agent-${v7()}`): Promise<TurnHandle> =>
  harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });

async function historyLength({ harness }: Scene, turn: TurnHandle): Promise<number> {
  const { agentId } = await turn.get();
  return (await harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id)).describe()).historyLength;
}

/** The store knows of a waiting call a moment before its workflow does. */
async function atRest({ harness }: Scene, turn: TurnHandle): Promise<void> {
  const { agentId } = await turn.get();
  const handle = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
  while ((await handle.query<TurnSnapshot>('turn_state')).status !== 'suspended') await sleep(LOOK_EVERY_MS);
  while ((await handle.describe()).raw.pendingWorkflowTask) await sleep(LOOK_EVERY_MS);
}

/** Resolves when the store refuses writes, and says so by name. */
async function gone({ harness }: Scene): Promise<void> {
  const knocking = harness.client.agent('knocking');
  const request = { instruction: '[script:answer] go', profile: 'tester', idempotencyKey: 'knock' };
  for (;;) {
    // Always the same request: one that is new each time fills the inbox where the outage begins late.
    const error = await knocking.enqueue(request).then(
      () => null,
      (reason: unknown) => reason,
    );
    if (error === null) continue;
    expect(error).toMatchObject({ code: expect.stringMatching(/^store_(unavailable|locked)$/) });
    return;
  }
}

describe(`scenario 7: the store is gone for ${OUTAGE_MS / 1_000} s`, () => {
  test.concurrent.each(scenarioStores(import.meta.url))(
    'turns wait and go on, and histories grow by a bounded number of events, on %s',
    async (backend) => {
      const scene = await openScene(backend);
      const { harness, model, database, dir } = scene;
      try {
        const [asking, left, holding, thinking] = await Promise.all(
          ['ask', 'ask', 'hold', 'think'].map((script) => enqueue(scene, script)),
        );
        if (!asking || !left || !holding || !thinking) throw new Error('four turns were asked for');
        const [callId = ''] = await suspended(asking);
        await Promise.all([suspended(left), scene.asked, began(dir)]);
        await atRest(scene, left);
        const waitingBefore = await historyLength(scene, left);
        const back = database.away(OUTAGE_MS);
        await Promise.race([gone(scene), back.then(() => Promise.reject(new Error('no write was refused')))]);
        // A tool and a model answer, a result and a request come in: none of it can be stored.
        letGo(dir);
        scene.goOn();
        const { agentId } = await signalled(scene, asking, callId);
        await back;
        for (const turn of [asking, holding, thinking]) {
          expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
          expect(await taskEvents(harness.store, turn)).toHaveLength(1);
        }
        // Neither the answer that was paid for nor the effect that had happened was lost.
        expect(scene.asks.think).toBe(1);
        expect((await holding.result(WAIT)).deliverable?.text).toContain('"by"');
        expect(await historyLength(scene, left)).toEqual(waitingBefore);
        await expectBounded(scene, { asking, holding, thinking });
        expect(await (await firstTurn(scene, agentId)).result(WAIT)).toMatchObject({ status: 'success' });
        expect(await harness.store.violations()).toEqual([]);
      } finally {
        await harness.close();
        await model.close();
        await database.stop();
      }
    },
    OUTAGE_MS + 240_000,
  );
});

async function began(dir: string): Promise<void> {
  while (whatWasDone(dir).length === 0) await sleep(LOOK_EVERY_MS);
}

/** By a client that knows only Temporal: a result for the call, and a request to another agent. */
async function signalled({ harness }: Scene, turn: TurnHandle, callId: string): Promise<{ agentId: string }> {
  const agentId = `agent-${v7()}`;
  const { workflow } = harness.temporal.client;
  await signalAcceptor(harness.temporal.client, agentId, { instruction: '[script:answer] go', profile: 'tester' });
  // Where the turn belongs, a store that does not answer cannot say; the list learns of it a moment after it began.
  for (let told = false; !told; await sleep(LOOK_EVERY_MS)) {
    for await (const { workflowId } of workflow.list({
      query: `WorkflowType = 'agentTurn' AND AgentTurnId = '${turn.id}'`,
    })) {
      await workflow.getHandle(workflowId).signal('tool_result', { callId, status: 'success', result: 1 });
      told = true;
    }
  }
  return { agentId };
}

/** The request was accepted when the store was back, after the last pause between two tries. */
async function firstTurn({ harness }: Scene, agentId: string): Promise<TurnHandle> {
  for (;;) {
    const [turn] = await harness.client.agent(agentId).turns();
    if (turn) return harness.client.turn(turn.agentTurnId);
    await harness.store.changed(1_000);
  }
}

/** Against turns of the same shapes that meet no outage. */
async function expectBounded(scene: Scene, met: Record<'asking' | 'holding' | 'thinking', TurnHandle>): Promise<void> {
  const asking = await enqueue(scene, 'ask');
  const [callId = ''] = await suspended(asking);
  await asking.toolResult({ callId, status: 'success', result: 1 });
  const unmet = { asking, holding: await enqueue(scene, 'quick'), thinking: await enqueue(scene, 'answer') };
  for (const shape of ['asking', 'holding', 'thinking'] as const) {
    await unmet[shape].result(WAIT);
    const more = (await closedLength(scene, met[shape])) - (await closedLength(scene, unmet[shape]));
    console.info(`${scene.database.url.split(':')[0]}, ${shape}: ${more} more events`);
    expect([shape, more <= MOST_MORE_EVENTS]).toEqual([shape, true]);
  }
}

/** The workflow closes a moment after its end is in the store. */
async function closedLength(scene: Scene, turn: TurnHandle): Promise<number> {
  const { agentId } = await turn.get();
  await scene.harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id)).result();
  return historyLength(scene, turn);
}

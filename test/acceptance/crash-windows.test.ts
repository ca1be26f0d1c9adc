/**
 * A process that dies between a transaction and what follows from it: the turn, and the next one, run once each, and nothing that was acked
 * is lost (T3, T29, T30). Each worker of a scene dies, by SIGKILL, right after the store method that is named, once; others take over.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { TurnHandle } from '../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { askScripts, calls, say, suspended, taskEvents } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { whatWasDone } from '../support/holding-app.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/processes.ts';
import { WAIT } from '../support/wait.ts';
import type { FaultPoint } from '../support/worker-process.ts';

describe.each(scenarioStores(import.meta.url))(
  'scenario 6: a process that dies between two transactions, on %s',
  (backend) => {
    let harness: Harness;
    let model: ScriptedServer;

    beforeAll(async () => {
      harness = await openHarness(backend);
      model = await startScriptedModel({ scripts: { ...askScripts, spend: [calls('count'), say('counted')] } });
    });
    afterAll(async () => {
      await harness?.close();
      await model?.close();
    });

    /** A worker that dies at that point, and one that takes over when it has. */
    async function scene<T>(dieAfter: FaultPoint, body: (dir: string) => Promise<T>): Promise<T> {
      const dir = mkdtempSync(join(tmpdir(), 'agentturn-crash-'));
      const doomed = await startWorkerProcess(harness, model.url, dir, { dieAfter });
      let heir: WorkerProcess | undefined;
      const takingOver = doomed.gone.then(async () => {
        heir = await startWorkerProcess(harness, model.url, dir);
      });
      try {
        const result = await body(dir);
        expect([dieAfter, doomed.isRunning()]).toEqual([dieAfter, false]);
        return result;
      } finally {
        await doomed.end('SIGKILL');
        await takingOver.catch(() => {});
        await heir?.end('SIGKILL');
      }
    }

    const enqueue = (script: string, agentId: string): Promise<TurnHandle> =>
      harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });

    async function oneEndEach(turns: readonly TurnHandle[]): Promise<void> {
      for (const turn of turns) expect(await taskEvents(harness.store, turn)).toHaveLength(1);
      const epochs = (await Promise.all(turns.map((turn) => turn.get()))).map((view) => view.turnEpoch ?? 0);
      expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
      expect(await harness.store.violations()).toEqual([]);
    }

    test('a client that dies between accept and start: the supervisor starts the turn (T3, T29)', async () => {
      const dir = mkdtempSync(join(tmpdir(), 'agentturn-crash-'));
      const worker = await startWorkerProcess(harness, model.url, dir);
      try {
        const agentId = `agent-${v7()}`;
        const request = { instruction: '[script:spend] go', profile: 'tester', priority: 'normal' } as const;
        const accepted = await harness.store.accept({ agentId, request });
        if (accepted.kind !== 'accepted') throw new Error(accepted.message);
        const turn = harness.client.turn(accepted.agentTurnId);
        expect(await turn.result(WAIT)).toMatchObject({ status: 'success', turnEpoch: 1 });
        expect(whatWasDone(dir)).toHaveLength(1);
        await oneEndEach([turn]);
      } finally {
        await worker.end('SIGKILL');
      }
    });

    test('a worker that dies between commit and the start of the next turn (T29)', async () => {
      await scene('commitStepAndEnd', async (dir) => {
        const agentId = `agent-${v7()}`;
        const turns = [
          await enqueue('spend', agentId),
          await enqueue('spend', agentId),
          await enqueue('spend', agentId),
        ];
        for (const turn of turns) expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
        expect(whatWasDone(dir)).toHaveLength(3);
        await oneEndEach(turns);
      });
    });

    test('a supervisor that dies between the end of a terminated turn and the start of the next one (T7, T29)', async () => {
      await scene('reapTurn', async (dir) => {
        const agentId = `agent-${v7()}`;
        const first = await enqueue('ask', agentId);
        await suspended(first);
        const next = await enqueue('spend', agentId);
        await harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, first.id)).terminate('test');
        expect(await first.result(WAIT)).toMatchObject({ status: 'failed', errorCode: 'terminated' });
        expect(await next.result(WAIT)).toMatchObject({ status: 'success' });
        expect(whatWasDone(dir)).toHaveLength(1);
        await oneEndEach([first, next]);
      });
    });

    test('a supervisor that dies in the middle of a pass, the lease of a lost start in its hand (T29)', async () => {
      await scene('leaseNext', async (dir) => {
        const agents = Array.from({ length: 5 }, () => `agent-${v7()}`);
        const request = { instruction: '[script:spend] go', profile: 'tester', priority: 'normal' } as const;
        for (const agentId of agents) await harness.store.accept({ agentId, request });
        for (const agentId of agents) {
          const [turn] = await harness.client.agent(agentId).turns();
          const handle = harness.client.turn(turn?.agentTurnId ?? '');
          expect(await handle.result(WAIT)).toMatchObject({ status: 'success', turnEpoch: 1 });
          await oneEndEach([handle]);
        }
        expect(whatWasDone(dir)).toHaveLength(agents.length);
      });
    });

    test('a client that dies between a stop and what follows from it: the next turn runs, the workflow is closed (T21, T29)', async () => {
      const dir = mkdtempSync(join(tmpdir(), 'agentturn-crash-'));
      const worker = await startWorkerProcess(harness, model.url, dir);
      try {
        const agentId = `agent-${v7()}`;
        const first = await enqueue('ask', agentId);
        await suspended(first);
        const next = await enqueue('spend', agentId);
        await harness.store.stopTurn(first.id, 'the client dies right after this');
        expect(await next.result(WAIT)).toMatchObject({ status: 'success' });
        const workflow = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, first.id));
        while ((await workflow.describe()).status.name === 'RUNNING') await sleep(200);
        await oneEndEach([first, next]);
      } finally {
        await worker.end('SIGKILL');
      }
    });

    test('a worker that dies between the delegation of a question and the start of its turn (T30)', async () => {
      model.add('delegates', [
        {
          kind: 'message',
          toolCalls: [{ name: 'ask_expert', arguments: { profile: 'tester', question: '[script:spend] ?' } }],
        },
        say('answered'),
      ]);
      await scene('delegate', async (dir) => {
        const turn = await enqueue('delegates', `agent-${v7()}`);
        expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'answered' } });
        expect(whatWasDone(dir)).toHaveLength(1);
        await oneEndEach([turn]);
      });
    });
  },
);

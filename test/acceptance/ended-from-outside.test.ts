/** An operator's hand on a turn's workflow, whatever the turn is doing: one task event, and the next turn runs (T7). */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { TurnHandle } from '../../client/api.ts';
import { attempts, type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import type { TurnView } from '../../workflows/contract/views.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { calls, say, suspended, taskEvents } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { holdingApp } from '../support/holding-app.ts';
import { temporalCli } from '../support/processes.ts';
import { WAIT } from '../support/wait.ts';

const DOING = ['running a tool', 'suspended', 'calling the model'] as const;
type Doing = (typeof DOING)[number];

const HANDS = {
  terminate: ['workflow', 'terminate', '--reason', 'test'],
  delete: ['workflow', 'delete', '--yes'],
  reset: ['workflow', 'reset', '--type', 'FirstWorkflowTask', '--reason', 'test'],
} as const;
type Hand = keyof typeof HANDS;

/** A workflow that was deleted leaves no trace of how it ended. */
const CODES = { terminate: 'terminated', delete: 'worker_lost' } as const;

const SCRIPTS: Readonly<Record<Doing, string>> = {
  'running a tool': 'hold',
  suspended: 'ask',
  'calling the model': 'think',
};

/** A turn that is reset goes on where the store knows it to be; its tool may have taken effect, so it is not run again. */
const AFTER_RESET: Readonly<Record<Doing, Partial<TurnView>>> = {
  'running a tool': { status: 'success', deliverable: { text: 'held, or not' } },
  suspended: { status: 'success', deliverable: { text: 'thanks' } },
  'calling the model': { status: 'success', deliverable: { text: 'thought again' } },
};

describe.each(scenarioStores(import.meta.url))('scenario 2: from the Temporal CLI, on %s,', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({
      scripts: {
        answer: [say('done')],
        ask: [calls('ask'), say('thanks')],
        hold: [calls('hold_unsafe'), say('held, or not')],
      },
    });
    await harness.startWorker(holdingApp(mkdtempSync(join(tmpdir(), 'agentturn-held-'))), model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  /** The turn, once it is doing that. */
  async function begin(doing: Doing, agentId: string): Promise<TurnHandle> {
    const asked = Promise.withResolvers<void>();
    const script = doing === 'calling the model' ? `think-${agentId}` : SCRIPTS[doing];
    // The first request never gets its answer.
    const silence = async () => {
      asked.resolve();
      return new Promise<never>(() => {});
    };
    model.add(`think-${agentId}`, [attempts(silence, say('thought again'))]);
    const turn = await harness.client
      .agent(agentId)
      .enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });
    if (doing === 'suspended') await suspended(turn);
    if (doing === 'calling the model') await asked.promise;
    if (doing === 'running a tool') {
      for await (const event of turn.events()) if (event.type === 'step' && event.payload.phase === 'executing') break;
    }
    return turn;
  }

  async function hit(hand: Hand, doing: Doing): Promise<void> {
    const agentId = `agent-${v7()}`;
    const turn = await begin(doing, agentId);
    const next = await harness.client.agent(agentId).enqueue({ instruction: '[script:answer] go', profile: 'tester' });
    await temporalCli(harness, [...HANDS[hand], '--workflow-id', turnWorkflowId(agentId, turn.id)]);
    if (hand === 'reset' && doing === 'suspended') {
      const callId = (await turn.get()).waiting[0]?.callId ?? '';
      expect((await turn.toolResult({ callId, status: 'success', result: 1 })).ack).toBe('applied');
    }
    const ended = hand === 'reset' ? AFTER_RESET[doing] : { status: 'failed', errorCode: CODES[hand] };
    expect([doing, await turn.result(WAIT)]).toMatchObject([doing, ended]);
    expect([doing, await next.result(WAIT)]).toMatchObject([doing, { status: 'success' }]);
    expect(await taskEvents(harness.store, turn)).toHaveLength(1);
  }

  test.each(Object.keys(HANDS) as Hand[])(
    '%s a turn while it runs a tool, is suspended or calls the model: one task event, and the next turn runs (T7)',
    async (hand) => {
      await Promise.all(DOING.map((doing) => hit(hand, doing)));
      expect(await harness.store.violations()).toEqual([]);
    },
    120_000,
  );
});

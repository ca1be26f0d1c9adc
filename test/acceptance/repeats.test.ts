/** A client that repeats itself grows no history, whatever it repeats (T10). `AGENTTURN_TEST_REPEATS=20000` for the long run. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { TurnHandle } from '../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { signalAcceptor } from '../support/acceptor.ts';
import { testApp } from '../support/app.ts';
import { askTool, calls, say, suspended, taskEvents } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';

const REPEATS = Number(process.env.AGENTTURN_TEST_REPEATS ?? 200);
const SIDE_BY_SIDE = 10;
/** What a history may grow by while nothing new is said. */
const MOST_NEW_EVENTS = 10;
/** The end of a stopped turn: its signal, its tasks, the marker of its commit, its close. */
const CLOSING_EVENTS = 15;
const QUIET_LOOKS = 5;
const LOOK_EVERY_MS = 100;

const REQUEST = { instruction: '[script:ask-two] go', profile: 'tester', idempotencyKey: 'k' };
const LIMITS = { maxSteps: 40 };

interface Waiting {
  readonly agentId: string;
  readonly turn: TurnHandle;
  readonly answered: string;
  readonly waiting: string;
}

describe.each(scenarioStores(import.meta.url))('repeated over and over, on %s,', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({ scripts: { 'ask-two': [calls('ask', 'ask'), say('thanks')] } });
    await harness.startWorker(testApp([askTool]), model, { acceptor: true, supervisor: { everyMs: 300 } });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  /** A turn with two calls, one answered, with budgets of its own. */
  async function begin(): Promise<Waiting> {
    const agentId = `agent-${v7()}`;
    const turn = await harness.client.agent(agentId).enqueue(REQUEST);
    const [answered = '', waiting = ''] = await suspended(turn, 2);
    await turn.toolResult({ callId: answered, status: 'success', result: 1 });
    await turn.setBudgets(LIMITS);
    return { agentId, turn, answered, waiting };
  }

  const MESSAGES: Record<string, (target: Waiting) => Promise<unknown>> = {
    'the request': ({ agentId }) => harness.client.agent(agentId).enqueue(REQUEST),
    'the request by a foreign client': ({ agentId }) => signalAcceptor(harness.temporal.client, agentId, REQUEST),
    'the result of a call': ({ turn, answered: callId }) => turn.toolResult({ callId, status: 'success', result: 1 }),
    'a heartbeat': ({ turn, waiting: callId }) => turn.toolResult({ callId, status: 'running' }),
    'the same budgets': ({ turn }) => turn.setBudgets(LIMITS),
  };

  async function repeat(send: () => Promise<unknown>): Promise<void> {
    let left = REPEATS;
    const work = async () => {
      while (left > 0) {
        left -= 1;
        await send();
      }
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, work));
  }

  /** Once the workflow has done what it has to do. */
  async function quietLength({ agentId, turn }: Waiting): Promise<{ runId: string; events: number }> {
    const handle = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    for (let last = { runId: '', events: 0 }, looks = 0; ; await sleep(LOOK_EVERY_MS)) {
      const { runId, historyLength, raw } = await handle.describe();
      const isSame = runId === last.runId && historyLength === last.events && !raw.pendingWorkflowTask;
      looks = isSame ? looks + 1 : 0;
      last = { runId, events: historyLength };
      if (looks >= QUIET_LOOKS) return last;
    }
  }

  test.each(Object.keys(MESSAGES))(
    '%s adds next to nothing to the history of its turn (T10)',
    async (what) => {
      const target = await begin();
      const before = await quietLength(target);
      await repeat(async () => MESSAGES[what]?.(target));
      const after = await quietLength(target);
      expect(after.runId).toBe(before.runId);
      expect(after.events - before.events).toBeLessThanOrEqual(MOST_NEW_EVENTS);
      await target.turn.toolResult({ callId: target.waiting, status: 'success', result: 2 });
      expect(await target.turn.result()).toMatchObject({ status: 'success' });
      expect(await harness.client.agent(target.agentId).turns()).toHaveLength(1);
    },
    30_000 + REPEATS * 200,
  );

  test(
    'a stop ends the turn once and closes its workflow (T10, T21)',
    async () => {
      const target = await begin();
      const before = await quietLength(target);
      await repeat(() => target.turn.stop('enough'));
      const after = await quietLength(target);
      expect(after.events - before.events).toBeLessThanOrEqual(CLOSING_EVENTS);
      expect(await taskEvents(harness.store, target.turn)).toHaveLength(1);
    },
    30_000 + REPEATS * 200,
  );
});

/**
 * A workflow that is gone, among many turns that wait: its turn's one end and the agent's next turn come soon all the same (T7, T29).
 * `AGENTTURN_TEST_SUSPENDED=5000` for the long run, some ten minutes on each store.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { v7 } from 'uuid';
import type { TurnHandle } from '../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { testApp } from '../support/app.ts';
import { askScripts, askTool, suspended, taskEvents } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

const SUSPENDED = Number(process.env.AGENTTURN_TEST_SUSPENDED ?? 40);
const SIDE_BY_SIDE = 16;
/** Two passes of the supervisor and a turn take some seconds; what is given here is held on a machine that does nothing else. */
const SOON_MS = Number(process.env.AGENTTURN_TEST_SOON_MS ?? WAIT.timeoutMs);

interface Waiting {
  readonly agentId: string;
  readonly turn: TurnHandle;
}

describe.each(scenarioStores(import.meta.url))(`among ${SUSPENDED} suspended turns, on %s,`, (backend) => {
  let harness: Harness;
  let model: ScriptedServer;
  const waiting: Waiting[] = [];

  beforeAll(
    async () => {
      harness = await openHarness(backend);
      model = await startScriptedModel({ scripts: askScripts });
      await harness.startWorker(testApp([askTool]), model);
      const begin = async () => {
        while (waiting.length < SUSPENDED) {
          const agentId = `agent-${v7()}`;
          const turn = await enqueue(agentId, 'ask');
          waiting.push({ agentId, turn });
          await suspended(turn);
        }
      };
      await Promise.all(Array.from({ length: SIDE_BY_SIDE }, begin));
    },
    60_000 + SUSPENDED * 400,
  );
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const enqueue = (agentId: string, script: string) =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });

  const HANDS: Readonly<Record<string, (handle: WorkflowHandle) => Promise<unknown>>> = {
    'is terminated': (handle) => handle.terminate('test'),
    'is cancelled': (handle) => handle.cancel(),
    'is deleted': ({ workflowId }) =>
      harness.temporal.client.workflowService.deleteWorkflowExecution({
        namespace: harness.namespace,
        workflowExecution: { workflowId },
      }),
  };

  test.each(Object.keys(HANDS))(
    'a turn whose workflow %s has its one end, and the next turn runs, soon (T7)',
    async (hand) => {
      const one = waiting.pop();
      if (!one) throw new Error('there are not as many turns');
      const next = await enqueue(one.agentId, 'answer');
      const startedAt = performance.now();
      await HANDS[hand]?.(harness.temporal.client.workflow.getHandle(turnWorkflowId(one.agentId, one.turn.id)));
      await one.turn.result(WAIT);
      await expect(next.result(WAIT)).resolves.toMatchObject({ status: 'success' });
      const tookMs = Math.round(performance.now() - startedAt);
      expect(await taskEvents(harness.store, one.turn)).toHaveLength(1);
      expect({ hand, tookMs, isSoon: tookMs < SOON_MS }).toMatchObject({ isSoon: true });
      if (process.env.AGENTTURN_TEST_SUSPENDED) console.info(`${backend}: ${hand}: ${tookMs} ms`);
    },
  );

  test('all the others wait on', async () => {
    expect(await harness.store.violations()).toEqual([]);
    expect(await harness.store.countOpenTurns()).toBeGreaterThanOrEqual(waiting.length);
    for (const { turn } of waiting.slice(0, 20)) expect((await turn.get()).status).toBe('suspended');
  });
});

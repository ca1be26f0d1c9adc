/** Very many agents that rest: each delivery makes one turn, and a hundred thousand of them cost neither workflows nor memory (A5, A9, A12). */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { AGENT_STATE_TOOLS } from '../../activities/tools/builtin/registry.ts';
import { newWakeToken, wakeTokenHash } from '../../activities/wake-tokens.ts';
import { residentBytes } from '../../bench/probes.ts';
import { openRaw } from '../../bench/scale/database.ts';
import { TurnWorkflows } from '../../client/turn-workflows.ts';
import { startScriptedModel } from '../../workers/model-server/scripted.ts';
import { openGateway } from '../client/gateway/bench.ts';
import { testApp } from '../support/app.ts';
import { say } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { startWorkerProcess } from '../support/processes.ts';
import { seen } from '../support/wait.ts';

/** `AGENTTURN_TEST_WAITING=1000` is the whole of it. */
const WAITING = Number(process.env.AGENTTURN_TEST_WAITING ?? 60);
/** `AGENTTURN_TEST_RESTING=100000` is the whole of it. */
const RESTING = Number(process.env.AGENTTURN_TEST_RESTING ?? 20_000);
const SIDE_BY_SIDE = 16;
const LONGEST_MS = 300_000;

const each = async <T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> => {
  const left = [...items];
  const work = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await act(item);
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, work));
};

const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

const residentMiB = (pid: number): number => residentBytes(pid) / 2 ** 20;

describe.each(scenarioStores(import.meta.url))('agents that rest, on %s', (backend) => {
  test(
    'and wait for triggers, each of which is hit twice, make one turn each (A9)',
    async () => {
      const harness = await openHarness(backend);
      const model = await startScriptedModel({
        scripts: {
          wait: [
            { kind: 'message', toolCalls: [{ name: 'wait_for', arguments: { wake: 'external', reason: 'news' } }] },
          ],
          news: [say('thanks')],
        },
      });
      try {
        const { store, client } = harness;
        const workflows = new TurnWorkflows(harness.temporal.client, store);
        await harness.startWorker(testApp([], { builtins: [...AGENT_STATE_TOOLS] }), model);
        const agents = Array.from({ length: WAITING }, (_, n) => ({ agentId: `w${n}`, token: newWakeToken() }));
        await each(agents, async ({ agentId, token }) => {
          const request = { instruction: '[script:wait] go', profile: 'tester' };
          await (await client.agent(agentId).enqueue(request)).result();
          const trigger = { triggerId: `trigger-${agentId}`, name: 'news', tokenHash: wakeTokenHash(token) };
          await store.createTrigger(agentId, trigger);
        });
        expect(await store.countAgents({ posture: 'waiting_for_external' })).toBe(WAITING);
        await noneRuns(harness);
        await each(agents, async ({ token }) => {
          const hit = () =>
            store.fireTrigger(wakeTokenHash(token), { text: '[script:news] it is here', key: 'news-1' });
          const both = await Promise.all([hit(), hit()]);
          expect(both.map((woken) => woken?.disposition).toSorted()).toEqual(['duplicate', 'woken']);
          for (const woken of both) if (woken) await workflows.handOver(woken.handover);
        });
        await seen(store, async () => ((await store.countAgents({ posture: 'idle' })) === WAITING ? true : undefined));
        for (const { agentId } of agents) {
          const turns = await store.listTurns(agentId);
          expect(turns.map(({ status, deliverable }) => [status, deliverable?.text?.slice(0, 6)])).toEqual([
            ['success', expect.any(String)],
            ['success', 'thanks'],
          ]);
        }
        expect(await store.violations()).toEqual([]);
      } finally {
        await harness.close();
        await model.close();
      }
    },
    LONGEST_MS,
  );

  test(
    `and are ${RESTING} cost no workflow and no memory, and are listed and counted as fast as few (A5, A12)`,
    async () => {
      const harness = await openHarness(backend);
      const model = await startScriptedModel({ default: [say('hello')] });
      const gateway = await openGateway(harness);
      const worker = await startWorkerProcess(harness, model.url, mkdtempSync(join(tmpdir(), 'agentturn-resting-')));
      try {
        const turn = () => harness.client.run('tester', { instruction: 'go' }).then((one) => one.result());
        await turn();
        const before = residentMiB(worker.pid);
        await addAgents(harness.storeUrl, RESTING);
        // The supervisor has passed over them, and over this turn, several times.
        for (let round = 0; round < 5; round += 1) await turn();
        const grown = residentMiB(worker.pid) - before;
        await noneRuns(harness);
        const [page, counted] = [[] as number[], [] as number[]];
        for (let round = 0; round < 11; round += 1) {
          page.push(await timed(() => gateway.call('GET', '/v1/agents?limit=100')));
          counted.push(await timed(() => gateway.call('GET', '/v1/agents?limit=100&posture=idle&count=true')));
        }
        const { json } = await gateway.call('GET', '/v1/agents?limit=100&count=true&oneShot=with');
        expect(json).toMatchObject({ items: { length: 100 }, total: RESTING + 6 });
        console.info({
          backend,
          RESTING,
          pageMs: median(page),
          countedMs: median(counted),
          grownMiB: Math.round(grown),
        });
      } finally {
        await worker.end('SIGKILL');
        await gateway.server.close();
        await harness.close();
        await model.close();
      }
    },
    LONGEST_MS,
  );
});

/** The server's list lags behind. */
const noneRuns = ({ store, temporal }: Harness): Promise<true> =>
  seen(store, async () => {
    const { count } = await temporal.client.workflow.count(`ExecutionStatus = 'Running'`);
    return count === 0 ? true : undefined;
  });

async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

/** Agents as the store leaves them after their turns, without the turns. */
async function addAgents(storeUrl: string, count: number): Promise<void> {
  const db = await openRaw(storeUrl, true);
  const numbers = db.numbers(1, count);
  const id = `'resting-' || ${db.padded('i', 8)}`;
  await db.execute(
    `insert into agents (agent_id, root_agent_id, profile, created_at) ${numbers.with} select ${id}, ${id}, 'tester', 1 from ${numbers.from}`,
  );
  await db.execute(
    `insert into agent_state_head (agent_id, status, agent_status, turn_epoch, waiting_tool_count, accept_seq, event_seq, updated_at, recorded_at)
       ${numbers.with} select ${id}, 'idle', 'asleep', 0, 0, 0, 0, 1, 1 from ${numbers.from}`,
  );
  await db.close();
}

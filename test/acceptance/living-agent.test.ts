/** Agents that live on between their turns, with real workers: work that is gone on with, waits, timers, triggers, stop and start (A6–A12). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { AGENT_STATE_TOOLS } from '../../activities/tools/builtin/registry.ts';
import { newWakeToken, wakeTokenHash } from '../../activities/wake-tokens.ts';
import { TurnWorkflows } from '../../client/turn-workflows.ts';
import { textOf } from '../../workers/model-server/chat-request.ts';
import { type ScriptedServer, type ScriptStep, startScriptedModel } from '../../workers/model-server/scripted.ts';
import type { AgentSummary } from '../../workflows/contract/agent-summary.ts';
import type { TurnView } from '../../workflows/contract/views.ts';
import { isTerminal } from '../../workflows/protocol/turn.ts';
import { testApp } from '../support/app.ts';
import { askTool, calls, say, suspended } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { seen } from '../support/wait.ts';

const call = (name: string, args: object, content = ''): ScriptStep => ({
  kind: 'message',
  content,
  toolCalls: [{ name, arguments: args }],
});

/** A call for the work item that the last user message names. */
const forItem =
  (name: string, args: object = {}): ScriptStep =>
  ({ messages }) => {
    const said = messages.filter(({ role }) => role === 'user').map(textOf);
    const id = /work item (work_[0-9a-f]+)/.exec(said.at(-1) ?? '')?.[1];
    return { kind: 'message', toolCalls: [{ name, arguments: { work_item_id: id, ...args } }] };
  };

const scripts = {
  plan: [
    {
      kind: 'message',
      toolCalls: ['[script:first] write it down', '[script:second] have it sent'].map((objective) => ({
        name: 'create_work_item',
        arguments: { objective },
      })),
    },
    say('planned'),
  ],
  first: [forItem('complete_work_item', { result_summary: 'written' }), say('one is done')],
  second: [
    forItem('pick_work_item'),
    call('wait_for', { wake: 'external', reason: 'the parcel', deadline_seconds: 3_600 }, 'I wait for the parcel.'),
  ],
  third: [call('wait_for', { wake: 'operator_input', reason: 'whether to keep it' }, 'It has come. Keep it?')],
  fourth: [
    call('list_work_items', {}),
    ({ messages }) => {
      const { work_items } = JSON.parse(textOf(messages.at(-1) as (typeof messages)[number])) as {
        work_items: { work_item_id: string }[];
      };
      const [item] = work_items;
      return {
        kind: 'message',
        toolCalls: [{ name: 'complete_work_item', arguments: { work_item_id: item?.work_item_id } }],
      };
    },
    say('all is done'),
  ],
  soon: [call('wait_for', { wake: 'external', reason: '[script:late] news', deadline_seconds: 10 })],
  late: [say('it is late')],
  clock: [call('set_timer', { after_seconds: 10, reason: '[script:late] ring' }), say('the clock is set')],
  wrong: [
    call('wait_for', { wake: 'task_result', resource: 'nobody', reason: 'x' }),
    call('update_work_item', { work_item_id: 'work_none' }),
    call('wait_for', { wake: 'timer', reason: 'x' }),
    say('nothing of it works'),
  ],
  busy: [calls('ask'), say('not busy any more')],
  endless: [{ kind: 'message', content: 'x '.repeat(4_000), chunkDelayMs: 200 }],
} satisfies Record<string, readonly ScriptStep[]>;

describe.each(scenarioStores(import.meta.url))('an agent on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;
  let workflows: TurnWorkflows;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({ scripts });
    workflows = new TurnWorkflows(harness.temporal.client, harness.store);
    await harness.startWorker(testApp([askTool], { builtins: [...AGENT_STATE_TOOLS] }), model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const newAgent = () => `agent-${v7()}`;
  const ask = (agentId: string, script: string) =>
    harness.client.agent(agentId, { profile: 'tester' }).enqueue({ instruction: `[script:${script}] go` });
  /** The agent once its turns are so many and the last one has ended. */
  const rested = async (agentId: string, turns: number): Promise<{ summary: AgentSummary; last: TurnView }> => {
    const last = await seen(harness.store, async () => {
      const all = await harness.store.listTurns(agentId);
      const last = all.at(-1);
      return all.length >= turns && last && all.every(({ status }) => isTerminal(status)) ? last : undefined;
    });
    const summary = await harness.store.agentSummary(agentId);
    if (!summary) throw new Error('no agent');
    expect(summary.agent.turnIndex).toBe(turns);
    return { summary, last };
  };
  const trigger = async (agentId: string) => {
    const tokenHash = wakeTokenHash(newWakeToken());
    const triggerId = `trigger-${v7()}`;
    await harness.store.createTrigger(agentId, { triggerId, name: 'parcel', tokenHash });
    return async (text: string | null, key?: string) => {
      const woken = await harness.store.fireTrigger(tokenHash, { text, ...(key === undefined ? {} : { key }) });
      if (woken) await workflows.handOver(woken.handover);
      return woken?.disposition;
    };
  };

  test('goes on with its work by itself, waits, is woken, asks a person, and comes to its end (A7, A8, A9, A10)', async () => {
    const agentId = newAgent();
    await ask(agentId, 'plan');
    const waiting = await rested(agentId, 3);
    expect(waiting.last).toMatchObject({ status: 'success', deliverable: { text: 'I wait for the parcel.' } });
    expect(waiting.summary).toMatchObject({
      agent: { status: 'asleep', autonomousTurns: 2 },
      schedulingPosture: { posture: 'waiting_for_external', reason: 'the parcel' },
      closure: { outcome: 'waiting', waitingReason: 'awaiting_external_change' },
      workItems: [{ objective: '[script:second] have it sent', schedulingState: 'waiting_external', current: true }],
    });
    const hit = await trigger(agentId);
    expect(await hit(null)).toBe('noted');
    expect(await hit('[script:third] there it is', 'a')).toBe('woken');
    expect(await hit('[script:third] there it is', 'a')).toBe('duplicate');
    const asking = await rested(agentId, 4);
    expect(asking.last.instruction).toContain('there it is');
    expect(asking.summary).toMatchObject({
      agent: { autonomousTurns: 0 },
      schedulingPosture: { posture: 'waiting_for_operator', reason: 'whether to keep it' },
      lifecycle: { operatorHint: expect.stringContaining('it waits for a person') },
    });
    await ask(agentId, 'fourth');
    const { summary } = await rested(agentId, 5);
    expect(summary).toMatchObject({
      schedulingPosture: { posture: 'idle' },
      closure: { outcome: 'completed' },
      workItems: [],
    });
    expect((await harness.store.listWorkItems(agentId)).map(({ state }) => state)).toEqual(['completed', 'completed']);
    expect((await harness.store.listWaits(agentId)).map(({ status }) => status)).toEqual(['resolved', 'resolved']);
    expect(await harness.store.violations()).toEqual([]);
    // Neither a wait nor a wake-up has a workflow: there is one for each turn.
    const ofAgent = `AgentId = '${agentId}'`;
    await seen(harness.store, async () =>
      (await harness.temporal.client.workflow.count(ofAgent)).count >= 5 ? true : undefined,
    );
    expect((await harness.temporal.client.workflow.count(ofAgent)).count).toBe(5);
  });

  test('is woken at the deadline of its wait, and by its timer, with no workflow meanwhile (A8, A9, A12)', async () => {
    const [waiting, ringing] = [newAgent(), newAgent()];
    const turns = await Promise.all([ask(waiting, 'soon'), ask(ringing, 'clock')]);
    await Promise.all(turns.map((turn) => turn.result()));
    const [late, rung] = await Promise.all([rested(waiting, 2), rested(ringing, 2)]);
    expect(late.last.instruction).toContain('the deadline has passed of what you waited for: [script:late] news');
    expect(rung.last.instruction).toContain('has fired: [script:late] ring');
    for (const { last, summary } of [late, rung]) {
      expect(last.deliverable?.text).toBe('it is late');
      expect(summary.schedulingPosture.posture).toBe('idle');
    }
  });

  test('is told what is wrong with what it asks for, and goes on (A7, A8)', async () => {
    const agentId = newAgent();
    const { steps, deliverable } = await (await ask(agentId, 'wrong')).result();
    expect(deliverable?.text).toBe('nothing of it works');
    expect(steps.flatMap(({ calls }) => calls.map(({ error }) => error?.message))).toEqual([
      expect.stringContaining('you have delegated no turn nobody'),
      expect.stringContaining('there is no open work item work_none; open are: none'),
      expect.stringContaining('timer needs a timer_id in resource, or recheck_after_seconds'),
    ]);
  });

  test('has one turn for 64 hits while it is busy (A9)', async () => {
    const agentId = newAgent();
    const turn = await ask(agentId, 'busy');
    const [callId = ''] = await suspended(turn);
    const hit = await trigger(agentId);
    const lane = async (from: number) => {
      for (let n = from; n < 64; n += 8) expect(await hit(`[script:late] hit ${n}`, `${n}`)).toBe('kept');
    };
    await Promise.all(Array.from({ length: 8 }, (_, from) => lane(from)));
    await turn.toolResult({ callId, status: 'success', result: 1 });
    await turn.result();
    const { last } = await rested(agentId, 2);
    const told = [...last.instruction.matchAll(/^\[script:late\] hit (\d+)$/gm)].map(([, n]) => Number(n));
    expect(told.sort((a, b) => a - b)).toEqual(Array.from({ length: 64 }, (_, n) => n));
    expect(last.deliverable?.text).toBe('it is late');
  });

  test('ends its turn when it is stopped, keeps what it waits for, and is woken by nothing until it is started (A6)', async () => {
    const agentId = newAgent();
    await (await ask(agentId, 'soon')).result();
    const { summary } = await rested(agentId, 2);
    expect(summary.agent.turnIndex).toBe(2);
    const hit = await trigger(agentId);
    const turn = await ask(agentId, 'endless');
    await seen(harness.store, async () => ((await turn.get()).status === 'running' ? true : undefined));
    const agent = harness.client.agent(agentId);
    await agent.stop('enough');
    expect(await turn.result()).toMatchObject({ status: 'failed', errorCode: 'stopped' });
    await expect(hit('[script:late] x')).rejects.toMatchObject({ code: 'agent_stopped' });
    await expect(ask(agentId, 'late')).rejects.toMatchObject({ code: 'agent_stopped' });
    expect(await harness.store.agentSummary(agentId)).toMatchObject({
      schedulingPosture: { posture: 'archived' },
      lifecycle: { acceptsExternalMessages: false, operatorHint: expect.stringContaining(`agents start ${agentId}`) },
    });
    await agent.start();
    expect(await hit('[script:late] x')).toBe('woken');
    await rested(agentId, 4);
    expect(await harness.store.violations()).toEqual([]);
  });
});

/** What every client does, whatever way it reaches the system: directly, or over HTTP through a gateway. */
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import { AGENT_STATE_TOOLS } from '../../activities/tools/builtin/registry.ts';
import type { AgentHandle } from '../../client/api.ts';
import type { ClientApi } from '../../client/client-api.ts';
import type { ModelAnswer } from '../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import { type Harness, openHarness } from '../support/harness.ts';
import { type GatewayBench, openGateway } from './gateway/bench.ts';

const book = defineTool({
  name: 'book',
  description: 'Books.',
  parameters: z.object({ price: z.number() }),
  sideEffects: 'idempotent',
  execute: ({ price }) => ({ booked: price }),
});

const outside = defineTool({
  name: 'outside',
  description: 'Waits for somebody outside.',
  parameters: z.object({}),
  sideEffects: 'none',
  afterExecution: 'suspend',
  execute: () => ({ asked: true }),
});

const says = (content: string): ModelAnswer => ({ kind: 'message', content });
const calls = (name: string, args: object): ModelAnswer => ({
  kind: 'message',
  toolCalls: [{ name, arguments: args }],
});

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

let harness: Harness;
let model: ModelServer;
let gateway: GatewayBench;

beforeAll(async () => {
  harness = await openHarness();
  const asking = defineAgent({
    name: 'asking',
    governance: { rules: [{ tool: 'book', action: 'ask', reason: 'it costs' }] },
  });
  // The script is what the last request says: one answer for each step.
  model = await startModelServer({
    answer: ({ messages }) => {
      const asked = messages.findLastIndex(({ role, content }) => role === 'user' && String(content).startsWith('['));
      if (asked < 0) return says('nothing more');
      const script = JSON.parse(String(messages[asked]?.content)) as ModelAnswer[];
      const step = messages.slice(asked).filter(({ role }) => role === 'assistant').length;
      return script[step] ?? says('nothing more');
    },
  });
  const counted = COUNTED.map((name) => defineAgent({ name }));
  const guide = defineAgent({ name: 'guide', allowedTools: [], delegationPolicy: { profiles: ['tester'] } });
  const keeper = defineAgent({ name: 'keeper', builtins: [...AGENT_STATE_TOOLS] });
  await harness.startWorker(
    defineApp({ agents: [defineAgent({ name: 'tester' }), asking, guide, keeper, ...counted], tools: [book, outside] }),
    model,
  );
  gateway = await openGateway(harness);
});
afterAll(async () => {
  await gateway?.server.close();
  await harness?.close();
  await model?.close();
});

afterEach(() => {
  jest.restoreAllMocks();
});

/** Profiles of agents that are counted: one for each client. */
const COUNTED = ['counted-directly', 'counted-over-http'];

const newAgent = () => `agent-${v7()}`;
const script = (...answers: ModelAnswer[]) => JSON.stringify(answers);

describe.each<[string, () => ClientApi, string | undefined]>([
  ['directly', () => harness.client, COUNTED[0]],
  ['over HTTP', () => gateway.client, COUNTED[1]],
])('a client that goes %s', (_, client, profile = '') => {
  test('enqueues a turn, gets its result, and reads it in every way', async () => {
    const agent = client().agent(newAgent(), { profile: 'tester' });
    expect(await agent.get()).toBeNull();
    const turn = await agent.enqueue({ instruction: script(calls('book', { price: 3 }), says('Done.')) });
    expect(turn.ack).toMatchObject({ agentTurnId: turn.id, position: 0, duplicate: false });
    const ended = await turn.result();
    expect(ended).toMatchObject({ status: 'success', agentId: agent.id, stepCount: 2 });
    expect(await turn.get()).toEqual(ended);
    expect(await agent.get()).toMatchObject({
      identity: { agentId: agent.id, profile: 'tester' },
      agent: { head: { status: 'idle' }, turnIndex: 1 },
      schedulingPosture: { posture: 'idle' },
    });
    expect((await agent.turns()).map(({ agentTurnId }) => agentTurnId)).toEqual([turn.id]);
    const kinds = (await all(turn.transcript())).map(({ kind }) => kind);
    expect(kinds).toEqual(['request', 'thought', 'call', 'result', 'thought', 'deliverable']);
    const events = await all(turn.events());
    expect(events.at(-1)?.type).toBe('task');
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, index) => index + 1));
    expect(await all(turn.events({ afterSeq: 3 }))).toEqual(events.slice(3));
    const parts = await all(turn.stream());
    expect(parts.map(({ type }) => type)).toEqual(['step', 'result', 'text', 'step', 'end']);
    expect(await all(turn.stream({ cursor: parts[1]?.cursor ?? '' }))).toEqual(parts.slice(2));
    expect(await turn.stall()).toBeNull();
  });

  test('reads the tree of a turn: its calls below it, and below a call the turn that it made', async () => {
    const asks = calls('ask_expert', { profile: 'tester', question: script(calls('book', { price: 4 }), says('Ok.')) });
    const turn = await client().run('guide', { instruction: script(asks, says('Done.')) });
    await turn.result();
    const tree = await turn.tree();
    expect(tree).toMatchObject({
      ...{ node: 'turn', agentTurnId: turn.id, status: 'success', depth: 0 },
      children: [
        {
          ...{ node: 'call', tool: 'ask_expert', status: 'answered', stepIndex: 1 },
          children: [
            {
              ...{ node: 'turn', status: 'success', depth: 1 },
              children: [{ node: 'call', tool: 'book', status: 'answered', children: [] }],
            },
          ],
        },
      ],
    });
    expect(await harness.client.turn(turn.id).tree()).toEqual(tree);
    await expect(client().turn(v7()).tree()).rejects.toMatchObject({ code: 'turn_not_found' });
  });

  test('runs a turn of a new agent, and the same one again with an idempotency key', async () => {
    const input = { instruction: script(says('A.')), idempotencyKey: v7() };
    const first = await client().run('tester', input);
    const again = await client().run('tester', input);
    expect(again.id).toBe(first.id);
    expect(again.ack?.duplicate).toBe(true);
    await expect(client().run('tester', { ...input, instruction: 'other' })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    });
    await first.result();
  });

  test('waits for a result as long as it was told, also when the clock is set back meanwhile', async () => {
    const turn = await client().run('tester', { instruction: script(calls('outside', {}), says('Thanks.')) });
    await waitingOf(client(), turn.id);
    const startedAt = performance.now();
    const waiting = turn.result({ timeoutMs: 2_000 });
    const { now } = Date;
    jest.spyOn(Date, 'now').mockImplementation(() => now() - 120_000);
    await expect(waiting).rejects.toMatchObject({ code: 'result_wait_timeout' });
    expect(performance.now() - startedAt).toBeLessThan(100_000);
    await turn.stop();
  });

  test('answers a call that waits for somebody outside, once', async () => {
    const turn = await client().run('tester', { instruction: script(calls('outside', {}), says('Thanks.')) });
    const [entry] = await waitingOf(client(), turn.id);
    expect(entry).toMatchObject({ kind: 'result', tool: 'outside' });
    await expect(turn.result({ timeoutMs: 0 })).rejects.toMatchObject({ code: 'result_wait_timeout' });
    const callId = entry?.callId ?? '';
    const card = await client().writeResult({ said: 'yes' });
    expect(await turn.toolResult({ callId, status: 'success', toolResultCardId: card })).toMatchObject({
      ack: 'applied',
    });
    expect(await turn.toolResult({ callId, status: 'success', result: 1 })).toMatchObject({ ack: 'duplicate' });
    expect(await turn.toolResult({ callId: 'no-such-call', status: 'success' })).toMatchObject({ ack: 'unknown' });
    expect((await turn.result()).status).toBe('success');
  });

  test('approves a call with other arguments, as somebody', async () => {
    const turn = await client().run('asking', { instruction: script(calls('book', { price: 100 }), says('Booked.')) });
    const [entry] = await waitingOf(client(), turn.id);
    const [question] = await client().approvals({ agentTurnId: turn.id });
    expect(question).toMatchObject({ callId: entry?.callId, written: { price: 100 }, status: 'waiting' });
    const callId = question?.callId ?? '';
    const refused = turn.answer({ callId, decision: 'approved', by: 'ann', arguments: { price: 'cheap' } });
    await expect(refused).rejects.toMatchObject({ code: 'approval_refused' });
    const ack = await turn.answer({ callId, decision: 'approved', by: 'ann', arguments: { price: 7 } });
    expect(ack).toMatchObject({ ack: 'applied' });
    expect(await turn.answer({ callId, decision: 'denied', by: 'ann' })).toMatchObject({
      ack: 'duplicate',
      recorded: { status: 'approved', by: 'ann' },
    });
    await turn.result();
    const results = (await all(turn.transcript())).filter(({ kind }) => kind === 'result');
    expect(results).toMatchObject([{ result: { booked: 7 } }]);
  });

  test('steers, extends and stops a turn', async () => {
    const turn = await client().run('tester', { instruction: script(calls('outside', {})) });
    await waitingOf(client(), turn.id);
    expect(await turn.steer('quick', { key: 'k' })).toMatchObject({ ack: 'accepted', seq: 1 });
    expect(await turn.steer('quick', { key: 'k' })).toMatchObject({ ack: 'accepted', seq: 1 });
    await turn.setBudgets({ maxSteps: 60 });
    expect(await turn.stop('enough')).toMatchObject({ ack: 'stopped' });
    expect(await turn.stop()).toMatchObject({ ack: 'already_ended' });
    expect(await turn.steer('late')).toMatchObject({ ack: 'stale' });
    expect(await turn.result()).toMatchObject({
      status: 'failed',
      errorCode: 'stopped',
      reason: expect.stringContaining('enough'),
    });
    await expect(turn.setBudgets({ maxSteps: 61 })).rejects.toMatchObject({ code: 'turn_ended' });
  });

  test('stops and starts an agent, and replaces what it remembers', async () => {
    const agent = client().agent(newAgent(), { profile: 'tester' });
    await (await agent.enqueue({ instruction: script(says('A.')) })).result();
    const boxId = (await agent.get())?.agent.head.outputBoxId ?? '';
    const note = await client().writeInstruction('remember this');
    const newBoxId = await agent.replaceOutputBox(boxId, [note]);
    expect((await agent.get())?.agent.head.outputBoxId).toBe(newBoxId);
    await expect(agent.replaceOutputBox(boxId, [])).rejects.toMatchObject({ code: 'box_unavailable' });
    expect(await agent.stop()).toEqual({ stoppedTurnId: null });
    await expect(agent.enqueue({ instruction: 'x' })).rejects.toMatchObject({ code: 'agent_stopped' });
    await agent.start();
    const box = await client().writeContext(['a', 'b']);
    const turn = await agent.enqueue({ instruction: script(says('B.')), contextBoxId: box });
    expect((await turn.result()).status).toBe('success');
  });

  test('lists agents, turns and spending', async () => {
    const agent = client().agent(newAgent(), { profile: 'tester' });
    for (const content of ['A.', 'B.', 'C.'])
      await (await agent.enqueue({ instruction: script(says(content)) })).result();
    expect((await all(client().listAgents())).some(({ agentId }) => agentId === agent.id)).toBe(true);
    const [newest, ...older] = await all(client().turns({ agentId: agent.id }));
    expect(older).toHaveLength(2);
    expect(await all(client().turns({ agentId: agent.id, limit: 1 }))).toEqual([newest]);
    expect(await all(client().turns({ agentId: agent.id, status: ['failed', 'timeout'] }))).toEqual([]);
    const spent = await client().spending({ by: 'agent', since: 0 });
    expect(spent.find(({ of }) => of === agent.id)).toMatchObject({ turns: 3 });
    expect((await agent.turns({ last: 1 })).map(({ agentTurnId }) => agentTurnId)).toEqual([newest?.agentTurnId]);
  });

  test('says the profile of a turn that is queued, and finds it by that', async () => {
    const agent = client().agent(newAgent());
    const first = await agent.enqueue({ instruction: script(calls('outside', {})), profile: 'tester' });
    const queued = await agent.enqueue({ instruction: script(says('A.')) });
    expect(queued.ack?.status).toBe('queued');
    expect(await queued.get()).toMatchObject({ status: 'queued', profile: 'tester' });
    const found = await all(client().turns({ agentId: agent.id, profile: 'tester', status: ['queued'] }));
    expect(found).toMatchObject([{ agentTurnId: queued.id, profile: 'tester' }]);
    await first.stop();
    expect((await queued.result()).profile).toBe('tester');
  });

  test('finds and counts agents by what they are at', async () => {
    const agents = [newAgent(), newAgent()].map((id) => client().agent(id, { profile }));
    for (const agent of agents) await (await agent.enqueue({ instruction: script(says('A.')) })).result();
    await agents[0]?.stop();
    const idsOf = async (query: Parameters<ClientApi['listAgents']>[0]) =>
      (await all(client().listAgents(query))).map(({ agentId }) => agentId);
    expect((await idsOf({ profile })).toSorted()).toEqual(agents.map(({ id }) => id).toSorted());
    expect(await idsOf({ profile, posture: 'archived' })).toEqual([agents[0]?.id]);
    expect(await idsOf({ profile, agentStatus: 'stopped' })).toEqual([agents[0]?.id]);
    expect(await idsOf({ profile, posture: 'idle' })).toEqual([agents[1]?.id]);
    expect(await client().countAgents({ profile })).toBe(2);
    expect(await client().countAgents({ profile, posture: 'idle' })).toBe(1);
    expect(await client().countAgents({ profile, posture: 'blocked' })).toBe(0);
    expect(await client().countAgents()).toBeGreaterThanOrEqual(2);
  });

  test('leaves one-shot agents out of its lists once they have ended, unless they are asked for', async () => {
    const turn = await client().run(profile, { instruction: script(calls('outside', {})) });
    await waitingOf(client(), turn.id);
    const { agentId } = await turn.get();
    const isListed = async (oneShot?: 'with' | 'only') => {
      const query = { profile, ...(oneShot === undefined ? {} : { oneShot }) };
      const ids = (await all(client().listAgents(query))).map((agent) => agent.agentId);
      expect(await client().countAgents(query)).toBe(ids.length);
      return ids.includes(agentId);
    };
    expect([await isListed(), await isListed('only')]).toEqual([true, false]);
    await turn.stop();
    expect([await isListed(), await isListed('with'), await isListed('only')]).toEqual([false, true, true]);
    expect(await client().agent(agentId).get()).not.toBeNull();
  });

  test('reads what an agent has between its turns, and cancels its timer (A5)', async () => {
    const agent = client().agent(newAgent(), { profile: 'keeper' });
    const turn = await agent.enqueue({
      instruction: script(
        calls('create_work_item', { objective: 'write the report', plan_status: 'needs_input' }),
        calls('create_work_item', { objective: 'file it', plan_status: 'needs_input' }),
        calls('set_timer', { after_seconds: 3_600, reason: 'see again' }),
        calls('wait_for', { wake: 'external', reason: 'the figures' }),
      ),
    });
    expect(await turn.result()).toMatchObject({ status: 'success' });
    const items = await agent.workItems();
    expect(items.map(({ objective }) => objective).toSorted()).toEqual(['file it', 'write the report']);
    expect(items[0]).toMatchObject({ schedulingState: 'waiting_operator', revision: 1 });
    expect(await agent.workItems({ open: true, limit: 1 })).toEqual(items.slice(0, 1));
    expect(await agent.workItems({ after: items[0]?.workItemId ?? '' })).toEqual(items.slice(1));
    expect(await agent.workItems({ after: 'work_0' })).toEqual([]);
    const waits = await agent.waits({ open: true });
    expect(waits).toMatchObject([{ kind: 'external', reason: 'the figures', status: 'active' }]);
    const timers = await agent.timers();
    expect(timers).toMatchObject([{ reason: 'see again', everyMs: null }]);
    expect(await agent.get()).toMatchObject({
      version: 1,
      schedulingPosture: { posture: 'waiting_for_external', reason: 'the figures', waitId: waits[0]?.waitId },
      closure: { outcome: 'waiting', waitingReason: 'awaiting_operator_input' },
      workItems: items,
      activeWaits: waits,
      activeTimers: timers,
      recentTurns: [{ agentTurnId: turn.id, status: 'success' }],
    });
    const timerId = timers[0]?.timerId ?? '';
    expect(await client().agent(newAgent()).cancelTimer(timerId)).toBe(false);
    expect(await agent.cancelTimer(timerId)).toBe(true);
    expect(await agent.cancelTimer(timerId)).toBe(false);
    expect(await agent.timers()).toEqual([]);
  });

  test('makes a trigger that wakes its agent, and revokes it', async () => {
    const agent = client().agent(newAgent(), { profile: 'tester' });
    await expect(agent.triggers.create({ name: 'mail' })).rejects.toMatchObject({ code: 'agent_not_found' });
    await (await agent.enqueue({ instruction: script(says('A.')) })).result();
    await expect(agent.triggers.create({ name: ' ' })).rejects.toMatchObject({ code: 'invalid_request' });
    const { token, path, ...made } = await agent.triggers.create({ name: 'mail' });
    expect(path).toBe(`/v1/wake/${token}`);
    expect(made).toMatchObject({ name: 'mail', hits: 0, lastHitAt: null, revokedAt: null });
    expect(await agent.triggers.list()).toEqual([made]);
    const fire = (text: string | null, key?: string) =>
      client().fireTrigger(token, { text, ...(key === undefined ? {} : { key }) });
    expect(await fire(null)).toEqual({ disposition: 'noted' });
    expect(await fire('a letter came', 'k-1')).toEqual({ disposition: 'woken' });
    expect(await fire('a letter came', 'k-1')).toEqual({ disposition: 'duplicate' });
    await nextTurn(agent, 2);
    await expect(fire('x'.repeat(70_000))).rejects.toMatchObject({ code: 'payload_too_large' });
    await expect(fire('x', 'k'.repeat(201))).rejects.toMatchObject({ code: 'invalid_request' });
    await agent.stop();
    await expect(fire('y')).rejects.toMatchObject({ code: 'agent_stopped' });
    await agent.start();
    const { triggerId } = made;
    expect(await client().agent(newAgent()).triggers.revoke(triggerId)).toBe(false);
    expect(await agent.triggers.revoke(triggerId)).toBe(true);
    expect(await agent.triggers.revoke(triggerId)).toBe(true);
    await expect(fire('z')).rejects.toMatchObject({ code: 'trigger_unknown' });
    await expect(client().fireTrigger('wk_guessed', { text: 'z' })).rejects.toMatchObject({ code: 'trigger_unknown' });
    expect(await agent.triggers.list({ open: true })).toEqual([]);
    expect(await agent.triggers.list()).toMatchObject([{ triggerId, hits: 2, revokedAt: expect.any(Number) }]);
  });

  test('wakes an agent with a reason, once for each key', async () => {
    const agent = client().agent(newAgent(), { profile: 'tester' });
    await expect(agent.wake({ reason: 'go on' })).rejects.toMatchObject({ code: 'agent_not_found' });
    await (await agent.enqueue({ instruction: script(says('A.')) })).result();
    await expect(agent.wake({ reason: ' \n' })).rejects.toMatchObject({ code: 'invalid_request' });
    await expect(agent.wake({ reason: 'x', key: '' })).rejects.toMatchObject({ code: 'invalid_request' });
    await expect(agent.wake({ reason: 'x'.repeat(70_000) })).rejects.toMatchObject({ code: 'payload_too_large' });
    expect(await agent.wake({ reason: 'go on', key: 'k' })).toEqual({ agentId: agent.id, disposition: 'woken' });
    expect(await agent.wake({ reason: 'go on', key: 'k' })).toEqual({ agentId: agent.id, disposition: 'duplicate' });
    expect(await nextTurn(agent, 2)).toMatchObject({ status: 'success' });
    await agent.stop();
    await expect(agent.wake({ reason: 'go on' })).rejects.toMatchObject({ code: 'agent_stopped' });
  });

  test('finds nothing at an agent that is not there', async () => {
    const agent = client().agent(newAgent());
    expect(await agent.get()).toBeNull();
    expect(await agent.workItems()).toEqual([]);
    expect(await agent.waits()).toEqual([]);
    expect(await agent.timers()).toEqual([]);
    expect(await agent.triggers.list()).toEqual([]);
    expect(await agent.cancelTimer('timer_0')).toBe(false);
    expect(await agent.triggers.revoke('trigger_0')).toBe(false);
  });

  test('follows an agent until it has had enough', async () => {
    const agent = client().agent(newAgent(), { profile: 'tester' });
    await agent.enqueue({ instruction: script(says('A.')) });
    const enough = new AbortController();
    const seen: AgentEvent[] = [];
    for await (const event of agent.events({ signal: enough.signal })) {
      seen.push(event);
      if (event.type === 'task') enough.abort();
    }
    expect(seen.map(({ seq }) => seq)).toEqual(seen.map((_event, index) => index + 1));
  });

  test('is told clearly what is wrong', async () => {
    const turn = client().turn(v7());
    for (const asked of [turn.get(), turn.result(), all(turn.events()), all(turn.stream()), all(turn.transcript())])
      await expect(asked).rejects.toMatchObject({ code: 'turn_not_found' });
    expect(() => client().agent('not/an/id')).toThrow(expect.objectContaining({ code: 'invalid_request' }));
    await expect(client().run('testr', { instruction: 'x' })).rejects.toMatchObject({
      code: 'profile_not_found',
      message: expect.stringContaining('tester'),
    });
    await expect(client().run('tester', {})).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('instruction'),
    });
    await expect(client().run('tester', { instruction: 'x'.repeat(40_000) })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('write a larger text as a card'),
    });
    expect(await turn.stop()).toMatchObject({ ack: 'unknown' });
    expect(await turn.steer('x')).toMatchObject({ ack: 'unknown' });
  });
});

/** What waits for somebody outside of a turn, once it does. */
async function waitingOf(client: ClientApi, agentTurnId: string) {
  const stop = new AbortController();
  for await (const event of client.turn(agentTurnId).events({ signal: stop.signal })) {
    const waits = (event.type === 'call' && event.payload.phase === 'suspended') || event.type === 'approval';
    if (waits) break;
  }
  stop.abort();
  return (await client.inbox({ limit: 1_000 })).filter((entry) => entry.agentTurnId === agentTurnId);
}

/** The turn of that number of the agent, once it has ended. */
async function nextTurn(agent: AgentHandle, number: number) {
  for (;;) {
    const [turn] = await agent.turns({ after: number - 1, limit: 1 });
    if (turn?.endedAt) return turn;
    await harness.store.changed(200);
  }
}

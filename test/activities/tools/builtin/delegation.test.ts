/** The delegation tools as activities: what they start, what a second attempt does, what becomes of what they started (W12, T30). */

import { afterEach, describe, expect, test } from '@jest/globals';
import { defineAgent, defineApp } from '../../../../activities/app/app.ts';
import { callId as callIdOf } from '../../../../activities/ids.ts';
import { runTool } from '../../../../activities/tools/run-tool.ts';
import type { Handover } from '../../../../workflows/contract/lease.ts';
import type { Store } from '../../../../workflows/contract/store.ts';
import { attempt, type LeasedTurn, leaseTurn } from '../../llm/leased-turn.ts';

const app = defineApp({
  agents: [
    defineAgent({ name: 'tester', delegationPolicy: { profiles: ['doctor'], tags: [] } }),
    defineAgent({ name: 'doctor' }),
  ],
});
const CALLS = {
  delegate_async: { target_strategy: 'new', target_ref: 'doctor', instruction: 'look into it' },
  ask_expert: { profile: 'doctor', question: 'what is it?' },
};
type Tool = keyof typeof CALLS;

const open: LeasedTurn[] = [];
afterEach(async () => {
  for (const turn of open.splice(0)) await turn.close();
});

/** A turn whose model has proposed one of the calls, and what its activity hands over. */
async function proposed(tool: Tool, more: object = {}) {
  const turn = await leaseTurn(app);
  open.push(turn);
  const { store, fence, lease } = turn;
  const callId = callIdOf(fence.agentTurnId, 1, 0);
  await store.openStep(fence, { stepIndex: 1, profileHash: lease.profileHash });
  await store.commitStep(fence, {
    stepIndex: 1,
    steerIds: [],
    note: null,
    thought: { text: '', toolCalls: [] },
    calls: [{ index: 0, digest: 'd', content: { callId, tool, arguments: { ...CALLS[tool], ...more } } }],
    usage: { input: 1, output: 1, cached: 0 },
    model: 'm',
    finishReason: 'tool_calls',
    cost: null,
    latencyMs: 1,
    firstTokenMs: null,
  });
  const handovers: Handover[] = [];
  const started = (error?: Error) =>
    runTool({
      store,
      app,
      workflows: {
        handOver: async (handover) => {
          handovers.push(handover);
          if (error) throw error;
        },
      },
    });
  const input = { ...fence, profileHash: lease.profileHash, callId, tool };
  return { turn, started, input, handovers };
}

const childrenOf = async (store: Store) =>
  (await store.listAgents()).filter(({ agentId }) => agentId.startsWith('agent-') === false);

describe.each(Object.keys(CALLS) as Tool[])('%s', (tool) => {
  const kind = tool === 'ask_expert' ? 'suspended' : 'settled';

  test('makes a turn of another agent and starts its workflow after the store has it (T3, T26)', async () => {
    const { started, input, handovers, turn } = await proposed(tool);
    expect(await attempt(started(), input)).toMatchObject({ kind });
    const [child] = await childrenOf(turn.store);
    expect(child).toMatchObject({ profile: 'doctor', status: 'dispatched' });
    const next = { agentId: child?.agentId, agentTurnId: child?.activeAgentTurnId, turnEpoch: 1 };
    expect(handovers).toMatchObject([{ agentId: child?.agentId, next, more: false, settlements: [] }]);
  });

  test('in another attempt makes nothing new, and starts the same workflow (T29, W10)', async () => {
    const { started, input, handovers, turn } = await proposed(tool);
    const first = await attempt(started(), input, 1);
    const again = 'leftMs' in first ? { ...first, leftMs: expect.any(Number) } : first;
    expect(await attempt(started(), input, 2)).toEqual(again);
    expect(handovers).toHaveLength(2);
    expect(handovers[1]).toEqual(handovers[0]);
    expect(await childrenOf(turn.store)).toHaveLength(1);
    const { next } = handovers[0] ?? {};
    if (!next) throw new Error('nothing was leased');
    await turn.store.openStep(next, { stepIndex: 1, profileHash: next.profileHash });
    expect(await attempt(started(), input, 3)).toEqual(again);
    expect(handovers[2]?.next).toBeNull();
  });

  test('has been done when the server cannot be reached: the start is left to the supervisor (T29)', async () => {
    const { started, input, turn } = await proposed(tool);
    expect(await attempt(started(new Error('the server is away')), input)).toMatchObject({ kind });
    expect(await childrenOf(turn.store)).toMatchObject([{ status: 'dispatched' }]);
  });

  test.each<[says: string, more: object, stops: boolean]>([
    ['says nothing of it', {}, tool === 'ask_expert'],
    ['says stop', { on_parent_end: 'stop' }, true],
    ['says continue', { on_parent_end: 'continue' }, false],
  ])('that %s decides what becomes of its turn when its own is stopped (T30)', async (_says, more, stops) => {
    const { started, input, turn } = await proposed(tool, more);
    await attempt(started(), input);
    const [child] = await childrenOf(turn.store);
    await turn.store.stopTurn(turn.fence.agentTurnId, 'test');
    const due = await turn.store.dueTurns(10);
    expect(due.map(({ agentTurnId, parentGone }) => ({ agentTurnId, parentGone }))).toEqual(
      stops ? [{ agentTurnId: child?.activeAgentTurnId, parentGone: true }] : [],
    );
  });

  test('with another word about it is a failed call that names what is expected (W8)', async () => {
    const { started, input, turn, handovers } = await proposed(tool, { on_parent_end: 'whatever' });
    expect(await attempt(started(), input)).toMatchObject({ kind: 'settled', settled: { status: 'failed' } });
    expect(await turn.store.readResult(turn.fence, input.callId)).toMatchObject({
      error: { message: expect.stringContaining('on_parent_end') },
    });
    expect(handovers).toEqual([]);
  });
});

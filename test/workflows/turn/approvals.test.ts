/** Calls and budgets that need approval, on a real server (K5–K7, K9). */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import { AgentClient } from '../../../client/agent-client.ts';
import type { TurnHandle } from '../../../client/api.ts';
import { approve } from '../../../client/cli/approvals.ts';
import type { CliEnvironment } from '../../../client/cli/environment.ts';
import { textOf } from '../../../workers/model-server/chat-request.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import type { ApprovalRequest, ApprovalView } from '../../../workflows/contract/approvals.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { ProfileInput } from '../../../workflows/protocol/profile.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { seen, WAIT } from '../../support/wait.ts';

const say = (content: string) => ({ kind: 'message', content }) as const;
const calls = (...made: readonly (readonly [string, JsonObject])[]) =>
  ({ kind: 'message', toolCalls: made.map(([name, args]) => ({ name, arguments: args })) }) as const;

/** What the tools did, in order: `refund 5`. */
const done: string[] = [];
const paid: number[] = [];

const tools = [
  defineTool({
    name: 'refund',
    description: 'pays money back',
    parameters: z.object({ amount: z.number().positive(), turn: z.string().default('') }),
    execute: ({ amount, turn }) => {
      done.push(`refund ${amount} ${turn}`);
      return { refunded: amount };
    },
  }),
  defineTool({
    name: 'pay',
    description: 'pays',
    parameters: z.object({
      amount: z
        .number()
        .default(5)
        .transform((euros) => euros * 100),
    }),
    execute: ({ amount }) => {
      paid.push(amount);
      return { paid: amount };
    },
  }),
  defineTool({ name: 'look', description: 'looks', parameters: z.object({}), execute: () => 'seen' }),
];

const approvals = { approvers: [], deadlineMs: 60_000 };
const asksAll: NonNullable<ProfileInput['governance']> = {
  rules: [{ tool: 'refund', action: 'ask', reason: 'money leaves the house' }],
  approvals,
};

const app = defineApp({
  tools,
  agents: [
    defineAgent({
      name: 'careful',
      governance: { ...asksAll, constraints: [{ tool: 'refund', path: 'amount', max: 1_000 }] },
    }),
    defineAgent({
      name: 'cents',
      governance: {
        rules: [{ tool: 'pay', action: 'ask' }],
        constraints: [{ tool: 'pay', path: 'amount', max: 1_000 }],
        approvals,
      },
    }),
    defineAgent({
      name: 'delegating',
      governance: { rules: [{ tool: 'ask_expert', action: 'ask' }], approvals },
      delegationPolicy: { profiles: ['careful'] },
    }),
    defineAgent({ name: 'named', governance: { ...asksAll, approvals: { ...approvals, approvers: ['ann'] } } }),
    defineAgent({ name: 'hurried', governance: { ...asksAll, approvals: { deadlineMs: 700 } } }),
    defineAgent({
      name: 'escalating',
      governance: {
        ...asksAll,
        approvals: { approvers: ['ann'], deadlineMs: 700, onUnanswered: 'escalate', escalateTo: ['boss'] },
      },
    }),
    defineAgent({ name: 'boss', allowedTools: [], delegationPolicy: { profiles: ['careful'] } }),
    defineAgent({ name: 'thrifty', budgets: { maxSteps: 1, onExhausted: 'ask' } }),
    defineAgent({ name: 'hasty', budgets: { maxWallTimeMs: 1, onExhausted: 'ask' } }),
    defineAgent({ name: 'limited', budgets: { maxSteps: 1 } }),
  ],
});

describe.each(scenarioStores(import.meta.url))('approval, on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({
      scripts: {
        refund: [calls(['refund', { amount: 5 }]), say('done')],
        siblings: [calls(['refund', { amount: 1 }], ['look', {}], ['refund', { amount: 2 }]), say('one of two')],
        pay: [calls(['pay', {}]), say('paid')],
        again: [calls(['look', {}]), say('looked')],
        asks: [
          calls(['ask_expert', { profile: 'careful', question: '[script:refund] do it' }]),
          say('the expert did it'),
        ],
      },
    });
    await harness.startWorker(app, model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const enqueue = (profile: string, script: string): Promise<TurnHandle> =>
    harness.client.agent(`${profile}-${v7()}`).enqueue({ instruction: `[script:${script}] go`, profile });

  /** What the turn, and all it delegated, waits for, once there are `count`. */
  function asked(turn: TurnHandle, count = 1, { client, store } = harness): Promise<readonly ApprovalView[]> {
    return seen(store, async () => {
      const waiting = await client.approvals({ rootTurnId: turn.id });
      return waiting.length === count ? waiting : undefined;
    });
  }

  const callsOf = async (turn: TurnHandle) => (await turn.get()).steps.flatMap((step) => step.calls);

  test('a call that needs approval waits, runs once when it has it, and is not asked about again (K7)', async () => {
    const turn = await enqueue('careful', 'refund');
    const [approval] = await asked(turn);
    expect(approval).toMatchObject({
      kind: 'call',
      tool: 'refund',
      arguments: { amount: 5 },
      reason: 'money leaves the house',
      rootTurnId: turn.id,
      agentTurnId: turn.id,
      status: 'waiting',
    });
    expect((await turn.get()).status).toBe('suspended');
    expect((await turn.toolResult({ callId: approval?.callId ?? '', status: 'success', result: 1 })).ack).toBe(
      'unknown',
    );
    const answer = { callId: approval?.callId ?? '', decision: 'approved', by: 'ann' } as const;
    expect((await turn.answer(answer)).ack).toBe('applied');
    expect(await turn.answer({ ...answer, decision: 'denied', by: 'bob' })).toMatchObject({
      ack: 'duplicate',
      recorded: { status: 'approved', by: 'ann' },
    });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await callsOf(turn)).toMatchObject([{ tool: 'refund', status: 'success' }]);
    expect((await turn.answer(answer)).ack).toBe('duplicate');
    const [answered] = await harness.client.approvals({ rootTurnId: turn.id, all: true });
    expect(answered).toMatchObject({ status: 'approved', answeredBy: 'ann' });
  });

  test('siblings run at once, and a denied one leaves the result of an approved one alone (K7)', async () => {
    const turn = await enqueue('careful', 'siblings');
    const waiting = await asked(turn, 2);
    const [one, two] = [1, 2].map((amount) => waiting.find((view) => view.arguments?.amount === amount)?.callId ?? '');
    for await (const { type, payload } of turn.events())
      if (type === 'call' && payload.tool === 'look' && payload.status === 'success') break;
    expect((await turn.answer({ callId: one ?? '', decision: 'approved' })).ack).toBe('applied');
    const denial = { callId: two ?? '', decision: 'denied', by: 'bob', reason: 'enough is enough' } as const;
    expect((await turn.answer(denial)).ack).toBe('applied');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await callsOf(turn)).toMatchObject([
      { tool: 'refund', status: 'success' },
      { tool: 'look', status: 'success' },
      {
        tool: 'refund',
        status: 'failed',
        error: { code: 'approval_denied', message: expect.stringContaining('bob denied refund: enough is enough') },
      },
    ]);
  });

  test('edited arguments run in place of the proposed ones, if they fit the schema and the rules (K7)', async () => {
    const turn = await enqueue('careful', 'refund');
    const [{ callId } = { callId: '' }] = await asked(turn);
    const edited = (args: Record<string, string | number>) =>
      turn.answer({ callId, decision: 'approved', arguments: args });
    await expect(edited({ amount: 'much' })).rejects.toMatchObject({ code: 'approval_refused' });
    expect((await edited({ amount: 3, turn: turn.id })).ack).toBe('applied');
    await turn.result(WAIT);
    expect(done).toContain(`refund 3 ${turn.id}`);

    const greedy = await enqueue('careful', 'refund');
    const [question] = await asked(greedy);
    const more = (amount: number) =>
      greedy.answer({ callId: question?.callId ?? '', decision: 'approved', arguments: { amount } });
    await expect(more(5_000)).rejects.toMatchObject({
      code: 'approval_refused',
      message: 'the rules (constraint) deny refund with these arguments: argument amount must be at most 1000',
    });
    expect(await asked(greedy)).toMatchObject([{ status: 'waiting' }]);
    expect((await more(1_000)).ack).toBe('applied');
    expect(await greedy.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await callsOf(greedy)).toMatchObject([{ status: 'success', approval: { arguments: { amount: 1_000 } } }]);
  });

  test('an approver whom the program does not vouch for is refused, and nothing is recorded (K7)', async () => {
    const seen: unknown[] = [];
    const guarded = new AgentClient({
      temporal: harness.temporal.client,
      store: harness.store,
      verifyApprover: async (by, { tool, arguments: args }) => {
        seen.push({ by, tool, args });
        return by === 'ann';
      },
    });
    const turn = await enqueue('careful', 'refund');
    const handle = guarded.turn(turn.id);
    const [{ callId } = { callId: '' }] = await asked(turn);
    for (const by of ['bob', undefined])
      await expect(handle.answer({ callId, decision: 'approved', ...(by ? { by } : {}) })).rejects.toMatchObject({
        code: 'approval_refused',
        message: expect.stringContaining(by ?? 'without a name'),
      });
    expect(await asked(turn)).toMatchObject([{ callId, status: 'waiting' }]);
    expect(await handle.answer({ callId: 'not-asked-yet', decision: 'approved', by: 'ann' })).toEqual({
      ack: 'unknown',
    });
    expect((await handle.answer({ callId, decision: 'approved', by: 'ann' })).ack).toBe('applied');
    expect((await handle.answer({ callId, decision: 'approved', by: 'ann' })).ack).toBe('duplicate');
    const args = { amount: 5, turn: '' };
    const asking = (by: string | undefined) => ({ by, tool: 'refund', args });
    expect(seen).toEqual([asking('bob'), asking(undefined), asking('ann'), asking('ann')]);
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('an approver is verified however many questions the agent has asked before (K7)', async () => {
    const { temporal, store } = harness;
    const agentId = `asker-${v7()}`;
    const request = { instruction: 'ask', profile: 'careful', priority: 'normal' } as const;
    const accepted = await store.accept({ agentId, request });
    if (accepted.kind !== 'accepted' || !accepted.lease) throw new Error('not leased');
    const { agentTurnId, turnEpoch, profileHash } = accepted.lease;
    const fence = { agentId, agentTurnId, turnEpoch };
    await store.openStep(fence, { stepIndex: 1, profileHash });
    const ask = { kind: 'call', tool: 'refund', reason: '' } as const;
    const asks = Array.from({ length: 1_001 }, (_, n): ApprovalRequest => ({ ...ask, callId: `c${n}` }));
    await store.askApprovals(fence, asks);
    await store.stopTurn(agentTurnId, 'test');
    const turn = await harness.client.agent(agentId).enqueue({ instruction: '[script:refund] go', profile: 'careful' });
    const [{ callId } = { callId: '' }] = await asked(turn);
    const guarded = new AgentClient({ temporal: temporal.client, store, verifyApprover: (by) => by === 'ann' });
    expect((await guarded.turn(turn.id).answer({ callId, decision: 'approved', by: 'ann' })).ack).toBe('applied');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('the command line answers the question that waits, not an older one of the same name (K9)', async () => {
    const ask = async () => {
      const turn = await enqueue('thrifty', 'again');
      return { turn, callId: (await asked(turn))[0]?.callId ?? '' };
    };
    const [first, second] = [await ask(), await ask()];
    expect(second.callId).toBe(first.callId);
    await first.turn.stop();
    const said: string[] = [];
    const io = { out: (line: string) => void said.push(line), err: () => {}, live: false, readStdin: async () => '' };
    const openClient = async () => ({ client: harness.client, close: async () => {} });
    const environment = { io, openClient } as unknown as CliEnvironment;
    expect(await approve(environment, second.callId, { budgets: '{"maxSteps":5}', by: 'ann', json: true })).toBe(0);
    expect(said.join('')).toContain('applied');
    // The same again is no failure; what contradicts it is one, and says what stands.
    const where = { turn: second.turn.id };
    expect(await approve(environment, second.callId, { ...where, budgets: '{"maxSteps":5}' })).toBe(0);
    expect(await approve(environment, second.callId, { ...where, deny: true })).toBe(1);
    expect(said.slice(1)).toEqual(Array(2).fill('duplicate: it was approved by ann before; nothing changed'));
    expect(await second.turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('arguments are shown as they will run and as they were written; edited ones are parsed once, then judged (K7)', async () => {
    const turn = await enqueue('cents', 'pay');
    const [question] = await asked(turn);
    expect(question).toMatchObject({ arguments: { amount: 500 }, written: {} });
    const callId = question?.callId ?? '';
    expect((await turn.answer({ callId, decision: 'approved', arguments: { amount: 8 } })).ack).toBe('applied');
    await turn.result(WAIT);
    expect(paid.splice(0)).toEqual([800]);

    const echoed = await enqueue('cents', 'pay');
    const [same] = await asked(echoed);
    expect(same?.arguments).toEqual({ amount: 500 });
    await echoed.answer({ callId: same?.callId ?? '', decision: 'approved', arguments: { amount: 500 } });
    await echoed.result(WAIT);
    expect(paid.splice(0)).toEqual([500]);

    const greedy = await enqueue('cents', 'pay');
    const [more] = await asked(greedy);
    await greedy.answer({ callId: more?.callId ?? '', decision: 'approved', arguments: { amount: 300 } });
    await greedy.result(WAIT);
    expect(paid).toEqual([]);
    expect(await callsOf(greedy)).toMatchObject([{ status: 'failed', error: { code: 'governance_denied' } }]);
  });

  test('the model and the record say what an approver changed, and why (K7)', async () => {
    const turn = await enqueue('careful', 'refund');
    const [{ callId } = { callId: '' }] = await asked(turn);
    const approval = { by: 'ann', reason: 'half of it', arguments: { amount: 2 } };
    await turn.answer({ callId, decision: 'approved', ...approval });
    await turn.result(WAIT);
    const told = model.requests.flatMap(({ messages }) => messages).map(textOf);
    expect(told).toContain('(ann changed the arguments to {"amount":2}: half of it)\n{"refunded":2}');
    expect(await callsOf(turn)).toMatchObject([{ arguments: { amount: 5 }, approval }]);
  });

  test('edited arguments of a delegation must match its schema too (K7)', async () => {
    const turn = await enqueue('delegating', 'asks');
    const [{ callId } = { callId: '' }] = await asked(turn);
    const answer = turn.answer({ callId, decision: 'approved', arguments: { question: 42 } });
    await expect(answer).rejects.toMatchObject({ code: 'approval_refused' });
    await turn.stop();
  });

  test('only the named may answer (K7)', async () => {
    const turn = await enqueue('named', 'refund');
    const [{ callId } = { callId: '' }] = await asked(turn);
    expect((await turn.get()).waiting).toMatchObject([{ callId, approvers: ['ann'] }]);
    for (const by of [undefined, 'bob']) {
      const answer = turn.answer({ callId, decision: 'approved', ...(by ? { by } : {}) });
      await expect(answer).rejects.toMatchObject({ code: 'approval_refused', message: expect.stringContaining('ann') });
    }
    expect((await turn.answer({ callId, decision: 'approved', by: 'ann' })).ack).toBe('applied');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('what nobody answers is refused at its deadline, and the model goes on (K7)', async () => {
    const turn = await enqueue('hurried', 'refund');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'done' } });
    expect(await callsOf(turn)).toMatchObject([{ status: 'failed', error: { code: 'approval_unanswered' } }]);
  });

  test('what nobody answers is escalated, once, where the agent says so (K7)', async () => {
    const turn = await enqueue('escalating', 'refund');
    const [first] = await asked(turn);
    for await (const event of turn.events())
      if (event.type === 'approval' && event.payload.phase === 'escalated') break;
    const [second] = await asked(turn);
    expect([first?.approvers, second?.approvers]).toEqual([['ann'], ['boss']]);
    expect((await turn.get()).waiting).toMatchObject([{ approvers: ['boss'] }]);
    expect(second?.deadline).toBeGreaterThan(first?.deadline ?? 0);
    expect((await turn.answer({ callId: second?.callId ?? '', decision: 'approved', by: 'boss' })).ack).toBe('applied');
    expect(await callsOf(turn)).toHaveLength(1);
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('a question of a delegated turn is listed and answered at the root (K7)', async () => {
    const turn = await enqueue('boss', 'asks');
    const [question] = await asked(turn);
    expect(question?.rootTurnId).toBe(turn.id);
    expect(question?.agentTurnId).not.toBe(turn.id);
    const child = harness.client.turn(question?.agentTurnId ?? '');
    expect((await child.answer({ callId: question?.callId ?? '', decision: 'approved' })).ack).toBe('applied');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'the expert did it' } });
  });

  test('a stopped turn drops its questions', async () => {
    const turn = await enqueue('careful', 'refund');
    const [{ callId } = { callId: '' }] = await asked(turn);
    await turn.stop();
    expect((await turn.answer({ callId, decision: 'approved' })).ack).toBe('stale');
    expect(await harness.client.approvals({ rootTurnId: turn.id })).toEqual([]);
  });

  test('an operator may extend a budget that is used up, and the turn goes on (K9)', async () => {
    const turn = await enqueue('thrifty', 'again');
    const [question] = await asked(turn);
    expect(question).toMatchObject({ kind: 'budget', tool: '', reason: 'max_steps_reached: 1 of 1 used' });
    const callId = question?.callId ?? '';
    await expect(turn.answer({ callId, decision: 'approved' })).rejects.toMatchObject({ code: 'approval_refused' });
    const other = turn.answer({ callId, decision: 'approved', budgets: { maxTokens: 2_000_000 } });
    const missing = 'max_steps_reached: 1 of 1 used; maxSteps must be more than 1';
    await expect(other).rejects.toMatchObject({
      code: 'approval_refused',
      message: expect.stringContaining(missing),
    });
    expect((await turn.answer({ callId, decision: 'approved', budgets: { maxSteps: 2 } })).ack).toBe('applied');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'looked' } });
  });

  test('an operator whose extension is used up when the turn looks is asked again, and may extend again (K9)', async () => {
    const own = await openHarness(backend);
    try {
      const worker = await own.startWorker(app, model);
      const turn = await own.client.agent('in-haste').enqueue({ instruction: '[script:again] go', profile: 'hasty' });
      const [{ callId } = { callId: '' }] = await asked(turn, 1, own);
      await worker.stop();
      const extend = (id: string, maxWallTimeMs: number) =>
        turn.answer({ callId: id, decision: 'approved', budgets: { maxWallTimeMs } });
      const refusal = await extend(callId, 2).catch((error: Error) => error.message);
      const used = Number(/more than (\d+)/.exec(String(refusal))?.[1]);
      // Enough for the store, and past before the turn can come to it.
      const enoughMs = 3_000;
      expect((await extend(callId, used + enoughMs)).ack).toBe('applied');
      await sleep(enoughMs);
      await own.startWorker(app, model);
      const [again] = await asked(turn, 1, own);
      expect(again?.callId).toBe(`${callId}-2`);
      expect((await extend(again?.callId ?? '', 600_000)).ack).toBe('applied');
      expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'looked' } });
      expect(await own.store.violations()).toEqual([]);
    } finally {
      await own.close();
    }
  });

  test('budgets that are raised while an operator is asked let the turn go on (K9)', async () => {
    const turn = await enqueue('thrifty', 'again');
    const [{ callId } = { callId: '' }] = await asked(turn);
    await turn.setBudgets({ maxTokens: 2_000_000 });
    expect(await asked(turn)).toMatchObject([{ callId }]);
    await turn.setBudgets({ maxSteps: 2 });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'looked' } });
    expect(await harness.store.violations()).toEqual([]);
  });

  test('an operator who says no gets the final report (K9)', async () => {
    const turn = await enqueue('thrifty', 'again');
    const [{ callId } = { callId: '' }] = await asked(turn);
    expect((await turn.answer({ callId, decision: 'denied' })).ack).toBe('applied');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'partial', errorCode: 'max_steps_reached' });
  });
});

/**
 * The shapes of turns and acceptors that test/support/record-histories.ts records. What a shape does from outside it does as a client
 * would: through the SDK, or with Temporal's own client.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import { outputCardId } from '../../activities/ids.ts';
import type { TurnHandle } from '../../client/api.ts';
import type { ModelAnswer } from '../../workers/model-server/completion.ts';
import { attempts, type Script } from '../../workers/model-server/scripted.ts';
import type { AnswerFunction } from '../../workers/model-server/wire.ts';
import type { EnqueueInput } from '../../workflows/protocol/enqueue.ts';
import { agentWorkflowId, targetQueue, turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { WAIT } from '../support/wait.ts';
import type { Closed, Recorder, TurnShape } from './recorder.ts';

const parameters = z.object({ index: z.int().optional() });
const outside = { description: 'Somebody answers.', parameters, afterExecution: 'suspend' } as const;
export const app = defineApp({
  agents: [
    defineAgent({ name: 'tester', budgets: { maxSteps: 1_000, maxTokens: Number.MAX_SAFE_INTEGER } }),
    defineAgent({ name: 'single', burst: false, budgets: { maxSteps: 1_000, maxTokens: Number.MAX_SAFE_INTEGER } }),
    defineAgent({ name: 'frugal', budgets: { maxSteps: 2 } }),
    defineAgent({ name: 'finisher', mustEndWith: ['finish'] }),
    defineAgent({ name: 'impatient', providerPatienceMs: 0 }),
    defineAgent({
      name: 'brief',
      burst: false,
      maxHistoryEvents: 30,
      budgets: { maxSteps: 1_000, maxTokens: Number.MAX_SAFE_INTEGER },
    }),
    defineAgent({ name: 'careful', governance: { rules: [{ tool: 'produce', action: 'ask' }], veto: ['fail'] } }),
    defineAgent({ name: 'extended', budgets: { maxSteps: 1, onExhausted: 'ask' } }),
    defineAgent({ name: 'strict', governance: { veto: ['produce'], onDenied: 'rollback' } }),
    defineAgent({ name: 'forgetful', context: { windowTokens: 12_000 } }),
    defineAgent({ name: 'forgetful-single', burst: false, context: { windowTokens: 12_000 } }),
    defineAgent({ name: 'asker', delegationPolicy: { profiles: ['tester'] } }),
  ],
  tools: [
    defineTool({ name: 'produce', description: 'Produces.', parameters, execute: () => 'x'.repeat(10 * 1024) }),
    defineTool({
      name: 'fail',
      description: 'Fails.',
      parameters,
      execute: () => Promise.reject(new Error('no luck')),
    }),
    defineTool({ name: 'linger', description: 'Takes long.', parameters, execute: () => sleep(60_000) }),
    defineTool({ name: 'ask', ...outside }),
    defineTool({ name: 'ask_briefly', ...outside, suspendTimeoutMs: 500 }),
    defineTool({
      name: 'finish',
      description: 'Ends the turn.',
      parameters,
      afterExecution: 'terminate',
      execute: () => 'finished',
    }),
  ],
});

const say = (content: string): ModelAnswer => ({ kind: 'message', content });
const call = (...names: readonly string[]): ModelAnswer => ({
  kind: 'message',
  toolCalls: names.map((name, index) => ({ name, arguments: { index } })),
});
const submit = (...names: readonly string[]): ModelAnswer => ({
  kind: 'message',
  toolCalls: [{ name: 'submit_result', arguments: { fields: names.map((name) => ({ name, value: name })) } }],
});
const fields = (...names: readonly string[]): Partial<EnqueueInput> => ({
  resultFields: { fields: names.map((name) => ({ name })) },
});
/** Each call with other arguments: one that is repeated too often would end the turn. */
const calls = (count: number): Script => [
  ...Array.from(
    { length: count },
    (_, index): ModelAnswer => ({
      kind: 'message',
      toolCalls: [{ name: 'produce', arguments: { index } }],
    }),
  ),
  say('done'),
];

const answerAll = async (turn: TurnHandle): Promise<void> => {
  for (const { callId } of await waitingCalls(turn))
    await turn.toolResult({ callId, status: 'success', result: 'yes' });
};
const answerQuestion =
  (answer: Omit<Parameters<TurnHandle['answer']>[0], 'callId'>): NonNullable<TurnShape['meanwhile']> =>
  async (turn, { harness }) => {
    for (;;) {
      const [question] = await harness.client.approvals({ rootTurnId: turn.id });
      if (question) return turn.answer({ callId: question.callId, ...answer });
      await sleep(20);
    }
  };

/** Wherever in the conversation it is asked: a summary moves the script's place. */
function produceUntil(times: number): AnswerFunction {
  let asked = 0;
  return () => {
    asked += 1;
    return asked < times ? call('produce') : say('done');
  };
}

const cancel: TurnShape['meanwhile'] = (_turn, { harness }, workflowId) =>
  harness.temporal.client.workflow.getHandle(workflowId).cancel();

export const TURNS: Readonly<Record<string, TurnShape>> = {
  'turn-0-calls': { script: calls(0) },
  'turn-1-call': { script: calls(1) },
  'turn-10-calls': { script: calls(10) },
  'turn-50-calls': { script: calls(50) },
  'turn-200-calls': { script: calls(200) },
  'turn-parallel-calls': { script: [call('produce', 'fail', 'produce'), say('done')] },
  // An activity for each model call and each tool call.
  'single-1-call': { script: calls(1), request: { profile: 'single' } },
  'single-parallel-calls': {
    script: [call('produce', 'fail', 'produce'), say('done')],
    request: { profile: 'single' },
  },
  'single-model-recovered': {
    script: [attempts({ kind: 'error', status: 503 }, say('done'))],
    request: { profile: 'single' },
  },
  'single-suspended-answered': {
    script: [call('ask', 'produce'), say('thanks')],
    request: { profile: 'single' },
    meanwhile: answerAll,
  },
  'single-summarised': { script: Array(10).fill(produceUntil(9)), request: { profile: 'forgetful-single' } },
  'single-stopped-in-tool': {
    script: [call('linger')],
    request: { profile: 'single' },
    expected: 'failed',
    meanwhile: async (turn) => {
      await runningTool(turn);
      await turn.stop();
    },
  },
  'turn-suspended-answered': { script: [call('ask'), say('thanks')], meanwhile: answerAll },
  'turn-suspended-timed-out': { script: [call('ask_briefly'), say('went on without')] },
  'turn-suspended-both': {
    script: [call('ask', 'produce', 'ask_briefly'), say('one of two')],
    meanwhile: async (turn) => {
      await waitingCalls(turn, 2);
      await untilTimeout(turn);
      await answerAll(turn);
    },
  },
  'turn-inline-tool-result': {
    script: [call('ask'), say('thanks')],
    meanwhile: async (turn, { harness }, workflowId) => {
      const [waiting] = await waitingCalls(turn);
      const body = { callId: waiting?.callId, status: 'success', result: 'from another client' };
      await harness.temporal.client.workflow.getHandle(workflowId).signal('tool_result', body);
    },
  },
  'turn-deferred-result': {
    script: [call('ask'), say('thanks')],
    meanwhile: async (turn, { harness }) => {
      const [waiting] = await waitingCalls(turn);
      const value = 'written after it was reported';
      const toolResultCardId = outputCardId(JSON.stringify(value));
      await turn.toolResult({ callId: waiting?.callId ?? '', status: 'success', toolResultCardId });
      const tries = async () => (await turn.get()).waiting[0]?.deferred?.retryCount ?? 0;
      while ((await tries()) === 0) await sleep(20);
      await harness.client.writeResult(value);
    },
  },
  'turn-asks-expert': {
    script: [
      {
        kind: 'message',
        toolCalls: [{ name: 'ask_expert', arguments: { profile: 'tester', question: '[script:turn-0-calls] Well?' } }],
      },
      say('the expert said so'),
    ],
    request: { profile: 'asker' },
  },
  'turn-approved': {
    script: [call('produce', 'fail', 'ask_briefly'), say('with leave')],
    request: { profile: 'careful' },
    meanwhile: answerQuestion({ decision: 'approved', by: 'ann', arguments: { index: 7 } }),
  },
  'turn-extended': {
    script: [call('produce'), say('went on')],
    request: { profile: 'extended' },
    meanwhile: answerQuestion({ decision: 'approved', budgets: { maxSteps: 2 } }),
  },
  // What is taken back leaves the conversation, so the script stands where it stood.
  'turn-rolled-back': { script: [call('produce')], request: { profile: 'strict' }, expected: 'failed' },
  'turn-summarised': { script: Array(10).fill(produceUntil(9)), request: { profile: 'forgetful' } },
  'turn-invalid-arguments': {
    script: [
      { kind: 'message', toolCalls: [{ name: 'produce', arguments: { index: 'one' } }] },
      call('produce'),
      say('corrected'),
    ],
  },
  'turn-submit-result': { script: [submit('a'), submit('a', 'b')], request: fields('a', 'b') },
  'turn-reminded-to-submit': { script: [say('in prose'), submit('a')], request: fields('a') },
  'turn-must-end-with': { script: [say('in prose'), call('finish')], request: { profile: 'finisher' } },
  'turn-terminating-tool': { script: [call('finish', 'fail')] },
  'turn-max-steps': {
    script: [call('produce'), call('produce'), say('this is what I have')],
    request: { profile: 'frugal' },
    expected: 'partial',
  },
  'turn-refused-credentials': {
    script: [{ kind: 'error', status: 401, message: 'bad key' }],
    request: { profile: 'impatient' },
    expected: 'failed',
  },
  'turn-model-recovered': { script: [attempts({ kind: 'error', status: 500 }, say('done'))] },
  'turn-model-refused': { script: [{ kind: 'message', refusal: 'I will not.' }], expected: 'failed' },
  'turn-steered': {
    script: [call('ask'), say('as you wish')],
    meanwhile: async (turn) => {
      await waitingCalls(turn);
      await turn.steer('Be brief.');
      await answerAll(turn);
    },
  },
  'turn-stopped-suspended': {
    script: [call('ask')],
    expected: 'failed',
    meanwhile: async (turn) => {
      await waitingCalls(turn);
      await turn.stop();
    },
  },
  'turn-stopped-in-tool': {
    script: [call('linger')],
    expected: 'failed',
    meanwhile: async (turn) => {
      await runningTool(turn);
      await turn.stop();
    },
  },
  'turn-stopped-by-signal': {
    script: [call('linger')],
    expected: 'failed',
    meanwhile: async (turn, { harness }, workflowId) => {
      await runningTool(turn);
      await harness.temporal.client.workflow.getHandle(workflowId).signal('stop');
    },
  },
  'turn-cancelled-suspended': {
    script: [call('ask')],
    expected: 'failed',
    meanwhile: async (turn, recorder, workflowId) => {
      await waitingCalls(turn);
      await cancel(turn, recorder, workflowId);
    },
  },
  'turn-cancelled-in-tool': {
    script: [call('linger')],
    expected: 'failed',
    meanwhile: async (turn, recorder, workflowId) => {
      await runningTool(turn);
      await cancel(turn, recorder, workflowId);
    },
  },
};

/** The run whose history is kept. */
/** Shapes that need more than one request to one agent, or something else than a turn. */
export const OTHERS: Readonly<Record<string, (recorder: Recorder, agentId: string) => Promise<Closed>>> = {
  'acceptor-one-request': async (recorder, agentId) => {
    await recorder.signalAcceptor(agentId, { ...REQUEST, idempotencyKey: 'first' });
    await ended(recorder, agentId, 1);
    return { workflowId: agentWorkflowId(agentId) };
  },
  'acceptor-malformed-request': async (recorder, agentId) => {
    await recorder.signalAcceptor(agentId, { nothing: 'of use' });
    return { workflowId: agentWorkflowId(agentId) };
  },
  'acceptor-without-request': async (recorder, agentId) => {
    await recorder.startAcceptor(agentId);
    return { workflowId: agentWorkflowId(agentId) };
  },
  // The run that leaves, and the one that goes on.
  'turn-continues-as-new': async (recorder, agentId) => {
    const { workflowId, runs } = await continuedTurn(recorder, agentId);
    return { workflowId, runId: runs[0] ?? '' };
  },
  'turn-continued': async (recorder, agentId) => {
    const { workflowId, runs } = await continuedTurn(recorder, agentId);
    return { workflowId, runId: runs.at(-1) ?? '' };
  },
  'turn-takes-requests': async (recorder, agentId) => {
    const turn = await recorder.enqueue(agentId, 'turn-suspended-answered', 'first');
    await waitingCalls(turn);
    const workflowId = turnWorkflowId(agentId, turn.id);
    const handle = recorder.harness.temporal.client.workflow.getHandle(workflowId);
    await handle.signal('enqueue', { ...REQUEST, idempotencyKey: 'behind' });
    await handle.signal('enqueue', 'not a request');
    while (((await recorder.harness.client.agent(agentId).get())?.agent.pending ?? 0) === 0) await sleep(50);
    await answerAll(turn);
    await ended(recorder, agentId, 2);
    return { workflowId };
  },
  'turn-terminated': async (recorder, agentId) => {
    const turn = await recorder.enqueue(agentId, 'turn-suspended-answered', 'first');
    await waitingCalls(turn);
    const workflowId = turnWorkflowId(agentId, turn.id);
    await recorder.harness.temporal.client.workflow.getHandle(workflowId).terminate('for the record');
    await turn.result(WAIT);
    return { workflowId };
  },
  'turn-without-lease': async ({ harness }, agentId) => {
    const workflowId = turnWorkflowId(agentId, 'forged');
    const options = { workflowId, taskQueue: targetQueue('worker_generic'), args: [forgedLease(agentId)] };
    await harness.temporal.client.workflow.execute('agentTurn', options).catch(() => {});
    return { workflowId };
  },
  'turn-of-another-workflow': async ({ harness }, agentId) => {
    const workflowId = `copy-of/${agentId}`;
    const options = { workflowId, taskQueue: targetQueue('worker_generic'), args: [forgedLease(agentId)] };
    await harness.temporal.client.workflow.execute('agentTurn', options).catch(() => {});
    return { workflowId };
  },
};

const REQUEST = { instruction: '[script:turn-0-calls] Go.', profile: 'tester' };

function forgedLease(agentId: string) {
  const ids = { agentId, agentTurnId: 'forged', turnEpoch: 1, outputBoxId: 'forged', title: 'forged' };
  const profile = { profileName: 'tester', profileHash: 'none', workerTarget: 'worker_generic' };
  const context = { windowTokens: 8_000, answerTokens: 1_000, fixedTokens: 0 };
  const timeouts = { heartbeatMs: 20_000 };
  const kernel = { budgets: { maxSteps: 5, maxTokens: 1_000 }, context, mustEndWith: [], submitResult: true };
  return { ...ids, ...profile, kernel, timeouts, earlier: [], instructionSeq: 1, instructionTokens: 1 };
}

async function ended({ harness }: Recorder, agentId: string, count: number): Promise<void> {
  const done = async () =>
    (await harness.client.agent(agentId).turns()).filter(({ endedAt }) => endedAt !== null).length;
  while ((await done()) < count) await sleep(50);
}

/** Its runs, in order. */
async function continuedTurn(
  recorder: Recorder,
  agentId: string,
): Promise<{ readonly workflowId: string; readonly runs: readonly string[] }> {
  const turn = await recorder.enqueue(agentId, 'turn-10-calls', 'first', { profile: 'brief' });
  await turn.result(WAIT);
  const workflowId = turnWorkflowId(agentId, turn.id);
  const { workflow } = recorder.harness.temporal.client;
  for (;;) {
    const runs: { readonly runId: string; readonly since: number; readonly ended: boolean }[] = [];
    for await (const run of workflow.list({ query: `WorkflowId = '${workflowId}'` }))
      runs.push({ runId: run.runId, since: run.startTime.getTime(), ended: run.status.name === 'COMPLETED' });
    const sorted = runs.sort((a, b) => a.since - b.since).map(({ runId }) => runId);
    // The list learns of a run a moment after it began.
    if (runs.length > 1 && runs.some(({ ended }) => ended)) return { workflowId, runs: sorted };
    await sleep(100);
  }
}

async function waitingCalls(turn: TurnHandle, count = 1) {
  for (;;) {
    const { waiting, endedAt } = await turn.get();
    if (waiting.length >= count) return waiting;
    if (endedAt !== null) throw new Error(`turn ${turn.id} ended without waiting for ${count} calls`);
    await sleep(20);
  }
}

/** Long enough in the tool that its activity is under way. */
async function runningTool(turn: TurnHandle): Promise<void> {
  while ((await turn.get()).stepCount === 0) await sleep(50);
  await sleep(500);
}

async function untilTimeout(turn: TurnHandle): Promise<void> {
  const timedOut = async () => (await turn.get()).steps[0]?.calls.some((made) => made.status === 'timeout');
  while (!(await timedOut())) await sleep(20);
}

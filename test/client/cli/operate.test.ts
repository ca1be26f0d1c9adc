/** What an operator does from the command line: stop and steer turns, stop and start agents, look at both. Real processes. */
import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { TurnHandle } from '../../../client/api.ts';
import type { AgentSummary } from '../../../workflows/contract/agent-summary.ts';
import { testApp } from '../../support/app.ts';
import { scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';
import { ADD, type Installation, openInstallation, PERSON, REFUND, say } from './installation.ts';
import { emptyFolder, jsonOf, runCli, sharedTemporal } from './processes.ts';

describe.each(scenarioStores(import.meta.url))('operating on %s', (backend) => {
  let installation: Installation;

  beforeAll(async () => {
    const scripts = {
      person: [PERSON, say('signed')],
      hello: [say('hello')],
      sum: [ADD, PERSON, say('5')],
      refund: [REFUND, say('paid')],
    };
    installation = await openInstallation(scripts, backend);
  });
  afterAll(() => installation?.close());

  const enqueue = (agentId: string, script: string): Promise<TurnHandle> =>
    installation.harness.client
      .agent(agentId)
      .enqueue({ instruction: `[script:${script}] go`, profile: 'clerk', correlationId: 'order-7' });
  async function suspended(turn: TurnHandle): Promise<string> {
    for await (const event of turn.events()) {
      if (event.type === 'call' && event.payload.phase === 'suspended') return event.payload.callId;
    }
    throw new Error('it did not wait');
  }

  test('turn stop ends a waiting turn with the reason, and says so again without harm', async () => {
    const { cli } = installation;
    const turn = await enqueue('alice', 'person');
    await suspended(turn);
    const queued = await enqueue('alice', 'hello');
    const stopped = await cli(['turn', 'stop', turn.id, '--reason', 'the order is withdrawn', '--json']);
    expect(stopped.code).toBe(0);
    expect(jsonOf(stopped)).toEqual({ ack: 'stopped', agentId: 'alice' });
    expect(await turn.get()).toMatchObject({
      status: 'failed',
      errorCode: 'stopped',
      reason: 'the order is withdrawn',
    });
    expect(await queued.result(WAIT)).toMatchObject({ status: 'success' });
    const again = await cli(['turn', 'stop', turn.id]);
    expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^already_ended: /) });
  });

  test('a turn that waits for approval holds the queue, and everything that shows it says so', async () => {
    const { cli, harness } = installation;
    const asking = await enqueue('olga', 'refund');
    for await (const event of asking.events()) if (event.type === 'approval') break;
    const [question] = await harness.client.approvals({ agentId: 'olga' });
    const since = new Date(question?.createdAt ?? 0).toISOString();
    const args = ['enqueue', 'olga', '[script:hello] go', '--profile', 'clerk'];
    const held = { agentTurnId: asking.id, callId: question?.callId, tool: 'refund', since: question?.createdAt };
    const waits = `waits for approval of refund since ${since}`;
    const first = await cli(args);
    expect(first.stdout).toContain(
      `behind turn ${asking.id}, which ${waits} (1 turn is queued): npm run agentturn -- approvals --agent olga`,
    );
    const second = jsonOf<{ agentTurnId: string }>(await cli([...args, '--json']));
    expect(second).toMatchObject({ position: 2, held: { ...held, queuedTurns: 2 } });
    const waited = await cli([...args, '--wait', '--timeout', '1']);
    expect(waited).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`behind turn ${asking.id}, which ${waits} (3 turns are queued)`),
    });
    const shown = await Promise.all([
      cli(['agents', 'get', 'olga']),
      cli(['turn', 'show', asking.id]),
      cli(['turn', 'show', second.agentTurnId]),
    ]);
    for (const { stdout } of shown) expect(stdout).toContain(`${waits} (3 turns are queued)`);
    const machine = [await cli(['agents', 'get', 'olga', '--json']), await cli(['turn', 'show', asking.id, '--json'])];
    for (const one of machine) expect(jsonOf(one)).toMatchObject({ held: { ...held, queuedTurns: 3 } });
    await asking.answer({ callId: question?.callId ?? '', decision: 'approved' });
    expect(await asking.result(WAIT)).toMatchObject({ status: 'success' });
    expect(jsonOf(await cli(['agents', 'get', 'olga', '--json']))).toMatchObject({ held: null });
  });

  test('turn stop cancels a queued turn; of one that is not there it is an error', async () => {
    const { cli } = installation;
    const active = await enqueue('bob', 'person');
    await suspended(active);
    const queued = await enqueue('bob', 'hello');
    const canceled = await cli(['turn', 'stop', queued.id]);
    expect(canceled).toMatchObject({ code: 0, stdout: expect.stringMatching(/^canceled: /) });
    expect(await queued.result(WAIT)).toMatchObject({ status: 'canceled' });
    expect((await active.get()).status).toBe('suspended');
    const unknown = await cli(['turn', 'stop', 'no-such-turn', '--json']);
    expect(unknown.code).toBe(1);
    const error = { code: 'turn_not_found', message: 'no turn no-such-turn in this store' };
    expect(jsonOf(unknown)).toMatchObject({ error });
  });

  test('turn steer is read by the model before its next call', async () => {
    const { cli, model } = installation;
    const turn = await enqueue('carol', 'person');
    const callId = await suspended(turn);
    const first = await cli(['turn', 'steer', turn.id, 'be brief', '--json']);
    expect(first.code).toBe(0);
    expect(jsonOf(first)).toEqual({ ack: 'accepted', agentId: 'carol', seq: 1 });
    const second = await cli(['turn', 'steer', turn.id, '-'], { input: 'and polite' });
    expect(second).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^accepted \(number 2 of what came for this turn\): /),
    });
    await turn.toolResult({ callId, status: 'success', result: 'yes' });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'signed' } });
    const messages = JSON.stringify(model.requests.at(-1)?.messages);
    expect(messages).toContain('be brief');
    expect(messages.indexOf('and polite')).toBeGreaterThan(messages.indexOf('be brief'));

    const stale = await cli(['turn', 'steer', turn.id, 'too late', '--json']);
    expect(stale.code).toBe(1);
    expect(jsonOf(stale)).toEqual({ ack: 'stale', agentId: 'carol' });
    const unknown = await cli(['turn', 'steer', 'no-such-turn', 'hello?']);
    expect(unknown).toMatchObject({ code: 1, stderr: expect.stringMatching(/^error \[turn_not_found\]: .*\ncure: /) });
    const empty = await cli(['turn', 'steer', turn.id, '', '--json']);
    expect(empty.code).toBe(2);
    expect(jsonOf(empty)).toMatchObject({ error: { code: 'invalid_request' } });
  });

  test('turn stop says what becomes of messages that the turn had not read (T22)', async () => {
    const { cli } = installation;
    const turn = await enqueue('quinn', 'person');
    await suspended(turn);
    for (const text of ['be brief', 'and polite']) await turn.steer(text);
    const { code, stdout } = await cli(['turn', 'stop', turn.id]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /; 2 messages that it had not read went with it: .* events --turn \S+ shows what was dropped/,
    );
  });

  test('agents stop ends the active turn, keeps the queue and refuses requests until agents start', async () => {
    const { cli } = installation;
    const turn = await enqueue('dave', 'person');
    await suspended(turn);
    const queued = await enqueue('dave', 'hello');
    const stopped = await cli(['agents', 'stop', 'dave', '--reason', 'holiday', '--json']);
    expect(stopped.code).toBe(0);
    expect(jsonOf(stopped)).toEqual({ agentId: 'dave', lifecycle: 'stopped', stoppedTurnId: turn.id });
    expect(await turn.get()).toMatchObject({ errorCode: 'stopped', reason: 'holiday' });
    expect((await cli(['agents', 'ls'])).stdout).toMatch(/^dave +clerk +archived +stopped /m);
    const refused = await cli(['enqueue', 'dave', 'hi', '--profile', 'clerk', '--json']);
    expect(refused.code).toBe(1);
    expect(jsonOf(refused)).toMatchObject({ error: { code: 'agent_stopped' } });
    const again = await cli(['agents', 'stop', 'dave']);
    expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^dave is stopped; /) });
    expect((await queued.get()).status).toBe('queued');
    expect(jsonOf(await cli(['agents', 'start', 'dave', '--json']))).toEqual({ agentId: 'dave', lifecycle: 'started' });
    expect(await queued.result(WAIT)).toMatchObject({ status: 'success' });
    const started = await cli(['agents', 'start', 'dave']);
    expect(started).toMatchObject({ code: 0, stdout: expect.stringMatching(/^dave is started already; /) });
  });

  test('agents get shows what an agent is at and its last ten turns', async () => {
    const { cli } = installation;
    for (let i = 0; i < 11; i += 1) await (await enqueue('erin', 'hello')).result(WAIT);
    const turn = await enqueue('erin', 'person');
    await suspended(turn);
    const summary = jsonOf<AgentSummary>(await cli(['agents', 'get', 'erin', '--json']));
    expect(summary).toMatchObject({
      identity: { agentId: 'erin', profile: 'clerk' },
      agent: {
        status: 'awake_running',
        turnIndex: 12,
        currentTurn: { agentTurnId: turn.id, status: 'suspended' },
        head: { status: 'suspended', turnEpoch: 12, waitingToolCount: 1 },
      },
      schedulingPosture: { posture: 'active_turn', agentTurnId: turn.id },
      lifecycle: { acceptsExternalMessages: true },
    });
    expect(summary.recentTurns).toHaveLength(10);
    expect(summary.recentTurns[0]).toMatchObject({ agentTurnId: turn.id, status: 'suspended' });
    const { stdout } = await cli(['agents', 'get', 'erin']);
    expect(stdout).toMatch(/^agent +erin, profile clerk, epoch 12$/m);
    expect(stdout).toMatch(/^status +awake_running$/m);
    expect(stdout).toMatch(new RegExp(`^active +${turn.id}, suspended$`, 'm'));
    expect(stdout).toMatch(/^turns +12 accepted, 0 queued$/m);
    expect(stdout).toMatch(new RegExp(`^${turn.id} +suspended +12 +1 .* - +\\[script:person\\] go$`, 'm'));
  });

  test('a turn whose target nobody serves says so, and its agent too (T12)', async () => {
    const { cli, harness } = installation;
    const app = testApp([], { name: 'hermit', workerTarget: 'worker_nowhere' });
    await harness.store.registerProfiles([...app.agents.values()]);
    const turn = await harness.client.agent('ivan').enqueue({ instruction: 'hello?', profile: 'hermit' });
    const { agentId, agentTurnId, leasedAt } = await turn.get();
    const found = { agentId, agentTurnId, checkAt: (leasedAt ?? 0) + 10_000, noWorkersSince: null };
    const later = { checkAt: Date.now() + 3_600_000, everyMs: 20_000, workersSince: null, wokenAt: null };
    await harness.store.scheduleCheck(found, { ...later, noWorkersSince: Date.now() });
    const shown = await cli(['turn', 'show', turn.id]);
    expect(shown.stdout).toMatch(
      /^stalled +waits for workers of worker_nowhere since \S+Z: none polls its task queue; start one with /m,
    );
    expect(jsonOf(await cli(['turn', 'show', turn.id, '--json']))).toMatchObject({
      waitingForWorkers: { workerTarget: 'worker_nowhere', since: expect.any(Number) },
      stall: { kind: 'workers', workerTarget: 'worker_nowhere' },
    });
    expect((await cli(['agents', 'ls'])).stdout).toMatch(
      /^ivan +hermit +active_turn +awake_running, dispatched, waiting for workers of worker_nowhere /m,
    );
    await turn.stop();
    expect((await cli(['turn', 'show', turn.id])).stdout).not.toContain('stalled');
    expect((await cli(['agents', 'ls'])).stdout).toMatch(/^ivan +hermit +idle +(asleep|awake_idle) +/m);
  });

  test.each([['get'], ['stop'], ['start']])('agents %s of one that is not there is an error', async (command) => {
    const missing = await installation.cli(['agents', command, 'nobody', '--json']);
    expect(missing.code).toBe(1);
    const error = { code: 'agent_not_found', message: expect.stringContaining('no agent "nobody"') };
    expect(jsonOf(missing)).toMatchObject({ error });
    expect(await installation.harness.store.getAgent('nobody')).toBeNull();
  });

  test('enqueue --ui-action is taken by an idle agent and refused by a busy one', async () => {
    const { cli, harness } = installation;
    const ask = (...more: string[]) => cli(['enqueue', 'frank', '[script:person] go', '--profile', 'clerk', ...more]);
    const taken = await ask('--ui-action', '--json');
    expect(taken.code).toBe(0);
    const { agentTurnId } = jsonOf<{ agentTurnId: string }>(taken);
    await suspended(harness.client.turn(agentTurnId));
    const refused = await ask('--ui-action', '--json');
    expect(refused.code).toBe(1);
    expect(jsonOf(refused)).toMatchObject({ error: { code: 'agent_busy' } });
    expect((await harness.client.agent('frank').turns()).map((turn) => turn.agentTurnId)).toEqual([agentTurnId]);
  });

  test('turn tree draws what a request caused, while it runs and when it is over', async () => {
    const { cli } = installation;
    const turn = await enqueue('grace', 'sum');
    const callId = await suspended(turn);
    const running = await cli(['turn', 'tree', turn.id]);
    expect(running.code).toBe(0);
    const [root, add, person] = running.stdout.trimEnd().split('\n');
    expect(root).toMatch(new RegExp(`^turn ${turn.id} of grace: open, accepted 20\\d\\d-`));
    expect(add).toMatch(/^├─ \+[\d.]+ m?s {2}step 1 add: answered after [\d.]+ m?s$/);
    expect(person).toMatch(/^└─ \+[\d.]+ m?s {2}step 2 sign_off: open$/);
    await turn.toolResult({ callId, status: 'success', result: 'yes' });
    await turn.result(WAIT);
    const tree = jsonOf<object>(await cli(['turn', 'tree', turn.id, '--json']));
    expect(await turn.tree()).toEqual(tree);
    expect(tree).toMatchObject({
      node: 'turn',
      agentTurnId: turn.id,
      status: 'success',
      correlationId: 'order-7',
      children: [
        { node: 'call', tool: 'add', stepIndex: 1, status: 'answered' },
        { node: 'call', tool: 'sign_off', stepIndex: 2, status: 'answered', callId },
      ],
    });
    const missing = await cli(['turn', 'tree', 'no-such-turn', '--json']);
    expect(missing.code).toBe(1);
    expect(jsonOf(missing)).toMatchObject({
      error: { code: 'turn_not_found', message: 'no turn no-such-turn in this store' },
    });
    const over = await cli(['turn', 'budgets', turn.id, '{"maxSteps":9}', '--json']);
    expect(jsonOf(over)).toMatchObject({ error: { code: 'turn_ended' } });
  });
});

describe('a mistyped store', () => {
  test.each([
    [['enqueue', 'alice', 'hi']],
    [['turn', 'stop', 't']],
    [['turn', 'steer', 't', 'x']],
    [['agents', 'stop', 'a']],
    [['agents', 'start', 'a']],
    [['tool-result', 't', 'c', '--result', '1']],
    [['verify']],
    [['events', '--agent', 'a']],
    [['turn', 'tree', 't']],
  ])('%j is store_unavailable, and none is made', async (args) => {
    const cwd = emptyFolder();
    const ended = await runCli([...args, '--store', 'sqlite:nope.db', '--json'], {
      cwd,
      env: { TEMPORAL_ADDRESS: sharedTemporal() },
    });
    expect(ended.code).toBe(1);
    expect(jsonOf(ended)).toMatchObject({ error: { code: 'store_unavailable' } });
    expect(readdirSync(cwd)).toEqual([]);
  });
});

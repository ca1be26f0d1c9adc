/** The command line against a running `agentturn worker`. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { textOf } from '../../../workers/model-server/chat-request.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import type { AgentView, TurnView } from '../../../workflows/contract/views.ts';
import type { EnqueueAck } from '../../../workflows/protocol/enqueue.ts';
import { suspended } from '../../support/asking.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';
import { commandsIn, type RunCommand } from './in-process.ts';
import { type CliProcess, emptyFolder, jsonOf, runCli, startCli } from './processes.ts';

const APP = fileURLToPath(new URL('fixture-app.ts', import.meta.url));
const PERSON = { name: 'sign_off', arguments: { what: 'the sum' } };

let harness: Harness;
let model: ScriptedServer;
let worker: CliProcess;
let env: Record<string, string>;

const cli: RunCommand = (args, more) => commandsIn(env)(args, more);

beforeAll(async () => {
  harness = await openHarness();
  model = await startScriptedModel({
    scripts: {
      sum: [
        { kind: 'message', toolCalls: [{ name: 'add', arguments: { a: 2, b: 3 } }] },
        { kind: 'message', content: 'it is 5' },
      ],
      person: [
        { kind: 'message', toolCalls: [PERSON] },
        { kind: 'message', content: 'signed' },
      ],
      stuck: [{ kind: 'message', toolCalls: [PERSON] }],
      short: [],
      cut: Array.from({ length: 4 }, (_, at) => ({ kind: 'message', content: `part ${at}, `, finishReason: 'length' })),
    },
    default: (request) => ({ kind: 'message', content: `${request.messages.length} messages` }),
  });
  env = {
    TEMPORAL_ADDRESS: harness.address,
    TEMPORAL_NAMESPACE: harness.namespace,
    AGENTTURN_STORE: `sqlite:${harness.storePath}`,
    AGENTTURN_APP: APP,
    OPENAI_BASE_URL: model.url,
  };
  worker = startCli(['worker', '--json'], { env });
  const [ready] = await worker.until(/\{"ready".*\n/);
  const where = { temporal: harness.address, namespace: harness.namespace, targets: ['worker_generic'] };
  expect(JSON.parse(ready)).toMatchObject({ ready: where });
});

afterAll(async () => {
  const ended = await worker?.end('SIGTERM');
  await harness?.close();
  await model?.close();
  expect(ended).toMatchObject({ code: 0 });
});

describe('enqueue', () => {
  test('acknowledges, and the turn runs; turn show has its steps', async () => {
    const ack = jsonOf<EnqueueAck>(
      await cli(['enqueue', 'alice', '[script:sum] 2+3?', '--profile', 'clerk', '--json']),
    );
    expect(ack).toMatchObject({ status: 'dispatched', position: 0, duplicate: false });
    await harness.client.turn(ack.agentTurnId).result(WAIT);
    const view = jsonOf<TurnView>(await cli(['turn', 'show', ack.agentTurnId, '--json']));
    expect(view).toMatchObject({ agentId: 'alice', status: 'success', deliverable: { text: 'it is 5' }, stepCount: 2 });
    const page = await cli(['turn', 'show', ack.agentTurnId]);
    expect(page.stdout).toMatch(/^status +success$/m);
    expect(page.stdout).toMatch(/^1 .* add +success/m);
    expect(page.stdout).toMatch(/^deliverable\n {2}it is 5$/m);
  });

  test('--wait prints the deliverable; the instruction may come from standard input', async () => {
    const args = ['enqueue', 'bob', '-', '--profile', 'clerk', '--wait', '--timeout', '60'];
    const ended = await cli(args, { input: '[script:sum] 2+3?' });
    expect(ended).toMatchObject({ code: 0, stdout: 'it is 5\n' });
    expect(ended.stderr).toMatch(/^turn [0-9a-f-]{36} of bob: dispatched$/m);
  });

  test('Ctrl-C ends --wait and not the turn, and says how to see it again', async () => {
    const waiting = startCli(['run', 'clerk', '[script:stuck] go', '--wait'], { env });
    const [, id = ''] = await waiting.until(/^turn ([0-9a-f-]{36}) of run-[0-9a-f-]{36}: dispatched$/m);
    await suspended(harness.client.turn(id));
    // A person who waits is told how the call is answered.
    await waiting.until(new RegExp(`tool-result ${id} \\S+ --result `));
    const { code, stderr } = await waiting.end('SIGINT');
    expect(stderr).toMatch(new RegExp(`turn ${id} goes on without you; to see it again: .*turn show ${id}\n$`));
    expect(code).toBe(130);
    expect(jsonOf<TurnView>(await cli(['turn', 'show', id, '--json'])).status).toBe('suspended');
  });

  test('an agent without --profile keeps the one of its first request', async () => {
    await cli(['enqueue', 'heidi', 'hello', '--profile', 'clerk', '--wait']);
    const view = jsonOf<TurnView>(await cli(['enqueue', 'heidi', 'hello', '--wait', '--json']));
    expect(view).toMatchObject({ profile: 'clerk', status: 'success' });
    const other = await cli(['enqueue', 'heidi', 'hello', '--profile', 'remote']);
    expect(other).toMatchObject({ code: 0 });
    expect(other.stderr).toMatch(/^heidi runs as clerk by default: this turn runs as remote, with the same memory$/m);
    const same = await cli(['enqueue', 'heidi', 'hello', '--profile', 'clerk']);
    expect(same.stderr).not.toContain('memory');
  });

  test('an agent that is only the name of a profile is refused, and both ways to do it are said', async () => {
    const refused = await cli(['enqueue', 'clerk', 'hello']);
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain('error [invalid_request]: clerk is a profile and not an agent');
    expect(refused.stderr).toContain('agentturn run clerk');
    expect(refused.stderr).toContain('agentturn enqueue ID … --profile clerk');
  });

  test('run is a turn of a new agent each time; the same key is the same turn', async () => {
    const [first, second] = [
      jsonOf<TurnView>(await cli(['run', 'clerk', 'hello', '--wait', '--json'])),
      jsonOf<TurnView>(await cli(['run', 'clerk', 'hello', '--wait', '--json'])),
    ];
    expect(first).toMatchObject({ profile: 'clerk', status: 'success', agentId: expect.stringMatching(/^run-/) });
    expect(second.agentId).not.toBe(first.agentId);
    expect(second.deliverable).toEqual(first.deliverable);
    const keyed = ['run', 'clerk', 'once', '--key', 'k1', '--json'];
    const [one, again] = [jsonOf<EnqueueAck>(await cli(keyed)), jsonOf<EnqueueAck>(await cli(keyed))];
    expect(again).toMatchObject({ agentTurnId: one.agentTurnId, duplicate: true });
  });

  test('the same key gives the same turn, another request under it is refused', async () => {
    const args = ['enqueue', 'carol', 'once', '--profile', 'clerk', '--key', 'k1', '--json'];
    const first = jsonOf<EnqueueAck>(await cli(args));
    const second = jsonOf<EnqueueAck>(await cli(args));
    expect(second).toMatchObject({ agentTurnId: first.agentTurnId, duplicate: true });
    const other = await cli(['enqueue', 'carol', 'twice', '--profile', 'clerk', '--key', 'k1', '--json']);
    expect(other.code).toBe(1);
    expect(jsonOf(other)).toMatchObject({ error: { code: 'idempotency_conflict' } });
  });

  test('a long instruction becomes a card; context files and metadata go along', async () => {
    const cwd = emptyFolder();
    writeFileSync(join(cwd, 'note.md'), 'the context');
    const more = ['--context', 'note.md', '--metadata', 'from=test', '--priority', 'now'];
    const args = ['enqueue', 'dave', '-', '--profile', 'clerk', '--wait', '--json', ...more];
    const view = jsonOf<TurnView>(await runCli(args, { cwd, env, input: `${'long '.repeat(10_000)}end` }));
    expect(view.status).toBe('success');
    expect(view.instruction).toHaveLength(50_003);
    // The note and the instruction.
    expect(view.deliverable).toEqual({ text: '2 messages' });
  });

  test('result fields are asked for', async () => {
    const fields = '{"fields":[{"name":"total","description":"the total"}]}';
    const args = ['enqueue', 'erin', 'go', '--profile', 'clerk', '--result-fields', fields, '--json'];
    const { agentTurnId } = jsonOf<EnqueueAck>(await cli(args));
    await harness.client.turn(agentTurnId).result(WAIT);
    const offered = model.requests.flatMap((request) => request.tools ?? []).map((tool) => JSON.stringify(tool));
    expect(offered.some((tool) => tool.includes('total'))).toBe(true);
  });

  test('criteria stand before the eyes of the model', async () => {
    const criteria = ['--criterion', 'it is short', '--criterion', 'it is true'];
    await cli(['enqueue', 'ivy', 'go', '--profile', 'clerk', '--wait', ...criteria]);
    const last = model.requests.flatMap(({ messages }) => messages.map(textOf).at(-1));
    expect(last).toContain('It is done when:\n- it is short\n- it is true');
  });

  test('a turn that fails is an error with its code', async () => {
    const args = ['enqueue', 'frank', '[script:short] go', '--profile', 'clerk', '--wait'];
    const human = await cli(args);
    expect(human.code).toBe(1);
    expect(human.stderr).toMatch(/^error \[provider_error\]: the model provider failed \(400/m);
    expect(human.stderr).toMatch(/^cure: /m);
    const machine = await cli([...args, '--json']);
    expect(machine.code).toBe(1);
    expect(jsonOf(machine)).toMatchObject({ status: 'failed', error: { code: 'provider_error' } });
  });

  test('an answer that stays cut short is printed, and is an error with its reason and its cure (K11)', async () => {
    const args = ['enqueue', 'greta', '[script:cut] go', '--profile', 'clerk', '--wait'];
    const human = await cli(args);
    expect(human).toMatchObject({ code: 1, stdout: 'part 0, part 1, part 2, part 3, \n' });
    expect(human.stderr).toMatch(
      /^error \[answer_truncated\]: the answer was cut short by the output limit of the model or its provider, and is not whole$/m,
    );
    expect(human.stderr).toMatch(/^cure: Raise model.maxTokens, or ask for less.$/m);
    const machine = await cli(['run', 'clerk', '[script:cut] go', '--wait', '--json']);
    expect(machine.code).toBe(1);
    const view = jsonOf<TurnView>(machine);
    expect(view).toMatchObject({
      status: 'partial',
      error: { code: 'answer_truncated' },
      cure: expect.stringContaining('Raise'),
    });
    const page = await cli(['turn', 'show', view.agentTurnId]);
    expect(page.stdout).toMatch(/^status +partial \(answer_truncated\): the answer was cut short/m);
    expect(page.stdout).toMatch(/^cure +Raise model.maxTokens/m);
  });

  test('a mistyped profile is refused at once with the nearest name, and makes no agent', async () => {
    for (const args of [
      ['enqueue', 'oscar', 'hi', '--profile', 'clrek'],
      ['run', 'clrek', 'hi'],
    ]) {
      const refused = jsonOf(await cli([...args, '--json']));
      const message = expect.stringContaining('did you mean clerk? registered are clerk, remote');
      expect(refused).toMatchObject({ error: { code: 'profile_not_found', message } });
    }
    expect(await harness.client.agent('oscar').get()).toBeNull();
  });

  test('--timeout ends the waiting, not the turn', async () => {
    const request = { instruction: '[script:stuck] sign', profile: 'clerk', idempotencyKey: 'sign-1' };
    await suspended(await harness.client.agent('grace').enqueue(request));
    const asked = ['enqueue', 'grace', '[script:stuck] sign', '--profile', 'clerk', '--key', 'sign-1'];
    const args = [...asked, '--wait', '--timeout', '0.5', '--json'];
    const ended = await cli(args);
    expect(ended.code).toBe(1);
    expect(jsonOf(ended)).toMatchObject({
      error: {
        code: 'result_wait_timeout',
        message: expect.stringContaining('it waits for the result of sign_off'),
        cure: expect.stringMatching(/^Answer it: .* tool-result \S+ \S+ --result /),
      },
    });
  });

  test.each([
    ['a hostile agent id', ['../../etc', 'hi'], /does not match/],
    ['an empty instruction', ['henry', ''], /instruction/],
    ['too much metadata', ['henry', 'hi', '--metadata', `note=${'x'.repeat(2_000)}`], /metadata/],
    ['a blank criterion', ['henry', 'hi', '--criterion', ' '], /criteria/],
    ['metadata that is no pair', ['henry', 'hi', '--metadata', 'note'], /KEY=VALUE/],
    ['result fields that are no JSON', ['henry', 'hi', '--result-fields', '{'], /--result-fields must be JSON/],
    ['result fields that are none', ['henry', 'hi', '--result-fields', '{"field":[]}'], /--result-fields: .*"field"/s],
    ['a context file that is not there', ['henry', 'hi', '--context', 'nope.md'], /nope.md cannot be read/],
    ['a hostile profile', ['henry', 'hi', '--profile', 'a b'], /profile/],
  ])('%s is refused, and nothing is written', async (_, args, message) => {
    const refused = await cli(['enqueue', ...args, '--json']);
    expect(refused.code).toBe(2);
    const { error } = jsonOf<{ error: { code: string; message: string; cure: string } }>(refused);
    expect(error).toMatchObject({ code: 'invalid_request', message: expect.stringMatching(message) });
    expect(error.cure).not.toBe('');
    const agents = (await harness.store.listAgents()).map((agent) => agent.agentId);
    expect(agents).not.toContain('henry');
  });
});

describe('tool-result', () => {
  test('answers a waiting call once; later answers change nothing', async () => {
    const turn = await harness.client.agent('ivan').enqueue({ instruction: '[script:person] go', profile: 'clerk' });
    let callId = '';
    for await (const event of turn.events()) {
      if (event.type === 'call' && event.payload.phase === 'suspended') {
        callId = event.payload.callId;
        break;
      }
    }
    const page = await cli(['turn', 'show', turn.id]);
    expect(page.stdout).toMatch(/^status +suspended$/m);
    expect(page.stdout).toMatch(/sign_off +waiting/);
    expect(page.stdout).toContain(`npm run agentturn -- tool-result ${turn.id} ${callId}`);

    const report = (...more: string[]) => cli(['tool-result', turn.id, callId, '--json', ...more]);
    const malformed = await report('--result', 'yes');
    expect(malformed.code).toBe(2);
    expect(jsonOf(malformed)).toMatchObject({ error: { code: 'invalid_request' } });
    const forgotten = await report();
    expect(forgotten.code).toBe(2);
    expect(jsonOf(forgotten)).toMatchObject({ error: { message: expect.stringContaining('--result JSON') } });
    const mistaken = jsonOf(await cli(['approve', callId, '--json']));
    expect(mistaken).toMatchObject({
      error: {
        code: 'call_not_found',
        message: `call ${callId} waits for a result and not for approval`,
        cure: expect.stringContaining(`tool-result ${turn.id} ${callId}`),
      },
    });
    expect(jsonOf(await report('--status', 'running'))).toMatchObject({ ack: 'applied' });
    const applied = await report('--result', '{"signed":true}');
    expect(applied.code).toBe(0);
    expect(jsonOf(applied)).toMatchObject({ ack: 'applied', agentId: 'ivan' });
    expect(await turn.result(WAIT)).toMatchObject({ deliverable: { text: 'signed' } });

    const again = await report('--error', 'too late');
    expect(again.code).toBe(0);
    expect(jsonOf(again)).toMatchObject({ ack: 'duplicate' });
    const human = await cli(['tool-result', turn.id, callId, '--result', '1']);
    expect(human.stdout).toMatch(/^duplicate: /);
  });

  test('an unknown turn and a call of a turn that is over: exit 1', async () => {
    const unknown = await cli(['tool-result', 'no-such-turn', 'c', '--result', '1', '--json']);
    expect(unknown.code).toBe(1);
    expect(jsonOf(unknown)).toMatchObject({ error: { code: 'turn_not_found' } });
    const turn = await harness.client.agent('judy').enqueue({ instruction: 'hi', profile: 'clerk' });
    await turn.result(WAIT);
    const stale = await cli(['tool-result', turn.id, 'c', '--result', '1', '--json']);
    expect(stale.code).toBe(1);
    expect(jsonOf(stale)).toMatchObject({ ack: 'stale' });
  });
});

describe('looking', () => {
  test('agents ls lists every agent', async () => {
    const turn = await harness.client.agent('kate').enqueue({ instruction: 'hi', profile: 'clerk' });
    await turn.result(WAIT);
    const { items } = jsonOf<{ items: AgentView[] }>(await cli(['agents', 'ls', '--json']));
    expect(items.find((agent) => agent.agentId === 'kate')).toMatchObject({
      profile: 'clerk',
      status: 'idle',
      turnEpoch: 1,
    });
    const human = await cli(['agents', 'ls']);
    expect(human.stdout).toMatch(/^AGENT +PROFILE +POSTURE +STATUS/);
    expect(human.stdout).toMatch(/^kate +clerk +idle +(asleep|awake_idle) +0 +0 /m);
  });

  test('an unknown turn is turn_not_found', async () => {
    const missing = await cli(['turn', 'show', 'nope', '--json']);
    expect(missing.code).toBe(1);
    expect(jsonOf(missing)).toMatchObject({ error: { code: 'turn_not_found' } });
  });
});

test('commands act for the tenant that is named, by option or by the environment, and for no other', async () => {
  const acme = { env: { AGENTTURN_TENANT: 'acme' } };
  const asked = await cli(['enqueue', 'tina', 'go', '--profile', 'clerk', '--tenant', 'acme', '--wait', '--json']);
  const { agentTurnId } = jsonOf<TurnView>(asked);
  const agents = async (...args: string[]) =>
    jsonOf<{ items: readonly AgentView[] }>(await cli(['agents', 'ls', '--json', ...args])).items.map(
      ({ agentId }) => agentId,
    );
  expect(await agents('--tenant', 'acme')).toEqual(['acme~tina']);
  expect(await agents('--tenant', 'beta')).toEqual([]);
  expect((await cli(['turn', 'show', agentTurnId], acme)).code).toBe(0);
  expect((await cli(['turn', 'show', agentTurnId, '--tenant', 'beta'])).code).toBe(1);
  const chat = await cli(['chat', 'tina', '--profile', 'clerk'], { ...acme, input: 'hello' });
  expect([chat.code, chat.stderr]).toEqual([0, expect.anything()]);
  expect(await agents('--tenant', 'acme')).toEqual(['acme~tina', expect.stringMatching(/^acme~tina~/)]);
});

/** What an agent has between its turns, from the command line: its page, work, waits, triggers, wakes, and the list that is watched. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { AGENT_STATE_TOOLS } from '../../../activities/tools/builtin/registry.ts';
import type { MadeTrigger } from '../../../client/api.ts';
import type { ModelAnswer } from '../../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import type { ScheduledWorkItem } from '../../../workflows/agent-state/work-items.ts';
import type { AgentSummary } from '../../../workflows/contract/agent-summary.ts';
import type { AgentView } from '../../../workflows/contract/views.ts';
import { testApp } from '../../support/app.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';
import { commandsIn, type RunCommand } from './in-process.ts';
import { jsonOf, startCli, startInTerminal } from './processes.ts';

let harness: Harness;
let model: ModelServer;
let env: Record<string, string>;

const call = (name: string, args: object): ModelAnswer => ({ kind: 'message', toolCalls: [{ name, arguments: args }] });
const PLAN: readonly ModelAnswer[] = [
  call('create_work_item', {
    objective: 'write the report',
    plan_status: 'needs_input',
    todo_list: [
      { text: 'ask for figures', state: 'completed' },
      { text: 'write it', state: 'pending' },
    ],
  }),
  call('set_timer', { after_seconds: 3_600, every_seconds: 7_200, reason: 'see again' }),
  call('create_trigger', { name: 'figures' }),
  call('wait_for', { wake: 'external', reason: 'the figures come' }),
];

beforeAll(async () => {
  harness = await openHarness();
  model = await startModelServer({
    answer: ({ messages }) => {
      const asked = messages.findLastIndex(({ role }) => role === 'user');
      const step = messages.slice(asked).filter(({ role }) => role === 'assistant').length;
      const said: ModelAnswer = { kind: 'message', content: 'done' };
      return messages[asked]?.content === 'plan' ? (PLAN[step] ?? said) : said;
    },
  });
  await harness.startWorker(testApp([], { name: 'keeper', builtins: [...AGENT_STATE_TOOLS] }), model);
  env = {
    TEMPORAL_ADDRESS: harness.address,
    TEMPORAL_NAMESPACE: harness.namespace,
    AGENTTURN_STORE: harness.storeUrl,
  };
}, WAIT.timeoutMs);
afterAll(async () => {
  await harness?.close();
  await model?.close();
});

const cli: RunCommand = (args, more) => commandsIn(env)(args, more);

async function agentAfter(agentId: string, instruction: string) {
  const agent = harness.client.agent(agentId, { profile: 'keeper' });
  const turn = await agent.enqueue({ instruction });
  expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  return { agent, turn };
}

const errorOf = (code: string) => ({ error: { code, message: expect.any(String), cure: expect.any(String) } });

test('agents get shows what an agent is at, why, and all that shows it', async () => {
  const { agent, turn } = await agentAfter('ann', 'plan');
  const summary = await agent.get();
  const shown = jsonOf<AgentSummary & { held: null }>(await cli(['agents', 'get', 'ann', '--json']));
  expect(shown).toEqual({ ...summary, held: null, readAt: expect.any(Number) });
  const [item, wait, timer, trigger] = [
    shown.workItems[0]?.workItemId,
    shown.activeWaits[0]?.waitId,
    shown.activeTimers[0]?.timerId,
    shown.activeExternalTriggers[0]?.triggerId,
  ];
  const { code, stdout } = await cli(['agents', 'get', 'ann']);
  expect(code).toBe(0);
  for (const line of [
    'agent +ann, profile keeper, epoch 1',
    `posture +waiting_for_external: the figures come \\(wait ${wait}\\)`,
    `closure +waiting, awaiting_operator_input: work item ${item} needs input`,
    `hint +it waits for a person: agentturn enqueue --agent ann .*`,
    'turns +1 accepted, 0 queued',
    'tokens +\\d+ in \\(\\d+ cached\\), \\d+ out',
    'cost +not known',
    `${item} +waiting_operator +needs_input +1/2 +1 +20\\S+Z +write the report`,
    `${wait} +external +active +20\\S+Z +- +- +the figures come`,
    `${timer} +20\\S+Z +120 min 0 s +see again`,
    `${trigger} +0 +- +20\\S+Z +- +figures`,
    `${turn.id} +success +1 +\\d+ +20.* plan`,
  ])
    expect(stdout).toMatch(new RegExp(`^${line}$`, 'm'));
});

test('work and waits are listed and shown', async () => {
  await agentAfter('bob', 'plan');
  const { items: workItems, next } = jsonOf<{ items: ScheduledWorkItem[]; next: null }>(
    await cli(['work', 'ls', 'bob', '--json']),
  );
  expect([workItems.length, next]).toEqual([1, null]);
  const id = workItems[0]?.workItemId ?? '';
  expect((await cli(['work', 'ls', 'bob'])).stdout).toContain(`${id}  waiting_operator`);
  const shown = await cli(['work', 'show', 'bob', id]);
  expect(shown.stdout).toMatch(new RegExp(`^work item +${id}, revision 1$`, 'm'));
  expect(shown.stdout).toMatch(/^state +waiting_operator$/m);
  expect(shown.stdout).toContain('  [x] ask for figures\n  [ ] write it');
  expect(jsonOf(await cli(['work', 'show', 'bob', id, '--json']))).toEqual(workItems[0]);
  expect(jsonOf(await cli(['work', 'show', 'bob', 'work_0', '--json']))).toEqual(errorOf('not_found'));
  expect((await cli(['waits', 'ls', 'bob', '--all'])).stdout).toMatch(
    /^wait_\w+ +external +active .* the figures come$/m,
  );
  expect(jsonOf(await cli(['waits', 'ls', 'bob', '--json']))).toMatchObject({ items: [{ kind: 'external' }] });
  await agentAfter('idler', 'hello');
  expect((await cli(['work', 'ls', 'idler'])).stdout).toBe('no work items\n');
  expect((await cli(['waits', 'ls', 'idler'])).stdout).toBe('it waits for nothing\n');
});

test('triggers are made, listed and revoked, though no Temporal server answers', async () => {
  const { agent } = await agentAfter('cid', 'hello');
  const alone = { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } };
  const made = await cli(['triggers', 'create', 'cid', 'mail'], alone);
  expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining('it is not shown again') });
  expect(made.stdout).toMatch(/^\/v1\/wake\/wk_[\w-]{43}\n$/);
  const token = made.stdout.trim().slice('/v1/wake/'.length);
  expect(await harness.client.fireTrigger(token, { text: 'a letter' })).toEqual({ disposition: 'woken' });
  const second = jsonOf<MadeTrigger>(await cli(['triggers', 'create', 'cid', 'post', '--json'], alone));
  expect(second).toMatchObject({ name: 'post', path: `/v1/wake/${second.token}` });
  const listed = await cli(['triggers', 'ls', 'cid'], alone);
  expect(listed.stdout).toMatch(/^trigger_\w+ +1 +20\S+Z +20\S+Z +- +mail$/m);
  expect(listed.stdout).not.toContain('wk_');
  const first = await cli(['triggers', 'ls', 'cid', '--limit', '1'], alone);
  const [, more = ''] = /^there are more: npm run agentturn -- (.+)$/m.exec(first.stderr) ?? [];
  expect((await cli(more.split(' '), alone)).stdout).toContain(second.triggerId);
  const revoked = await cli(['triggers', 'revoke', 'cid', second.triggerId], alone);
  expect(revoked).toMatchObject({ code: 0, stdout: expect.stringContaining('is revoked') });
  expect(jsonOf(await cli(['triggers', 'ls', 'cid', '--json'], alone))).toMatchObject({ items: [{ name: 'mail' }] });
  expect((await cli(['triggers', 'ls', 'cid', '--all'], alone)).stdout).toContain(second.triggerId);
  expect(jsonOf(await cli(['triggers', 'revoke', 'cid', 'trigger_0', '--json'], alone))).toEqual(errorOf('not_found'));
  expect(jsonOf(await cli(['triggers', 'create', 'cid', ' ', '--json'], alone))).toEqual(errorOf('invalid_request'));
  expect(await agent.triggers.list()).toHaveLength(2);
});

test('agents wake makes an agent go on, once for each key', async () => {
  const { agent } = await agentAfter('dee', 'hello');
  const woken = await cli(['agents', 'wake', 'dee', 'the mail is here', '--key', 'k', '--json']);
  expect(woken.code).toBe(0);
  expect(jsonOf(woken)).toEqual({ agentId: 'dee', disposition: 'woken' });
  expect((await cli(['agents', 'wake', 'dee', '-', '--key', 'k'], { input: 'again' })).stdout).toMatch(/^duplicate: /);
  expect(jsonOf(await cli(['agents', 'wake', 'dee', ' ', '--json']))).toEqual(errorOf('invalid_request'));
  await agent.stop();
  const refused = await cli(['agents', 'wake', 'dee', 'now', '--json']);
  expect([refused.code, jsonOf(refused)]).toEqual([1, errorOf('agent_stopped')]);
  expect((await cli(['agents', 'get', 'dee'])).stdout).toMatch(/^hint +it is stopped .* agents start dee$/m);
});

test.each([
  [['agents', 'wake', 'nobody', 'x']],
  [['work', 'ls', 'nobody']],
  [['work', 'show', 'nobody', 'work_0']],
  [['waits', 'ls', 'nobody']],
  [['triggers', 'ls', 'nobody']],
  [['triggers', 'create', 'nobody', 'x']],
  [['triggers', 'revoke', 'nobody', 'trigger_0']],
])('%j of one that is not there is an error', async (args) => {
  const missing = await cli([...args, '--json']);
  expect([missing.code, jsonOf(missing)]).toEqual([1, errorOf('agent_not_found')]);
});

test('agents ls finds agents by what they are at, and goes on with the next page of those', async () => {
  for (const agentId of ['fay-1', 'fay-2']) {
    const { agent } = await agentAfter(agentId, 'hello');
    await agent.stop();
  }
  const listed = async (...more: string[]) =>
    jsonOf<{ items: AgentView[] }>(await cli(['agents', 'ls', '--json', ...more])).items.map(({ agentId }) => agentId);
  expect(await listed('--posture', 'archived')).toEqual(expect.arrayContaining(['fay-1', 'fay-2']));
  expect(await listed('--status', 'stopped', '--profile', 'keeper')).toEqual(
    expect.arrayContaining(['fay-1', 'fay-2']),
  );
  expect(await listed('--posture', 'archived', '--profile', 'other')).toEqual([]);
  expect((await cli(['agents', 'ls', '--posture', 'blocked'])).stdout).toBe('no such agents\n');
  const page = await cli(['agents', 'ls', '--posture', 'archived', '--limit', '1']);
  expect(page.stdout).toMatch(/^\S+ +keeper +archived +stopped +0 +0 +20\S+Z +- +an operator has stopped the agent$/m);
  expect(page.stderr).toContain('agents ls --posture archived --limit 1 --after ');
  expect(await cli(['agents', 'ls', '--posture', 'lazy'])).toMatchObject({ code: 2 });
});

test('agents ls leaves one-shot agents out that have ended, says so, and shows them when asked', async () => {
  const ended = await harness.client.run('keeper', { instruction: 'hello' });
  const { agentId } = await ended.result(WAIT);
  const seen = async (...more: string[]) => {
    const { stdout, stderr } = await cli(['agents', 'ls', '--profile', 'keeper', ...more]);
    return { isShown: stdout.includes(agentId), stderr };
  };
  const without = await seen();
  expect(without.isShown).toBe(false);
  const hint = /^1 one-shot agent whose turn has ended is left out: .*agents ls --profile keeper --all\n$/;
  expect(without.stderr).toMatch(hint);
  expect(await seen('--all')).toEqual({ isShown: true, stderr: '' });
  const { items } = jsonOf<{ items: AgentView[] }>(await cli(['agents', 'ls', '--one-shot', '--json']));
  expect(items.map((agent) => agent.agentId)).toEqual([agentId]);
  const none = await cli(['agents', 'ls', '--after', '~', '--all']);
  expect(none).toMatchObject({ code: 0, stderr: '' });
  expect(await cli(['agents', 'ls', '--all', '--one-shot'])).toMatchObject({ code: 2 });
});

test('agents ls --watch prints what changes, and ends with Ctrl-C', async () => {
  const args = ['agents', 'ls', '--watch', '--posture', 'archived'];
  const [lines, json] = [startCli(args, { env }), startCli([...args, '--json'], { env })];
  const { agent } = await agentAfter('gus', 'hello');
  await agent.stop();
  await Promise.all([lines.until(/^gus +keeper +archived .*$/m), json.until(/^\{"agentId":"gus",.*\}$/m)]);
  await agent.start();
  await Promise.all([
    lines.until(/^gus +is not in the list any more$/m),
    json.until(/^\{"agentId":"gus","gone":true\}$/m),
  ]);
  const ended = await Promise.all([lines.end('SIGINT'), json.end('SIGINT')]);
  expect(ended.map(({ code }) => code)).toEqual([0, 0]);
  expect(ended[0]?.stdout).not.toContain('\u001b');
});

test('agents ls --watch draws the list anew on a terminal when something has changed', async () => {
  const { agent } = await agentAfter('hal', 'hello');
  const terminal = startInTerminal(['agents', 'ls', '--watch', '--profile', 'keeper'], { env });
  const drawn = (posture: string) => new RegExp(`^AGENT.*\\n(.*\\n)*hal +keeper +${posture} `);
  await terminal.until(drawn('idle'));
  await agent.stop();
  // In place of the list that was there, not below it.
  await terminal.until(drawn('archived'));
  terminal.press('C-c');
  expect(await terminal.ended).toBe(0);
});

test('rebuild looks at each agent, or at one, and says what was wrong', async () => {
  const all = await cli(['rebuild']);
  expect(all).toMatchObject({ code: 0 });
  expect(all.stdout).toMatch(/^\d+ agents looked at$/m);
  expect(jsonOf(await cli(['rebuild', 'ann', '--json']))).toEqual({ agents: 1, items: [] });
  expect(await cli(['rebuild', 'nobody'])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('agent_not_found'),
  });
});

/** Chats from the command line without a terminal: piped messages, the lists of chats, and turns of chats. Real processes. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { ChatHandle, SessionPart } from '../../../../client/chat/api.ts';
import type { ChatTerminal } from '../../../../workflows/chat/terminal.ts';
import type { MessageView, SessionView } from '../../../../workflows/contract/chat.ts';
import { suspended } from '../../../support/asking.ts';
import { WAIT } from '../../../support/wait.ts';
import { ADD, type Installation, openInstallation, PERSON, REFUND, say } from '../installation.ts';
import { emptyFolder, jsonOf, runCli } from '../processes.ts';

let installation: Installation;
beforeAll(async () => {
  installation = await openInstallation({
    hello: [say('hello ann')],
    sum: [ADD, say('it is 5')],
    refused: [{ kind: 'message', refusal: 'not this' }],
    empty: [],
    person: [PERSON, say('signed')],
    refund: [REFUND, say('paid')],
    again: [say('here again')],
    cut: Array(4).fill({ kind: 'message', content: 'and so on ', finishReason: 'length' }),
    thinks: [{ kind: 'message', content: '', finishReason: 'length' }],
  });
}, WAIT.timeoutMs);
afterAll(() => installation?.close());

const chat = (input: string, ...more: readonly string[]) =>
  installation.cli(['chat', 'clerk', '--as', 'ann', ...more], { input });
const handle = (chatId: string): ChatHandle => installation.harness.client.chat('clerk', chatId);

describe('a piped message', () => {
  test('prints its answer and nothing else, and is remembered (C11)', async () => {
    expect(await chat('[script:sum] 2+3?\n', '--chat', 'sum')).toEqual({ code: 0, stdout: 'it is 5\n', stderr: '' });
    const [message] = await handle('sum').messages();
    expect(message).toMatchObject({
      sender: { agentId: 'ann' },
      payload: { text: '[script:sum] 2+3?' },
      status: 'done',
    });
  });

  test('of a turn that fails or is denied ends with 1, and says why and what to do on standard error (C11)', async () => {
    const failed = await chat('[script:empty] go', '--chat', 'empty');
    expect(failed).toMatchObject({ code: 1, stdout: '' });
    expect(failed.stderr).toMatch(/^failed \[provider_error\]: .+\nnext: .+\nthe whole turn: .*turn show \S+\n$/);
    const denied = await chat('[script:refused] go', '--chat', 'refused');
    expect(denied).toMatchObject({ code: 1, stdout: '' });
    expect(denied.stderr).toMatch(/^denied \[policy_denied, provider_refusal\]: .+\nnext: Say it in other words/);
  });

  test('whose answer stays cut short prints what there is of it, and says that it is not whole (K11)', async () => {
    const cut = await chat('[script:cut] go', '--chat', 'cut');
    expect(cut).toMatchObject({ code: 1, stdout: `${'and so on '.repeat(4)}\n` });
    expect(cut.stderr).toMatch(
      /^failed \[timeout, answer_truncated\]: the answer was cut short by the output limit of .+, and is not whole\nnext: Ask it to go on/,
    );
    const thinks = await chat('[script:thinks] go', '--chat', 'thinks');
    expect(thinks).toMatchObject({ code: 1, stdout: '' });
    expect(thinks.stderr).toMatch(/^failed \[timeout, answer_truncated\]: the model said nothing before/);
  });

  test('--json prints a line for each part of the session from the message on, and then the terminal', async () => {
    await chat('[script:hello] hi', '--chat', 'json');
    const { code, stdout, stderr } = await chat('[script:sum] 2+3?', '--chat', 'json', '--json');
    expect([code, stderr]).toEqual([0, '']);
    const lines: (SessionPart | ({ type: 'terminal' } & ChatTerminal))[] = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.map(({ type }) => type).filter((type) => type !== 'text' && type !== 'call_delta')).toEqual([
      ...['message', 'step', 'result', 'step', 'end', 'terminal'],
    ]);
    expect(lines[0]).toMatchObject({ type: 'message', seq: 2, placement: 'turn' });
    expect(lines.at(-1)).toMatchObject({ status: 'completed', chatId: 'json', deliverable: { text: 'it is 5' } });
  });

  test('says what its turn waits for, and Ctrl-C leaves the turn alone', async () => {
    const waiting = installation.start(['chat', 'clerk', '--chat', 'waits'], { input: '[script:person] sign' });
    await waiting.until(/tool-result \S+ \S+ --result /);
    const { code, stdout, stderr } = await waiting.end('SIGINT');
    const [turn] = await handle('waits').agent.turns();
    expect([code, stdout]).toEqual([130, '']);
    expect(stderr).toContain(`turn ${turn?.agentTurnId} goes on without you`);
    expect(turn?.status).toBe('suspended');
  });

  test('that is rejected says so', async () => {
    await handle('busy').send('[script:person] sign');
    const rejected = await chat('[script:hello] hi', '--chat', 'busy', '--policy', 'reject');
    expect(rejected).toMatchObject({ code: 1, stdout: '' });
    expect(rejected.stderr).toMatch(/^error \[agent_busy\]: .*rejected/);
    const json = await chat('[script:hello] hi', '--chat', 'busy', '--policy', 'reject', '--json');
    expect(json.code).toBe(1);
    const [part, error] = json.stdout.trimEnd().split('\n');
    expect(JSON.parse(part ?? '')).toMatchObject({ type: 'message', placement: 'rejected' });
    expect(JSON.parse(error ?? '')).toMatchObject({ error: { code: 'agent_busy' } });
  });

  test.each([
    ['an empty input', ['chat', 'clerk'], '\n', 'standard input is empty'],
    ['nobody named among several', ['chat'], 'hi', 'say with whom to chat: clerk, remote'],
    ['an id that is none', ['chat', 'clerk', '--chat', '../x'], 'hi', 'expected 1 to 128 of letters'],
    ['a sender that is none', ['chat', 'clerk', '--as', 'ann b'], 'hi', 'expected 1 to 128 of letters'],
    ['a policy that is none', ['chat', 'clerk', '--policy', 'wait'], 'hi', 'Allowed choices are collect, steer'],
  ])('%s is an error of the command line', async (_, args, input, message) => {
    const { code, stdout, stderr } = await installation.cli(args, { input });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
  });

  test('to nobody says who is there', async () => {
    const { code, stderr } = await installation.cli(['chat', 'clark'], { input: 'hi' });
    expect(code).toBe(1);
    expect(stderr).toContain('no agent is named clark, there are clerk, remote; did you mean clerk?');
  });

  test('where nothing runs says what to start', async () => {
    const nowhere = await runCli(['chat', 'clerk'], { cwd: emptyFolder(), input: 'hi' });
    expect(nowhere).toMatchObject({ code: 1, stdout: '' });
    expect(nowhere.stderr).toMatch(/no store [\s\S]*agentturn -- dev/);
    const env = { AGENTTURN_STORE: installation.harness.storeUrl, TEMPORAL_ADDRESS: '127.0.0.1:1' };
    const alone = await runCli(['chat', 'clerk'], { env, input: 'hi' });
    expect(alone).toMatchObject({ code: 1, stdout: '' });
    expect(alone.stderr).toMatch(/error \[temporal_unreachable\].*\ncure: Start one with .*agentturn -- dev/);
  });
});

describe('what was said', () => {
  beforeAll(async () => {
    await chat('[script:hello] hi', '--chat', 'list');
    await chat('[script:again] again', '--chat', 'list');
  });

  test('chats ls lists chats, page by page; chats alone does the same', async () => {
    const { cli } = installation;
    const page = jsonOf<{ items: SessionView[]; next: string }>(await cli(['chats', 'ls', '--json', '--limit', '1']));
    expect(page.items).toHaveLength(1);
    const rest = jsonOf<{ items: SessionView[] }>(await cli(['chats', '--json', '--after', page.next]));
    const all = jsonOf<{ items: SessionView[] }>(await cli(['chats', '--json', '--agent', 'clerk']));
    expect([...page.items, ...rest.items]).toEqual(all.items);
    const { stdout } = await cli(['chats', 'ls']);
    expect(stdout).toMatch(/^AGENT +CHAT +PROFILE +MESSAGES +LAST MESSAGE +SESSION$/m);
    expect(stdout).toMatch(/^clerk +list +clerk +2 +20\S+Z +clerk~list$/m);
    expect((await cli(['chats', 'ls', '--agent', 'remote'])).stdout).toMatch(
      /^no chats with remote yet: .* chat remote$/m,
    );
  });

  test('chats messages lists messages with their status and turn', async () => {
    const { cli } = installation;
    const args = ['chats', 'messages', 'clerk', 'list'];
    const { items } = jsonOf<{ items: MessageView[] }>(await cli([...args, '--json']));
    expect(items.map(({ seq, status }) => [seq, status])).toEqual([
      [1, 'done'],
      [2, 'done'],
    ]);
    const first = await cli([...args, '--limit', '1']);
    expect(first.stdout).toMatch(
      new RegExp(`^1 +20\\S+Z +ann +done +collect +${items[0]?.agentTurnId} +\\[script:hello\\] hi$`, 'm'),
    );
    expect(first.stderr).toMatch(/there are more: .*chats messages clerk list --limit 1 --after 1$/m);
    expect((await cli([...args, '--after', '1'])).stdout).toContain('[script:again] again');
    expect(await cli(['chats', 'messages', 'clerk', 'none'])).toMatchObject({ code: 1, stdout: '' });
    expect(await cli([...args, '--after', 'x'])).toMatchObject({ code: 2, stdout: '' });
  });

  test('turn show of a chat says which chat, and how it ended for who chats', async () => {
    const { cli } = installation;
    const sent = await handle('shown').send('[script:empty] go');
    const id = (await sent.terminal()).turnId;
    const { stdout } = await cli(['turn', 'show', id]);
    expect(stdout).toMatch(/^chat +shown, session clerk~shown$/m);
    expect(stdout).toMatch(/^ended +failed, provider_error; next: Check the status/m);
    expect(jsonOf(await cli(['turn', 'show', id, '--json']))).toMatchObject({
      chat: { chatId: 'shown' },
      terminal: { status: 'failed', failure: { class: 'provider_error' } },
    });
  });
});

describe('a turn that is broken off', () => {
  test('turn interrupt ends it, and what it had not read is the next turn', async () => {
    const { cli } = installation;
    const first = await handle('interrupted').send('[script:person] sign');
    if (!first.turn) throw new Error('it has no turn');
    await suspended(first.turn);
    const steer = await handle('interrupted').send('[script:hello] and hello', { policy: 'steer' });
    const ended = await cli(['turn', 'interrupt', first.turn.id, '--reason', 'something else']);
    expect(ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/^stopped: .*are the next turn$/m) });
    expect(await first.terminal()).toMatchObject({ failure: { code: 'stopped', reason: 'something else' } });
    expect(await steer.terminal()).toMatchObject({ status: 'completed', deliverable: { text: 'hello ann' } });
    const again = jsonOf(await cli(['turn', 'interrupt', first.turn.id, '--json']));
    expect(again).toMatchObject({ ack: 'already_ended' });
    expect(await cli(['turn', 'interrupt', '01900000-0000-7000-8000-000000000000'])).toMatchObject({ code: 1 });
  });

  test('turn rollback ends it, and it is not remembered', async () => {
    const { cli, model } = installation;
    const first = await handle('back').send('[script:person] sign');
    if (!first.turn) throw new Error('it has no turn');
    await suspended(first.turn);
    const ended = await cli(['turn', 'rollback', first.turn.id]);
    expect(ended.stdout).toMatch(/^stopped: the turn has ended, and its agent does not remember it/);
    await (await handle('back').send('[script:again] and now?')).terminal();
    expect(JSON.stringify(model.requests.at(-1)?.messages)).not.toContain('sign');
  });
});

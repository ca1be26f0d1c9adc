/**
 * `agentturn chat` as a person sees it: in a real terminal of 80 columns, against a real `agentturn dev`. With AGENTTURN_SCREENSHOTS a picture of
 * the terminal is kept in that folder.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { type ChatRequest, textOf } from '../../../../workers/model-server/chat-request.ts';
import type { ModelAnswer } from '../../../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../../../workers/model-server/wire.ts';
import { launchBrowser } from '../../../support/browser.ts';
import { Terminal } from '../../../support/terminal.ts';
import { terminalPage } from '../../../support/terminal-picture.ts';
import { WAIT } from '../../../support/wait.ts';
import { type CliProcess, emptyFolder, keptEnvironment, runCli, startCli } from '../processes.ts';

const APP = fileURLToPath(new URL('chat-app.ts', import.meta.url));
const PROGRAM = fileURLToPath(new URL('../../../../workers/main.ts', import.meta.url));
const SCREENSHOTS = process.env.AGENTTURN_SCREENSHOTS;

const folder = emptyFolder();
const open = (file: string): void => writeFileSync(join(folder, file), '');

const call = (name: string, args: object, content: string): ModelAnswer => ({
  kind: 'message',
  content,
  toolCalls: [{ name, arguments: args }],
  chunkDelayMs: 20,
});
const says = (content: string): ModelAnswer => ({ kind: 'message', content });

/** A wide text that is longer than a row. */
const LONG = `${'The order has left the house, and this is what is known of it: '.repeat(3)}注文は届きました。`;
const held = { asked: Promise.withResolvers<void>(), opened: Promise.withResolvers<void>() };
const NOTHING = { role: 'user', content: '' } as const;

/** What the assistant says to the last message of a user, and to what its calls have come to. */
async function answer({ messages }: ChatRequest): Promise<ModelAnswer> {
  const asked = textOf(messages.findLast(({ role }) => role === 'user') ?? NOTHING);
  const last = messages.at(-1) ?? NOTHING;
  if (last.role === 'tool' && textOf(last).includes('refunded'))
    return says('Done: 200 are on their way back to you. You keep the chair.');
  if (asked.includes('I keep the chair'))
    return call('refund', { order: 'A-7', amount: 250 }, 'It arrived broken, and was paid: I ask for the refund.');
  if (asked.includes('A-7')) return call('find_order', { order: 'A-7' }, 'Let me look at the order.');
  if (asked === 'wait for ever') return call('find_order', { order: 'never' }, 'Wait.');
  if (asked === 'hold it') {
    held.asked.resolve();
    await held.opened.promise;
    return says('it was held');
  }
  if (asked === 'where is it?') return { kind: 'message', content: LONG, chunkDelayMs: 20 };
  return says(`heard: ${asked}`);
}

let model: ModelServer;
let dev: CliProcess;

const startDev = (): CliProcess =>
  startCli(['dev', '--app', APP, '--port', '0', '--ui-port', '0', '--gateway-port', '0', '--json'], {
    cwd: folder,
    env: { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'test' },
  });

const terminals: Terminal[] = [];

async function openChat(...more: readonly string[]): Promise<Terminal> {
  const words = [process.execPath, '--conditions=agentturn:source', PROGRAM, 'chat', '--as', 'ann', ...more];
  const terminal = new Terminal(words, { cwd: folder, env: keptEnvironment() });
  terminals.push(terminal);
  await terminal.until(/^ann> $|^ann>$/m);
  return terminal;
}

async function picture(terminal: Terminal, name: string): Promise<void> {
  if (SCREENSHOTS === undefined) return;
  mkdirSync(SCREENSHOTS, { recursive: true });
  const browser = await launchBrowser();
  try {
    const page = await browser.newPage({ viewport: { width: 900, height: 900 }, deviceScaleFactor: 2 });
    await page.setContent(terminalPage(terminal.screen({ colours: true }), 'npx agentturn chat'));
    await page.locator('#terminal').screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
  } finally {
    await browser.close();
  }
}

beforeAll(async () => {
  model = await startModelServer({ answer });
  dev = startDev();
  await dev.until(/\{"ready".*\n/);
}, WAIT.timeoutMs);
afterEach(async () => {
  await Promise.all(terminals.splice(0).map((terminal) => terminal.close()));
});
afterAll(async () => {
  await dev?.end();
  await model?.close();
});

describe('a chat at a terminal', () => {
  test('a call is shown with its arguments, a steer with its status, a question is answered, and the end says what it took (C11)', async () => {
    const terminal = await openChat();
    terminal.send('My chair, order A-7, is broken. Can I have my money back?');
    await terminal.until(/^ann> My chair.*\n(.*\n)*Let me look at the order\.\n *· find_order \{"order":"A-7"\}$/m);
    terminal.send('/steer 200 is enough, I keep the chair');
    await terminal.until(/^\(steered\) ann> 200 is enough, I keep the chair$/m);
    terminal.type('thank');
    open('A-7');
    const asked = await terminal.until(/^run refund\? \[y\/n\/\{…\}\] thank$/m);
    expect(asked).toMatch(/^ {2}✓ find_order \{"order":"A-7"\} {2}\S+ m?s$/m);
    // The message stands where it was read: before what was said to it.
    expect(asked).toMatch(/^ann> 200 is enough, I keep the chair\n\nIt arrived broken/m);
    expect(asked).toMatch(/^\? may refund run with \{"order":"A-7","amount":250\}\?\n {2}why: refunds are money\n/m);
    terminal.press('C-u');
    terminal.send('{"order":"A-7","amount":200}');
    const done = await terminal.until(/You keep the chair\.\n.*tokens in.*\n+ann>$/m);
    expect(done).toMatch(/^ {2}refund: approved by ann$/m);
    expect(done).toMatch(/^ {2}✓ refund \{"order":"A-7","amount":200\} {2}\S+ m?s$/m);
    await picture(terminal, 'chat-terminal');
  });

  test('an answer is shown while it is written, in whole words, and what is typed meanwhile stays below it (C11)', async () => {
    const terminal = await openChat('--chat', 'stream');
    terminal.send('where is it?');
    await terminal.until(/^The order has left/m);
    terminal.type('and when');
    const screen = await terminal.until(/注文は届きました。\n.* out\n+ann> and when$/m);
    const rows = screen.split('\n');
    const first = rows.findIndex((row) => row.startsWith('The order has left'));
    expect(rows.slice(first, first + 4).join(' ')).toContain(LONG);
    expect(rows.filter((row) => row.startsWith('ann>'))).toHaveLength(2);
    // A line that is longer than a row is drawn over as a whole when it is sent, and when the terminal becomes another size.
    terminal.type(` will it be here, ${'at the very latest, '.repeat(5)}please?`);
    await terminal.until(/^ann> and when will it be here(.*\n)+.*please\?$/m);
    terminal.resize(100, 24);
    await terminal.until(/^ann> and when.{85,}$/m);
    terminal.resize(80, 24);
    terminal.press('Enter');
    const sent = await terminal.until(/^heard: and when(.*\n)+.* out\n+ann>$/m);
    expect(sent.split('\n').filter((row) => row.includes('and when'))).toHaveLength(2);
    expect(sent.match(/please\?/g)).toHaveLength(2);
  });

  test('Ctrl-C ends the turn and says so, what waits is next, and where nothing runs Ctrl-C leaves (C11)', async () => {
    const terminal = await openChat('--chat', 'stop');
    terminal.send('wait for ever');
    await terminal.until(/· find_order \{"order":"never"\}/);
    terminal.send('/status');
    await terminal.until(/^ {2}turn +\S+: running for .*\n/m);
    terminal.send('what now?');
    await terminal.until(/^\(queued\) ann> what now\?$/m);
    terminal.press('C-c');
    const stopped = await terminal.until(/heard: what now\?\n.* out\n+ann>$/m);
    expect(stopped).toMatch(/^✗ failed \[stopped\]: stopped by ann in the chat\n {2}next: Send the next/m);
    terminal.send('/status');
    await terminal.until(/^ {2}turn +none is at work; the last one, *\n? *\S+: success$/m);
    terminal.press('C-c');
    await terminal.until(/^ended: 0$/m);
  });

  test('a person who leaves is told that the turn goes on, and sees the rest later; the commands say how things stand (C11)', async () => {
    const terminal = await openChat('--chat', 'later');
    terminal.send('hold it');
    await held.asked.promise;
    terminal.press('C-d');
    await terminal.until(/^turn \S+ goes on without you; to see it again:\n?.*chat assistant --chat later\nended: 0$/m);
    const again = await openChat('--chat', 'later');
    held.opened.resolve();
    await again.until(/^ann> hold it\n\nit was held$/m);
    again.send('/cost');
    await again.until(/^ {2}chat +\d+ tokens in, \d+ out, 1 turn; no price is known$/m);
    again.send('/queue interrupt');
    await again.until(/^ {2}messages while a turn is at work: interrupt$/m);
    again.send('/agents');
    await again.until(/^ {2}agents: assistant$/m);
    again.send('/stauts');
    await again.until(/there is no command \/stauts: did you mean \/status\?/);
    again.paste('first\n\tsecond');
    await again.until(/^ann> first \[\+1 line #1\]$/m);
    again.press('Enter');
    await again.until(/^heard: first\n +second$/m);
    again.press('Up');
    await again.until(/^ann> first \[\+1 line #1\]$/m);
  });

  test('two people in one chat see what the other writes, and the answers (C11)', async () => {
    const ann = await openChat('--chat', 'both');
    const words = [process.execPath, '--conditions=agentturn:source', PROGRAM, 'chat', '--as', 'bob', '--chat', 'both'];
    const bob = new Terminal(words, { cwd: folder, env: { ...keptEnvironment(), NO_COLOR: '1' }, columns: 40 });
    terminals.push(bob);
    await bob.until(/^bob>$/m);
    ann.send('is anybody here?');
    await bob.until(/^ann> is anybody here\?\n\nheard: is anybody here\?$/m);
    bob.send('yes, me');
    await ann.until(/^bob> yes, me\n\nheard: /m);
    ann.send('my password is x');
    // Before any step of its turn, the message stands above its end.
    await bob.until(/^ann> my password is x\n\n✗ denied \[policy_denied\]: secrets stay\n.*\n {2}next: Ask for/m);
    expect(bob.screen({ colours: true })).not.toContain('\u001b');
    expect(ann.screen({ colours: true })).toContain('\u001b');
  });
});

test('a server that dies while somebody chats is waited for, and the turn goes on when it is back (C11)', async () => {
  const terminal = await openChat('--chat', 'outage');
  terminal.send('where is it?');
  await terminal.until(/^The order has left/m);
  await dev.end('SIGKILL');
  await terminal.until(/waits: The Temporal server does not answer\. Start the server/);
  expect(await runCli(['chats', '--json'], { cwd: folder })).toMatchObject({ code: 0 });
  dev = startDev();
  await terminal.until(/注文は届きました。\n.* out\n+ann>$/m);
});

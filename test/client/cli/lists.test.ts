/** What an operator reads of a whole store: transcripts, all turns, their costs, and what waits for an answer. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { openSqliteStore } from '../../../activities/store/sqlite/open.ts';
import { runCli } from '../../../client/cli/cli.ts';
import { clientCommands } from '../../../client/cli/client-commands.ts';
import type { CliEnvironment } from '../../../client/cli/environment.ts';
import { entryLines } from '../../../client/cli/transcript.ts';
import { printCosts } from '../../../client/cli/turn-list.ts';
import { commandLine } from '../../../client/command-line.ts';
import type { Lease } from '../../../workflows/contract/lease.ts';
import type { TranscriptEntry } from '../../../workflows/contract/transcript.ts';
import { fenceOf, StoreBench } from '../../activities/store/store-bench.ts';

const path = join(mkdtempSync(join(tmpdir(), 'agentturn-lists-')), 'agentturn.db');
const bench = new StoreBench(() => (now, options) => openSqliteStore({ path, now, ...options }));

/** A turn that asks whether it may pay and waits for a person's words, with another one queued behind it. */
async function asking(): Promise<{ readonly lease: Lease; readonly paid: string; readonly asked: string }> {
  const lease = await bench.started('clerk-7');
  const { calls } = await bench.think(lease, 1, ['pay', 'ask_person']);
  const [paid = '', asked = ''] = calls.map(({ callId }) => callId);
  await bench.store.askApprovals(fenceOf(lease), [{ callId: paid, kind: 'call', tool: 'pay', reason: 'money leaves' }]);
  bench.now += 1;
  await bench.store.suspendCall(fenceOf(lease), asked, 60_000);
  await bench.accepted('clerk-7', { profile: undefined });
  return { lease, paid, asked };
}

async function cli(...argv: readonly string[]): Promise<{ readonly code: number; readonly text: string }> {
  const lines: string[] = [];
  const say = (line: string) => void lines.push(line);
  const no = () => Promise.reject(new Error('not in this test'));
  const io = { out: say, err: say, live: false, readStdin: no };
  const openStore = () => openSqliteStore({ path });
  const environment = {
    io,
    openStore,
    openClient: no,
    findStall: async () => null,
    terminal: () => null,
    interruption: () => AbortSignal.abort(),
    writeJournals: no,
  };
  const code = await runCli(argv, { version: '0', io }, [clientCommands(environment)]);
  return { code, text: lines.join('\n') };
}

describe('an operator', () => {
  let turn: Awaited<ReturnType<typeof asking>>;
  beforeAll(async () => {
    turn = await asking();
  });
  afterAll(() => bench.store.close());

  test('sees in one list all that waits, why, since when, whom it holds up, and the commands that answer it', async () => {
    const { lease, paid, asked } = turn;
    const { code, text } = await cli('inbox');
    expect(code).toBe(0);
    expect(text).toMatch(new RegExp(`^${paid}  pay .*\\n    may this call run\\? money leaves\\n`, 'm'));
    expect(text).toContain('it holds up 1 queued turn\n');
    expect(text).toContain(commandLine(`approve ${paid} --turn ${lease.agentTurnId} --deny`));
    expect(text).toMatch(new RegExp(`^${asked}  ask_person .*\\n    waits for its result\\n`, 'm'));
    expect(text).toContain(commandLine(`tool-result ${lease.agentTurnId} ${asked} --result`));
    const first = JSON.parse((await cli('inbox', '--limit', '1', '--json')).text);
    expect(first.items).toMatchObject([{ callId: paid }]);
    const second = JSON.parse((await cli('inbox', '--after', first.next, '--json')).text);
    expect(second).toMatchObject({ items: [{ callId: asked }], next: null });
    expect((await cli('inbox', '--agent', 'clerk-8')).text).toBe('nothing waits for an answer');
    expect(JSON.parse((await cli('inbox', '--agent', 'clerk-7', '--json')).text).items).toHaveLength(2);
  });

  test('reads the whole conversation of a turn', async () => {
    const { text } = await cli('turn', 'show', turn.lease.agentTurnId, '--full');
    const titles = text.match(/^\d{4}-\S+ {2}.*$/gm)?.map((line) => line.replace(/^\S+ {2}/, ''));
    expect(titles).toEqual([
      'request',
      'model, step 1',
      `call of pay  ${turn.paid}`,
      `call of ask_person  ${turn.asked}`,
    ]);
    expect(text).toMatch(/waits for approval by anybody until .*: money leaves/);
  });

  test('reads of a question why it was asked, and apart from that what was answered', () => {
    const question = {
      status: 'denied',
      reason: 'it costs 100 or more',
      approvers: [],
      deadline: 1,
      answeredBy: 'carol',
      answeredAt: 0,
      comment: 'no money',
    };
    const call = { kind: 'call', at: 0, hidden: null, tool: 'pay', callId: 'c', arguments: {}, question };
    expect(entryLines(call as unknown as TranscriptEntry)[1]).toBe(
      '    {}\n    asked because it costs 100 or more\n    denied by carol at 1970-01-01T00:00:00.000Z: "no money"',
    );
  });

  test('lists the turns of all agents and what they cost', async () => {
    const listed = JSON.parse((await cli('turns', 'ls', '--status', 'open', '--json')).text);
    expect(listed.items.map(({ status }: { status: string }) => status).toSorted()).toEqual(['queued', 'suspended']);
    expect((await cli('turns', 'ls', '--status', 'failed')).text).toBe('no such turns');
    const page = JSON.parse((await cli('turns', 'ls', '--limit', '1', '--json')).text);
    expect(JSON.parse((await cli('turns', 'ls', '--after', page.next, '--json')).text).items).toHaveLength(1);
    expect((await cli('turns', 'costs', '--by', 'agent', '--since', '1970-01-01')).text).toMatch(
      /^clerk-7 +2 +0 +12 /m,
    );
  });

  test('reads the profile of a queued turn, and finds it by that', async () => {
    const queued = await cli('turns', 'ls', '--status', 'queued', '--profile', 'tester');
    expect(queued.text).toMatch(/ clerk-7 +tester +queued /);
    const [{ agentTurnId }] = JSON.parse((await cli('turns', 'ls', '--status', 'queued', '--json')).text).items;
    expect((await cli('turn', 'show', agentTurnId)).text).toContain('clerk-7, profile tester, epoch (not leased yet)');
  });

  test('sees no cost where none is known, as opposed to one of nothing', async () => {
    const spending = [{ of: 'clerk-7', turns: 2, failed: 0, tokens: 12, cost: 0, uncosted: 2 }];
    const lines: string[] = [];
    const io = { out: (line: string) => void lines.push(line), err: () => {}, live: false, readStdin: async () => '' };
    const store = { spending: async () => spending, close: async () => {} };
    await printCosts({ io, openStore: async () => store } as unknown as CliEnvironment, { by: 'agent', since: 0 });
    expect(lines[1]).toMatch(/^clerk-7 +2 +0 +12 +- +2 turns$/);
  });

  test('is told what --since and --after take', async () => {
    expect(await cli('turns', 'ls', '--since', 'yesterday')).toMatchObject({
      code: 2,
      text: expect.stringContaining('24h'),
    });
    expect(await cli('turns', 'ls', '--after', 'x')).toMatchObject({
      code: 2,
      text: expect.stringContaining('TIME:TURN'),
    });
  });
});

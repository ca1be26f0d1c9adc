/** The demo as a user runs it: a process of its own, on a folder it has never seen. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { emptyFolder, type Finished, jsonOf, runCli, startCli, startInTerminal } from '../../client/cli/processes.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { CRASH_COMMAND } from '../../support/pages.ts';
import { WAIT } from '../../support/wait.ts';
import { type DemoJson, documents, effectsOf, QUESTION } from './documents.ts';

const folder = documents();
let harness: Harness;
let env: Record<string, string>;

beforeAll(async () => {
  harness = await openHarness();
  env = {
    TEMPORAL_ADDRESS: harness.address,
    TEMPORAL_NAMESPACE: harness.namespace,
    AGENTTURN_STORE: `sqlite:${harness.storePath}`,
  };
});
afterAll(() => harness?.close());

const demo = (args: readonly string[], more: Readonly<Record<string, string>> = {}): Promise<Finished> =>
  runCli(['demo', '--dir', folder.dir, ...args], { env: { ...env, ...more } });

const failedChecks = ({ checks }: DemoJson): string[] => checks.filter((check) => !check.ok).map((check) => check.what);

async function taskEvents({ agentId, agentTurnId }: DemoJson): Promise<number> {
  const events = await harness.store.readEvents({ agentId, agentTurnId });
  return events.filter((event) => event.type === 'task').length;
}

describe('the demo', () => {
  test('with nothing but a folder starts all it needs, and stops it', async () => {
    const cwd = emptyFolder();
    const ended = await runCli(['demo', QUESTION, '--dir', folder.dir], { cwd });
    expect(ended.stderr).toBe('');
    expect(ended.code).toBe(0);
    expect(ended.stdout).toContain(
      'model: offline, a weak rule-based stand-in and no language model; set OPENAI_API_KEY or',
    );
    expect(ended.stdout).toMatch(/^ +\d+\.\d\d s {2}step 1: model [\d.]+ m?s -> list_files$/m);
    expect(ended.stdout).toMatch(/confirm_scope timeout \d+\.\d s/);
    expect(ended.stdout).toContain('guide/retries.md:3');
    expect(ended.stdout).toMatch(/^ok +every source exists and holds its quote literally/m);
    expect(ended.stdout).toMatch(/^history: +\d+ events, [\d.]+ KiB$/m);
    expect(ended.stdout).toMatch(/\/workflows\/agents%2Frun-[0-9a-f-]{36}%2Fturns%2F[0-9a-f-]{36}$/m);
    expect(existsSync(join(cwd, '.agentturn', 'agentturn.db'))).toBe(true);
    expect(existsSync(join(cwd, '.agentturn', 'temporal-server.json'))).toBe(false);
  });

  test('answers with quotes that are in the files', async () => {
    const ended = await demo([QUESTION, '--json']);
    const report = jsonOf<DemoJson>(ended);
    expect(failedChecks(report)).toEqual([]);
    expect(report).toMatchObject({ ok: true, status: 'success', offline: true, model: 'agentturn-offline' });
    expect(report.sources.map((source) => source.path)).toContain('guide/retries.md');
    for (const { path, line, quote } of report.sources) {
      expect(folder.read(path)).toContain(quote);
      expect(folder.read(path).split('\n')[line - 1]).toContain(quote.split('\n')[0]);
    }
    expect(report.answer).toContain('retried five times');
    expect(report.turn.usage.input).toBeGreaterThan(0);
    expect(report.history).toMatchObject({ workflowId: `agents/${report.agentId}/turns/${report.agentTurnId}` });
    const { events, bytes } = report.history;
    expect([events > 10, bytes > 1_000]).toEqual([true, true]);
    expect(await taskEvents(report)).toBe(1);
    expect(ended.code).toBe(0);
  });

  test('says so when the answer is not there', async () => {
    const ended = await demo(['Which colour has the zeppelin of the treasurer?', '--json', '--answer', 'yes']);
    const report = jsonOf<DemoJson>(ended);
    expect(report).toMatchObject({ ok: true, status: 'success', sources: [] });
    expect(report.answer).toMatch(/not found/);
    expect(ended.code).toBe(0);
  });

  test('does nothing more when the person declines', async () => {
    const report = jsonOf<DemoJson>(await demo([QUESTION, '--json', '--answer', 'no']));
    expect(report).toMatchObject({ ok: true, status: 'success', sources: [] });
    expect(effectsOf(report).map((effect) => effect.tool)).toEqual(['list_files', 'confirm_scope']);
  });

  test('--crash: the worker is killed in the middle, and each call still ran once', async () => {
    const ended = await runCli([...CRASH_COMMAND.replace('npx agentturn ', '').split(' '), '--json'], { env });
    const report = jsonOf<DemoJson>(ended);
    expect(failedChecks(report)).toEqual([]);
    expect(report.checks.map((check) => check.name)).toEqual(['sources', 'starts', 'task_event', 'lease', 'crash']);
    const { killed = 0, second = 0 } = report.crash ?? {};
    expect(killed).not.toBe(second);
    const effects = effectsOf(report);
    expect(new Set(effects.map((effect) => effect.callId)).size).toBe(effects.length);
    expect(effects[0]).toMatchObject({ tool: 'list_files', pid: killed });
    expect(new Set(effects.slice(1).map((effect) => effect.pid))).toEqual(new Set([second]));
    expect(await taskEvents(report)).toBe(1);
    expect(await harness.client.turn(report.agentTurnId).get()).toMatchObject({ status: 'success', turnEpoch: 1 });
    expect(ended).toMatchObject({ code: 0 });
    expect(ended.stderr).toMatch(/SIGKILL to worker process \d+, right after the result of list_files was stored/);
  });

  test('a quote that is not in the file fails the demo', async () => {
    const source = { path: 'README.md', line: 3, quote: 'Bramble is a database for large teams.' };
    const fields = [
      { name: 'answer', value: 'a database' },
      { name: 'sources', value: [source] },
    ];
    const model = await startScriptedModel([
      { kind: 'message', toolCalls: [{ name: 'submit_result', arguments: { fields } }] },
    ]);
    try {
      const ended = await demo(['What is Bramble?'], { OPENAI_BASE_URL: model.url });
      expect(ended.code).toBe(1);
      expect(ended.stdout).toMatch(/^FAILED +every source exists and holds its quote literally \(0 of 1\)$/m);
      expect(ended.stdout).toMatch(/README\.md:3 {2}PROBLEM: the file does not hold this quote/);
    } finally {
      await model.close();
    }
  });

  test('interrupted in the middle it ends at once, and dev finishes its turn', async () => {
    const dataDir = emptyFolder();
    const running = startCli(['demo', QUESTION, '--dir', folder.dir, '--data-dir', dataDir], { env });
    await running.until(/leased, epoch 1/);
    const busy = (await harness.store.listAgents()).find((agent) => agent.activeAgentTurnId !== null);
    const agentTurnId = busy?.activeAgentTurnId ?? '';
    const ended = await running.end('SIGINT');
    expect(ended.code).toBe(130);
    expect(ended.stdout).toContain(`goes on with: npm run agentturn -- dev --data-dir ${dataDir}`);
    const dev = startCli(['dev', '--data-dir', dataDir], { env });
    try {
      const view = await harness.client.turn(agentTurnId).result(WAIT);
      expect(view).toMatchObject({ status: 'success', turnEpoch: 1 });
      expect(JSON.stringify(view.deliverable)).toContain('guide/retries.md');
    } finally {
      expect(await dev.end('SIGINT')).toMatchObject({ code: 0 });
    }
  });

  test('a folder that is not there is refused before anything starts', async () => {
    const cwd = emptyFolder();
    const ended = await runCli(['demo', '--dir', 'nowhere', '--json'], { cwd });
    expect(ended.code).toBe(1);
    expect(jsonOf(ended)).toMatchObject({ error: { code: 'invalid_config' } });
    expect(existsSync(join(cwd, '.agentturn'))).toBe(false);
  });
});

describe('the demo at a terminal', () => {
  test('asks, waits longer than the deadline for the answer, and keeps Temporal until Enter', async () => {
    const cwd = emptyFolder();
    const terminal = startInTerminal(['demo', QUESTION, '--dir', folder.dir], { cwd });
    await terminal.until(/Go on\? \[Enter or yes \/ no \/ a note/);
    const asked = Date.now();
    // Longer than the call's own deadline of three seconds: heartbeats keep it open.
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    terminal.send('only guide');
    await terminal.until(/confirm_scope success/);
    expect(Date.now() - asked).toBeGreaterThan(3_000);
    await terminal.until(/stay up until Enter or Ctrl-C/);
    const [, uiUrl = ''] =
      /(http:\/\/127\.0\.0\.1:\d+)\/namespaces\/default\/workflows\//.exec(terminal.screen()) ?? [];
    expect((await fetch(uiUrl)).status).toBe(200);
    terminal.press('Enter');
    const shown = await terminal.until(/^ended: 0$/m);
    expect(shown).toContain('guide/retries.md:3');
    expect(shown).not.toContain('README.md:');
  });
});

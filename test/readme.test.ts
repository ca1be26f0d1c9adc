/** Every command in the shell blocks of README and of the pages that users follow, run as it stands there, in a shell; and README's program. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { startScriptedModel } from '../workers/model-server/scripted.ts';
import { findTemporalBinary } from '../workers/temporal/binary.ts';
import { type Harness, openHarness } from './support/harness.ts';
import { CRASH_COMMAND, PACKAGE_COMMANDS, pageCommands, readmeProgram } from './support/pages.ts';
import { type Ran, Shell } from './support/shell.ts';
import { WAIT } from './support/wait.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** The condition under which the package's names lead to its source. */
const SOURCE = 'agentturn:source';
const CI = readFileSync(join(ROOT, '.ci/run'), 'utf8');

/** Commands that CI runs by itself; running them here would run this test again. */
const BY_CI = ['npm ci && npm test', 'npm test', 'npm run check'];

const BY_OTHERS: readonly string[] = [...BY_CI, ...Object.values(PACKAGE_COMMANDS), CRASH_COMMAND];

/** The id of the turn that a command names. */
const turnIn = (output: string): string => /turn ([0-9a-f-]{36})/.exec(output)?.[1] ?? '';

/** What `npm run agentturn --` runs, without the half second of npm. */
const PROGRAM = `node --conditions=${SOURCE} workers/main.ts`;

/** A command of an installed package as it is in a clone. */
const inClone = (line: string): string =>
  line.replace(/^npx agentturn /, `${PROGRAM} `).replace(' 01-weather-app.ts', ' examples/01-weather-app.ts');

describe('the pages that users follow', () => {
  let harness: Harness;
  let env: NodeJS.ProcessEnv;
  let dev: Shell;
  const remaining = new Set(pageCommands.filter((command) => !BY_OTHERS.includes(command)));

  beforeAll(async () => {
    harness = await openHarness();
    const { path } = await findTemporalBinary({ pathEnv: process.env.PATH ?? '', log: () => {}, tried: [] });
    const bin = mkdtempSync(join(tmpdir(), 'agentturn-bin-'));
    symlinkSync(path, join(bin, 'temporal'));
    const { NODE_OPTIONS: _, OPENAI_API_KEY: __, ...inherited } = process.env;
    env = {
      ...inherited,
      PATH: `${bin}:${process.env.PATH}`,
      TEMPORAL_ADDRESS: harness.address,
      TEMPORAL_NAMESPACE: harness.namespace,
      AGENTTURN_STORE: harness.storeUrl,
    };
  });
  afterAll(async () => {
    await dev?.stop();
    await harness?.close();
  });

  /** The command of a page that starts with these words; `replace` puts real ids in place of its placeholders. */
  function command(start: string, replace: Readonly<Record<string, string>> = {}): string {
    const found = [...remaining].find((line) => line.startsWith(start));
    if (!found) throw new Error(`no page has a command that starts with ${start}`);
    remaining.delete(found);
    return inClone(Object.entries(replace).reduce((line, [from, to]) => line.replaceAll(from, to), found));
  }
  const run = (line: string): Promise<Ran> => new Shell(line, { cwd: ROOT, env }).ended();

  test('name for others only what CI runs, or the tests of the package and the demo', () => {
    expect(pageCommands).toEqual(expect.arrayContaining([...BY_OTHERS]));
    expect(CI).toContain('npm test');
    expect(CI).toContain('npm run check');
  });

  test('demonstrate a turn, on any folder', async () => {
    const start = command('npm ci && npm run demo').replace('npm ci && ', '');
    const onFolder = command('npx agentturn demo --dir').replace(PROGRAM, 'npm run --silent agentturn --');
    for (const line of [start, onFolder]) {
      const { code, output } = await run(line);
      expect({ line, code, output }).toMatchObject({ code: 0 });
      expect(output).toContain('exactly one task event');
    }
  });

  test('serve the built-in agent, and chat with it', async () => {
    const alone = await openHarness();
    const place = { ...env, TEMPORAL_NAMESPACE: alone.namespace, AGENTTURN_STORE: alone.storeUrl };
    const line = [...remaining].find((each) => each === 'npx agentturn dev') ?? '';
    remaining.delete(line);
    const served = new Shell(inClone(line), { cwd: ROOT, env: place });
    try {
      await served.until(/ready/);
      const chat = `echo 'How do I make a chat?' | ${command('npx agentturn chat')}`;
      const { code, output } = await new Shell(chat, { cwd: ROOT, env: place }).ended();
      expect({ code, output }).toMatchObject({ code: 0, output: expect.stringContaining('docs/chat.md') });
    } finally {
      await served.stop();
      await alone.close();
    }
  });

  test('serve an app, start turns and answer calls', async () => {
    dev = new Shell(command('npx agentturn dev --app'), { cwd: ROOT, env });
    await dev.until(/ready/);
    const waited = await run(command('npx agentturn run weather'));
    expect(waited).toMatchObject({ code: 0, output: expect.stringContaining('sunny') });
    expect((await run(command('npx agentturn agents ls'))).output).toContain('weather');
    const asked = await run(command('npx agentturn run guide'));
    expect(asked).toMatchObject({ code: 0, output: expect.stringContaining('sunny') });
    const tree = await run(command('npx agentturn turn tree', { TURN: turnIn(asked.output) }));
    expect(tree.output).toMatch(/ask_expert: answered[\s\S]*turn .* of weather-/);
    const instruction = 'call ask_person {"question":"really?"}';
    const turn = await harness.client.run('weather', { instruction });
    for await (const event of turn.events()) if (event.type === 'state' && event.payload.waitingToolCount === 1) break;
    const ids = { TURN: turn.id, CALL: (await turn.get()).waiting[0]?.callId ?? '' };
    expect((await run(command('npx agentturn turn show', ids))).output).toContain(ids.CALL);
    expect(await run(command('npx agentturn tool-result', ids))).toMatchObject({ code: 0 });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('let a call wait for approval, under budgets that an operator may change', async () => {
    const booking = await run(command('npx agentturn run travel'));
    expect(booking).toMatchObject({ code: 0 });
    const turn = harness.client.turn(turnIn(booking.output));
    for await (const event of turn.events()) if (event.type === 'approval') break;
    const [question] = await harness.client.approvals({ rootTurnId: turn.id });
    const ids = { TURN: turn.id, CALL: question?.callId ?? '' };
    expect((await run(command('npx agentturn approvals'))).output).toContain(`agentturn -- approve ${ids.CALL}`);
    expect(await run(command('npx agentturn turn budgets', ids))).toMatchObject({ code: 0 });
    expect(await run(command('npx agentturn approve', ids))).toMatchObject({
      code: 0,
      output: expect.stringContaining('applied'),
    });
    const ended = await turn.result(WAIT);
    expect(ended).toMatchObject({ status: 'success', deliverable: { text: expect.stringContaining('200') } });
  });

  test('start turns and answer calls with the Temporal CLI alone', async () => {
    expect(await run(command('temporal workflow signal-with-start'))).toMatchObject({ code: 0 });
    // It ends once the store has what it was sent.
    await harness.temporal.client.workflow.getHandle('agents/ann').result();
    const agent = harness.client.agent('ann', { profile: 'weather' });
    const turn = await agent.enqueue({ instruction: 'call ask_person {"question":"again?"}' });
    for await (const event of turn.events()) if (event.type === 'state' && event.payload.waitingToolCount === 1) break;
    const ids = { TURN: turn.id, CALL: (await turn.get()).waiting[0]?.callId ?? '' };
    expect(await run(command('temporal workflow signal ', ids))).toMatchObject({ code: 0 });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    expect((await agent.turns()).some((view) => view.instruction === 'hello')).toBe(true);
  });

  test('run a worker', async () => {
    const endpoint = { OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' };
    const worker = new Shell(command('npx agentturn worker'), { cwd: ROOT, env: { ...env, ...endpoint } });
    await worker.until(/serv|ready|running/i);
    await worker.stop();
  });

  test('measure, within the budgets that do not depend on the machine', async () => {
    expect(await run(command('npm run bench -- --quick'))).toMatchObject({ code: 0 });
  });

  test('show a program that runs as printed, from the names under which the package is imported', async () => {
    // Inside the project, so that the package's own name resolves to it.
    mkdirSync(join(ROOT, '.agentturn'), { recursive: true });
    const dir = mkdtempSync(join(ROOT, '.agentturn', 'readme-'));
    // A namespace and a store of its own: here nobody else serves the agent.
    const alone = await openHarness();
    const model = await startScriptedModel([
      { kind: 'message', toolCalls: [{ name: 'forecast', arguments: { city: 'Rome' } }] },
      { kind: 'message', content: 'It will be sunny.' },
    ]);
    try {
      writeFileSync(join(dir, 'start.ts'), readmeProgram());
      const types = {
        extends: '../../tsconfig.json',
        compilerOptions: { customConditions: [SOURCE] },
        include: ['*.ts'],
      };
      writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify(types));
      expect(await new Shell(`npx tsc -p ${dir}`, { cwd: ROOT, env }).ended()).toMatchObject({ code: 0 });
      const start = `node --conditions=${SOURCE} ${join(dir, 'start.ts')}`;
      const place = { TEMPORAL_NAMESPACE: alone.namespace, AGENTTURN_STORE: alone.storeUrl };
      const endpoint = { OPENAI_API_KEY: 'test', OPENAI_BASE_URL: model.url };
      const ran = await new Shell(start, { cwd: ROOT, env: { ...env, ...place, ...endpoint } }).ended();
      expect(ran).toMatchObject({ code: 0, output: expect.stringContaining('success It will be sunny.') });
    } finally {
      await model.close();
      await alone.close();
      rmSync(dir, { recursive: true });
    }
  });

  test('have no other command', () => {
    expect([...remaining]).toEqual([]);
  });
});

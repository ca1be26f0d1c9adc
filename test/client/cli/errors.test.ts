/** What goes wrong before a command can work: a clear error with its cure, exit 1, and nothing half-written. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { openSqliteStore } from '../../../activities/store/sqlite/open.ts';
import { commandsIn } from './in-process.ts';
import { emptyFolder, type Finished, jsonOf, runCli, sharedTemporal } from './processes.ts';

/** Nothing listens there: the port is reserved. */
const DEAD = '127.0.0.1:1';

interface Where {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs a command in this process, one at a time: in a folder of its own unless one is given. */
const runHere = (args: readonly string[], { cwd = emptyFolder(), env = {} }: Where = {}): Promise<Finished> =>
  commandsIn(env)(args, { cwd });

async function failureOf(
  args: readonly string[],
  where: Where = {},
  code = 1,
  run = runHere,
): Promise<{ code: string; message: string }> {
  const ended = await run([...args, '--json'], where);
  expect(ended.code).toBe(code);
  const { error } = jsonOf<{ error: { code: string; message: string; cure: string } }>(ended);
  expect(error.cure).toMatch(/\w+/);
  return error;
}

describe('no Temporal server', () => {
  const env = { TEMPORAL_ADDRESS: DEAD };

  test('at the configured address: temporal_unreachable, and no store is made', async () => {
    const commands = [
      ['enqueue', 'alice', 'hi'],
      ['tool-result', 't', 'c', '--result', '1'],
    ];
    for (const args of commands) {
      const cwd = emptyFolder();
      const { code, message } = await failureOf(args, { cwd, env });
      expect(code).toBe('temporal_unreachable');
      expect(message).toContain(DEAD);
      expect(readdirSync(cwd)).toEqual([]);
    }
  });

  test('dev and demo do not replace the configured one', async () => {
    for (const command of ['dev', 'demo']) {
      const cwd = emptyFolder();
      expect(await failureOf([command], { cwd, env })).toMatchObject({ code: 'temporal_unreachable' });
      expect(existsSync(join(cwd, '.agentturn', 'temporal.db'))).toBe(false);
      expect(existsSync(join(cwd, '.agentturn', 'demo'))).toBe(false);
    }
  });

  test('a person sees the code, the message and the cure, and a stack only with --debug', async () => {
    const args = ['enqueue', 'alice', 'hi', '--temporal', DEAD];
    const [ended, debugged] = await Promise.all([runCli(args), runCli([...args, '--debug'])]);
    expect(ended).toMatchObject({ code: 1, stdout: '' });
    expect(ended.stderr).toMatch(/^error \[temporal_unreachable\]: .*127\.0\.0\.1:1.*\ncure: .+\n$/);
    expect(debugged.stderr).toMatch(/\n\s+at /);
  });
});

/** A folder with a store, in which a server is recorded that runs. */
async function recordedFolder(): Promise<string> {
  const cwd = emptyFolder();
  mkdirSync(join(cwd, '.agentturn'));
  await (await openSqliteStore({ path: join(cwd, '.agentturn', 'agentturn.db') })).close();
  const port = Number(sharedTemporal().split(':')[1]);
  writeFileSync(join(cwd, '.agentturn', 'temporal-server.json'), JSON.stringify({ port }));
  return cwd;
}

describe('a server that is found', () => {
  test('the one recorded in the data folder is used', async () => {
    const cwd = await recordedFolder();
    const ended = await runHere(['enqueue', 'recorded', 'hi', '--json'], { cwd });
    expect(ended.code).toBe(0);
    expect(jsonOf(ended)).toMatchObject({ status: 'queued' });
  });

  test('a namespace it does not have is namespace_not_found, by name, whether the server was named or found', async () => {
    const error = { code: 'namespace_not_found', message: expect.stringContaining('no-such-namespace') };
    const env = { TEMPORAL_ADDRESS: sharedTemporal(), TEMPORAL_NAMESPACE: 'no-such-namespace' };
    expect(await failureOf(['demo'], { env })).toMatchObject(error);
    const cwd = await recordedFolder();
    const asked = [['enqueue', 'a', 'hi'], ['verify']];
    for (const args of asked)
      expect(await failureOf([...args, '--namespace', 'no-such-namespace'], { cwd })).toMatchObject(error);
  });

  test('--namespace without a named server is invalid_config', async () => {
    expect(await failureOf(['demo', '--namespace', 'other'])).toMatchObject({ code: 'invalid_config' });
  });
});

describe('the store', () => {
  const corrupt = (): string => {
    const cwd = emptyFolder();
    writeFileSync(join(cwd, 'broken.db'), 'this is no database, and never was. '.repeat(200));
    return cwd;
  };

  test.each([[['agents', 'ls']], [['dev']], [['demo']], [['enqueue', 'alice', 'hi']]])(
    '%j on a damaged file is store_corrupt, and nothing is started',
    async (args) => {
      const cwd = corrupt();
      const env = args[0] === 'enqueue' ? { TEMPORAL_ADDRESS: sharedTemporal() } : {};
      const { code, message } = await failureOf([...args, '--store', 'sqlite:broken.db'], { cwd, env });
      expect(code).toBe('store_corrupt');
      expect(message).toContain('broken.db');
      expect(readdirSync(cwd)).toEqual(['broken.db']);
    },
  );

  test('a URL of another kind is invalid_config and names the variable', async () => {
    const env = { AGENTTURN_STORE: 'mysql://localhost/x' };
    const { code, message } = await failureOf(['agents', 'ls'], { env });
    expect(code).toBe('invalid_config');
    expect(message).toContain('AGENTTURN_STORE');
    const ended = await runHere(['agents', 'ls', '--store', 'foo.db', '--json']);
    expect(ended.code).toBe(2);
    const error = { code: 'invalid_request', message: expect.stringMatching(/--store.* sqlite:foo\.db/) };
    expect(jsonOf(ended)).toMatchObject({ error });
  });

  test('one that is not there is not made by looking at it', async () => {
    const cwd = emptyFolder();
    expect(await failureOf(['agents', 'ls'], { cwd })).toMatchObject({ code: 'store_unavailable' });
    expect(readdirSync(cwd)).toEqual([]);
  });
});

describe('the app', () => {
  test.each([
    ['not there', undefined, /there is no file .*app\.ts$/],
    ['broken', 'export default (', /could not be loaded/],
    ['that throws', "\n\nthrow new Error('boom at load');", /boom at load \(.*\/app\.ts:3\)/],
    ['with an enum', 'enum A { B }\nexport default A;', /erasableSyntaxOnly.*\(.*app\.ts:1\)/],
    ['without an app', 'export default { agents: [] };', /default export/],
    ['that imports a file without its extension', `import './tools';`, /needs its extension/],
    ['with a mistake in a definition', undefined, /invalid/],
  ])('%s is app_not_loaded', async (what, source, message) => {
    const cwd = emptyFolder();
    const index = new URL('../../../index.ts', import.meta.url).href;
    const mistaken = `import { defineAgent, defineApp } from '${index}';\nexport default defineApp({ agents: [defineAgent({ name: 'a b' })] });`;
    const text = what.startsWith('with a mistake') ? mistaken : source;
    if (text !== undefined) writeFileSync(join(cwd, 'app.ts'), text);
    const error = await failureOf(['dev'], { cwd, env: { AGENTTURN_APP: './app.ts' } }, 1, runCli);
    expect(error).toMatchObject({ code: 'app_not_loaded', message: expect.stringMatching(message) });
  });

  test('a worker needs one, and a model', async () => {
    const env = { TEMPORAL_ADDRESS: sharedTemporal() };
    expect(await failureOf(['worker'], { env }, 2)).toMatchObject({ code: 'app_not_loaded' });
    const app = new URL('fixture-app.ts', import.meta.url).pathname;
    expect(await failureOf(['worker', '--app', app], { env })).toMatchObject({
      code: 'invalid_config',
      message: expect.stringContaining('OPENAI_BASE_URL'),
    });
    const targets = ['worker', '--app', app, '--targets', 'a.b'];
    expect(await failureOf(targets, { env }, 2)).toMatchObject({ code: 'invalid_config' });
  });
});

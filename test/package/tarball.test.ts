/** The package as its users get it: the packed tarball in an empty folder, with strict types, by `require`, on the command line. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Harness, openHarness } from '../support/harness.ts';
import { PACKAGE_COMMANDS, readmeProgram } from '../support/pages.ts';
import { freshSchemaUrl } from '../support/postgres.ts';
import { Shell } from '../support/shell.ts';
import {
  environment,
  type Installed,
  install,
  packAndInstall,
  type Ran,
  run,
  TSC,
  tool,
  typeErrors,
} from './installed.ts';

const ROOT = new URL('../../', import.meta.url);
/** A bound for a build and an installation of 300 MB on a machine whose disk and cores are busy; half a minute where they are not. */
const INSTALL_MS = 12 * 60_000;
/** What a client must not have loaded, and what opens no store must not have either. */
const NATIVE = ['@temporalio/core-bridge', '@temporalio/worker'];
const DRIVERS = ['better-sqlite3', 'pg'];

/** A module that makes a process believe that it is an older Node: the last one that is too old. */
const OLD_NODE = `data:text/javascript,Object.defineProperty(process,'versions',{value:{...process.versions,node:'22.17.1'}})`;

/** Those Nodes of this machine that are too old. */
const oldNodes = (): readonly string[] =>
  ['/usr/bin/node', '/usr/local/bin/node'].filter(
    (path) =>
      existsSync(path) && Number(/^v(\d+)/.exec(execFileSync(path, ['--version'], { encoding: 'utf8' }))?.[1]) < 22,
  );

const read = (file: string): string => readFileSync(new URL(file, ROOT), 'utf8');

interface Outcome {
  readonly status: string;
  readonly text: string;
  readonly events: readonly string[];
  /** Whether a bundler ran: the workflow code that the package ships is used as it is. */
  readonly bundled: boolean;
}

describe('the packed package, installed in an empty folder', () => {
  let harness: Harness;
  let installed: Installed;
  let place: Readonly<Record<string, string>>;
  let dev: Shell | undefined;

  beforeAll(async () => {
    [harness, installed] = await Promise.all([openHarness(), packAndInstall()]);
    const { address, namespace, storeUrl } = harness;
    place = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, AGENTTURN_STORE: storeUrl };
  }, INSTALL_MS);
  afterAll(async () => {
    await dev?.stop();
    await harness?.close();
  });

  const here = (command: readonly string[], more = {}): Promise<Ran> => run(installed.folder, command, more);
  const node = (...args: readonly string[]): Promise<Ran> => here([process.execPath, ...args], place);

  function expectTurn({ code, stdout, stderr }: Ran): void {
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const outcome = JSON.parse(stdout) as Outcome;
    expect(outcome).toMatchObject({ status: 'success', text: 'Booked.' });
    expect(outcome.events).toEqual(expect.arrayContaining(['state', 'step', 'approval', 'call']));
    expect(outcome.events.at(-1)).toBe('task');
    expect(outcome.bundled).toBe(false);
  }

  test('holds what was built, the documents and the examples, and no source', () => {
    const { packed } = installed;
    const top = new Set(packed.map((path) => path.split('/')[0]));
    expect([...top].sort()).toEqual([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'dist',
      'docs',
      'examples',
      'package.json',
    ]);
    expect(packed).toEqual(expect.arrayContaining(['dist/workflow-bundle.js', 'examples/starter/app.ts']));
    expect(packed.filter((path) => path.startsWith('dist/') && !/\.(js|d\.ts)$/.test(path))).toEqual([
      'dist/client/console/page/console.css',
    ]);
  });

  test('brings examples that run where they are copied to', async () => {
    const shell = (line: string): Promise<Ran> => here(['sh', '-c', line]);
    expect(await shell(PACKAGE_COMMANDS.copyApp)).toMatchObject({ code: 0 });
    expect((await shell(PACKAGE_COMMANDS.kernelAlone)).stdout).toContain('ended success after 2 model calls');
  });

  test('is type-checked strictly, libraries too, with its examples and the program of its README', async () => {
    writeFileSync(join(installed.folder, 'readme.ts'), readmeProgram());
    const files = ['program.ts', 'readme.ts', '01-weather-app.ts', '02-kernel-alone.ts'];
    const check = (module: 'nodenext' | 'esnext') => typeErrors(installed.folder, files, module);
    expect(await Promise.all([check('nodenext'), check('esnext')])).toEqual(['', '']);
  });

  test('runs a turn of a TypeScript program, with events and an approval', async () => {
    expectTurn(await node('program.ts'));
  });

  test('runs a turn of a program that requires it', async () => {
    expectTurn(await node('program.cjs'));
  });

  test('brings the kernel without anything of Temporal', async () => {
    const loaded: string[] = JSON.parse((await node('loaded.cjs', 'agentturn/kernel')).stdout);
    expect(loaded.filter((name) => name.startsWith('@temporalio/'))).toEqual([]);
  });

  test('loads for a client neither native libraries nor drivers, until a store is opened, and then its own', async () => {
    const unused = [...NATIVE, ...DRIVERS];
    // A namespace to which no store has been given yet.
    const unmarked = await openHarness();
    const env = { ...place, TEMPORAL_NAMESPACE: unmarked.namespace };
    const loaded = async (...args: readonly string[]) => {
      const { code, stdout, stderr } = await here([process.execPath, 'loaded.cjs', ...args], env);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return (JSON.parse(stdout) as string[]).filter((name) => unused.includes(name));
    };
    const postgres = await freshSchemaUrl();
    const found = await Promise.all([
      ...[loaded('agentturn'), loaded('agentturn/store')],
      ...[loaded('agentturn', harness.storeUrl), loaded('agentturn', postgres)],
      loaded('agentturn/worker'),
    ]);
    await unmarked.close();
    // The last one shows that they would be seen.
    expect(found).toEqual([[], [], ['better-sqlite3'], ['pg'], NATIVE]);
  });

  test('brings a program that tells its version and its commands', async () => {
    const { version } = JSON.parse(read('package.json')) as { version: string };
    expect(await here(['npx', 'agentturn', '--version'])).toMatchObject({ code: 0, stdout: `${version}\n` });
    const program = join('node_modules', '.bin', 'agentturn');
    const { stdout } = await here([program, '--help']);
    expect(stdout).toContain('Usage: npx agentturn');
    expect(stdout).not.toContain('npm run');
    const failed = await here([program, 'agents', 'ls'], { ...place, AGENTTURN_STORE: 'sqlite:none.db' });
    expect(failed.stderr).toContain('make one with "npx agentturn dev"');
  });

  test.each([
    ['a Node that is too old', process.execPath, ['--import', OLD_NODE]],
    ...oldNodes().map((path) => [`the Node at ${path}`, path, []] as const),
  ] as const)('says in one sentence what %s lacks', async (_, program, args) => {
    const { code, stdout, stderr } = await here([
      program,
      ...args,
      'node_modules/agentturn/dist/workers/main.js',
      'dev',
    ]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^agentturn needs Node 22\.18 or newer, and this is Node [\d.]+ \(.*\): install .*\n$/);
    expect(JSON.parse(read('package.json'))).toMatchObject({ engines: { node: '>=22.18' } });
  });

  test.each([
    ['a Node that is too old', process.execPath, ['--import', OLD_NODE]],
    ...oldNodes().map((path) => [`the Node at ${path}`, path, []] as const),
  ] as const)('gives a program that imports it on %s the same sentence', async (_, program, args) => {
    const entries = ['agentturn', 'agentturn/worker', 'agentturn/store', 'agentturn/testing', 'agentturn/gateway'];
    const said = entries.map((entry) => `await import('${entry}').catch((error) => console.log(error.message));`);
    const { stdout } = await here([program, ...args, '--input-type=module', '-e', said.join('\n')]);
    const sentence = /^agentturn needs Node 22\.18 or newer, and this is Node [\d.]+ \(.*\): install .*$/;
    expect(stdout.split('\n')).toEqual([...entries.map(() => expect.stringMatching(sentence)), '']);
  });

  test('says in one sentence why a TypeScript app does not load', async () => {
    const worker = ['node_modules/agentturn/dist/workers/main.js', 'worker', '--app'];
    const noTypes = await node('--no-strip-types', ...worker, 'program.ts');
    expect(noTypes.stderr).toMatch(
      /^error \[app_not_loaded\]: .*does not run TypeScript; run it without --no-strip-types/,
    );
    const inside = await node(...worker, 'node_modules/agentturn/examples/starter/app.ts');
    expect(inside.stderr).toMatch(/^error \[app_not_loaded\]: .*copy the file into your project/);
  });

  test(
    'makes a project whose next commands lead to a finished turn of the offline model',
    async () => {
      const make = () => here(['sh', '-c', PACKAGE_COMMANDS.init]);
      const made = await make();
      expect(made).toMatchObject({ code: 0 });
      const folder = join(installed.folder, 'my-agents');
      const [enter, installAll, serve = '', enqueue = '', ...rest] = made.stdout
        .split('\n')
        .flatMap((line) => /^ {2}(.+)/.exec(line)?.[1] ?? []);
      expect([enter, installAll, rest]).toEqual(['cd my-agents', 'npm install', []]);
      expect(await make()).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/\[file_exists\].*app\.ts.*nothing was written/),
      });
      // What the package depends on is linked, so that one installation is enough.
      await run(installed.folder, ['cp', '-al', 'node_modules', 'my-agents/node_modules']);
      // The package is in no registry under test: the project depends on the tarball that it was installed from.
      await install(folder);
      expect(readFileSync(join(folder, 'package.json'), 'utf8')).toContain(`"file:../${basename(installed.tarball)}"`);
      // An app may lie in several files.
      const app = join(folder, 'app.ts');
      writeFileSync(join(folder, 'place.ts'), "export const place: string = 'name of the city';\n");
      const starter = readFileSync(app, 'utf8').replace("'name of the city'", 'place');
      writeFileSync(app, `import { place } from './place.ts';\n${starter}`);
      expect((await run(folder, TSC)).stdout).toBe('');
      dev = new Shell(serve, { cwd: folder, env: environment(place) });
      await dev.until(/ready \(Ctrl-C stops\)\. Try: npx agentturn chat weather; or: npx agentturn run weather/);
      const turn = await run(folder, ['sh', '-c', enqueue], place);
      expect(turn).toMatchObject({ code: 0, stdout: expect.stringContaining('sunny') });
    },
    INSTALL_MS,
  );

  test('demonstrates itself on the documents that it ships with', async () => {
    const { code, stdout } = await here(['sh', '-c', PACKAGE_COMMANDS.demo], place);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('exactly one task event') });
  });

  test('has no fault that publint and attw find', async () => {
    const [linted, typed] = await Promise.all([
      here([...tool('publint/src/cli.js'), 'run', installed.tarball, '--strict']),
      here([
        ...[...tool('@arethetypeswrong/cli/dist/index.js'), installed.tarball],
        // `moduleResolution: node10` knows no subpaths, and the compiler that we support has dropped it.
        ...['--profile', 'node16'],
        // The package is ESM alone: every Node that it runs on can require it, which attw does not count.
        ...['--ignore-rules', 'cjs-resolves-to-esm'],
      ]),
    ]);
    expect(linted).toMatchObject({ code: 0, stdout: expect.stringContaining('All good!') });
    expect(typed).toMatchObject({ code: 0 });
  });
});

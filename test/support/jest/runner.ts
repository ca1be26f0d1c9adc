/**
 * Runs a test file in the Node.js of Jest's worker, without a context of its own: modules are loaded, and grow fast, once for each
 * worker and not once for each file. Node.js reads TypeScript by itself. The environment, the folder, the console, spies and timers are put
 * back when a file ends; whatever else it changes in the process stays.
 */
import type { ChildProcess } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { createRequire, registerHooks } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { JestEnvironment } from '@jest/environment';
import { ModernFakeTimers } from '@jest/fake-timers';
import type { TestResult } from '@jest/test-result';
import type { Config } from '@jest/types';
import { ModuleMocker } from 'jest-mock';
import { type Given, give } from './globals.ts';

type Circus = (
  globalConfig: Config.GlobalConfig,
  config: Config.ProjectConfig,
  environment: JestEnvironment,
  runtime: InThisProcess,
  ...rest: readonly unknown[]
) => Promise<TestResult>;

const load = createRequire(import.meta.url);
const { default: circus } = load('jest-circus/runner') as { default: Circus };

const GLOBALS = new URL('globals.ts', import.meta.url).href;
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === '@jest/globals' ? { url: GLOBALS, shortCircuit: true } : next(specifier, context),
});

// Jest tells its workers to write in colors where its own output is a terminal. The programs that tests start are not to know.
for (const name of ['FORCE_COLOR', 'NO_COLOR']) delete process.env[name];

const exit = process.exit.bind(process);

// A run that is stopped or killed takes with it what its tests have started.
const started = new Set<ChildProcess>();
subscribe('child_process', (message) => {
  const { process: child } = message as { readonly process: ChildProcess };
  started.add(child);
  child.once('exit', () => started.delete(child));
});
process.once('disconnect', () => {
  for (const child of started) child.kill('SIGKILL');
  exit(1);
});

/** What was thrown when no test ran any more. Nobody catching it, Node.js would end the process, and with it the file of another. */
const late: unknown[] = [];
for (const event of ['uncaughtException', 'unhandledRejection'] as const)
  process.on(event, (error) => late.push(error));
process.on('exit', () => {
  if (late.length === 0) return;
  console.error('thrown after the last test:', ...late);
  process.exitCode = 1;
});
/** For so long after its end a file is blamed for what is thrown; after that the next one is, which says so. */
const LATE_MS = 10;
/** How long a file may take to load. */
const LOAD_MS = 120_000;

/** What Jest keeps on the global object of a file. */
const KEPT_BY_JEST = ['EVENT_HANDLERS', 'TEST_TIMEOUT_SYMBOL'].map((name) => Symbol.for(name));
const [, TIMEOUT] = KEPT_BY_JEST as [symbol, symbol];

const runFile: Circus = async (globalConfig, config, environment, _runtime, ...rest) => {
  const { console } = globalThis;
  const env = { ...process.env };
  const folder = process.cwd();
  const mocks = new ModuleMocker(globalThis);
  const timers = new ModernFakeTimers({ config, global: globalThis });
  globalThis.console = environment.global.console;
  process.exit = (code) => {
    throw new Error(`a test called process.exit(${code ?? ''})`);
  };
  try {
    const result = await circus(globalConfig, config, environment, new InThisProcess(jestOf(mocks, timers)), ...rest);
    await sleep(LATE_MS);
    return withLate(result);
  } finally {
    timers.dispose();
    mocks.restoreAllMocks();
    for (const kept of KEPT_BY_JEST) Reflect.deleteProperty(globalThis, kept);
    for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
    Object.assign(process.env, env);
    process.chdir(folder);
    process.exit = exit;
    globalThis.console = console;
  }
};
export default runFile;

/** The result of a file, which has failed where something was thrown after its tests. */
function withLate(result: TestResult): TestResult {
  const errors = late
    .splice(0)
    .map((error) => (error instanceof Error ? (error.stack ?? error.message) : String(error)));
  if (errors.length === 0) return result;
  const message = `thrown when no test ran any more, by this file or the one before it in the process:\n${errors.join('\n')}`;
  const failureMessage = [result.failureMessage, message].filter(Boolean).join('\n\n');
  return { ...result, failureMessage, testExecError: { message, stack: message } };
}

function jestOf(mocks: ModuleMocker, timers: ModernFakeTimers): Given['jest'] {
  return {
    spyOn: mocks.spyOn.bind(mocks),
    restoreAllMocks: () => mocks.restoreAllMocks(),
    useFakeTimers: () => timers.useFakeTimers(),
    useRealTimers: () => timers.useRealTimers(),
    advanceTimersByTime: (ms) => timers.advanceTimersByTime(ms),
    advanceTimersByTimeAsync: (ms) => timers.advanceTimersByTimeAsync(ms),
    setTimeout: (ms) => void Reflect.set(globalThis, TIMEOUT, ms),
  };
}

/** What Jest's runner of a file asks of a runtime, with Node.js's own loaders. */
class InThisProcess {
  readonly #jest: Given['jest'];

  constructor(jest: Given['jest']) {
    this.#jest = jest;
  }

  /** The framework's state is that of its module: each file has a new one. */
  requireInternalModule(path: string): unknown {
    delete load.cache[path];
    return load(path);
  }

  setGlobalsForRuntime(globals: Omit<Given, 'jest'>): void {
    give({ ...globals, jest: this.#jest });
  }

  unstable_shouldLoadAsEsm(): boolean {
    return true;
  }

  unstable_importModule(path: string): Promise<unknown> {
    const over = new AbortController();
    const late = sleep(LOAD_MS, undefined, { signal: over.signal, ref: false }).then(() => {
      throw new Error(`the file did not load within ${LOAD_MS} ms`);
    });
    return Promise.race([import(pathToFileURL(path).href), late]).finally(() => {
      over.abort();
      late.catch(() => {});
    });
  }

  requireModule(path: string): unknown {
    return load(path);
  }

  enterTestCode(): void {}

  leaveTestCode(): void {}
}

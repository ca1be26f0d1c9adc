/**
 * Runs a test file in the Node.js of Jest's worker, without a context of its own: modules are loaded, and grow fast, once for each
 * worker and not once for each file. Node.js reads TypeScript by itself. What a file changes in the process is put back when it ends.
 */
import type { ChildProcess } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { createRequire, registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';
import type { JestEnvironment } from '@jest/environment';
import { ModernFakeTimers } from '@jest/fake-timers';
import type { Config } from '@jest/types';
import { ModuleMocker } from 'jest-mock';
import { type Given, give } from './globals.ts';

type Circus = (
  globalConfig: Config.GlobalConfig,
  config: Config.ProjectConfig,
  environment: JestEnvironment,
  runtime: InThisProcess,
  ...rest: readonly unknown[]
) => Promise<unknown>;

const load = createRequire(import.meta.url);
const { default: circus } = load('jest-circus/runner') as { default: Circus };

const GLOBALS = new URL('globals.ts', import.meta.url).href;
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === '@jest/globals' ? { url: GLOBALS, shortCircuit: true } : next(specifier, context),
});

// A run that is stopped or killed takes with it what its tests have started.
const started = new Set<ChildProcess>();
subscribe('child_process', (message) => {
  const { process: child } = message as { readonly process: ChildProcess };
  started.add(child);
  child.once('exit', () => started.delete(child));
});
process.once('disconnect', () => {
  for (const child of started) child.kill('SIGKILL');
  process.exit(1);
});

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
  try {
    return await circus(globalConfig, config, environment, new InThisProcess(jestOf(mocks, timers)), ...rest);
  } finally {
    timers.dispose();
    mocks.restoreAllMocks();
    for (const kept of KEPT_BY_JEST) Reflect.deleteProperty(globalThis, kept);
    for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
    Object.assign(process.env, env);
    process.chdir(folder);
    globalThis.console = console;
  }
};
export default runFile;

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
    return import(pathToFileURL(path).href);
  }

  requireModule(path: string): unknown {
    return load(path);
  }

  enterTestCode(): void {}

  leaveTestCode(): void {}
}

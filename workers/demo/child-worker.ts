/** A worker in a process of its own, so that the demo can kill it as a crash would. */
import { type ChildProcess, fork, type StdioOptions } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CliIo } from '../../client/cli/environment.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { withCleanup } from '../commands/cleanup.ts';
import { Interrupt } from '../commands/interrupt.ts';
import type { DemoWorkerOptions } from '../commands/process-commands.ts';
import { settingsOf } from '../commands/settings.ts';
import { openBackend, runWorker } from '../commands/worker-process.ts';
import type { Config } from '../config.ts';
import { builtInApp, DEMO_CAPACITY, DEMO_TARGET } from './app.ts';

const READY = 'ready';
const here = import.meta.url;
/** The program of the child, in the same language as this file: sources run as they are, a build as it was built. */
const program = fileURLToPath(new URL(`../main${extname(here)}`, here));

/** What a worker in a child process needs to know of its parent's settings. */
export interface ChildOptions {
  readonly storeUrl: string;
  readonly address: string;
  readonly namespace: string;
  readonly dataDir: string;
  /** The URL of the offline model; undefined when the environment names an endpoint. */
  readonly modelUrl: string | undefined;
  readonly debug: boolean;
}

/** A demo worker in a child process, which starts with the construction of this object. */
export class ChildWorker {
  readonly #child: ChildProcess;
  #wanted = true;

  constructor({ storeUrl, address, namespace, dataDir, modelUrl, debug }: ChildOptions) {
    const args = ['--temporal', address, '--namespace', namespace, '--data-dir', dataDir];
    const model = modelUrl === undefined ? [] : ['--model-url', modelUrl];
    // The URL may hold a password, and every user of the machine can read arguments.
    const env = { ...process.env, AGENTTURN_STORE: storeUrl };
    // The output of the child goes to standard error, because standard output is the demo's.
    const stdio: StdioOptions = ['ignore', process.stderr.fd, process.stderr.fd, 'ipc'];
    this.#child = fork(program, ['demo-worker', ...args, ...model, ...(debug ? ['--debug'] : [])], { env, stdio });
  }

  /** The process id of the worker; 0 when it could not be started. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Resolves when the worker polls. Rejects with `internal_error` when it ends before. */
  async ready(): Promise<void> {
    const ended = new AbortController();
    try {
      const message = once(this.#child, 'message', { signal: ended.signal });
      await Promise.race([message, this.failed()]);
    } finally {
      ended.abort();
    }
  }

  /** Rejects with `internal_error` when the worker ends without being asked to; never resolves. */
  failed(): Promise<never> {
    return new Promise((_, reject) => {
      const check = (code: number | null, signal: NodeJS.Signals | null) => {
        if (!this.#wanted) return;
        const how = signal === null ? `code ${code}` : signal;
        reject(new CodedError('internal_error', `worker process ${this.pid} ended with ${how}`));
      };
      this.#child.once('exit', check).once('error', reject);
    });
  }

  /** Ends the worker as a crash would, without a chance to shut down. */
  kill(): Promise<void> {
    return this.#end('SIGKILL');
  }

  /** Ends the worker in good order. */
  stop(): Promise<void> {
    return this.#end('SIGTERM');
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    this.#wanted = false;
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill(signal);
    await exited;
  }
}

/** The command that runs in the child. Resolves with its exit code. Throws `invalid_config` without `--temporal`. */
export function demoWorker(config: Config, io: CliIo, options: DemoWorkerOptions): Promise<number> {
  const settings = settingsOf(config, options);
  const { temporal, namespace } = settings;
  if (temporal === undefined) throw new CodedError('invalid_config', 'demo-worker needs --temporal');
  const interrupt = new Interrupt();
  // A worker whose demo is gone is not needed any more.
  const orphaned = once(process, 'disconnect');
  return withCleanup(async (cleanup) => {
    cleanup.add(() => interrupt.release());
    const { dataDir, modelUrl, debug } = options;
    const backend = await openBackend({ ...temporal, namespace }, settings, cleanup);
    const model = modelUrl === undefined ? config.model : { ...config.model, baseUrl: modelUrl };
    const logLevel = debug ? 'DEBUG' : 'ERROR';
    const parts = {
      app: builtInApp(dataDir),
      model,
      targets: [DEMO_TARGET],
      capacity: DEMO_CAPACITY,
      log: io.err,
      logLevel,
    } as const;
    const worker = await runWorker(backend, parts, cleanup);
    process.send?.(READY);
    await Promise.race([interrupt.requested(), orphaned, worker.done]);
    return 0;
  });
}

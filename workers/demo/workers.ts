/** Who runs the demo's turn: a worker in this process, or two child processes one after the other, the first of which is killed. */
import type { LogLevel } from '@temporalio/worker';
import type { ModelOptions } from '../../activities/llm/openai.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { Cleanup } from '../commands/cleanup.ts';
import { type OpenedBackend, runWorker } from '../commands/worker-process.ts';
import { builtInApp, DEMO_HEARTBEAT_MS, DEMO_TARGET } from './app.ts';
import { type ChildOptions, ChildWorker } from './child-worker.ts';

/** The workers of one demo. */
export interface DemoWorkers {
  /** Takes each event of the turn when it happens. Resolves when the workers have reacted to it. */
  see(event: AgentEvent): Promise<void>;
  /** Rejects when a worker ends that should not; never resolves. */
  readonly failed: Promise<never>;
  /** What is known of the kill so far; undefined when no worker is to be killed. */
  readonly crash: CrashFacts | undefined;
}

/** What is known of a demo that kills a worker. */
export interface CrashFacts {
  /** The process id of the worker that was killed; undefined while it lives. */
  killed: number | undefined;
  /** The process id of the worker that was started in its place; undefined before. */
  second: number | undefined;
  /** The ids of calls whose result was stored before the kill. */
  readonly settledAtKill: Set<string>;
}

interface InProcess {
  readonly model: ModelOptions;
  readonly dataDir: string;
  readonly log: (line: string) => void;
  readonly logLevel: LogLevel;
}

/** A worker in this process, which `cleanup` stops. Throws what `runWorker` throws. */
export async function inProcessWorker(
  backend: OpenedBackend,
  { dataDir, ...rest }: InProcess,
  cleanup: Cleanup,
): Promise<DemoWorkers> {
  const parts = { app: builtInApp(dataDir), targets: [DEMO_TARGET], ...rest };
  const worker = await runWorker(backend, parts, cleanup);
  // A worker that stops in good order was interrupted, and so is the demo.
  const failed = worker.done.then(() => new Promise<never>(() => {}));
  failed.catch(() => {});
  return { see: async () => {}, failed, crash: undefined };
}

/**
 * A worker in a child process that is killed after the first result of a tool, and the one that is started in its place; `cleanup` stops
 * both. Throws `internal_error` when a child ends before it polls.
 */
export async function crashingWorkers(
  options: ChildOptions,
  say: (line: string) => void,
  cleanup: Cleanup,
): Promise<DemoWorkers> {
  const facts: CrashFacts = { killed: undefined, second: undefined, settledAtKill: new Set() };
  const { promise: failed, reject } = Promise.withResolvers<never>();
  failed.catch(() => {});
  const start = async () => {
    const child = new ChildWorker(options);
    cleanup.add(() => child.stop());
    child.failed().catch(reject);
    await child.ready();
    return child;
  };
  const first = await start();
  say(`worker: process ${first.pid}`);
  const see = async (event: AgentEvent) => {
    if (facts.killed !== undefined || event.type !== 'call' || event.payload.phase !== 'settled') return;
    facts.settledAtKill.add(event.payload.callId);
    // The model step settles calls too, without running anything: those have no duration.
    if (event.payload.durationMs === undefined) return;
    facts.killed = first.pid;
    await first.kill();
    say(
      `            SIGKILL to worker process ${first.pid}, right after the result of ${event.payload.tool} was stored`,
    );
    const second = await start();
    facts.second = second.pid;
    const seconds = DEMO_HEARTBEAT_MS / 1_000;
    say(
      `            worker process ${second.pid} started; it gets the work of the dead one when Temporal has heard nothing of that for ${seconds} s`,
    );
  };
  return { see, failed, crash: facts };
}

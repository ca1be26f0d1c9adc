/**
 * A worker process: it serves turns with their activities on the queue of each target that it is configured for, the acceptor for foreign
 * clients on the control queue, and a supervisor.
 *
 * Invariant: a worker keeps no state of turns, so that any worker of a target may run any step (W1).
 */
import { dirname, isAbsolute } from 'node:path';
import { type LogLevel, type NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker';
import type { App } from '../activities/app/app.ts';
import { createActivities } from '../activities/index.ts';
import { type ModelOptions, openAiModel } from '../activities/llm/openai.ts';
import type { TemporalClient } from '../client/connect.ts';
import { type CallbackCall, CallbackTokens, callbackAddress } from '../client/gateway/callback-tokens.ts';
import { claimNamespace } from '../client/store-mark.ts';
import { TurnWorkflows } from '../client/turn-workflows.ts';
import type { SupervisorActivities } from '../workflows/contract/activities.ts';
import type { SessionJournal } from '../workflows/contract/journal.ts';
import type { Store } from '../workflows/contract/store.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { CONTROL_QUEUE, DEFAULT_WORKER_TARGET, SEARCH_ATTRIBUTES, targetQueue } from '../workflows/protocol/ids.ts';
import type { WorkflowCode } from './bundle.ts';
import { connectWorker } from './connect.ts';
import { modelName, requireModel } from './model-options.ts';
import { watchFaults } from './process-faults.ts';
import { ensureRuntime } from './runtime.ts';
import { sharedWarning } from './shared-targets.ts';
import { ensureSupervisorSchedule } from './supervision/schedule.ts';
import { Supervisor, type SupervisorOptions, startSupervisor } from './supervision/supervisor.ts';
import { missingSearchAttributes } from './temporal/search-attributes.ts';
import { readServerRecord } from './temporal/server-record.ts';
import { workflowCode } from './workflow-code.ts';

/** How far this machine's clock may be from that of the store before a worker warns of it. */
const MOST_SKEW_MS = 5_000;

/** What a worker process is made of. */
export interface WorkerDeps {
  /** The client by which activities and the supervisor start, wake and describe workflows. */
  readonly temporal: TemporalClient;
  readonly store: Store;
  readonly app: App;
  /** The model's endpoint: a key, a base URL, or both. */
  readonly model: ModelOptions;
  /** The worker targets whose turns are served here; `worker_generic` when absent. */
  readonly targets?: readonly string[];
  /** Whether this worker also serves the control queue, with the acceptor for foreign clients; it does when absent. */
  readonly acceptor?: boolean;
  /** The workflow code, where it was made before; when absent, the code that the package ships, or that this worker makes from sources. */
  readonly bundle?: WorkflowCode;
  readonly capacity?: WorkerCapacity;
  /**
   * Who makes the passes of the supervisor. Options, or nothing, run a supervisor in this process, of which one per store is active.
   * `schedule` sets up a Temporal Schedule that starts a pass every 10 s, which any worker with an acceptor may run. Null does neither, as
   * for a worker that serves a sandbox.
   */
  readonly supervisor?: Pick<SupervisorOptions, 'everyMs' | 'leaseMs' | 'orphansEveryMs'> | 'schedule' | null;
  /** Keeps journals of chat sessions: a turn's beginning and its end wait for it (C9). None are kept when absent. */
  readonly journal?: SessionJournal | undefined;
  /** What `context.callbackUrl()` of tools is made of; when absent it throws `callbacks_not_configured`. */
  readonly callbacks?: CallbackOptions | undefined;
  /**
   * Whether this app's definitions of agents take the place of all others, newer ones too: for a store that this process alone works with.
   * They do not when absent.
   */
  readonly takeOver?: boolean;
  /** Whether the process is there for workers alone; then it goes on whatever fails in it outside of all calls. It is not when absent. */
  readonly ownsProcess?: boolean;
  /** Takes a line for the operator of the process; lines go to standard error when it is absent. */
  readonly log?: (line: string) => void;
  /**
   * The least important level of the log; `INFO` when absent, which shows what tools say and, of Temporal's runtime, warnings and errors. A process
   * has one runtime: it has the level of its first worker, or what the app said when it installed a runtime itself.
   */
  readonly logLevel?: LogLevel;
}

/** How third parties deliver results of calls. */
export interface CallbackOptions {
  /** Where they reach a gateway that knows one of the keys. */
  readonly gatewayUrl: string;
  /** The keys that its gateways have too, the one that signs first; each of at least 32 bytes. */
  readonly signingKeys: readonly string[];
}

/**
 * What one worker does at once; every figure has a default. A cached workflow costs 0.25 MB and more, and waking an evicted one is as fast
 * while histories are short.
 */
export interface WorkerCapacity {
  readonly cachedWorkflows?: number;
  readonly workflowTasks?: number;
  readonly activities?: number;
  /** How long a workflow task waits for the worker that has its workflow cached before any other one may take it; 10 s. */
  readonly stickyMs?: number;
  /** How long activities may go on when the worker stops, before they are cancelled and retried elsewhere. */
  readonly shutdownGraceMs?: number;
}

/** A worker that has been started. */
export interface RunningWorker {
  /** Settles when the workers have stopped; rejects when one failed. */
  readonly done: Promise<void>;
  /**
   * Stops the worker in good order: running activities get the grace time, then are retried elsewhere (W5). Resolves when it has stopped.
   */
  stop(): Promise<void>;
}

const MODEL_CURE =
  'set OPENAI_API_KEY, OPENAI_BASE_URL or both and pass them as model: { apiKey, baseUrl, defaultModel } to startWorker';

/**
 * Starts a worker: registers its app, then serves its queues. While it runs, SIGINT and SIGTERM stop it and not the process, which ends
 * when `done` has settled and nothing else is open. Throws `invalid_config` when the model has neither a key nor a base URL, and
 * `temporal_not_ready`, with the command that cures it, when the namespace lacks search attributes.
 */
export async function startWorker(deps: WorkerDeps): Promise<RunningWorker> {
  const { targets = [DEFAULT_WORKER_TARGET], log = (line) => console.error(line) } = deps;
  requireModel(deps.model, MODEL_CURE);
  ensureRuntime(deps.logLevel ?? 'INFO');
  const connection = await connectWorker(deps.temporal.at);
  try {
    const { done, stop } = await start({ ...deps, connection, targets, log });
    const closed = done.finally(() => connection.close());
    // Whoever waits for it sees why a worker failed.
    closed.catch(() => {});
    return { done: closed, stop: () => stop().then(() => closed) };
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** What a worker is made of, with nothing left to be chosen. */
type ChosenDeps = WorkerDeps &
  Required<Pick<WorkerDeps, 'targets' | 'log'>> & { readonly connection: NativeConnection };

async function start(deps: ChosenDeps): Promise<RunningWorker> {
  await checkSearchAttributes(deps);
  await claimNamespace(deps.temporal.client, await deps.store.identity());
  await registerApp(deps);
  await tellOfOthers(deps);
  await tellOfShared(deps);
  warnOfSkew(deps);
  if (deps.supervisor === 'schedule') await ensureSupervisorSchedule(deps.temporal.client);
  const { store } = deps;
  const temporal = deps.temporal.client;
  const workflows = new TurnWorkflows(temporal, store);
  const onError = (error: unknown) => deps.log(`supervisor: ${String(error)}`);
  const { journal } = deps;
  const scheduled = new Supervisor({ store, temporal, journal, onError });
  const callbackUrl = callbackUrls(deps.callbacks);
  const workers: Worker[] = [];
  const isStopping = () => workers.some((worker) => worker.getState() !== 'RUNNING');
  const toolsAtOnce = activitiesAtOnce(deps.capacity);
  const model = openAiModel(deps.model);
  const ours = createActivities({ ...deps, workflows, model, callbackUrl, isStopping, toolsAtOnce });
  const activities = { ...ours, supervise: () => scheduled.once() } satisfies SupervisorActivities & typeof ours;
  const workflowBundle = deps.bundle ?? (await workflowCode());
  const queues = [...(deps.acceptor === false ? [] : [CONTROL_QUEUE]), ...deps.targets.map(targetQueue)];
  const made = await allOrNone(
    queues.map((taskQueue) => Worker.create({ ...optionsOf(deps), workflowBundle, activities, taskQueue })),
  );
  workers.push(...made);
  const { supervisor } = deps;
  const stopLoop =
    supervisor === null || supervisor === 'schedule'
      ? async () => {}
      : startSupervisor({ ...supervisor, store, temporal, journal, onError });
  // A scheduled pass that has outlived its activity must not go on with a store that is closed.
  const stopSupervisor = async () => {
    await Promise.all([stopLoop(), scheduled.release().catch(onError)]);
  };
  const stopWatch = watchFaults({ log: deps.log, ours: deps.ownsProcess ?? false });
  const done = Promise.all(workers.map((worker) => worker.run()))
    .then(
      () => stopSupervisor(),
      async (error) => {
        await stopSupervisor();
        throw error;
      },
    )
    .finally(stopWatch);
  const stop = async () => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
    await done;
  };
  return { done, stop };
}

/** Makes the URLs of callbacks; undefined where nothing takes them. Errors: `invalid_config` for a key that is too short. */
function callbackUrls(callbacks: CallbackOptions | undefined): ((call: CallbackCall) => string) | undefined {
  if (!callbacks) return undefined;
  const tokens = new CallbackTokens(callbacks.signingKeys);
  return (call) => callbackAddress(callbacks.gatewayUrl, tokens.sign(call));
}

/** The workers, or the first failure; then those that were made let go of the connection, which only a worker that has run does. */
async function allOrNone(creating: readonly Promise<Worker>[]): Promise<readonly Worker[]> {
  const made = await Promise.allSettled(creating);
  const workers = made.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const failed = made.find((one) => one.status === 'rejected');
  if (!failed) return workers;
  const ended = workers.map((worker) => {
    const over = worker.run();
    worker.shutdown();
    return over;
  });
  await Promise.allSettled(ended);
  throw failed.reason;
}

const activitiesAtOnce = ({ activities = 200 }: WorkerCapacity = {}): number => activities;

/** A worker that freezes loses what is handed to its open polls, each until its timeout: an idle one has a single poll for each kind of task. */
const POLLS = { type: 'autoscaling', minimum: 1, initial: 1, maximum: 10 } as const;

function optionsOf({ connection, temporal, capacity = {} }: ChosenDeps): Omit<WorkerOptions, 'taskQueue'> {
  return {
    connection,
    namespace: temporal.client.options.namespace,
    maxCachedWorkflows: capacity.cachedWorkflows ?? 50,
    maxConcurrentWorkflowTaskExecutions: capacity.workflowTasks ?? 40,
    maxConcurrentActivityTaskExecutions: activitiesAtOnce(capacity),
    workflowTaskPollerBehavior: POLLS,
    activityTaskPollerBehavior: POLLS,
    // A stop must reach a streaming model call within a second, whatever the heartbeat timeout (T21).
    maxHeartbeatThrottleInterval: '1s',
    stickyQueueScheduleToStartTimeout: capacity.stickyMs ?? 10_000,
    shutdownGraceTime: capacity.shutdownGraceMs ?? 5_000,
  };
}

/** Tells of agents that run on the same targets and are not of this app: their turns are left to other workers. */
async function tellOfOthers({ store, app, targets, log }: ChosenDeps): Promise<void> {
  const registered = await store.listProfiles();
  for (const target of targets) {
    const others = registered.filter(({ name, workerTarget }) => workerTarget === target && !app.agents.has(name));
    if (others.length === 0) continue;
    const names = others.map(({ name }) => name).join(', ');
    log(
      `${names}: not in this app, but of the same worker target ${target}: turns of theirs that come to this worker are handed on to workers of their app, or wait for one; give an app a workerTarget of its own to keep them apart`,
    );
  }
}

/**
 * Tells of a process on this machine that answers the same turns with another model: a dev whose data folder holds this store. Commands, which know
 * the folder themselves, tell of it on their own.
 */
async function tellOfShared({ store, model, targets, ownsProcess, log }: ChosenDeps): Promise<void> {
  const { where } = await store.identity();
  if (ownsProcess || !isAbsolute(where)) return;
  const { owner } = readServerRecord(dirname(where)) ?? {};
  const shared = sharedWarning({ pid: process.pid, model: modelName(model), targets }, owner);
  if (shared !== null) log(shared);
}

/** Registers the agents of an app, and tells of those whose definition is another one than the app's. Errors: those of the store. */
export async function registerApp({
  store,
  app,
  takeOver = false,
  log,
}: Pick<ChosenDeps, 'store' | 'app' | 'takeOver' | 'log'>): Promise<void> {
  const { agents, revision } = app;
  const outdated = await store.registerProfiles([...agents.values()], { revision, takeOver });
  if (outdated.length === 0) return;
  const names = outdated.join(', ');
  log(
    `new turns of ${names} get a newer definition than this worker's; to go back to this one, raise "revision" in defineApp`,
  );
}

/** Warns when this machine's clock is wrong. Deadlines and timers do not depend on it, but log lines do, and so may what tools do. */
function warnOfSkew({ store, log }: ChosenDeps): void {
  const aheadMs = store.clockAheadMs();
  if (Math.abs(aheadMs) <= MOST_SKEW_MS) return;
  const how = aheadMs > 0 ? 'behind' : 'ahead of';
  log(
    `this machine's clock is ${Math.round(Math.abs(aheadMs) / 1_000)} s ${how} that of the store's server; set it, e.g. by NTP`,
  );
}

async function checkSearchAttributes({ temporal }: WorkerDeps): Promise<void> {
  const { namespace } = temporal.client.options;
  const missing = await missingSearchAttributes(temporal.connection, namespace, SEARCH_ATTRIBUTES);
  if (missing.length === 0) return;
  const flags = Object.entries(SEARCH_ATTRIBUTES)
    .filter(([name]) => missing.includes(name))
    .map(([name, type]) => `--name ${name} --type ${type}`);
  const command = `temporal operator search-attribute create --namespace ${namespace} ${flags.join(' ')}`;
  throw new CodedError(
    'temporal_not_ready',
    `namespace ${namespace} has no search attribute ${missing.join(', ')}; every turn would get stuck. Run: ${command}`,
  );
}

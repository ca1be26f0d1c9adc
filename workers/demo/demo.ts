/**
 * `demo`: a real job from the first line to the checks. A folder, a question, an agent with tools, a person asked once, quotes verified;
 * with `--crash`, a worker killed in the middle.
 *
 * Invariant: what can be wrong with the input is found first, then servers start, then the turn is enqueued.
 */
import { randomUUID } from 'node:crypto';
import type { TurnHandle } from '../../client/api.ts';
import type { CliIo } from '../../client/cli/environment.ts';
import { TurnProgress } from '../../client/cli/progress.ts';
import { commandLine } from '../../client/command-line.ts';
import { runAgentId } from '../../client/run-agent.ts';
import type { TurnView } from '../../workflows/contract/views.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { type Cleanup, withCleanup } from '../commands/cleanup.ts';
import { checkStore } from '../commands/dev.ts';
import { Interrupt } from '../commands/interrupt.ts';
import { type ChosenModel, checkModelEndpoint, chooseModel } from '../commands/model.ts';
import type { DemoOptions } from '../commands/process-commands.ts';
import { type Settings, settingsOf } from '../commands/settings.ts';
import { lostTemporal, startTemporal } from '../commands/start-temporal.ts';
import type { Terminal } from '../commands/terminal.ts';
import { type OpenedBackend, openBackend, prepareNamespace } from '../commands/worker-process.ts';
import type { Config } from '../config.ts';
import { isConfigured } from '../model-options.ts';
import { shownStore } from '../open-store.ts';
import type { TemporalServer } from '../temporal/server.ts';
import { DEMO_AGENT } from './app.ts';
import { checkAnswer, checkRun } from './checks.ts';
import { Folder } from './folder.ts';
import { historySize } from './history.ts';
import { type DemoJob, DemoJobs, readEffects } from './jobs.ts';
import { Person } from './person.ts';
import { Quiet } from './quiet.ts';
import { type DemoResult, isGood, printResult, resultJson } from './report.ts';
import { crashingWorkers, type DemoWorkers, inProcessWorker } from './workers.ts';

const DEFAULT_QUESTION = 'What happens to a turn when the worker that runs it crashes?';
/**
 * How long a turn may stay in the queue. A worker of this demo polls, so a turn that was not taken by then went to a worker with another
 * store.
 */
const DISPATCH_MS = 45_000;
/** The exit code of a demo that was interrupted. */
const INTERRUPTED = 130;

interface Demo {
  readonly settings: Settings;
  readonly options: DemoOptions;
  readonly io: CliIo;
  readonly terminal: Terminal;
  readonly interrupt: Interrupt;
  readonly cleanup: Cleanup;
  /** Prints a line for people: to standard output, or to standard error where standard output carries JSON. */
  readonly say: (line: string) => void;
}

/**
 * Runs the demo. Resolves with the exit code: 0 when turn and checks are good, 1 when not, 130 when it was interrupted. Throws what is
 * wrong with folder, model, store or server before a turn is enqueued.
 */
export function demo(config: Config, io: CliIo, terminal: Terminal, options: DemoOptions): Promise<number> {
  const settings = settingsOf(config, options);
  const interrupt = new Interrupt();
  const quiet = new Quiet(options.json ? io.err : io.out);
  const { say } = quiet;
  return withCleanup(async (cleanup) => {
    cleanup.add(() => interrupt.release());
    cleanup.add(() => quiet.end());
    const demo: Demo = { settings, options, io, terminal: quiet.around(terminal), interrupt, cleanup, say };
    const running = run(demo);
    // An interrupted run fails when its store and server are closed, and that must not count as an unhandled rejection.
    running.catch(() => {});
    const ended = await Promise.race([running, interrupt.requested()]);
    quiet.end();
    if (!ended) {
      say(`interrupted; a turn that had begun is kept and goes on with: ${devCommand(demo)}`);
      return INTERRUPTED;
    }
    const { report, server, failed } = ended;
    if (options.json) io.out(resultJson(report));
    else printResult(report, say);
    if (server.started) await keepOpen(demo, failed);
    return isGood(report) ? 0 : 1;
  });
}

const devCommand = ({ options, settings }: Demo): string =>
  commandLine(`dev${options.dataDir === undefined ? '' : ` --data-dir ${settings.dataDir}`}`);

interface Finished {
  readonly report: DemoResult;
  readonly server: TemporalServer;
  /** Rejects when the server or a worker is lost; never resolves. */
  readonly failed: Promise<never>;
}

async function run(demo: Demo): Promise<Finished> {
  const { settings, options, say, cleanup } = demo;
  const { config, dataDir } = settings;
  const jobs = new DemoJobs(dataDir);
  // The tools find their folder by the agent, so its id is known before its turn begins.
  const idempotencyKey = randomUUID();
  const agentId = runAgentId(DEMO_AGENT, idempotencyKey);
  const job = jobs.plan(agentId, options.dir);
  const folder = await Folder.open(job.dir, job.include);
  if (isConfigured(config.model)) await checkModelEndpoint(config.model);
  await checkStore(settings);

  const question = options.question ?? DEFAULT_QUESTION;
  say(`question: ${question}`);
  say(`folder:   ${job.dir}${job.include === undefined ? '' : ` (${job.include.join(', ')})`}`);
  const model = await chooseModel(config.model, cleanup);
  say(model.announcement);
  const server = await startTemporal(settings, { log: say });
  cleanup.add(() => server.stop());
  say(server.source);
  const address = settings.temporal ?? { address: server.address, namespace: server.namespace };
  const backend = await openBackend(address, settings, cleanup);
  await prepareNamespace(backend);
  const workers = await startWorkers(demo, backend, model);
  const failed = Promise.race([workers.failed, lostTemporal(server, demo.interrupt.signal)]);
  failed.catch(() => {});

  jobs.save(agentId, job);
  const turn = await backend.client.run(DEMO_AGENT, { instruction: question, idempotencyKey });
  const view = await Promise.race([follow(demo, turn, workers), failed]);
  const report = await reportOf(demo, { backend, server, folder, job, question, model, view, workers });
  return { report, server, failed };
}

function startWorkers(demo: Demo, backend: OpenedBackend, model: ChosenModel): Promise<DemoWorkers> {
  const { settings, options, cleanup, say } = demo;
  const { dataDir } = settings;
  if (!options.crash) {
    const logLevel = options.debug ? 'DEBUG' : 'ERROR';
    return inProcessWorker(backend, { model: model.options, dataDir, log: say, logLevel }, cleanup);
  }
  const { address, namespace } = backend.address;
  const modelUrl = model.offline ? model.options.baseUrl : undefined;
  const { storeUrl } = settings;
  const child = { storeUrl, address, namespace, dataDir, modelUrl, debug: options.debug ?? false };
  return crashingWorkers(child, say, cleanup);
}

/** Prints the turn's events as they happen until it ends. */
async function follow({ options, terminal, say }: Demo, turn: TurnHandle, workers: DemoWorkers): Promise<TurnView> {
  const { acceptedAt } = await turn.get();
  const progress = new TurnProgress(acceptedAt);
  const asked = terminal.interactive && !options.json ? terminal : undefined;
  const person = new Person(turn, { answer: options.answer, terminal: asked, say });
  const dispatched = Promise.withResolvers<void>();
  say('');
  const events = async () => {
    for await (const event of turn.events()) {
      dispatched.resolve();
      for (const line of progress.lines(event)) say(line);
      person.see(event);
      await workers.see(event);
    }
  };
  await Promise.race([events(), notDispatched(turn, dispatched.promise)]);
  await person.done();
  return turn.get();
}

/** Rejects with `dispatch_timeout` when the turn stays in the queue; never resolves. */
async function notDispatched(turn: TurnHandle, dispatched: Promise<void>): Promise<never> {
  const patience = AbortSignal.timeout(DISPATCH_MS);
  const late = new Promise<'late'>((resolve) => patience.addEventListener('abort', () => resolve('late')));
  if ((await Promise.race([dispatched, late])) !== 'late') return new Promise<never>(() => {});
  throw new CodedError(
    'dispatch_timeout',
    `no worker took turn ${turn.id} within ${DISPATCH_MS / 1_000} s, though one of this demo runs: does a worker with another store ` +
      'serve the same namespace? Stop it, or use another namespace',
  );
}

interface Ended {
  readonly backend: OpenedBackend;
  readonly server: TemporalServer;
  readonly folder: Folder;
  readonly job: DemoJob;
  readonly question: string;
  readonly model: ChosenModel;
  readonly view: TurnView;
  readonly workers: DemoWorkers;
}

async function reportOf({ settings }: Demo, ended: Ended): Promise<DemoResult> {
  const { backend, server, folder, job, question, model, view, workers } = ended;
  const { agentId, agentTurnId } = view;
  const answer = await checkAnswer(view.deliverable, folder);
  const facts = {
    agentTurnId,
    events: await backend.store.readEvents({ agentId }),
    effects: readEffects(job),
    crash: workers.crash,
  };
  const link = `namespaces/${backend.address.namespace}/workflows/${encodeURIComponent(turnWorkflowId(agentId, agentTurnId))}`;
  return {
    view,
    question,
    folder: job.dir,
    model: view.steps.at(0)?.model ?? model.options.defaultModel,
    offline: model.offline,
    answer,
    checks: [...answer.checks, ...checkRun(facts)],
    history: await historySize(backend.temporal.client, agentId, agentTurnId),
    crash: workers.crash,
    webUi: server.uiUrl === undefined ? undefined : `${server.uiUrl}/${link}`,
    data: { dir: settings.dataDir, store: shownStore(settings.storeUrl), effectsLog: job.effectsLog },
  };
}

/** Keeps the server, and a worker that answers for a workflow's current details, as long as a person may use the Web UI. */
async function keepOpen(demo: Demo, failed: Promise<never>): Promise<void> {
  const { options, terminal, interrupt, say } = demo;
  const watched = terminal.interactive && !options.json;
  if (watched || options.keep) {
    say(`Temporal and its Web UI stay up until ${watched ? 'Enter or ' : ''}Ctrl-C.`);
    const enter = watched ? terminal.ask('', interrupt.signal) : interrupt.requested();
    await Promise.race([enter, interrupt.requested(), failed]);
  }
  say(`Temporal stops now; "${devCommand(demo)}" starts it on the same data, and the link shows the turn again.`);
}

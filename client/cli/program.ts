/**
 * The command line: what can be typed, and what each command does with it. Everything it touches comes from `CliEnvironment`.
 *
 * Invariants
 * 1. Exit code 0: done; 1: it failed, with a code of the catalogue; 2: the command line itself was wrong.
 * 2. With `--json` standard output carries one JSON object and nothing else; `dev` and `worker` print it when they are ready, and one
 *    more line if they fail later; `events` prints one line for each event.
 */
import { Command, CommanderError, Option } from 'commander';
import { RESULT_STATUSES } from '../../workflows/protocol/cards.ts';
import { PRIORITIES } from '../../workflows/protocol/turn.ts';
import { listAgents, showAgent } from './agents.ts';
import { type ApprovalsOptions, type ApproveOptions, approve, listApprovals, setBudgets } from './approvals.ts';
import { nameList, pageSize, portNumber, seconds, sequence } from './arguments.ts';
import { type StopOptions, startAgent, steerTurn, stopAgent, stopTurn } from './control.ts';
import { type EnqueueOptions, enqueue } from './enqueue.ts';
import type {
  CliEnvironment,
  CommonOptions,
  DemoOptions,
  DemoWorkerOptions,
  DevOptions,
  PageOptions,
  VerifyOptions,
  WorkerOptions,
} from './environment.ts';
import { type EventsOptions, printEvents } from './events.ts';
import { fail } from './failure.ts';
import { showTree } from './tree.ts';
import { reportToolResult, showTurn, type ToolResultOptions } from './turns.ts';
import { verify } from './verify.ts';

/** Runs one command's body, reports its failure and keeps its exit code. */
type Run = (options: CommonOptions, body: () => Promise<number>) => Promise<void>;

/** Resolves with the exit code. `argv` without the program's own name. */
export async function runCli(argv: readonly string[], environment: CliEnvironment): Promise<number> {
  const { io } = environment;
  let exitCode = 0;
  const run: Run = async (options, body) => {
    exitCode = await body().catch((error: unknown) => fail(io, options, error));
  };
  try {
    await buildProgram(environment, run).parseAsync(argv, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    return fail(io, {}, error);
  }
}

function buildProgram(environment: CliEnvironment, run: Run): Command {
  const { io } = environment;
  const program = new Command('agentturn')
    .description('Durable LLM agents on Temporal: one enqueue, one turn, exactly one deliverable.')
    .version(environment.version)
    .showHelpAfterError('(agentturn --help lists the commands)')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.out(text.trimEnd()),
      writeErr: (text) => io.err(text.trimEnd()),
    });
  addProcesses(program, environment, run);
  addEnqueue(program, environment, run);
  addTurns(program, environment, run);
  addApprovals(program, environment, run);
  addAgents(program, environment, run);
  addViews(program, environment, run);
  return program;
}

/** The options every command takes. */
function command(program: Command, usage: string, description: string): Command {
  return program
    .command(usage)
    .description(description)
    .option('--store <url>', 'sqlite:PATH or postgres://... (AGENTTURN_STORE; default: sqlite:.agentturn/agentturn.db)')
    .option(
      '--temporal <address>',
      'host:port of the Temporal server (TEMPORAL_ADDRESS; default: a running dev server)',
    )
    .option('--namespace <name>', 'Temporal namespace (TEMPORAL_NAMESPACE; default: default)')
    .option('--json', 'print one JSON object')
    .option('--debug', 'print stacks and details of failures');
}

function addProcesses(program: Command, environment: CliEnvironment, run: Run): void {
  const app = ['--app <module>', 'module whose default export is defineApp(...) (AGENTTURN_APP)'] as const;
  const dataDir = ['--data-dir <path>', 'folder for all data (default: .agentturn)'] as const;
  command(program, 'dev', 'Run everything on this machine: Temporal, store, model, worker.')
    .option(...app)
    .option('--port <number>', 'port of the Temporal server to start', portNumber)
    .option('--ui-port <number>', 'port of its Web UI', portNumber)
    .option(...dataDir)
    .action((options: DevOptions) => run(options, () => environment.dev(options)));
  command(program, 'worker', 'Run a worker for a Temporal server that runs already.')
    .option(...app)
    .option('--targets <names>', 'worker targets to serve, comma-separated (AGENTTURN_WORKER_TARGETS)', nameList)
    .action((options: WorkerOptions) => run(options, () => environment.worker(options)));
  command(program, 'demo [question]', 'Let an agent answer a question about a folder of documents.')
    .option('--dir <path>', 'the folder (default: the documentation of this project)')
    .option('--crash', 'kill the worker in the middle of the turn and start another')
    .addOption(new Option('--answer <answer>', 'what the person who is asked answers').choices(['yes', 'no']))
    .option('--keep', 'keep Temporal and its Web UI running until Ctrl-C')
    .option(...dataDir)
    .action((question: string | undefined, options: DemoOptions) =>
      run(options, () => environment.demo(question === undefined ? options : { ...options, question })),
    );
  const child = program.command('demo-worker', { hidden: true }).description('The worker that demo --crash kills.');
  for (const name of ['temporal', 'namespace', 'data-dir']) child.requiredOption(`--${name} <value>`);
  child
    .option('--model-url <url>')
    .option('--debug')
    .action((options: DemoWorkerOptions) => run(options, () => environment.demoWorker(options)));
}

function addEnqueue(program: Command, environment: CliEnvironment, run: Run): void {
  command(program, 'enqueue <agent> <instruction>', 'Queue one request for an agent; "-" reads it from standard input.')
    .option('--profile <name>', 'agent definition of the app (default: the one named like the agent)')
    .option('--key <key>', 'idempotency key: the same call again gives the same turn')
    .addOption(new Option('--priority <lane>', 'lane of the inbox').choices(PRIORITIES))
    .option('--result-fields <json>', 'fields the result must have, e.g. {"fields":[{"name":"answer"}]}')
    .option('--criterion <text...>', 'what must be true of the result; shown to the model in every step')
    .option('--context <file...>', 'files the turn may read')
    .option('--metadata <pair...>', 'KEY=VALUE kept with the request')
    .option('--ui-action', 'do not wait in the inbox: refused as agent_busy unless the agent is idle')
    .option('--wait', 'wait for the turn to end and print its deliverable')
    .option('--timeout <seconds>', 'how long to wait', seconds)
    .action((agent: string, instruction: string, options: EnqueueOptions) =>
      run(options, () => enqueue(environment, agent, instruction, options)),
    );
}

function addTurns(program: Command, environment: CliEnvironment, run: Run): void {
  const turn = program.command('turn').description('Look at turns, stop and steer them.');
  command(turn, 'show <turn>', 'Show a turn: steps, tools, tokens, waiting calls, deliverable.').action(
    (turnId: string, options: CommonOptions) => run(options, () => showTurn(environment, turnId, options)),
  );
  command(turn, 'tree <turn>', 'Draw what a request caused: its calls, and the turns it enqueued.').action(
    (turnId: string, options: CommonOptions) => run(options, () => showTree(environment, turnId, options)),
  );
  command(turn, 'stop <turn>', 'End a turn now, queued or running.')
    .option(...REASON)
    .action((turnId: string, options: StopOptions) => run(options, () => stopTurn(environment, turnId, options)));
  command(turn, 'steer <turn> <text>', 'Tell a running turn something; "-" reads it from standard input.')
    .option('--key <key>', 'the same message again with the same key counts once')
    .action((turnId: string, text: string, options: CommonOptions) =>
      run(options, () => steerTurn(environment, turnId, text, options)),
    );
  command(turn, 'budgets <turn> <json>', 'Give a running turn new budgets, e.g. {"maxTokens":2000000}.').action(
    (turnId: string, budgets: string, options: CommonOptions) =>
      run(options, () => setBudgets(environment, turnId, budgets, options)),
  );
  command(program, 'tool-result <turn> <call>', 'Answer a call that waits for a result from outside.')
    .addOption(
      new Option('--status <status>', 'how the call ended; running moves its deadline').choices([
        ...RESULT_STATUSES,
        'running',
      ]),
    )
    .option('--result <json>', 'the result')
    .addOption(new Option('--card <id>', 'a card that holds the result, written before').conflicts('result'))
    .option('--error <message>', 'why there is none')
    .action((turnId: string, callId: string, options: ToolResultOptions) =>
      run(options, () => reportToolResult(environment, turnId, callId, options)),
    );
}

function addApprovals(program: Command, environment: CliEnvironment, run: Run): void {
  command(program, 'approvals', 'List what waits for a person: calls that need approval, budgets that are used up.')
    .option('--turn <turn>', 'only of this turn and of all it delegated')
    .option('--agent <agent>', 'only of this agent')
    .option('--all', 'answered ones too')
    .option('--limit <number>', 'so many at most (default: 100)', pageSize)
    .option('--after <place>', 'those behind this one, as the page before has told')
    .action((options: ApprovalsOptions) => run(options, () => listApprovals(environment, options)));
  command(program, 'approve <call>', 'Answer one: let the call run, deny it, or extend the budget.')
    .option('--deny', 'it must not run')
    .option('--by <name>', 'who answers; needed where the agent names its approvers')
    .option('--reason <text>', 'the model reads it when the call is denied')
    .option('--arguments <json>', 'run the call with these arguments instead')
    .option('--budgets <json>', 'the new budgets, e.g. {"maxSteps":100}')
    .option('--turn <turn>', 'the turn that asks; needed only for budgets')
    .action((callId: string, options: ApproveOptions) => run(options, () => approve(environment, callId, options)));
}

const REASON = ['--reason <text>', 'kept with the turn that it ends'] as const;

function addAgents(program: Command, environment: CliEnvironment, run: Run): void {
  const agents = program.command('agents').description('Look at agents, stop and start them.');
  command(agents, 'ls', 'List the agents of the store.')
    .option('--limit <number>', 'so many at most (default: 100)', pageSize)
    .option('--after <agent>', 'those behind this one')
    .action((options: PageOptions) => run(options, () => listAgents(environment, options)));
  command(agents, 'get <agent>', 'Show an agent and its last turns.').action(
    (agentId: string, options: CommonOptions) => run(options, () => showAgent(environment, agentId, options)),
  );
  command(agents, 'stop <agent>', 'Refuse requests for an agent from now on, and end its active turn.')
    .option(...REASON)
    .action((agentId: string, options: StopOptions) => run(options, () => stopAgent(environment, agentId, options)));
  command(agents, 'start <agent>', 'Accept requests again, and run what is queued.').action(
    (agentId: string, options: CommonOptions) => run(options, () => startAgent(environment, agentId, options)),
  );
}

function addViews(program: Command, environment: CliEnvironment, run: Run): void {
  command(program, 'events', 'Print the events of an agent or a turn, one line each, oldest first.')
    .addOption(new Option('--agent <agent>', 'all events of this agent').conflicts('turn'))
    .option('--turn <turn>', 'the events of this turn')
    .option('--after <seq>', 'only events above this seq, the last one handled', sequence)
    .option('--follow', "go on with what comes: until Ctrl-C, or the end of --turn's turn")
    .action((options: EventsOptions, self: Command) => {
      if (options.agent === undefined && options.turn === undefined) {
        self.error("error: one of the options '--agent <agent>' and '--turn <turn>' is required");
      }
      return run(options, () => printEvents(environment, options));
    });
  command(program, 'verify', 'Check store and Temporal for anything that breaks the promise; exit 1 if there is.')
    .option('--older-than <seconds>', 'how long store and server may be out of step (default: 60)', seconds)
    .action((options: VerifyOptions) => run(options, () => verify(environment, options)));
}

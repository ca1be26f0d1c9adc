/** One chaos run, from an empty folder to its verdict. */

import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isGrpcServiceError } from '@temporalio/client';
import { AgentClient } from '../../client/agent-client.ts';
import { everyAgent } from '../../client/agent-pages.ts';
import { connectClient, type TemporalClient } from '../../client/connect.ts';
import { TurnWorkflows } from '../../client/turn-workflows.ts';
import { bundleWorkflows } from '../../workers/bundle.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import { openStore } from '../../workers/open-store.ts';
import type { Store } from '../../workflows/contract/store.ts';
import { Answers } from './answers.ts';
import { Batch } from './batch.ts';
import { type ChaosDatabase, startDatabase } from './databases.ts';
import { Endings } from './endings.ts';
import { Faults } from './faults.ts';
import { Fleet } from './fleet.ts';
import { Floods } from './floods.ts';
import { Foreign } from './foreign.ts';
import { Ledger, MADE_BY } from './ledger.ts';
import { leftBehind } from './left.ts';
import { type Life, Living } from './living.ts';
import { Load } from './load.ts';
import type { ChaosOptions } from './options.ts';
import { codeOf } from './patience.ts';
import { Poison } from './poison.ts';
import { randomOf } from './random.ts';
import type { ChaosReport } from './report.ts';
import { Tail } from './tail.ts';
import { ChaosTemporal } from './temporal.ts';
import { verify } from './verify.ts';
import { answerOf } from './work.ts';
import { WorkerMemory } from './worker-memory.ts';

const LOOK_EVERY_MS = 500;
/** Nothing may be found open for so long: the server's list of workflows lags behind. */
const SETTLE_MS = 3_000;

interface Site {
  readonly dir: string;
  readonly effectsPath: string;
  readonly temporal: ChaosTemporal;
  readonly database: ChaosDatabase;
  readonly model: ModelServer;
  readonly connected: TemporalClient;
  readonly store: Store;
  readonly fleet: Fleet;
  readonly unaskedEnds: string[];
}

/** `early` ends the faults before their time; what follows happens all the same. */
export async function chaos(
  options: ChaosOptions,
  echo: (line: string) => void,
  early: AbortSignal,
): Promise<ChaosReport> {
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-chaos-'));
  // PostgreSQL may run as another user, in a folder below.
  chmodSync(dir, 0o755);
  const closing: (() => unknown)[] = [];
  let ok = false;
  try {
    echo(`everything of this run is in ${dir}`);
    const site = await openSite(options, dir, closing);
    const report = await underFire(options, site, closing, echo, early);
    ok = report.ok;
    return report;
  } finally {
    for (const step of closing.reverse()) await step();
    if (ok && !options.keep) rmSync(dir, { recursive: true, force: true });
    else echo(`the logs, the store and Temporal's data are kept in ${dir}`);
  }
}

async function openSite(options: ChaosOptions, dir: string, closing: (() => unknown)[]): Promise<Site> {
  const effectsPath = join(dir, 'effects.jsonl');
  writeFileSync(effectsPath, '');
  const temporal = await ChaosTemporal.start(join(dir, 'temporal'));
  closing.push(() => temporal.stop());
  const database = await startDatabase(options, dir);
  closing.push(() => database.stop());
  const model = await startModelServer({ answer: answerOf, keepRequests: 1 });
  closing.push(() => model.close());
  const bundlePath = join(dir, 'workflows.js');
  writeFileSync(bundlePath, (await bundleWorkflows()).code);
  const { address, namespace } = temporal;
  const connected = await connectClient({ address, namespace });
  closing.push(() => connected.connection.close());
  const store = await openStore(database.url);
  closing.push(() => store.close());
  const unaskedEnds: string[] = [];
  const argument = { address, namespace, storeUrl: database.url, modelUrl: model.url, bundlePath, effectsPath };
  const fleet = new Fleet(argument, dir, (how) => unaskedEnds.push(how));
  closing.push(() => fleet.stop());
  await fleet.start(options.workers);
  return { dir, effectsPath, temporal, database, model, connected, store, fleet, unaskedEnds };
}

/** Who asks, and whether everything that was to be asked has ended. */
interface Asking {
  readonly load: Pick<Load, 'start' | 'stop'>;
  done(): boolean;
  halfDone(): boolean;
}

async function askingOf(
  { turns, agents, clients, seed }: ChaosOptions,
  { temporal, database }: Site,
  { client, foreign, ledger, tail }: { client: AgentClient; foreign: Foreign; ledger: Ledger; tail: Tail },
  closing: (() => unknown)[],
): Promise<Asking> {
  if (turns === 0) {
    const load = new Load({ client, foreign, ledger, tail, seed });
    return { load, done: () => false, halfDone: () => false };
  }
  const several = await Promise.all(
    Array.from({ length: clients }, async () => {
      const connected = await connectClient(temporal);
      closing.push(() => connected.connection.close());
      const store = await openStore(database.url);
      closing.push(() => store.close());
      return new AgentClient({ temporal: connected.client, store });
    }),
  );
  const batch = new Batch({ clients: several, ledger, tail, seed, turnsPerAgent: turns });
  const ended = () => ledger.acked.size - tail.openTurns().length;
  return {
    load: batch,
    done: () => batch.done && tail.openTurns().length === 0,
    halfDone: () => ended() * 2 >= turns * agents,
  };
}

async function underFire(
  options: ChaosOptions,
  site: Site,
  closing: (() => unknown)[],
  echo: (line: string) => void,
  early: AbortSignal,
): Promise<ChaosReport> {
  const { store, connected, fleet, temporal, database, dir } = site;
  const { seed } = options;
  const ledger = new Ledger(options.quiet ? () => {} : echo);
  const client = new AgentClient({ temporal: connected.client, store });
  const answers = new Answers(client, ledger, seed);
  const tail = new Tail(store, ledger, (event) => answers.onEvent(event));
  const { namespace } = temporal;
  const shared = { client, store, ledger, tail, namespace, temporal: connected.client };
  const foreign = new Foreign(shared);
  const { load, done, halfDone } = await askingOf(options, site, { ...shared, foreign }, closing);
  const floods = new Floods({ ...shared, foreign });
  const poison = new Poison(shared);
  const endings = new Endings({ ...shared, floods, random: randomOf(seed, 'endings') });
  const faults = new Faults({
    ...{ fleet, temporal, database, endings, poison, ledger, dir },
    storeUrl: database.url,
    activeAgents: () => activeAgents(store),
    random: randomOf(seed, 'faults'),
    pauses: randomOf(seed, 'pauses'),
    endingsPerMinute: options.endings,
    kinds: options.faults,
    halfDone,
    onError: (error) => ledger.count(`faults that did not apply: ${nameOf(error)}`),
  });
  const living = new Living({ ...shared, workflows: new TurnWorkflows(connected.client, store), seed });
  const memory = new WorkerMemory(() => fleet.pids());
  memory.start();
  tail.start();
  load.start(options.agents);
  if (options.turns === 0) living.start(options.agents);
  faults.start();
  await untilDone(done, ledger.startedAt + options.minutes * 60_000, early);
  await faults.stop();
  const seconds = (Date.now() - ledger.startedAt) / 1_000;
  echo(`${seconds.toFixed(0)} s  the faults are over, ${tail.openTurns().length} turns are open`);
  await load.stop();
  await living.settled();
  await endings.startAll();
  await floods.settled();
  await poison.settled();
  await drained(site, tail, Date.now() + options.drain * 1_000);
  await answers.settled();
  await tail.stop();
  const drainSeconds = (Date.now() - ledger.startedAt) / 1_000 - seconds;
  const workerPeakBytes = await memory.stop();
  return judge(options, site, ledger, living.lives, { seconds, drainSeconds, workerPeakBytes });
}

async function judge(
  options: ChaosOptions,
  { store, database, connected, effectsPath, unaskedEnds }: Site,
  ledger: Ledger,
  lives: readonly Life[],
  measured: Pick<ChaosReport, 'seconds' | 'drainSeconds' | 'workerPeakBytes'>,
): Promise<ChaosReport> {
  const agentIds = (await Array.fromAsync(everyAgent(store))).map(({ agentId }) => agentId);
  const seen = { store, storeUrl: database.url, temporal: connected.client };
  const { workerPeakBytes } = measured;
  const verdict = await verify({ ...seen, ledger, lives, agentIds, effectsPath, workerPeakBytes });
  return {
    ...verdict,
    ...measured,
    ok: verdict.violations.length === 0 && verdict.unexplained.length === 0 && asMany(options, ledger, verdict.turns),
    options,
    faultsByKind: byKind(ledger),
    faults: ledger.faults,
    counts: Object.fromEntries(ledger.counts),
    unaskedEnds,
  };
}

const activeAgents = async (store: Store): Promise<readonly string[]> =>
  (await store.listAgents()).filter((agent) => agent.activeAgentTurnId !== null).map(({ agentId }) => agentId);

async function untilDone(done: () => boolean, deadline: number, early: AbortSignal): Promise<void> {
  while (!early.aborted && !done() && Date.now() < deadline) {
    await sleep(LOOK_EVERY_MS, undefined, { signal: early }).catch(() => {});
  }
}

/** Returns when nothing is open and nothing is left for a while, or at the deadline; what is open then, the verdict says. */
async function drained(site: Site, tail: Tail, deadline: number): Promise<void> {
  let quietSince = Number.POSITIVE_INFINITY;
  while (Date.now() < deadline) {
    if (!(await isQuiet(site, tail))) quietSince = Number.POSITIVE_INFINITY;
    else if (quietSince === Number.POSITIVE_INFINITY) quietSince = Date.now();
    else if (Date.now() - quietSince >= SETTLE_MS) return;
    await sleep(LOOK_EVERY_MS);
  }
}

async function isQuiet({ store, database, connected }: Site, tail: Tail): Promise<boolean> {
  try {
    if (tail.openTurns().length > 0) return false;
    const busy = (await Array.fromAsync(everyAgent(store))).some(
      ({ status, queuedTurns }) => status !== 'idle' || queuedTurns > 0,
    );
    const temporal = connected.client;
    return !busy && (await leftBehind({ store, storeUrl: database.url, temporal })).length === 0;
  } catch {
    // The server or the store has just come back.
    return false;
  }
}

/** A batch has exactly the turns that were asked for, and those that they delegated. */
function asMany({ turns, agents }: ChaosOptions, { counts }: Ledger, seen: number): boolean {
  const delegated = [...counts].reduce((sum, [what, count]) => sum + (what.startsWith(MADE_BY) ? count : 0), 0);
  return turns === 0 ? seen > 0 : seen === turns * agents + delegated;
}

const nameOf = (error: unknown): string => {
  // Without the id that some end with.
  if (isGrpcServiceError(error)) return error.details.replace(/:.*/, '');
  return codeOf(error) ?? (error instanceof Error ? error.name : String(error));
};

function byKind(ledger: Ledger): Record<string, number> {
  const count: Record<string, number> = {};
  for (const { kind } of ledger.faults) count[kind] = (count[kind] ?? 0) + 1;
  return count;
}

/** The chaos: one seeded sequence of crashes and outages, and beside it a slower one of endings from outside. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChaosDatabase } from './databases.ts';
import type { Endings } from './endings.ts';
import type { Fleet } from './fleet.ts';
import { freezeClient } from './frozen-client.ts';
import type { Ledger } from './ledger.ts';
import type { Poison } from './poison.ts';
import { deckOf, type Random } from './random.ts';
import { supervisorPid } from './rows.ts';
import type { ChaosTemporal } from './temporal.ts';

export interface FaultDeps {
  readonly fleet: Fleet;
  readonly temporal: ChaosTemporal;
  readonly database: ChaosDatabase;
  readonly endings: Endings;
  readonly poison: Poison;
  readonly storeUrl: string;
  /** For logs. */
  readonly dir: string;
  /** Of agents that have a turn at work. */
  readonly activeAgents: () => Promise<readonly string[]>;
  readonly ledger: Ledger;
  readonly random: Random;
  /** For the pauses between endings. */
  readonly pauses: Random;
  readonly endingsPerMinute: number;
  readonly kinds: FaultKinds;
  readonly halfDone: () => boolean;
  /** What went wrong with a fault itself, and is not the runtime's doing. */
  readonly onError: (error: unknown) => void;
}

/**
 * Of each 25 faults so many: a worker killed or frozen, the server restarted, the store away, workers with few slots, a client of the store
 * frozen in a transaction, a poisoned queue.
 */
const DECK = { kill: 14, freeze: 4, server: 1, outage: 2, backlog: 1, client: 2, poison: 1 };
export type FaultKind = keyof typeof DECK;
export const FAULT_KINDS = Object.keys(DECK) as readonly FaultKind[];

/** `kills`: only workers, more often, and the server once, when half of the work is done. */
export type FaultKinds = 'kills' | readonly FaultKind[];

/** Share of the kills and freezes that hit the one worker that is the active supervisor. */
const AT_SUPERVISOR = 0.3;
const PAUSE_MS = { drawn: [2_500, 8_000], kills: [2_000, 5_000] } as const;
const BACKLOG_MS = [30_000, 70_000] as const;
const CLIENT_MS = [2_000, 12_000] as const;
/** At least this long between two restarts of the server, so that something gets done in between. */
const SERVER_EVERY_MS = 25_000;

export class Faults {
  readonly #deps: FaultDeps;
  readonly #cut = new AbortController();
  #lastServer = Date.now();
  #serverRestarts = 0;
  #clients = 0;
  readonly #draw: () => FaultKind;
  #loops: Promise<unknown> = Promise.resolve();

  constructor(deps: FaultDeps) {
    this.#deps = deps;
    const { kinds, random } = deps;
    const drawn = Object.entries(DECK).filter(([kind]) => kinds !== 'kills' && kinds.some((one) => one === kind));
    this.#draw = deckOf(Object.fromEntries(drawn) as Record<FaultKind, number>, random);
  }

  start(): void {
    const { random, pauses, endingsPerMinute, kinds } = this.#deps;
    const [least, most] = PAUSE_MS[kinds === 'kills' ? 'kills' : 'drawn'];
    const loops = [
      this.#loop(
        () => random.int(least, most),
        () => this.#crash(),
      ),
    ];
    if (endingsPerMinute > 0) {
      const meanMs = 60_000 / endingsPerMinute;
      loops.push(
        this.#loop(
          () => meanMs * (0.5 + pauses.next()),
          () => this.#deps.endings.inject(),
        ),
      );
    }
    this.#loops = Promise.all(loops);
  }

  /** Resolves when everything that was taken away is back. */
  async stop(): Promise<void> {
    this.#cut.abort();
    await this.#loops;
    this.#deps.fleet.thawAll();
  }

  async #loop(pauseMs: () => number, fault: () => Promise<void>): Promise<void> {
    const { signal } = this.#cut;
    while (!signal.aborted) {
      await sleep(pauseMs(), undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      await fault().catch(this.#deps.onError);
    }
  }

  async #crash(): Promise<void> {
    const { database, fleet, poison, ledger, random } = this.#deps;
    const kind = this.#kind();
    switch (kind) {
      case 'server':
        return this.#restartServer();
      case 'outage':
        return ledger.fault('store outage', await database.outage(random));
      case 'backlog': {
        const count = random.weighted({ all: 3, one: 1 }) === 'all' ? Number.POSITIVE_INFINITY : 1;
        return ledger.fault('few slots', fleet.narrow(random.int(...BACKLOG_MS), count).words);
      }
      case 'client':
        return this.#freezeClient();
      case 'poison':
        return poison.begin(random);
      default:
        return this.#hitWorker(kind);
    }
  }

  async #hitWorker(kind: 'kill' | 'freeze'): Promise<void> {
    const { fleet, database, ledger, random } = this.#deps;
    const ms = random.int(3_000, 25_000);
    const pid = random.chance(AT_SUPERVISOR) ? await supervisorPid(database.url) : undefined;
    const hit = kind === 'kill' ? fleet.kill(random, pid) : fleet.freeze(random, ms, pid);
    if (hit) ledger.fault(`${kind} ${hit.pid === pid ? 'the supervisor' : 'worker'}`, hit.words);
  }

  /** What it holds is free again when this resolves. */
  async #freezeClient(): Promise<void> {
    const { activeAgents, storeUrl, dir, ledger, random } = this.#deps;
    const ms = random.int(...CLIENT_MS);
    const agentId = random.pick(await activeAgents());
    if (agentId === undefined) return;
    this.#clients += 1;
    await freezeClient(dir, { storeUrl, agentId, ms }, this.#clients);
    ledger.fault('freeze a client in a transaction', `at agent ${agentId} for ${ms} ms`);
  }

  #kind(): FaultKind {
    const { kinds, halfDone } = this.#deps;
    if (kinds !== 'kills') return this.#draw();
    return this.#serverRestarts === 0 && halfDone() ? 'server' : 'kill';
  }

  async #restartServer(): Promise<void> {
    if (Date.now() - this.#lastServer < SERVER_EVERY_MS) return;
    const { temporal, ledger, random } = this.#deps;
    const how = random.chance(0.6) ? 'SIGKILL' : 'SIGTERM';
    const gapMs = random.int(2_000, 5_000);
    ledger.fault('restart server', `${how}, ${gapMs} ms away`);
    await temporal.restart(how, gapMs);
    this.#lastServer = Date.now();
    this.#serverRestarts += 1;
  }
}

/** The chaos: one seeded sequence of crashes and outages, and beside it a slower one of endings from outside. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChaosDatabase } from './databases.ts';
import type { Endings } from './endings.ts';
import type { Fleet } from './fleet.ts';
import type { Ledger } from './ledger.ts';
import type { Random } from './random.ts';
import { supervisorPid } from './rows.ts';
import type { ChaosTemporal } from './temporal.ts';

export interface FaultDeps {
  readonly fleet: Fleet;
  readonly temporal: ChaosTemporal;
  readonly database: ChaosDatabase;
  readonly endings: Endings;
  readonly ledger: Ledger;
  readonly random: Random;
  /** For the pauses between endings. */
  readonly pauses: Random;
  readonly endingsPerMinute: number;
  /** `kills`: only workers, more often, and the server once, when half of the work is done. */
  readonly kinds: 'all' | 'kills';
  readonly halfDone: () => boolean;
  /** What went wrong with a fault itself, and is not the runtime's doing. */
  readonly onError: (error: unknown) => void;
}

const WEIGHTS = { kill: 60, freeze: 16, server: 5, outage: 8 };
/** Share of the kills and freezes that hit the one worker that is the active supervisor. */
const AT_SUPERVISOR = 0.3;
const PAUSE_MS = { all: [2_500, 8_000], kills: [2_000, 5_000] } as const;
/** At least this long between two restarts of the server, so that something gets done in between. */
const SERVER_EVERY_MS = 25_000;

export class Faults {
  readonly #deps: FaultDeps;
  readonly #cut = new AbortController();
  #lastServer = Date.now();
  #serverRestarts = 0;
  #loops: Promise<unknown> = Promise.resolve();

  constructor(deps: FaultDeps) {
    this.#deps = deps;
  }

  start(): void {
    const { random, pauses, endingsPerMinute, kinds } = this.#deps;
    const [least, most] = PAUSE_MS[kinds];
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
    const { database, ledger, random } = this.#deps;
    const kind = this.#kind();
    if (kind === 'server') return this.#restartServer();
    if (kind === 'outage') {
      const what = await database.outage(random);
      return ledger.fault('store outage', what);
    }
    return this.#hitWorker(kind);
  }

  async #hitWorker(kind: 'kill' | 'freeze'): Promise<void> {
    const { fleet, database, ledger, random } = this.#deps;
    const ms = random.int(3_000, 25_000);
    const pid = random.chance(AT_SUPERVISOR) ? await supervisorPid(database.url) : undefined;
    const hit = kind === 'kill' ? fleet.kill(random, pid) : fleet.freeze(random, ms, pid);
    if (hit) ledger.fault(`${kind} ${hit.pid === pid ? 'the supervisor' : 'worker'}`, hit.words);
  }

  #kind(): keyof typeof WEIGHTS {
    const { kinds, halfDone, random } = this.#deps;
    if (kinds === 'all') return random.weighted(WEIGHTS);
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

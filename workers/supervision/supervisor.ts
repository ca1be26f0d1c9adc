/**
 * The supervisor: it notices what a turn cannot notice itself, its own death, a start that was lost, missing workers, no progress (T7, T12,
 * T23, T29). It runs in every worker process; a lease in the store keeps one of them active.
 *
 * Invariants
 * 1. One item's failure is counted, put off and logged, and never ends the pass; several items are checked at the same time, so that one
 *    agent's trouble does not delay another's.
 * 2. What a supervisor does is idempotent or refused by the store: two at once, or one that was frozen in a pass, do no harm.
 * 3. Due checks go on, and the lease is kept, while the server's list of workflows is slow or cannot be read.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { TurnWorkflows } from '../../client/turn-workflows.ts';
import type { ChunkStore } from '../../workflows/contract/chunks.ts';
import type { DelegationStore } from '../../workflows/contract/delegation.ts';
import type { SessionJournal } from '../../workflows/contract/journal.ts';
import type { DueTurn, SupervisorLease, SupervisorPass } from '../../workflows/contract/supervision.ts';
import { type CheckDeps, checkTurn, Queues, storeNow } from './check-turn.ts';
import { ClosedWorkflows, type ListingDeps, RunningWorkflows } from './listing.ts';
import { type Done, sideBySide } from './side-by-side.ts';
import { type WakingDeps, wakeDue } from './waking.ts';

/** What a supervisor works on and how often. */
export interface SupervisorOptions {
  readonly store: CheckDeps['store'] &
    ListingDeps['store'] &
    DelegationStore &
    WakingDeps['store'] &
    Pick<ChunkStore, 'dropChunks'>;
  readonly temporal: Client;
  /** The pause between two passes; 2 s when absent. */
  readonly everyMs?: number;
  /** How long the lease holds without being renewed; 10 s when absent. */
  readonly leaseMs?: number;
  /** The pause between two searches for workflows that no turn owns; 5 min when absent. */
  readonly orphansEveryMs?: number;
  /** Keeps journals of chat sessions: what the supervisor ends is in them. None are kept when absent. */
  readonly journal?: SessionJournal | undefined;
  /** Takes each error that a pass has survived. */
  readonly onError: (error: unknown) => void;
}

const EVERY_MS = 2_000;
const LEASE_MS = 10_000;
/** How many turns one pass checks; what is due beyond that is checked in the next one, which follows at once. */
const BATCH = 200;
/** How long at most an item is put off whose check failed: the server may be back soon. */
const LONGEST_FAILED_MS = 60_000;
/** How long a pass waits for the list of closed workflows; a list that takes longer is used by a later pass. */
const LIST_WAIT_MS = 1_000;
/** How long the reading of the list of closed workflows may take. */
const LIST_MS = 60_000;
/** How long a comparison of open turns with running workflows may take. */
const COMPARE_MS = 5 * 60_000;

/** How long the chunks of a turn are kept after its end (W16). */
const KEEP_CHUNKS_MS = 10 * 60_000;
/** How long it is remembered that a delivery came, so that it counts once (A9). */
const KEEP_DELIVERIES_MS = 7 * 24 * 60 * 60_000;
/** How often it is looked what is to be dropped, and how much is dropped at once. */
const DROP_EVERY_MS = 60_000;
const DROP_TURNS = 100;
const DROP_DELIVERIES = 1_000;

/** What a pass has done while another supervisor is active, or when it failed. */
const INACTIVE: SupervisorPass = { active: false, checked: 0, failed: 0 };

/** Makes passes over the turns of one store while it holds the store's lease. */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #deps: CheckDeps;
  readonly #closed: ClosedWorkflows;
  readonly #running: RunningWorkflows;
  readonly #holder = `${hostname()}/${process.pid}/${randomUUID()}`;
  readonly #leaseMs: number;
  readonly #ended = new AbortController();
  #listing: Promise<void> | null = null;
  #heldUntil = 0;
  #dropAt = 0;

  constructor(options: SupervisorOptions) {
    const { store, temporal, journal, orphansEveryMs, leaseMs = LEASE_MS } = options;
    this.#options = options;
    this.#leaseMs = leaseMs;
    this.#deps = { store, temporal, workflows: new TurnWorkflows(temporal, store, journal) };
    const listing = { store, temporal, ended: this.#ended.signal };
    this.#closed = new ClosedWorkflows(listing);
    this.#running = new RunningWorkflows(listing, orphansEveryMs);
  }

  /** One pass over what is due, if this supervisor is the active one. Throws the errors of the store. */
  async pass(): Promise<SupervisorPass> {
    const lease = await this.#hold();
    if (!lease) return INACTIVE;
    // Mostly the list is there at once, and what it found is checked in this pass.
    await Promise.race([this.#list(lease), sleep(LIST_WAIT_MS, undefined, { ref: false })]);
    const { store } = this.#deps;
    const due = await store.dueTurns(BATCH);
    const queues = new Queues(this.#options.temporal);
    const stillHolds = () => this.#stillHolds();
    const turns = await sideBySide(due, stillHolds, (turn) => this.#check(turn, queues, lease.since));
    const wakes = await this.#wake(stillHolds);
    await this.#dropOld().catch(this.#options.onError);
    return { active: true, checked: turns.done + wakes.done, failed: turns.failed + wakes.failed };
  }

  /**
   * All that is due, for a Temporal Schedule: passes until nothing is due any more, with the list of workflows to its end, and then the
   * lease is given up to the supervisor that comes next. Throws the errors of the store; the lease then expires.
   */
  async once(): Promise<SupervisorPass> {
    let [checked, failed] = [0, 0];
    for (let wasLate = false; ; ) {
      const pass = await this.pass();
      checked += pass.checked;
      failed += pass.failed;
      const late = this.#listing;
      await late;
      // What a late list has found is due by then, so one more pass follows.
      if (!pass.active || (pass.checked < BATCH && (late === null || wasLate))) {
        await this.#giveBack();
        return { ...pass, checked, failed };
      }
      wasLate = late !== null;
    }
  }

  /** Stops reading lists and gives the lease up. Throws the errors of the store; the lease then expires. */
  async release(): Promise<void> {
    this.#ended.abort();
    await this.#listing;
    await this.#giveBack();
  }

  async #giveBack(): Promise<void> {
    if (this.#heldUntil > 0) await this.#options.store.releaseSupervisorLease(this.#holder);
    this.#heldUntil = 0;
  }

  /** Acts on times that have come for agents (A8, A9). */
  async #wake(stillHolds: () => Promise<boolean>): Promise<Done> {
    const { onError } = this.#options;
    return wakeDue({ ...this.#deps, store: this.#options.store }, { limit: BATCH, stillHolds, onError });
  }

  /** Drops the chunks of turns that ended long ago, and keys of old deliveries: a few in each pass. */
  async #dropOld(): Promise<void> {
    if (performance.now() < this.#dropAt) return;
    const { store } = this.#options;
    const turns = await store.dropChunks(KEEP_CHUNKS_MS, DROP_TURNS);
    const keys = await store.dropDeliveries(KEEP_DELIVERIES_MS, DROP_DELIVERIES);
    if (turns < DROP_TURNS && keys < DROP_DELIVERIES) this.#dropAt = performance.now() + DROP_EVERY_MS;
  }

  async #hold(): Promise<SupervisorLease | null> {
    const askedAt = performance.now();
    const lease = await this.#options.store.holdSupervisorLease(this.#holder, this.#leaseMs);
    this.#heldUntil = lease ? askedAt + this.#leaseMs : 0;
    return lease;
  }

  /** Renews the lease in a long pass; a process that was frozen finds that it has lost it. */
  async #stillHolds(): Promise<boolean> {
    if (performance.now() < this.#heldUntil - this.#leaseMs / 2) return true;
    return (await this.#hold()) !== null;
  }

  /** Lists closed workflows and compares the running ones, one listing at a time and over several passes if need be. Never rejects. */
  #list(lease: SupervisorLease): Promise<void> {
    this.#listing ??= this.#listNow(lease)
      .catch((error: unknown) => {
        if (!this.#ended.signal.aborted) this.#options.onError(error);
      })
      .finally(() => {
        this.#listing = null;
      });
    return this.#listing;
  }

  async #listNow({ listedUntil }: SupervisorLease): Promise<void> {
    const { store, temporal } = this.#options;
    const until = await temporal.withDeadline(Date.now() + LIST_MS, () => this.#closed.list(listedUntil));
    await store.noteListed(this.#holder, until);
    await temporal.withDeadline(Date.now() + COMPARE_MS, () => this.#running.compare());
  }

  async #check(turn: DueTurn, queues: Queues, since: number): Promise<boolean> {
    try {
      await checkTurn(this.#deps, turn, queues, since);
      return true;
    } catch (error) {
      this.#options.onError(error);
      await this.#putOff(turn).catch(this.#options.onError);
      return false;
    }
  }

  async #putOff(turn: DueTurn): Promise<void> {
    const everyMs = Math.min(2 * turn.everyMs, LONGEST_FAILED_MS);
    const { noWorkersSince, workersSince, wokenAt } = turn;
    const checkAt = storeNow(this.#options.store) + Math.min(turn.everyMs, LONGEST_FAILED_MS);
    await this.#options.store.scheduleCheck(turn, { checkAt, everyMs, noWorkersSince, workersSince, wokenAt });
  }
}

/** Makes passes in this process until the function that is returned gets called; its promise waits for the pass under way. */
export function startSupervisor(options: SupervisorOptions): () => Promise<void> {
  const { everyMs = EVERY_MS, onError } = options;
  const supervisor = new Supervisor(options);
  const ended = new AbortController();
  const loop = async () => {
    while (!ended.signal.aborted) {
      const pass = await supervisor.pass().catch((error: unknown) => {
        onError(error);
        return INACTIVE;
      });
      // More may be due than one pass checks.
      if (pass.checked < BATCH) await sleep(everyMs, undefined, { signal: ended.signal }).catch(() => {});
    }
    await supervisor.release().catch(onError);
  };
  const done = loop();
  return async () => {
    ended.abort();
    await done;
  };
}

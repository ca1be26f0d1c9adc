/**
 * What only the server's list of workflows can tell soon: turns whose workflow was closed from outside, and turns whose workflow is gone
 * without a trace, because somebody deleted it or the server lost its database (T7, T29). Both make the turn due for a check, which looks
 * at the workflow itself: a list lags behind and decides nothing.
 */
import type { Client } from '@temporalio/client';
import { LRUCache } from 'lru-cache';
import type { StoreClock } from '../../workflows/contract/store.ts';
import type { SupervisorStore } from '../../workflows/contract/supervision.ts';
import type { ReadStore } from '../../workflows/contract/views.ts';
import { TURN_WORKFLOW_ID } from '../../workflows/protocol/ids.ts';
import { storeNow, terminate } from './check-turn.ts';

const PAGE = 1_000;
/** The list lags, and clocks differ: what closed shortly before the last listing, or before the first, is listed too. */
const OVERLAP_MS = 10 * 60_000;
const REMEMBERED_RUNS = 20_000;

const turnIdOf = (workflowId: string): string | null => TURN_WORKFLOW_ID.exec(workflowId)?.[2] ?? null;

export interface ListingDeps {
  readonly store: SupervisorStore & ReadStore & StoreClock;
  readonly temporal: Client;
}

export class ClosedWorkflows {
  readonly #deps: ListingDeps;
  /** Runs that have been seen: a run that was reset is closed, while its turn goes on in another run. */
  readonly #seen = new LRUCache<string, true>({ max: REMEMBERED_RUNS });

  constructor(deps: ListingDeps) {
    this.#deps = deps;
  }

  /** Makes due the open turns whose workflow closed since `listedUntil` other than by its own end; returns the new `listedUntil`. */
  async list(listedUntil: number | null): Promise<number> {
    const { store, temporal } = this.#deps;
    const startedAt = Date.now();
    const since = (listedUntil ?? startedAt) - OVERLAP_MS;
    const query =
      `WorkflowType = 'agentTurn' AND ExecutionStatus IN ('Terminated', 'Canceled', 'TimedOut', 'Failed') ` +
      `AND CloseTime >= '${new Date(since).toISOString()}'`;
    let found = new Map<string, string>();
    const take = async () => {
      await store.makeDue([...found.values()]);
      for (const runId of found.keys()) this.#seen.set(runId, true);
      found = new Map();
    };
    for await (const { workflowId, runId } of temporal.workflow.list({ query, pageSize: PAGE })) {
      const agentTurnId = turnIdOf(workflowId);
      if (agentTurnId !== null && !this.#seen.has(runId)) found.set(runId, agentTurnId);
      if (found.size >= PAGE) await take();
    }
    await take();
    return startedAt;
  }
}

/** Between two comparisons that found nothing to do, at least. */
const LEAST_PAUSE_MS = 2_000;
/** A comparison may take this share of the time at most. */
const PAUSE_PER_MS = 20;
/** More workflows than open turns: some are on their way in or out, and a few may have missed their end. */
const SURPLUS_PAUSE_MS = 5 * 60_000;
const ORPHAN_AGE_MS = 60_000;
const COMPARED_MS = 30_000;

/**
 * Compares the numbers of open turns and of running workflows, which costs little, and the two lists only where they differ: fewer workflows
 * than turns means that some are gone.
 */
export class RunningWorkflows {
  readonly #deps: ListingDeps;
  readonly #surplusPauseMs: number;
  readonly #orphanAgeMs: number;
  readonly #compared = new LRUCache<string, true>({ max: REMEMBERED_RUNS, ttl: COMPARED_MS });
  #notBefore = 0;
  #surplusNotBefore: number;

  /** A workflow that no turn owns is closed when it is older than `orphanAgeMs`; default one minute. */
  constructor(deps: ListingDeps, surplusPauseMs = SURPLUS_PAUSE_MS, orphanAgeMs = ORPHAN_AGE_MS) {
    this.#deps = deps;
    this.#surplusPauseMs = surplusPauseMs;
    this.#orphanAgeMs = orphanAgeMs;
    this.#surplusNotBefore = Date.now() + surplusPauseMs;
  }

  async compare(): Promise<void> {
    const { store, temporal } = this.#deps;
    const startedAt = Date.now();
    if (startedAt < this.#notBefore) return;
    const open = await store.countOpenTurns();
    const { count } = await temporal.workflow.count(RUNNING);
    const surplus = count > open && startedAt >= this.#surplusNotBefore;
    if (count >= open && !surplus) return;
    // Before: what cannot be closed must not have the lists compared in every pass.
    if (surplus) this.#surplusNotBefore = startedAt + this.#surplusPauseMs;
    const found = await this.#compareLists(surplus);
    const tookMs = Date.now() - startedAt;
    const pauseMs = found > 0 ? LEAST_PAUSE_MS : Math.max(LEAST_PAUSE_MS, PAUSE_PER_MS * tookMs);
    this.#notBefore = Date.now() + pauseMs;
  }

  async #compareLists(closeOrphans: boolean): Promise<number> {
    const { store, temporal } = this.#deps;
    // The turns before the workflows: a turn that starts between the two is in neither or in both.
    const open = new Set<string>();
    for (let after = ''; ; ) {
      const page = await store.listOpenTurns(after, PAGE);
      for (const id of page) open.add(id);
      after = page.at(-1) ?? '';
      if (page.length < PAGE) break;
    }
    const orphans: string[] = [];
    const oldest = Date.now() - this.#orphanAgeMs;
    for await (const { workflowId, startTime } of temporal.workflow.list({ query: RUNNING, pageSize: PAGE })) {
      const agentTurnId = turnIdOf(workflowId);
      if (agentTurnId !== null && open.delete(agentTurnId)) continue;
      if (closeOrphans && startTime.getTime() <= oldest) orphans.push(workflowId);
    }
    // The list may be behind for long: what has just been looked at is not looked at again at once.
    const missing = [...open].filter((id) => !this.#compared.has(id));
    for (let from = 0; from < missing.length; from += PAGE) await store.makeDue(missing.slice(from, from + PAGE));
    for (const id of missing) this.#compared.set(id, true);
    // Last, and each for itself: one that cannot be closed must not keep the others from it, nor what is gone from being found.
    const failed: unknown[] = [];
    for (const workflowId of orphans)
      await this.#closeOrphan(workflowId).catch((error: unknown) => void failed.push(error));
    if (failed.length > 0) throw failed[0];
    return missing.length;
  }

  /** A workflow whose turn ended a while ago is not what any head points at (T29). One whose turn is unknown may belong to another store. */
  async #closeOrphan(workflowId: string): Promise<void> {
    const agentTurnId = turnIdOf(workflowId);
    const turn = agentTurnId === null ? null : await this.#deps.store.getTurn(agentTurnId);
    if (turn?.endedAt == null || turn.endedAt > storeNow(this.#deps.store) - this.#orphanAgeMs) return;
    await terminate(this.#deps.temporal, workflowId, 'it is not the turn that its agent runs');
  }
}

const RUNNING = `WorkflowType = 'agentTurn' AND ExecutionStatus = 'Running'`;

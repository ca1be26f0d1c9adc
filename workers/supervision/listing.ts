/**
 * What only the server's list of workflows can tell soon: turns whose workflow was closed from outside, and turns whose workflow is gone
 * without a trace, because somebody deleted it or the server lost its database (T7, T29).
 *
 * Invariant: a list lags behind and decides nothing. It makes turns due for a check, which asks for the workflow itself.
 */
import { LRUCache } from 'lru-cache';
import type { StoreClock } from '../../workflows/contract/store.ts';
import type { SupervisorStore } from '../../workflows/contract/supervision.ts';
import type { ReadStore } from '../../workflows/contract/views.ts';
import { TURN_WORKFLOW_ID } from '../../workflows/protocol/ids.ts';
import { TERMINAL_STATUSES } from '../../workflows/protocol/turn.ts';
import { storeNow, terminate } from './check-turn.ts';
import { callUntilEnded, listWorkflows, type ServerCaller } from './workflow-list.ts';

const PAGE = 1_000;
/** How far a listing reaches back before the one before it, because the list lags. The first reaches back as far before what closed last. */
const OVERLAP_MS = 10 * 60_000;
const REMEMBERED_RUNS = 20_000;

/** The turn that a workflow id names; null when it names none. */
const turnIdOf = (workflowId: string): string | null => TURN_WORKFLOW_ID.exec(workflowId)?.[2] ?? null;

/** The workflows of turns that were closed from outside: one that shows the end of its turn has committed it. */
const CLOSED =
  `WorkflowType = 'agentTurn' AND ExecutionStatus IN ('Terminated', 'Canceled', 'TimedOut', 'Failed') ` +
  `AND (TurnStatus IS NULL OR TurnStatus NOT IN (${TERMINAL_STATUSES.map((status) => `'${status}'`).join(', ')}))`;

const ENDED = `WorkflowType = 'agentTurn' AND ExecutionStatus != 'Running'`;

/** What a listing reads, and where it makes turns due. */
export interface ListingDeps extends ServerCaller {
  readonly store: SupervisorStore & ReadStore & StoreClock;
}

/** Finds turns whose workflow was closed from outside. */
export class ClosedWorkflows {
  readonly #deps: ListingDeps;
  /** The ids of runs whose turn has been made due: a run that was reset stays closed, while its turn goes on in another run. */
  readonly #seen = new LRUCache<string, true>({ max: REMEMBERED_RUNS });
  /** The newest time of the server that was seen, and when, by `performance.now()`: it is later there by now. Null while none was. */
  #newest: { readonly time: number; readonly at: number } | null = null;

  constructor(deps: ListingDeps) {
    this.#deps = deps;
  }

  /**
   * Makes due the open turns whose workflow closed since `listedUntil` other than by its own end; returns the new `listedUntil`. Both are
   * epoch ms by the server's clock, which nobody can ask for: they are taken from what it lists. Null, or 0 where
   * nothing had closed, lists what closed last and shortly before. Throws the errors of store and server.
   */
  async list(listedUntil: number | null): Promise<number> {
    const { store } = this.#deps;
    const startedAt = performance.now();
    const known = this.#newest && this.#newest.time + startedAt - this.#newest.at;
    let until = Math.max(known ?? 0, listedUntil ?? 0) || (await this.#lastClosed());
    // What was listed up to a time that is still to come was closed by a clock that was ahead.
    const since = Math.max(0, Math.min(until, Date.now()) - OVERLAP_MS);
    const query = `${CLOSED} AND CloseTime >= '${new Date(since).toISOString()}'`;
    let found = new Map<string, string>();
    const take = async () => {
      await store.makeDue([...found.values()]);
      for (const runId of found.keys()) this.#seen.set(runId, true);
      found = new Map();
    };
    for await (const { workflowId, runId, closedAt } of listWorkflows(this.#deps, query)) {
      until = Math.max(until, closedAt ?? 0);
      const agentTurnId = turnIdOf(workflowId);
      if (agentTurnId !== null && !this.#seen.has(runId)) found.set(runId, agentTurnId);
      if (found.size >= PAGE) await take();
    }
    await take();
    if (until > 0) this.#newest = { time: until, at: startedAt };
    return Math.floor(until);
  }

  /** When the last workflow of a turn closed, whatever its end; 0 when none ever did. */
  async #lastClosed(): Promise<number> {
    for await (const { closedAt } of listWorkflows(this.#deps, ENDED, 1)) return closedAt ?? 0;
    return 0;
  }
}

/** The least pause between two comparisons. */
const LEAST_PAUSE_MS = 2_000;
/** For each ms that a comparison took that found nothing, the pause after it, so that comparing takes a twentieth of the time at most. */
const PAUSE_PER_MS = 20;
/**
 * The pause between two searches for workflows without a turn. More workflows than open turns are common: some are on their way in or out,
 * and a few may have missed their end.
 */
const SURPLUS_PAUSE_MS = 5 * 60_000;
const ORPHAN_AGE_MS = 60_000;
const COMPARED_MS = 30_000;

/**
 * Finds turns whose workflow is gone. The numbers of open turns and of running workflows cost little and are compared every time, the two
 * lists only where the numbers differ: fewer workflows than turns means that some are gone.
 */
export class RunningWorkflows {
  readonly #deps: ListingDeps;
  readonly #surplusPauseMs: number;
  readonly #orphanAgeMs: number;
  readonly #compared = new LRUCache<string, true>({ max: REMEMBERED_RUNS, ttl: COMPARED_MS });
  /** Turns whose end is still to come, because a clock was ahead, and when each was first seen so, by `performance.now()`. */
  readonly #endedAhead = new LRUCache<string, number>({ max: REMEMBERED_RUNS });
  // Both by `performance.now()`: a clock that is set back must not keep the lists from being compared.
  #notBefore = 0;
  #surplusNotBefore: number;

  /**
   * `surplusPauseMs` is the pause between two searches for workflows that no turn owns, five minutes when absent. Such a workflow is closed
   * when its turn ended before `orphanAgeMs`, one minute when absent.
   */
  constructor(deps: ListingDeps, surplusPauseMs = SURPLUS_PAUSE_MS, orphanAgeMs = ORPHAN_AGE_MS) {
    this.#deps = deps;
    this.#surplusPauseMs = surplusPauseMs;
    this.#orphanAgeMs = orphanAgeMs;
    this.#surplusNotBefore = performance.now() + surplusPauseMs;
  }

  /**
   * Makes turns due whose workflow is not in the server's list, and closes workflows of turns that ended a while ago. Throws the errors of
   * store and server.
   */
  async compare(): Promise<void> {
    const { store, temporal } = this.#deps;
    const startedAt = performance.now();
    if (startedAt < this.#notBefore) return;
    const open = await store.countOpenTurns();
    const { count } = await callUntilEnded(this.#deps, () => temporal.workflow.count(RUNNING));
    const surplus = count > open && startedAt >= this.#surplusNotBefore;
    if (count >= open && !surplus) return;
    // The time is set before the search: a workflow that cannot be closed must not have the lists compared in every pass.
    if (surplus) this.#surplusNotBefore = startedAt + this.#surplusPauseMs;
    const found = await this.#compareLists(surplus);
    const tookMs = performance.now() - startedAt;
    const pauseMs = found > 0 ? LEAST_PAUSE_MS : Math.max(LEAST_PAUSE_MS, PAUSE_PER_MS * tookMs);
    this.#notBefore = performance.now() + pauseMs;
  }

  async #compareLists(closeOrphans: boolean): Promise<number> {
    const { store } = this.#deps;
    // The turns are read before the workflows: a turn that starts between the two is in neither list or in both.
    const open = new Set<string>();
    for (let after = ''; ; ) {
      const page = await store.listOpenTurns(after, PAGE);
      for (const id of page) open.add(id);
      after = page.at(-1) ?? '';
      if (page.length < PAGE) break;
    }
    const orphans: string[] = [];
    for await (const { workflowId } of listWorkflows(this.#deps, RUNNING)) {
      const agentTurnId = turnIdOf(workflowId);
      if (agentTurnId !== null && open.delete(agentTurnId)) continue;
      if (closeOrphans) orphans.push(workflowId);
    }
    // The list may be behind for long: a turn that has just been made due by it is not made due again at once.
    const missing = [...open].filter((id) => !this.#compared.has(id));
    for (let from = 0; from < missing.length; from += PAGE) await store.makeDue(missing.slice(from, from + PAGE));
    for (const id of missing) this.#compared.set(id, true);
    // Closing comes last, and each is closed by itself: one that cannot be closed must not keep the others open, nor lost turns unfound.
    const failed: unknown[] = [];
    for (const workflowId of orphans) {
      if (this.#deps.ended.aborted) break;
      await this.#closeOrphan(workflowId).catch((error: unknown) => void failed.push(error));
    }
    if (failed.length > 0) throw failed[0];
    return missing.length;
  }

  /** Closes a workflow whose turn ended a while ago (T29). A workflow whose turn is unknown may belong to another store, and goes on. */
  async #closeOrphan(workflowId: string): Promise<void> {
    const agentTurnId = turnIdOf(workflowId);
    const turn = agentTurnId === null ? null : await this.#deps.store.getTurn(agentTurnId);
    if (turn?.endedAt == null || !this.#isLongAgo(turn.agentTurnId, turn.endedAt)) return;
    const { temporal } = this.#deps;
    await callUntilEnded(this.#deps, () => terminate(temporal, workflowId, 'it is not the turn that its agent runs'));
  }

  /** Whether the turn ended a while ago. When one has ended whose end is still to come nobody knows: not later than it was first seen. */
  #isLongAgo(agentTurnId: string, endedAt: number): boolean {
    const now = storeNow(this.#deps.store);
    if (endedAt <= now) return endedAt <= now - this.#orphanAgeMs;
    const seenAt = this.#endedAhead.get(agentTurnId) ?? performance.now();
    this.#endedAhead.set(agentTurnId, seenAt);
    return seenAt <= performance.now() - this.#orphanAgeMs;
  }
}

const RUNNING = `WorkflowType = 'agentTurn' AND ExecutionStatus = 'Running'`;

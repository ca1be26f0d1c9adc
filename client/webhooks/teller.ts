/**
 * Tells one webhook what it is to be told, for as long as this process has the right to.
 *
 * Invariants
 * 1. The events of an agent are sent one after the other, and the next one only when the store has that the one before was taken.
 * 2. An agent whose event is refused waits longer and longer and holds up no other one. A receiver that takes nothing at all gets one message at
 *    a time, now and then, however many agents wait.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend } from '../../workflows/contract/store.ts';
import {
  type DueAgent,
  LONGEST_PAUSE_MS,
  type TopicEvent,
  type WebhookStore,
} from '../../workflows/contract/webhooks.ts';
import { messageBody } from './message.ts';
import { type PostFailure, post } from './post.ts';
import { EventSearch } from './search.ts';
import { borderOf, signaturesOf, type Webhook } from './webhook.ts';

/** What telling takes. */
export type TellingStore = WebhookStore & Pick<Backend, 'changed'>;

/** How long things take and how long they are waited for; every figure has a default. */
export interface TellingTimes {
  /** How long a receiver may take to answer. */
  readonly timeoutMs?: number;
  /** The pause after a first failure, which doubles up to `longestPauseMs`. */
  readonly pauseMs?: number;
  readonly longestPauseMs?: number;
  /** How often the newest part of the log is read again, for what was committed late. */
  readonly againMs?: number;
}

/** What a teller is made of. */
export interface TellerDeps {
  readonly store: TellingStore;
  readonly webhook: Webhook;
  /** What the ids of messages begin with: those of another store are others. */
  readonly messagePrefix: string;
  readonly times: TellingTimes;
  /** Whether this process still has the right to tell. */
  readonly mayTell: () => boolean;
  /** Takes a line for the operator. */
  readonly log: (line: string) => void;
}

const TIMEOUT_MS = 10_000;
const PAUSE_MS = 1_000;
const AGAIN_MS = 10_000;
/** How many agents' events are told at the same time. */
const SIDE_BY_SIDE = 8;
/** How many events of one agent are told before another agent gets its turn. */
const BATCH = 20;
/** How long to wait for a change before the store is asked again anyway. */
const ASK_AGAIN_MS = 1_000;
/** The pause between two steps, however much happens. */
const STEP_MS = 100;

/** Tells one webhook. */
export class Teller {
  readonly #deps: TellerDeps;
  readonly #search: EventSearch;
  readonly #times: Required<TellingTimes>;
  readonly #ending = new AbortController();
  readonly #givenUp = new AbortController();
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #done: Promise<void>;
  #free = Promise.withResolvers<void>();
  /** Agents whose messages were not taken since the last one that was: one alone may be refused for what it says. */
  readonly #refused = new Set<string>();
  /** Tries that failed while it took nothing from anybody. */
  #vainTries = 0;
  #quietUntil = 0;

  /** Begins at once. */
  constructor(deps: TellerDeps) {
    const { timeoutMs = TIMEOUT_MS, againMs = AGAIN_MS } = deps.times;
    const { pauseMs = PAUSE_MS, longestPauseMs = LONGEST_PAUSE_MS } = deps.times;
    this.#deps = deps;
    this.#times = { timeoutMs, pauseMs, longestPauseMs, againMs };
    this.#search = new EventSearch(deps.store, deps.webhook, againMs);
    this.#done = this.#run();
  }

  /** Begins nothing more, and resolves when what is under way has ended; after `graceMs` it is given up, and told again by whoever comes next. */
  async stop(graceMs: number): Promise<void> {
    this.#ending.abort();
    this.#free.resolve();
    const timer = setTimeout(() => this.#givenUp.abort(), graceMs);
    await this.#done;
    clearTimeout(timer);
  }

  async #run(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      const change = this.#deps.store.changed(ASK_AGAIN_MS).catch(() => sleep(ASK_AGAIN_MS, undefined, { ref: false }));
      this.#free = Promise.withResolvers();
      const more = await this.#step().catch((error: unknown) => {
        this.#deps.log(`webhook ${this.#deps.webhook.name}: ${error instanceof Error ? error.message : error}`);
        return false;
      });
      if (!more) await Promise.race([change, this.#free.promise]);
      await sleep(STEP_MS, undefined, { signal: this.#ending.signal }).catch(() => {});
    }
    await Promise.all(this.#underWay.values());
  }

  /** Finds what is new, and begins to tell what is due. Returns whether there may be more of either. Errors: those of the store. */
  async #step(): Promise<boolean> {
    if (!this.#deps.mayTell()) return false;
    const more = await this.#search.step();
    const room = (this.#isDown ? 1 : SIDE_BY_SIDE) - this.#underWay.size;
    if (room <= 0 || performance.now() < this.#quietUntil) return more;
    const due = await this.#deps.store.dueAgents(this.#deps.webhook.id, room + this.#underWay.size);
    for (const agent of due.filter(({ agentId }) => !this.#underWay.has(agentId)).slice(0, room)) this.#begin(agent);
    return more;
  }

  get #isDown(): boolean {
    return this.#refused.size >= SIDE_BY_SIDE;
  }

  #begin(agent: DueAgent): void {
    const { name } = this.#deps.webhook;
    const told = this.#tell(agent)
      .catch((error: unknown) => this.#deps.log(`webhook ${name}: ${error instanceof Error ? error.message : error}`))
      .finally(() => {
        this.#underWay.delete(agent.agentId);
        this.#free.resolve();
      });
    this.#underWay.set(agent.agentId, told);
  }

  /** Tells the next events of an agent, up to the first that is not taken. Errors: those of the store. */
  async #tell({ agentId, seq, failures }: DueAgent): Promise<void> {
    const { store, webhook, mayTell } = this.#deps;
    const { id: webhookId, events: topics } = webhook;
    const border = borderOf(webhook);
    const events = await store.readTopicEvents(agentId, seq, topics, BATCH, border);
    if (events.length === 0) await store.noteSent({ webhookId, agentId, from: seq, event: null, topics, border });
    let from = seq;
    for (const event of events) {
      if (!mayTell() || this.#ending.signal.aborted) return;
      const failure = await this.#send(event);
      if (failure) return this.#noteFailure({ agentId, seq: from, failures: from === seq ? failures : 0 }, failure);
      if (!(await store.noteSent({ webhookId, agentId, from, event, topics, border }))) return;
      from = event.seq;
    }
  }

  async #send(event: TopicEvent): Promise<PostFailure> {
    const { webhook, messagePrefix } = this.#deps;
    const id = `${messagePrefix}${event.id}`;
    const timestampS = Math.floor(Date.now() / 1_000);
    const body = messageBody(webhook, event);
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'AgentTurn',
      'webhook-id': id,
      'webhook-timestamp': String(timestampS),
      'webhook-signature': signaturesOf(webhook.secrets, id, timestampS, body),
    };
    const failure = await post({ url: webhook.url, headers, body }, this.#times.timeoutMs, this.#givenUp.signal);
    if (failure === null && this.#refused.size > 0) {
      this.#deps.log(`webhook ${webhook.name}: takes messages again`);
      this.#refused.clear();
      this.#vainTries = 0;
      this.#quietUntil = 0;
    }
    return failure;
  }

  /** Errors: those of the store. */
  async #noteFailure({ agentId, seq, failures }: DueAgent, failure: NonNullable<PostFailure>): Promise<void> {
    // Nobody has refused it: it was given up here.
    if (this.#givenUp.signal.aborted) return;
    const { store, webhook, log } = this.#deps;
    const { error } = failure;
    if (this.#refused.size === 0) log(`webhook ${webhook.name}: a message was not taken (${error}), and is sent again`);
    if (!this.#isDown) this.#refused.add(agentId);
    const { longestPauseMs } = this.#times;
    const delayMs = Math.min(Math.max(this.#pause(failures), failure.retryAfterMs), longestPauseMs);
    if (this.#isDown) {
      this.#quietUntil = performance.now() + this.#pause(this.#vainTries);
      this.#vainTries += 1;
    }
    await store.noteFailed({ webhookId: webhook.id, agentId, from: seq, error, delayMs: Math.round(delayMs) });
  }

  /** The pause after so many failures before the last one, somewhat different each time. */
  #pause(failures: number): number {
    const { pauseMs, longestPauseMs } = this.#times;
    return Math.min(pauseMs * 2 ** Math.min(failures, 30), longestPauseMs) * (0.8 + Math.random() * 0.2);
  }
}

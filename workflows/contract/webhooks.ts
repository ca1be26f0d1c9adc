/**
 * What is told to somebody outside: events with a topic, and how far each webhook has been told of them.
 *
 * Invariants
 * 1. A webhook is told the events of an agent in the order of their `seq`, each at least once: what it has got to is a row of the store, which
 *    moves only from where it was (`from`).
 * 2. What is found costs by how many events have a topic, and what is kept by how many agents have something to be told: an agent of which
 *    everything was told, and whose events no search reads again, has no row.
 */
import type { Border } from './border.ts';
import type { AgentEvent } from './events.ts';

/** What happened that somebody outside may want to know: a turn has ended, or something waits for a person. */
export const TOPICS = ['turn.ended', 'approval.asked', 'budget.asked', 'call.waiting'] as const;
/** One of the things that somebody outside may want to know. */
export type Topic = (typeof TOPICS)[number];

/** An event with a topic, as it is found. */
export interface FoundEvent {
  /** Of the event among those of all agents. They are given in order, and committed nearly so. */
  readonly id: number;
  readonly agentId: string;
  readonly seq: number;
  readonly topic: Topic;
  /** Whether it is within the border that was asked with. */
  readonly inView: boolean;
}

/** An event with its topic, as it is told. */
export type TopicEvent = AgentEvent & { readonly topic: Topic };

/** An agent of whose events something is to be told now. */
export interface DueAgent {
  readonly agentId: string;
  /** The `seq` of the event that was told last, or one before the first. */
  readonly seq: number;
  /** How often in a row the next one could not be told. */
  readonly failures: number;
}

/** That a webhook has been told of an event of an agent. */
export interface SentMark {
  readonly webhookId: string;
  readonly agentId: string;
  /** The `seq` that was told before. */
  readonly from: number;
  /** What was told; null when nothing was left to tell. */
  readonly event: Pick<TopicEvent, 'id' | 'seq'> | null;
  /** What the webhook wants to be told. */
  readonly topics: readonly Topic[];
  /** Of what the webhook is told; of everything when left out. */
  readonly border?: Border;
}

/** That an event of an agent could not be told. */
export interface FailedMark {
  readonly webhookId: string;
  readonly agentId: string;
  readonly from: number;
  readonly error: string;
  /** How long to wait before it is tried again. */
  readonly delayMs: number;
}

/** How a webhook stands. */
export interface WebhookView {
  readonly webhookId: string;
  /** How many messages it has taken. */
  readonly sent: number;
  /** How many tries have failed. */
  readonly failed: number;
  /** Of how many agents something is still to be told. */
  readonly agentsBehind: number;
  readonly lastSentAt: number | null;
  readonly lastFailedAt: number | null;
  /** Why the last try failed that did; null when none has. */
  readonly lastError: string | null;
}

/** No message that was not taken waits longer until it is sent again. */
export const LONGEST_PAUSE_MS = 5 * 60_000;

/** Webhooks: what is to be told, and what was. */
export interface WebhookStore {
  /** Takes or renews the right to tell, for `ttlMs`; false while another holder has it. */
  holdWebhookLease(holder: string, ttlMs: number): Promise<boolean>;
  /** Ends the right of `holder` at once. */
  releaseWebhookLease(holder: string): Promise<void>;
  /**
   * Makes the webhook known where it is not, from the end of the log on. Returns the id up to which no event is searched for any more. Idempotent.
   */
  openWebhook(webhookId: string): Promise<number>;
  /** Finds events with a topic behind that id, in the order of their ids, at most `limit`. */
  findEvents(afterId: number, limit: number, border?: Border): Promise<readonly FoundEvent[]>;
  /** Writes down of which agents there are events to be told. What was told of before changes nothing. Idempotent. */
  noteFound(webhookId: string, found: readonly FoundEvent[]): Promise<void>;
  /** Writes down that every event up to this id was found, and forgets agents of which all is told. Idempotent. */
  noteSearched(webhookId: string, searchedId: number): Promise<void>;
  /** The agents of whose events something is to be told now, those first that have waited longest. */
  dueAgents(webhookId: string, limit: number): Promise<readonly DueAgent[]>;
  /** Reads the next events of an agent with one of these topics, in order. */
  readTopicEvents(
    agentId: string,
    afterSeq: number,
    topics: readonly Topic[],
    limit: number,
    border?: Border,
  ): Promise<readonly TopicEvent[]>;
  /** Writes down what was told. False when it was not at `from`: somebody else tells this agent's events. */
  noteSent(mark: SentMark): Promise<boolean>;
  /** Writes down that something could not be told, and when it is tried again. */
  noteFailed(mark: FailedMark): Promise<void>;
  /** How webhooks stand, in the order of their ids. */
  listWebhooks(): Promise<readonly WebhookView[]>;
}

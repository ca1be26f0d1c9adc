/**
 * Tells webhooks what happens: turns that end, and what waits for people.
 *
 * Invariants
 * 1. One process tells at a time, while it holds the lease of the store; each webhook by a teller of its own, so that none waits for another.
 * 2. A process that was frozen, and whose lease is over, sends no further message; the one that it was sending may come twice.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ReadStore } from '../../workflows/contract/views.ts';
import { Teller, type TellingStore, type TellingTimes } from './teller.ts';
import type { Webhook } from './webhook.ts';

/** What webhooks are told with. */
export interface WebhooksOptions {
  readonly store: TellingStore & Pick<ReadStore, 'identity'>;
  readonly webhooks: readonly Webhook[];
  readonly times?: TellingTimes & {
    /** How long the right to tell lasts without being renewed. */ readonly leaseMs?: number;
  };
  /** Takes a line for the operator. */
  readonly log: (line: string) => void;
}

/** Webhooks that are being told. */
export interface RunningWebhooks {
  /** Begins nothing more, waits a moment for messages under way, and lets others tell at once. */
  stop(): Promise<void>;
}

const LEASE_MS = 15_000;
/** How long messages under way are waited for at the end. */
const GRACE_MS = 3_000;

/** Tells webhooks until it is stopped. */
export function startWebhooks(options: WebhooksOptions): RunningWebhooks {
  const { store, webhooks, times = {}, log } = options;
  const { leaseMs = LEASE_MS } = times;
  const holder = randomUUID();
  const stopping = new AbortController();
  let heldUntil = 0;
  const mayTell = () => performance.now() < heldUntil;

  async function hold(): Promise<boolean> {
    const askedAt = performance.now();
    const held = await store.holdWebhookLease(holder, leaseMs);
    heldUntil = held ? askedAt + leaseMs : 0;
    return held;
  }

  let tellers: readonly Teller[] = [];
  const endTellers = async () => {
    await Promise.all(tellers.map((teller) => teller.stop(GRACE_MS)));
    tellers = [];
  };

  async function renew(): Promise<void> {
    const hadIt = mayTell();
    const hasIt = await hold();
    // What a teller knows of the log may be out of date when somebody else could have told meanwhile.
    if (!hasIt || !hadIt) await endTellers();
    if (!hasIt || tellers.length > 0) return;
    const messagePrefix = `evt_${(await store.identity()).storeId.slice(0, 8)}_`;
    tellers = webhooks.map((webhook) => new Teller({ store, webhook, messagePrefix, times, mayTell, log }));
  }

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      await renew().catch((error: unknown) => log(`webhooks: ${error instanceof Error ? error.message : error}`));
      await sleep(leaseMs / 3, undefined, { signal: stopping.signal }).catch(() => {});
    }
    await endTellers();
    await store.releaseWebhookLease(holder);
  }

  const done = run();
  const ended = done.catch((error: unknown) => log(`webhooks: ${error instanceof Error ? error.message : error}`));
  return {
    async stop() {
      stopping.abort();
      await ended;
    },
  };
}

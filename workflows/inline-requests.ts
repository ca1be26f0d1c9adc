/**
 * Requests of foreign clients that the store has not got yet.
 *
 * Invariants
 * 1. They go to the store in the order they came, a few at a time: a client that sends without a pause fills no history.
 * 2. A request that is accepted and has an idempotency key may come again as often as it likes: it changes nothing and is passed over.
 */
import { sleep } from '@temporalio/workflow';
import type { MessageIds } from './message-ids.ts';
import { isRecord, shallow } from './messages.ts';
import { INLINE_BATCH, type InlineMessage, storeActivities } from './ports.ts';

/** Between two activities: what was accepted is recorded before a hundred messages have come, when the server gives the task up. */
const PAUSE_MS = 1;

export class InlineRequests {
  readonly #agentId: string;
  readonly #ids: MessageIds;
  readonly #accepted = new Set<string>();
  #waiting: InlineMessage[] = [];

  constructor(agentId: string, ids: MessageIds) {
    this.#agentId = agentId;
    this.#ids = ids;
  }

  push(body: unknown): void {
    this.#waiting.push({ messageId: this.#ids.next(), body: shallow(body ?? null) });
  }

  /** Whether one is there that is not known to be accepted. */
  get isWaiting(): boolean {
    if (this.#accepted.size > 0) this.#waiting = this.#waiting.filter(({ body }) => !this.#accepted.has(keyed(body)));
    return this.#waiting.length > 0;
  }

  /** Errors: what the activity throws in spite of its retries; the requests of that attempt are not tried again. */
  async acceptSome(): Promise<void> {
    const requests = this.#waiting.splice(0, INLINE_BATCH);
    const accepted = await storeActivities.acceptInline({ agentId: this.#agentId, requests });
    requests.forEach(({ body }, at) => {
      if (accepted[at] && keyed(body) !== '') this.#accepted.add(keyed(body));
    });
    if (this.isWaiting) await sleep(PAUSE_MS);
  }
}

/** The whole request; empty when it has no key. */
const keyed = (body: unknown): string =>
  isRecord(body) && typeof body.idempotencyKey === 'string' ? JSON.stringify(body) : '';

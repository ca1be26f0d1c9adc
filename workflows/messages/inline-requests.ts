/**
 * Requests of foreign clients that the store has not got yet.
 *
 * Invariants
 * 1. They go to the store in the order they came, a few at a time: a client that sends without a pause fills no history.
 * 2. A request that is accepted and has an idempotency key may come again as often as it likes: it changes nothing and is passed over.
 */
import { sleep } from '@temporalio/workflow';
import { INLINE_BATCH, type InlineMessage, type StoreActivities, storeActivities } from '../contract/activities.ts';
import type { MessageIds } from './message-ids.ts';
import { isRecord, shallow } from './messages.ts';

/** Between two activities: what was accepted is recorded before a hundred messages have come, when the server gives the task up. */
const PAUSE_MS = 1;

interface Request extends InlineMessage {
  /** The whole request, when it has a key. */
  readonly keyed: string | null;
}

/** What is asked of the server; a turn counts it. */
interface Server {
  readonly store: Pick<StoreActivities, 'acceptInline'>;
  sleep(ms: number): Promise<void>;
}

const UNCOUNTED: Server = { store: storeActivities, sleep };

export class InlineRequests {
  readonly #agentId: string;
  readonly #ids: MessageIds;
  readonly #server: Server;
  readonly #accepted = new Set<string>();
  #waiting: Request[] = [];

  constructor(agentId: string, ids: MessageIds, server: Server = UNCOUNTED) {
    this.#agentId = agentId;
    this.#ids = ids;
    this.#server = server;
  }

  push(sent: unknown): void {
    const messageId = this.#ids.next();
    const body = shallow(sent ?? null);
    const request = { messageId, body, keyed: keyedOf(body) };
    if (!this.#isAccepted(request)) this.#waiting.push(request);
  }

  get isWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** Errors: what the activity throws in spite of its retries; the requests of that attempt are not tried again. */
  async acceptSome(): Promise<void> {
    const batch = this.#waiting.splice(0, INLINE_BATCH);
    const requests = batch.map(({ messageId, body }) => ({ messageId, body }));
    const accepted = await this.#server.store.acceptInline({ agentId: this.#agentId, requests });
    batch.forEach(({ keyed }, at) => {
      if (accepted[at] && keyed !== null) this.#accepted.add(keyed);
    });
    this.#waiting = [...batch.slice(accepted.length), ...this.#waiting].filter((request) => !this.#isAccepted(request));
    if (!this.isWaiting) return;
    await this.#server.sleep(PAUSE_MS);
  }

  #isAccepted({ keyed }: Request): boolean {
    return keyed !== null && this.#accepted.has(keyed);
  }
}

const keyedOf = (body: unknown): string | null =>
  isRecord(body) && typeof body.idempotencyKey === 'string' ? JSON.stringify(body) : null;

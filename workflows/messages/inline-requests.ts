/**
 * Requests that foreign clients sent by signal and that the store does not have yet. The acceptor and every turn keep such a list.
 *
 * Invariants
 * 1. Requests go to the store in the order they came, a few at a time: a client that sends without a pause fills no history.
 * 2. A request that is accepted and has an idempotency key may come again as often as its sender likes: it changes nothing and is passed
 *    over.
 */
import { sleep } from '@temporalio/workflow';
import { INLINE_BATCH, type InlineMessage, type StoreActivities, storeActivities } from '../contract/activities.ts';
import type { MessageIds } from './message-ids.ts';
import { isRecord, shallow } from './messages.ts';

/**
 * The pause between two activities. What was accepted is recorded before a hundred more messages have come, at which the server gives the
 * workflow task up.
 */
const PAUSE_MS = 1;

interface Request extends InlineMessage {
  /** The whole request as JSON when it has an idempotency key; null when it has none. */
  readonly keyed: string | null;
}

/** The calls to the server that accepting needs; a turn passes calls that it counts. */
interface Server {
  readonly store: Pick<StoreActivities, 'acceptInline'>;
  sleep(ms: number): Promise<void>;
}

/** The calls as an acceptor makes them: no usage is recorded of it. */
const UNCOUNTED: Server = { store: storeActivities, sleep };

/** The requests of foreign clients that wait to be accepted for one agent. */
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

  /** Takes a request in as its sender sent it, whatever it is. A request that was accepted before is passed over. */
  push(sent: unknown): void {
    const messageId = this.#ids.next();
    const body = shallow(sent ?? null);
    const request = { messageId, body, keyed: keyedOf(body) };
    if (!this.#isAccepted(request)) this.#waiting.push(request);
  }

  /** Whether a request waits that the store does not have yet. */
  get isWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /**
   * Hands the oldest requests to the store. Throws what the activity throws in spite of its retries; the requests of that attempt are not
   * tried again.
   */
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

/** The body as JSON when it has an idempotency key, else null: two requests are the same when these texts are. */
const keyedOf = (body: unknown): string | null =>
  isRecord(body) && typeof body.idempotencyKey === 'string' ? JSON.stringify(body) : null;

/**
 * The search for events of the log that one webhook is to be told of.
 *
 * Invariant: ids are committed nearly in their order. What was passed because it came late is found by a second look: everything behind
 * `#searchedId` is read again, until an id has been seen for longer than any transaction goes on.
 */
import type { FoundEvent, WebhookStore } from '../../workflows/contract/webhooks.ts';
import { borderOf, type Webhook } from './webhook.ts';

/** What a search takes. */
export type SearchStore = Pick<WebhookStore, 'openWebhook' | 'findEvents' | 'noteFound' | 'noteSearched'>;

const PAGE = 500;
/** How many pages one step reads at most; the next one goes on there. */
const PAGES = 10;
/** A transaction that has got an id commits within this time, or never: the server ends one that stands still. */
const SETTLED_MS = 60_000;

/** Searches for one webhook. */
export class EventSearch {
  readonly #store: SearchStore;
  readonly #webhook: Webhook;
  readonly #againMs: number;
  /** Up to where nothing can come any more; null before the first step. */
  #searchedId: number | null = null;
  /** Up to where the log was read. */
  #readId = 0;
  #againAt = 0;
  /** Ids that were the last ones, and when they were. */
  #seen: { readonly id: number; readonly at: number }[] = [];

  /** What is not certain yet is read again every `againMs`. */
  constructor(store: SearchStore, webhook: Webhook, againMs: number) {
    this.#againMs = againMs;
    this.#store = store;
    this.#webhook = webhook;
  }

  /** Reads what is new. Returns whether there may be more. Errors: those of the store. */
  async step(): Promise<boolean> {
    const { id } = this.#webhook;
    if (this.#searchedId === null) {
      this.#searchedId = await this.#store.openWebhook(id);
      this.#readId = this.#searchedId;
    }
    const now = performance.now();
    if (now >= this.#againAt) {
      this.#againAt = now + this.#againMs;
      await this.#settle(now);
      await this.#read(this.#searchedId, this.#readId);
    }
    const to = await this.#read(this.#readId, Number.MAX_SAFE_INTEGER, PAGES);
    const more = to.pages === PAGES;
    this.#readId = Math.max(this.#readId, to.id);
    if (this.#seen.at(-1)?.id !== this.#readId) this.#seen.push({ id: this.#readId, at: performance.now() });
    return more;
  }

  /** Reads from one id to another, so many full pages at most. */
  async #read(from: number, to: number, most = Number.POSITIVE_INFINITY) {
    let [id, pages] = [from, 0];
    while (id < to && pages < most) {
      const page = await this.#store.findEvents(id, PAGE, borderOf(this.#webhook));
      await this.#store.noteFound(
        this.#webhook.id,
        page.filter((event) => this.#isWanted(event)),
      );
      id = page.at(-1)?.id ?? id;
      if (page.length < PAGE) break;
      pages += 1;
    }
    return { id, pages };
  }

  /** Moves the place behind which events are searched to the last id that was seen long enough ago. */
  async #settle(now: number): Promise<void> {
    const old = this.#seen.filter(({ at }) => at <= now - SETTLED_MS);
    const last = old.at(-1);
    if (!last || last.id <= (this.#searchedId ?? 0)) return;
    this.#seen = this.#seen.slice(old.length - 1);
    // What came late below it has been found by a look that began after that time: the one before this one, or this one now.
    await this.#read(this.#searchedId ?? 0, last.id);
    await this.#store.noteSearched(this.#webhook.id, last.id);
    this.#searchedId = last.id;
  }

  #isWanted({ topic, inView }: FoundEvent): boolean {
    return inView && this.#webhook.events.includes(topic);
  }
}

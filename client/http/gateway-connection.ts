/**
 * Requests to a gateway, by `fetch` alone: it runs in Node and in browsers.
 *
 * Invariant: nothing has its effect twice. What reads, what follows events, and what counts once by a key of its own is tried again for a while when
 * the gateway is away; anything else that may have come there is sent once. What was refused because this caller asks too often had no effect: it is
 * sent again when the gateway says, whatever it is.
 */
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { CodedError, isFailureCode } from '../../workflows/protocol/failures.ts';
import { withoutTrailing } from '../trailing.ts';

/** Where a gateway is, and who calls. */
export interface GatewayAddress {
  /** Such as `https://agents.example.com`; a path in it goes before all others. */
  readonly url: string;
  readonly token: string;
  /** The tenant that is called for, by a token that is not for one alone. */
  readonly tenant?: string;
  /** What requests are sent by; the platform's `fetch` when left out. */
  readonly fetch?: typeof fetch;
  /** How long what reads is tried again while the gateway is away, and all that asks too often, ms; a minute when left out. */
  readonly patienceMs?: number;
}

/** What is asked for with a path. */
export interface GatewayQuery {
  readonly [name: string]: string | number | boolean | readonly string[] | undefined;
}

type RequestHeaders = Readonly<Record<string, string>>;

interface RequestMore {
  readonly signal?: AbortSignal | undefined;
  /** What the reader has handled last. */
  readonly lastId?: string | undefined;
  readonly headers?: RequestHeaders;
}

/** Names the tenant that is called for. */
export const TENANT_HEADER = 'agentturn-tenant';

/** Items of a page of which nothing is said. */
const PAGE = 100;
const PATIENCE_MS = 60_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;

/** The codes of a gateway that may be back soon. */
const AWAY: readonly string[] = ['gateway_unreachable', 'store_unavailable', 'store_locked'];

const isAway = (error: unknown): boolean => error instanceof CodedError && AWAY.includes(error.code);

/** Sends requests to one gateway. */
export class GatewayConnection {
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch;
  readonly #patienceMs: number;

  constructor({ url, token, tenant, fetch: own, patienceMs = PATIENCE_MS }: GatewayAddress) {
    this.#base = withoutTrailing(url, '/');
    this.#headers = {
      authorization: `Bearer ${token}`,
      ...(tenant === undefined ? {} : { [TENANT_HEADER]: tenant }),
    };
    // A browser's own function wants to be called as one of the window.
    this.#fetch = own ?? ((input, init) => fetch(input, init));
    this.#patienceMs = patienceMs;
  }

  /** Reads, again and again for a while where the gateway is away. Errors: those of `send`. */
  get<T>(path: string, query: GatewayQuery = {}): Promise<T> {
    return this.#patiently(() => this.#json<T>('GET', path, query));
  }

  /** Sends a body that has a key by which it counts once, again and again for a while where the gateway is away. Errors: those of `send`. */
  sendKeyed<T>(path: string, body: object): Promise<T> {
    return this.#patiently(() => this.#json<T>('POST', path, {}, body));
  }

  /** Sends a body once: an object as JSON, a text as it is. Errors: `gateway_unreachable`, and what the gateway answers with. */
  send<T>(
    method: 'POST' | 'PUT' | 'DELETE',
    path: string,
    body?: object | string,
    headers: RequestHeaders = {},
  ): Promise<T> {
    return this.#json<T>(method, path, {}, body, headers);
  }

  /** All items of a list, a page at a time; `cursor` is what its query calls the place of the next page. */
  async *pages<T>(path: string, query: GatewayQuery, cursor: string): AsyncGenerator<readonly T[], void> {
    for (let next: string | null | undefined; next !== null; ) {
      const asked = next === undefined ? query : { ...query, [cursor]: next };
      const page: { readonly items: readonly T[]; readonly next: string | null } = await this.get(path, asked);
      yield page.items;
      next = page.next ?? null;
    }
  }

  /** Items of a list, at most `limit`: a page of the gateway has fewer where they are large. Without a limit, as many as the gateway gives at once, or 100. */
  async items<T>(path: string, query: GatewayQuery): Promise<readonly T[]> {
    let most = typeof query.limit === 'number' ? query.limit : undefined;
    const items: T[] = [];
    for await (const page of this.pages<T>(path, query, 'after')) {
      most ??= Math.max(PAGE, page.length);
      items.push(...page);
      if (items.length >= most) break;
    }
    return items.slice(0, most);
  }

  /**
   * Events from the one behind `lastId` on, up to the last one, or until the signal fires. A connection that breaks is opened anew behind the
   * event that came last. Errors: what the gateway answers with; `gateway_unreachable` when it stays away.
   */
  async *events<T>(path: string, lastId: string | undefined, signal: AbortSignal | undefined): AsyncGenerator<T, void> {
    let seen = lastId;
    for (;;) {
      try {
        const open = () => this.#request('GET', path, {}, undefined, { signal, lastId: seen });
        const response = await this.#patiently(open, signal);
        for await (const message of messagesOf(response)) {
          if (message.event === 'done') return;
          if (message.event === 'error') throw errorOf(JSON.parse(message.data));
          yield JSON.parse(message.data) as T;
          seen = message.id ?? seen;
        }
      } catch (error) {
        if (signal?.aborted) return;
        // Whatever the platform throws of a connection that broke.
        if (error instanceof CodedError) throw error;
      }
      if (signal?.aborted) return;
      await pause(FIRST_PAUSE_MS, signal);
    }
  }

  async #json<T>(
    method: string,
    path: string,
    query: GatewayQuery,
    body?: object | string,
    headers: RequestHeaders = {},
  ): Promise<T> {
    const response = await this.#request(method, path, query, body, { headers });
    try {
      return (await response.json()) as T;
    } catch (error) {
      throw unreachable(this.#base, error);
    }
  }

  async #request(
    method: string,
    path: string,
    query: GatewayQuery,
    body?: object | string,
    { signal, lastId, headers: more = {} }: RequestMore = {},
  ): Promise<Response> {
    const text = typeof body === 'object' ? JSON.stringify(body) : body;
    const headers = {
      ...this.#headers,
      ...more,
      ...(body === undefined ? {} : { 'content-type': typeof body === 'object' ? 'application/json' : 'text/plain' }),
      ...(lastId === undefined ? {} : { 'last-event-id': lastId }),
    };
    const url = `${this.#base}${path}${searchOf(query)}`;
    const init = { method, headers, ...(text === undefined ? {} : { body: text }), ...(signal ? { signal } : {}) };
    const until = performance.now() + this.#patienceMs;
    for (;;) {
      const response = await this.#fetch(url, init).catch((error: unknown) => {
        throw signal?.aborted ? error : unreachable(this.#base, error);
      });
      if (response.ok) return response;
      const error = errorOf(await response.json().catch(() => null), response.status);
      const waitMs = Number(response.headers.get('retry-after') ?? Number.NaN) * 1_000;
      const isOften = error.code === 'too_many_requests' && performance.now() + waitMs <= until;
      if (!isOften || signal?.aborted) throw error;
      await pause(waitMs, signal);
    }
  }

  async #patiently<T>(attempt: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const until = performance.now() + this.#patienceMs;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      try {
        return await attempt();
      } catch (error) {
        if (!isAway(error) || signal?.aborted || performance.now() + pauseMs > until) throw error;
      }
      await pause(pauseMs, signal);
    }
  }
}

const unreachable = (base: string, cause: unknown): CodedError =>
  new CodedError('gateway_unreachable', `the gateway at ${base || '(its URL is empty)'} does not answer`, {
    cause,
  });

/** The error of a problem; of an answer that is none, as of a proxy, what its status says. */
function errorOf(problem: unknown, status?: number): CodedError {
  const { code, detail } = (problem ?? {}) as { readonly code?: unknown; readonly detail?: unknown };
  if (isFailureCode(code)) return new CodedError(code, String(detail));
  const away = status === 502 || status === 503 || status === 504;
  return new CodedError(
    away ? 'gateway_unreachable' : 'internal_error',
    `the gateway answered with status ${status ?? 'unknown'}`,
  );
}

function searchOf(query: GatewayQuery): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value));
  return search.size === 0 ? '' : `?${search}`;
}

/** The messages of a response, as they come. */
async function* messagesOf(response: Response): AsyncGenerator<EventSourceMessage, void> {
  const messages: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => messages.push(message) });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      parser.feed(value);
      yield* messages.splice(0);
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Resolves after the time, and at once when the signal fires. */
function pause(ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const stop = () => {
    clearTimeout(timer);
    resolve();
  };
  if (signal?.aborted) stop();
  signal?.addEventListener('abort', stop, { once: true });
  return promise.finally(() => signal?.removeEventListener('abort', stop));
}

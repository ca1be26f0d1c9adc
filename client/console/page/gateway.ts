/** Requests to the gateway that serves this page. */
import { setClock } from './format.ts';

/** What the gateway refused, in its words; or that it does not answer. */
export class RefusedError extends Error {
  /** The status of the answer; 0 where none came. */
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** Who calls. */
export interface CallerFacts {
  readonly name: string;
  readonly scopes: readonly string[];
  /** Where Temporal's Web UI lists workflows; null where the gateway does not know. */
  readonly webUi: string | null;
}

const RECONNECT_MS = 1_000;

/** Calls the gateway with one token. Paths are relative to `/v1/`. */
export class GatewayCalls {
  readonly #token: string;
  caller: CallerFacts = { name: '', scopes: [], webUi: null };

  constructor(token: string) {
    this.#token = token;
  }

  /** Whether the token may do what that scope is for. */
  may(scope: string): boolean {
    return this.caller.scopes.includes(scope);
  }

  /** Errors: `RefusedError`. */
  async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await this.#request(path, { ...(signal ? { signal } : {}) })).json() as Promise<T>;
  }

  /** Errors: `RefusedError`. */
  async post<T>(path: string, body: unknown): Promise<T> {
    const headers = { 'content-type': 'application/json' };
    return (await this.#request(path, { method: 'POST', headers, body: JSON.stringify(body) })).json() as Promise<T>;
  }

  /** Events up to the last one, or until the signal fires; a connection that breaks is opened anew behind the last one. Errors: `RefusedError`. */
  async *events<T>(path: string, signal: AbortSignal, lost: (isLost: boolean) => void): AsyncGenerator<T, void> {
    let seen: string | undefined;
    while (!signal.aborted) {
      try {
        const headers: Record<string, string> = seen === undefined ? {} : { 'last-event-id': seen };
        const response = await this.#request(path, { headers, signal });
        lost(false);
        for await (const { id, event, data } of messagesOf(response)) {
          if (event === 'done') return;
          if (event === 'error') throw refusalOf(JSON.parse(data), 500);
          yield JSON.parse(data) as T;
          seen = id ?? seen;
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof RefusedError && error.status >= 400 && error.status < 500 && error.status !== 429)
          throw error;
        lost(true);
      }
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
    }
  }

  async #request(path: string, init: RequestInit): Promise<Response> {
    const headers = { ...init.headers, authorization: `Bearer ${this.#token}` };
    const response = await fetch(`../v1/${path}`, { ...init, headers, cache: 'no-store' }).catch((error: unknown) => {
      throw init.signal?.aborted ? error : new RefusedError('the gateway does not answer', 0);
    });
    setClock(response.headers.get('date'));
    if (response.ok) return response;
    throw refusalOf(await response.json().catch(() => null), response.status);
  }
}

function refusalOf(problem: unknown, status: number): RefusedError {
  const { detail, cure } = (problem ?? {}) as { readonly detail?: string; readonly cure?: string };
  if (detail === undefined) return new RefusedError(`the gateway answered with status ${status}`, status);
  return new RefusedError(cure ? `${detail} (${cure})` : detail, status);
}

interface Message {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string;
}

/** The messages of a response, as the gateway writes them: each field on one line, an empty line behind each message. */
async function* messagesOf(response: Response): AsyncGenerator<Message, void> {
  let rest = '';
  const body = response.body?.pipeThrough(new TextDecoderStream());
  if (!body) return;
  for await (const text of body) {
    const blocks = (rest + text).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1];
      const data = field('data');
      if (data !== undefined) yield { id: field('id'), event: field('event'), data };
    }
  }
}

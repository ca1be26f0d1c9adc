/** A gateway over HTTP before a harness, with tokens for every need. */
import { type GatewayToken, keptToken, SCOPES, type Scope } from '../../../client/gateway/caller.ts';
import { createGateway, type GatewayDeps } from '../../../client/gateway/gateway.ts';
import { AgentHttpClient } from '../../../client/http/http-client.ts';
import { type GatewayServer, listen } from '../../../workers/gateway-server.ts';
import type { Harness } from '../../support/harness.ts';

/** The token that may do everything. */
export const ALL = 'token-of-all';

const tokens: readonly GatewayToken[] = [
  keptToken(ALL, { name: 'ann', scopes: [...SCOPES] }),
  ...SCOPES.map((scope) => keptToken(`token-of-${scope}`, { name: `only-${scope}`, scopes: [scope] })),
  keptToken('token-of-team', { name: 'team', scopes: [...SCOPES], agents: ['team-'] }),
];

export interface GatewayBench {
  readonly server: GatewayServer;
  readonly client: AgentHttpClient;
  /** What nobody foresaw. */
  readonly errors: unknown[];
  /** The answer to a request; with the token of all where none is named, without one for null. */
  call(method: string, path: string, more?: CallOptions): Promise<Answer>;
}

export interface CallOptions {
  readonly body?: unknown;
  readonly token?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came.
  readonly json: any;
}

export const tokenOf = (scope: Scope): string => `token-of-${scope}`;

export async function openGateway(harness: Harness, more: Partial<GatewayDeps> = {}): Promise<GatewayBench> {
  const errors: unknown[] = [];
  const gateway = createGateway({
    client: harness.client,
    store: harness.store,
    temporalAnswers: async () => true,
    tokens,
    onError: (error) => errors.push(error),
    ...more,
  });
  const server = await listen(gateway, { host: '127.0.0.1', port: 0 });
  return {
    server,
    errors,
    client: new AgentHttpClient({ url: server.url, token: ALL }),
    async call(method, path, { body, token = ALL, headers = {} } = {}) {
      const response = await fetch(`${server.url}${path}`, {
        method,
        headers: {
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      const json = /json/.test(response.headers.get('content-type') ?? '') ? JSON.parse(text) : undefined;
      return { status: response.status, headers: response.headers, text, json };
    },
  };
}

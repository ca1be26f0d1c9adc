/**
 * Who calls: bearer tokens, what each may do, and which agents it sees.
 *
 * Invariant: a token is kept as its hash alone, and every known hash is compared with what comes, each in constant time.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { USER_ID_PATTERN } from '../../workflows/protocol/ids.ts';

/** What a token may be for: `read` reads; `write` requests, steers, wakes, reports and stops turns; `approve` answers questions; `operate` stops and starts agents, makes and revokes triggers, cancels timers, sets budgets and replaces what an agent remembers. */
export const SCOPES = ['read', 'write', 'approve', 'operate'] as const;
/** One of the things a token may be for. */
export type Scope = (typeof SCOPES)[number];

/** A token as it is kept. */
export const gatewayTokenSchema = z.strictObject({
  /** Who calls with it: the name under which answers to questions are recorded. */
  name: z.string().min(1).max(200),
  /** SHA-256 of the token, in hex. */
  sha256: z.string().regex(/^[\da-f]{64}$/, { error: 'must be the SHA-256 of the token, 64 hex digits' }),
  scopes: z.array(z.enum(SCOPES)).min(1),
  /** Beginnings of agent ids: the token sees those agents and no others. All agents when left out. */
  agents: z.array(z.string().regex(USER_ID_PATTERN)).min(1).optional(),
});
/** A token as it is kept. */
export type GatewayToken = z.output<typeof gatewayTokenSchema>;

/** Who a request comes from. */
export class Caller {
  readonly name: string;
  /** Beginnings of the ids of the agents it sees; undefined when it sees all. */
  readonly agentPrefixes: readonly string[] | undefined;
  readonly #scopes: ReadonlySet<Scope>;

  constructor({ name, scopes, agents }: Omit<GatewayToken, 'sha256'>) {
    this.name = name;
    this.agentPrefixes = agents;
    this.#scopes = new Set(scopes);
  }

  /** Whether it may do what that scope is for. */
  may(scope: Scope): boolean {
    return this.#scopes.has(scope);
  }

  /** Whether it sees the agent. */
  sees(agentId: string): boolean {
    return this.agentPrefixes?.some((prefix) => agentId.startsWith(prefix)) ?? true;
  }

  /** What lists are narrowed by. */
  get ownAgents(): { readonly agentPrefixes?: readonly string[] } {
    return this.agentPrefixes ? { agentPrefixes: this.agentPrefixes } : {};
  }
}

const digestOfToken = (token: string): Buffer => createHash('sha256').update(token).digest();

/** Knows tokens by their hashes. */
export class Tokens {
  readonly #known: readonly { readonly digest: Buffer; readonly caller: Caller }[];

  constructor(tokens: readonly GatewayToken[]) {
    this.#known = tokens.map((token) => ({ digest: Buffer.from(token.sha256, 'hex'), caller: new Caller(token) }));
  }

  /** Who calls with this header; null for one without a token that is known. */
  callerOf(authorization: string | undefined): Caller | null {
    const [, token] = /^Bearer +([\x21-\x7e]{1,512})$/i.exec(authorization ?? '') ?? [];
    const digest = digestOfToken(token ?? '');
    let caller: Caller | null = null;
    for (const known of this.#known) if (timingSafeEqual(known.digest, digest)) caller = known.caller;
    return token === undefined ? null : caller;
  }
}

/** A new token, and how it is kept. */
export function newToken(of: Omit<GatewayToken, 'sha256'>): { readonly token: string; readonly kept: GatewayToken } {
  const token = `at_${randomBytes(32).toString('base64url')}`;
  return { token, kept: keptToken(token, of) };
}

/** How a token is kept. */
export const keptToken = (token: string, of: Omit<GatewayToken, 'sha256'>): GatewayToken => ({
  ...of,
  sha256: digestOfToken(token).toString('hex'),
});

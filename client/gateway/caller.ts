/**
 * Who calls: bearer tokens, what each may do, and which agents it sees.
 *
 * Invariant: a token is kept as its hash alone, and every known hash is compared with what comes, each in constant time.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { type Border, borderFrom, checkedTenant, seesAll, TENANT_PATTERN } from '../../workflows/contract/border.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
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
  /** The tenant whose agents it sees, and no others; those of the operators alone where `agents` is given, else all, when left out. */
  tenant: z.string().regex(TENANT_PATTERN).optional(),
  /** Beginnings of agent ids, up to a `~`: the token sees those agents, what they have made, and no others. */
  agents: z.array(z.string().regex(USER_ID_PATTERN)).min(1).optional(),
  /**
   * The profiles that it may start. Left out, a token with the scope `operate` may start all; another one goes on with agents that are there
   * and, where `agents` names some, makes those that are named like their profile.
   */
  profiles: z.array(z.string().min(1).max(200)).min(1).optional(),
});
/** A token as it is kept. */
export type GatewayToken = z.output<typeof gatewayTokenSchema>;

/** Who a request comes from. */
export class Caller {
  readonly name: string;
  /** What it sees, and what it may start. */
  readonly border: Border;
  readonly #scopes: ReadonlySet<Scope>;
  /** Of the tenants that it has called for last, so that each is laid once. */
  readonly #borders = new LRUCache<string, Border>({ max: 100 });

  constructor({ name, scopes, tenant, agents, profiles }: Omit<GatewayToken, 'sha256'>) {
    this.name = name;
    this.#scopes = new Set(scopes);
    this.border = borderFrom({ tenant, agents, profiles, anyProfile: scopes.includes('operate') });
  }

  /** Whether it may do what that scope is for. */
  may(scope: Scope): boolean {
    return this.#scopes.has(scope);
  }

  /** What it sees when it calls for a tenant: as much of it as it sees by itself. Errors: `invalid_request`, `permission_denied`. */
  borderFor(asked: string | undefined): Border {
    const { border } = this;
    if (asked === undefined) return border;
    const tenant = checkedTenant(asked);
    if (border.tenant === tenant) return border;
    if (seesAll(border)) {
      const known = this.#borders.get(tenant) ?? { ...border, tenant };
      this.#borders.set(tenant, known);
      return known;
    }
    throw new CodedError('permission_denied', `the token of ${this.name} is not for tenant ${tenant}`);
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

/**
 * Tokens of callbacks: each lets whoever has it deliver the result of one call, and nothing else.
 *
 * Invariants
 * 1. A token names its call and is signed; nothing is kept of it, so it is good for as long as its call waits and a gateway knows the key.
 * 2. What is signed begins with what it is for: a signature that the key makes for another purpose is none of a callback.
 * 3. The signature is compared as text, in constant time: one call has one token, and no other spelling of it is taken.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { withoutTrailing } from '../trailing.ts';

/** The call that a callback is for. */
export interface CallbackCall {
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly callId: string;
}

/** The fewest bytes of a key. */
export const SIGNING_KEY_BYTES = 32;

const PREFIX = 'cb_';
const PURPOSE = 'agentturn callback 1\n';
/** More than any call needs: what is longer is not looked at. */
const MOST_CHARACTERS = 1_024;

const namesSchema = z.tuple([z.string(), z.string(), z.string()]);

/** Signs tokens with the first of its keys, and knows tokens that were signed with any of them. */
export class CallbackTokens {
  readonly #keys: readonly string[];

  /** Errors: `invalid_config` for a key that is too short, or none. */
  constructor(keys: readonly string[]) {
    if (keys.length === 0 || keys.some((key) => Buffer.byteLength(key) < SIGNING_KEY_BYTES))
      throw new CodedError(
        'invalid_config',
        `a signing key must have at least ${SIGNING_KEY_BYTES} bytes (AGENTTURN_SIGNING_KEY); make one with "openssl rand -hex 32"`,
      );
    this.#keys = keys;
  }

  /** The token for a call. */
  sign({ agentId, agentTurnId, callId }: CallbackCall): string {
    const names = Buffer.from(JSON.stringify([agentId, agentTurnId, callId])).toString('base64url');
    return `${PREFIX}${names}.${signature(this.#keys[0] ?? '', names)}`;
  }

  /** The call that a token is for; null for one that none of the keys has signed. */
  callOf(token: string): CallbackCall | null {
    if (token.length > MOST_CHARACTERS) return null;
    const [, names = '', signed = ''] = /^cb_([\w-]+)\.([\w-]+)$/.exec(token) ?? [];
    let known = false;
    for (const key of this.#keys) known = isSame(signature(key, names), signed) || known;
    if (!known) return null;
    const [agentId, agentTurnId, callId] = namesSchema.parse(JSON.parse(Buffer.from(names, 'base64url').toString()));
    return { agentId, agentTurnId, callId };
  }
}

const signature = (key: string, names: string): string =>
  createHmac('sha256', key).update(PURPOSE).update(names).digest('base64url');

function isSame(expected: string, came: string): boolean {
  const [ours, theirs] = [Buffer.from(expected), Buffer.from(came)];
  return ours.length === theirs.length && timingSafeEqual(ours, theirs);
}

/** Where a result is delivered with the token, at the gateway of this URL. */
export const callbackAddress = (gatewayUrl: string, token: string): string =>
  `${withoutTrailing(gatewayUrl, '/')}/callbacks/${token}`;

/** Tokens of triggers: whoever has one wakes one agent, and can do nothing else. The store keeps a hash only (A9). */
import { createHash, randomBytes } from 'node:crypto';

/** A token that nobody can guess: 256 random bits. */
export const newWakeToken = (): string => `wk_${randomBytes(32).toString('base64url')}`;

/** By which a token is found. */
export const wakeTokenHash = (token: string): string => createHash('sha256').update(token).digest('hex');

/** Where a token is used, at a gateway. */
export const wakePath = (token: string): string => `/v1/wake/${token}`;

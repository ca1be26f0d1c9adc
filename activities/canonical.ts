/** Digests of JSON: the same for the same value, in whatever order its keys were written. */
import { createHash } from 'node:crypto';

/** SHA-256, hex, of the value with its keys sorted at every depth. */
export function canonicalDigest(value: unknown): string {
  const canonical = JSON.stringify(value, (_key, part: unknown) =>
    part !== null && typeof part === 'object' && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
  return createHash('sha256').update(canonical).digest('hex');
}

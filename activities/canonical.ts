/** Digests of JSON: equal values have equal digests, in whatever order their keys were written. */
import { createHash } from 'node:crypto';

/** The SHA-256, in hex, of a JSON value whose keys are sorted at every depth. */
export function canonicalDigest(value: unknown): string {
  const canonical = JSON.stringify(value, (_key, part: unknown) =>
    part !== null && typeof part === 'object' && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
  return createHash('sha256').update(canonical).digest('hex');
}

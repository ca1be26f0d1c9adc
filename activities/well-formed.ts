/**
 * Text without half a surrogate pair.
 *
 * Invariant: nothing is stored with a lone surrogate. Strict model providers refuse a request that holds one, and what is stored is sent
 * again with every later turn of its agent.
 */
import type { JsonValue } from '../workflows/protocol/json.ts';

/**
 * A lone surrogate as `JSON.stringify` escapes it. The same letters behind a backslash of the text's own match too, which is rare and does
 * no harm.
 */
const SUSPECT = /\\ud[89a-f]/;

/** The value as JSON in well-formed Unicode: U+FFFD stands for each lone surrogate, in keys too. */
export function storedJson(value: unknown): string {
  const text = JSON.stringify(value);
  return SUSPECT.test(text) ? JSON.stringify(wellFormed(JSON.parse(text) as JsonValue)) : text;
}

function wellFormed(value: JsonValue): JsonValue {
  if (typeof value === 'string') return value.toWellFormed();
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(wellFormed);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key.toWellFormed(), wellFormed(item)]));
}

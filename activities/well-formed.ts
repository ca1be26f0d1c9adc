/**
 * Text without half a surrogate pair. Strict model providers refuse a request that holds one, and what is stored is sent again with every
 * later turn of its agent: so nothing is stored with one.
 */
import type { JsonValue } from '../workflows/protocol/json.ts';

/** `JSON.stringify` writes a lone surrogate as an escape; a backslash before such letters is rare, and does no harm. */
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

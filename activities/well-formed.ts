/**
 * Text without half a surrogate pair.
 *
 * Invariant: nothing is stored with a lone surrogate. Strict model providers refuse a request that holds one, and what is stored is sent
 * again with every later turn of its agent.
 */

/**
 * An escape in the text of `JSON.stringify`, which writes a lone surrogate as one, and a pair as it is. A backslash of the value's own is
 * an escape too, so that what stands behind it begins none.
 */
const ESCAPE = /\\(?:(ud[89a-f][0-9a-f]{2})|.)/g;
const SUSPECT = /\\ud[89a-f]/;

/** The value as JSON in well-formed Unicode: U+FFFD stands for each lone surrogate, in keys too. Errors: those of `JSON.stringify`. */
export function storedJson(value: unknown): string {
  const text = JSON.stringify(value);
  if (!SUSPECT.test(text)) return text;
  return text.replace(ESCAPE, (found, lone?: string) => (lone === undefined ? found : '\\ufffd'));
}

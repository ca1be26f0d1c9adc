/**
 * The counting of tokens (K15).
 *
 * Invariants
 * 1. Processes that run turns load the tokenizer of the current OpenAI families; others estimate by bytes. What a provider counts corrects
 *    both.
 * 2. Whether the tokenizer has been loaded is the only state here.
 */

import { atCodePoint } from '../workflows/protocol/sizes.ts';

/**
 * The length of the pieces that are counted one by one: longer runs without a boundary take quadratic time, half a second for 25 KiB of
 * base64.
 */
const PIECE = 512;

const BYTES_PER_TOKEN = 4;

let countPiece: ((text: string) => number) | null = null;

/** Loads the tokenizer into this process, which takes about 0.2 s and 30 MiB. */
export async function loadTokenizer(): Promise<void> {
  const { countTokens: count } = await import('gpt-tokenizer/encoding/o200k_base');
  // A text that looks like a control token is counted as the text it is.
  countPiece = (text) => count(text, { disallowedSpecial: new Set() });
}

/** How many tokens a text has: counted when the tokenizer is loaded, else estimated as one for each four bytes. */
export function countTokens(text: string): number {
  if (countPiece === null) return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
  let tokens = 0;
  for (let at = 0; at < text.length; ) {
    const end = atCodePoint(text, at + PIECE);
    tokens += countPiece(text.slice(at, end));
    at = end;
  }
  return tokens;
}

/**
 * Counting tokens (K15). Processes that run turns load the tokenizer of the current OpenAI families; others estimate by bytes, and what a
 * provider counts corrects both. The one piece of state here is whether it has been loaded.
 */

import { atCodePoint } from '../workflows/protocol/sizes.ts';

/** Longer runs without a boundary take quadratic time: half a second for 25 KiB of base64. */
const PIECE = 512;

const BYTES_PER_TOKEN = 4;

let countPiece: ((text: string) => number) | null = null;

/** Takes about 0.2 s and 30 MiB. */
export async function loadTokenizer(): Promise<void> {
  const { countTokens: count } = await import('gpt-tokenizer/encoding/o200k_base');
  // What looks like a control token is text here.
  countPiece = (text) => count(text, { disallowedSpecial: new Set() });
}

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

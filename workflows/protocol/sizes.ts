/** Sizes and times that more than one side enforces. Bytes unless named otherwise. */
export const SIZES = {
  /** Inline instruction text; larger input is written as a card first (T4). */
  instructionBytes: 32 * 1024,
  /** One tool result or card body; a larger tool result becomes a failed one (T4). */
  cardBytes: 1024 * 1024,
  /** Metadata, result fields and other small parts of a request. */
  requestBytes: 64 * 1024,
  /** A value that a governance rule looks at; a larger one does not travel to where rules are decided (K4). */
  factBytes: 512,
  /** Turns waiting in one agent's inbox (T10). */
  maxQueuedTurns: 1_000,
  /** A request from outside has depth 0, a delegated one its parent's plus 1; this depth is refused (T27). */
  maxDepth: 20,
} as const;

/** Deadline of a suspended call when neither tool nor profile sets one (T13). */
export const DEFAULT_SUSPEND_TIMEOUT_MS = 10 * 60_000;

/** Length of a text in UTF-8, without an encoder: the workflow sandbox shares this file. */
export function utf8Bytes(text: string): number {
  let bytes = 0;
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
}

/** Where a text may be cut: the index, or the one before it where that would part a surrogate pair. */
export const atCodePoint = (text: string, index: number): number =>
  (text.codePointAt(index - 1) ?? 0) > 0xffff ? index - 1 : index;

/** The text cut to at most `maxBytes` of UTF-8 at a code point, with an ellipsis where something is missing. */
export function clip(text: string, maxBytes: number): string {
  if (utf8Bytes(text) <= maxBytes) return text;
  let kept = '';
  let bytes = utf8Bytes('…');
  for (const char of text) {
    bytes += utf8Bytes(char);
    if (bytes > maxBytes) break;
    kept += char;
  }
  return `${kept}…`;
}

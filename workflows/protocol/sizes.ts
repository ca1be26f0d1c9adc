/** Sizes that more than one side enforces, and the cutting of texts to a size. */

/** Sizes that are bounded, in bytes unless the name says otherwise. */
export const SIZES = {
  /** The instruction text of a request; a larger one is written as a card first (T4). */
  instructionBytes: 32 * 1024,
  /** The content of one card. A tool result that is larger becomes a failed result (T4). */
  cardBytes: 1024 * 1024,
  /** What a tool says of its progress, as JSON: it stands in events. */
  progressBytes: 1024,
  /** The result fields and the metadata of a request, together. */
  requestBytes: 64 * 1024,
  /** The value that a governance rule looks at. A larger one is not sent to the kernel, where rules are decided (K4). */
  factBytes: 512,
  /** How many turns may wait in one agent's inbox (T10). */
  maxQueuedTurns: 1_000,
  /** The depth of delegation that is refused: a request from outside has depth 0, a delegated one its parent's depth plus 1 (T27). */
  maxDepth: 20,
} as const;

/** How long a suspended call waits, in ms, when neither its tool nor its profile sets a deadline (T13). */
export const DEFAULT_SUSPEND_TIMEOUT_MS = 10 * 60_000;

/** The length of a text in bytes of UTF-8, counted without an encoder because workflow code, which is compiled without one, uses it too. */
export function utf8Bytes(text: string): number {
  let bytes = 0;
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
}

/** Where a text may be cut: the index itself, or the one before it where a cut at the index would part a surrogate pair. */
export const atCodePoint = (text: string, index: number): number =>
  (text.codePointAt(index - 1) ?? 0) > 0xffff ? index - 1 : index;

/** The text, cut at a code point to at most `maxBytes` of UTF-8; a text that was cut ends in an ellipsis, which is counted. */
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

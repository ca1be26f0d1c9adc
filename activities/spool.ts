/**
 * Results that are too large for a prompt: what is shown of them, and how the model reads the rest (W11, K15).
 *
 * Invariant: a result that is shown shortened takes no more tokens than the kernel counts for its residency.
 */
import { type Residency, renderedTokens, snipTokens } from '../workflows/kernel/pressure.ts';
import { clip, utf8Bytes } from '../workflows/protocol/sizes.ts';
import { countTokens } from './tokens.ts';

/** The size from which a result is never shown whole. */
export const SPOOL_BYTES = 50 * 1024;
const SPOOL_PREVIEW_BYTES = 2 * 1024;

/** How many bytes a token has at least, for all but the densest texts. It is a first guess: `shorter` takes back what was too much. */
const BYTES_PER_TOKEN = 1.6;
const PREVIEW_HEAD_BYTES = 200;
const PREVIEW_TAIL_BYTES = 80;
const COLLAPSED_BYTES = 40;

/**
 * The text of a result as the model sees it. `residency` says how much of it may be shown, and the window how much a shortened result may
 * take.
 */
export function shownResult(text: string, callId: string, residency: Residency, windowTokens: number): string {
  const whole = utf8Bytes(text) > SPOOL_BYTES ? headAndTail(text, SPOOL_PREVIEW_BYTES, 0, callId) : text;
  if (residency === 'full') return whole;
  const [head, tail] = excerpt(residency, windowTokens);
  const most = renderedTokens(Number.POSITIVE_INFINITY, residency, windowTokens);
  if (utf8Bytes(whole) <= head + tail + MARKER_BYTES && countTokens(whole) <= most) return whole;
  return shorter(text, head, tail, callId, most);
}

/** How many bytes are shown of the front and of the end of a text. */
function excerpt(residency: Exclude<Residency, 'full'>, windowTokens: number): readonly [head: number, tail: number] {
  if (residency === 'collapsed') return [COLLAPSED_BYTES, 0];
  const half = Math.max(0, Math.floor((snipTokens(windowTokens) * BYTES_PER_TOKEN - MARKER_BYTES) / 2));
  if (residency === 'preview') return [PREVIEW_HEAD_BYTES, Math.min(PREVIEW_TAIL_BYTES, half)];
  return [Math.max(PREVIEW_HEAD_BYTES, half), half];
}

/** The size of the marker that stands where a text was cut; it takes about 40 tokens. */
const MARKER_BYTES = 130;

const SMALLER = 0.7;

/** The text cut further until it takes at most `mostTokens`; of the densest texts the marker alone is left. */
function shorter(text: string, head: number, tail: number, callId: string, mostTokens: number): string {
  let shown = headAndTail(text, head, tail, callId);
  for (let share = SMALLER; head * share >= 1 && countTokens(shown) > mostTokens; share *= SMALLER)
    shown = headAndTail(text, Math.floor(head * share), Math.floor(tail * share), callId);
  return shown;
}

function headAndTail(text: string, head: number, tail: number, callId: string): string {
  const end = tail === 0 ? '' : tailOf(text, tail);
  return `${clip(text, head)}\n[${utf8Bytes(text)} bytes in all; read_result {"call_id":"${callId}"} reads them]${end === '' ? '' : `\n${end}`}`;
}

function tailOf(text: string, maxBytes: number): string {
  // The cut is at a code point: a lone low surrogate at the front belongs to the part that is cut off.
  const rough = text.slice(-maxBytes).replace(/^[\udc00-\udfff]/, '');
  let kept = rough;
  while (utf8Bytes(kept) > maxBytes)
    kept = kept.slice(Math.ceil((utf8Bytes(kept) - maxBytes) / 4)).replace(/^[\udc00-\udfff]/, '');
  return `…${kept}`;
}

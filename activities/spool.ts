/** Results that are too large for a prompt: what is shown of them, and how the rest is read (W11, K15). Pure. */

import type { Residency } from '../workflows/kernel/pressure.ts';
import { snipTokens } from '../workflows/kernel/pressure.ts';
import { clip, utf8Bytes } from '../workflows/protocol/limits.ts';

/** A result of more bytes is never shown whole. */
export const SPOOL_BYTES = 50 * 1024;
const SPOOL_PREVIEW_BYTES = 2 * 1024;

/** At worst about 0.6 tokens a byte, so that what is rendered is never more than the kernel reckons with. */
const BYTES_PER_TOKEN = 1.6;
const PREVIEW_HEAD_BYTES = 200;
const PREVIEW_TAIL_BYTES = 80;
const COLLAPSED_BYTES = 40;

/** The text of a result as the model sees it. */
export function shownResult(text: string, callId: string, residency: Residency, windowTokens: number): string {
  const bytes = utf8Bytes(text);
  const whole = bytes > SPOOL_BYTES ? headAndTail(text, SPOOL_PREVIEW_BYTES, 0, callId) : text;
  switch (residency) {
    case 'full':
      return whole;
    case 'snipped': {
      const room = Math.floor(snipTokens(windowTokens) * BYTES_PER_TOKEN) - MARKER_BYTES;
      return shorter(text, whole, Math.max(PREVIEW_HEAD_BYTES, Math.floor(room / 2)), Math.floor(room / 2), callId);
    }
    case 'preview':
      return shorter(text, whole, PREVIEW_HEAD_BYTES, PREVIEW_TAIL_BYTES, callId);
    case 'collapsed':
      return shorter(text, whole, COLLAPSED_BYTES, 0, callId);
  }
}

/** The marker itself, about 40 tokens. */
const MARKER_BYTES = 130;

function shorter(text: string, whole: string, head: number, tail: number, callId: string): string {
  return utf8Bytes(whole) <= head + Math.max(0, tail) + MARKER_BYTES
    ? whole
    : headAndTail(text, head, Math.max(0, tail), callId);
}

function headAndTail(text: string, head: number, tail: number, callId: string): string {
  const end = tail === 0 ? '' : tailOf(text, tail);
  return `${clip(text, head)}\n[${utf8Bytes(text)} bytes in all; read_result {"call_id":"${callId}"} reads them]${end === '' ? '' : `\n${end}`}`;
}

function tailOf(text: string, maxBytes: number): string {
  // Cut at a code point: a lone low surrogate at the front belongs to what is left out.
  const rough = text.slice(-maxBytes).replace(/^[\udc00-\udfff]/, '');
  let kept = rough;
  while (utf8Bytes(kept) > maxBytes)
    kept = kept.slice(Math.ceil((utf8Bytes(kept) - maxBytes) / 4)).replace(/^[\udc00-\udfff]/, '');
  return `…${kept}`;
}

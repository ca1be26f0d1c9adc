/**
 * How much of the window a prompt takes, by handles alone (K3, K15). Pure.
 *
 * Invariants
 * 1. The sum is exact for what is in view: every card counts once, at the residency it is rendered with.
 * 2. Only results of tools shrink; users, the model and notes are rendered whole until a summary takes their place.
 */
import { indexAfter } from './handles.ts';
import type { Handle, KernelState, MemoryUnit } from './state.ts';

/** From whole to a line; what a result is rendered with, by the place of its card. */
export const RESIDENCIES = ['full', 'snipped', 'preview', 'collapsed'] as const;
export type Residency = (typeof RESIDENCIES)[number];

/** Up to which place of the output box results are rendered with less; the strongest one that applies counts. */
export interface Marks {
  readonly snipped: number;
  readonly preview: number;
  readonly collapsed: number;
}

export const NO_MARKS: Marks = { snipped: 0, preview: 0, collapsed: 0 };

/** Tokens of a result at most, as a preview and as a line. */
export const PREVIEW_TOKENS = 200;
export const COLLAPSED_TOKENS = 60;

const SNIP_SHARE = 0.05;
const SNIP_FLOOR = 50;

/** Tokens of a snipped result at most, by the window. */
export const snipTokens = (windowTokens: number): number => Math.max(SNIP_FLOOR, Math.floor(windowTokens * SNIP_SHARE));

/** What the wire adds to each message. */
export const MESSAGE_TOKENS = 8;

export const residencyAt = (marks: Marks, seq: number): Residency =>
  seq <= marks.collapsed ? 'collapsed' : seq <= marks.preview ? 'preview' : seq <= marks.snipped ? 'snipped' : 'full';

export function renderedTokens(tokens: number, residency: Residency, windowTokens: number): number {
  switch (residency) {
    case 'full':
      return tokens;
    case 'snipped':
      return Math.min(tokens, snipTokens(windowTokens));
    case 'preview':
      return Math.min(tokens, PREVIEW_TOKENS);
    case 'collapsed':
      return Math.min(tokens, COLLAPSED_TOKENS);
  }
}

/** Called for every card in view, many times a step: parts by index, because taking a tuple apart costs several times as much. */
export const handleTokens = (handle: Handle, marks: Marks, windowTokens: number): number =>
  MESSAGE_TOKENS +
  (handle[1] === 'tool' ? renderedTokens(handle[2], residencyAt(marks, handle[0]), windowTokens) : handle[2]);

export const unitTokens = (unit: MemoryUnit, marks: Marks): number =>
  unit.tokens[RESIDENCIES.indexOf(residencyAt(marks, unit.toSeq))] ?? 0;

/** What the next prompt would take, before the correction by what the provider counted. */
export function estimatedTokens(state: KernelState): number {
  const { context, config, handles } = state;
  const { marks } = context;
  let tokens = config.context.fixedTokens + (context.summary?.[2] ?? 0) + handles.length * MESSAGE_TOKENS;
  for (const unit of context.memory) tokens += unitTokens(unit, marks);
  for (const unit of context.given) tokens += unit.tokens[0];
  const collapsed = indexAfter(handles, marks.collapsed);
  const preview = Math.max(collapsed, indexAfter(handles, marks.preview));
  const snipped = Math.max(preview, indexAfter(handles, marks.snipped));
  return (
    tokens +
    sumOf(handles, 0, collapsed, COLLAPSED_TOKENS) +
    sumOf(handles, collapsed, preview, PREVIEW_TOKENS) +
    sumOf(handles, preview, snipped, snipTokens(config.context.windowTokens)) +
    sumOf(handles, snipped, handles.length, Number.POSITIVE_INFINITY)
  );
}

/** Of the cards from one index up to another, each result with `most` at most. Every step adds up all cards several times. */
function sumOf(handles: readonly Handle[], from: number, to: number, most: number): number {
  let tokens = 0;
  for (let index = from; index < to; index += 1) {
    const handle = handles[index];
    if (handle) tokens += handle[2] > most && handle[1] === 'tool' ? most : handle[2];
  }
  return tokens;
}

/** Tokens a prompt may have: the window without what the answer needs. */
export const promptLimit = ({ config }: KernelState): number =>
  config.context.windowTokens - config.context.answerTokens;

/** 1 is a prompt that fills all it may. */
export const pressure = (state: KernelState): number => pressureOf(state, estimatedTokens(state));

/** With that estimate. */
export const pressureOf = (state: KernelState, tokens: number): number =>
  (tokens * state.context.correction) / promptLimit(state);

/** Providers count otherwise than we do, and more is what must not surprise us. */
const MOST_CORRECTION = 4;

/** By the count of the provider for the prompt that was estimated last. */
export function corrected(state: KernelState, observedTokens: number): number {
  const { correction, estimate } = state.context;
  if (estimate === 0 || observedTokens === 0) return correction;
  return Math.min(MOST_CORRECTION, Math.max(1, observedTokens / estimate));
}

/**
 * How much of the window a prompt takes, by handles alone (K3, K15). Pure.
 *
 * Invariants
 * 1. The sum is exact for what is in view: every card counts once, at the residency it is rendered with.
 * 2. Only results of tools shrink; users, the model and notes are rendered whole until a summary takes their place.
 * 3. Each residency takes at most what the one before it takes, in a window of any size.
 */
import type { Usage } from '../protocol/turn.ts';
import type { ContextUnit, Marks, View } from './context.ts';
import { type Handle, indexAfter } from './handles.ts';

/** From whole to a line; what a result is rendered with, by the place of its card. */
export const RESIDENCIES = ['full', 'snipped', 'preview', 'collapsed'] as const;
export type Residency = (typeof RESIDENCIES)[number];

/** Tokens of a result at most, as a preview in a large window and as a line. */
const PREVIEW_TOKENS = 200;
export const COLLAPSED_TOKENS = 60;

const SNIP_SHARE = 0.05;

/** Tokens of a snipped result at most, by the window. */
export const snipTokens = (windowTokens: number): number =>
  Math.max(COLLAPSED_TOKENS, Math.floor(windowTokens * SNIP_SHARE));

/** Of a preview, where `snip` is what a snipped result has. */
export const previewTokens = (snip: number): number => Math.min(PREVIEW_TOKENS, snip);

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
      return Math.min(tokens, previewTokens(snipTokens(windowTokens)));
    case 'collapsed':
      return Math.min(tokens, COLLAPSED_TOKENS);
  }
}

/** More than any card has; a small integer, because sums with infinity take twice as long. */
const WHOLE = 2 ** 30 - 1;

/** Tokens of a result at that place, at most; `snip` as of `snipTokens`. */
export const mostAt = (marks: Marks, seq: number, snip: number): number =>
  seq <= marks.collapsed
    ? COLLAPSED_TOKENS
    : seq <= marks.preview
      ? previewTokens(snip)
      : seq <= marks.snipped
        ? snip
        : WHOLE;

/** Called for every card in view, many times a step: parts by index, because taking a tuple apart costs several times as much. */
export const handleTokens = (handle: Handle, marks: Marks, snip: number): number =>
  MESSAGE_TOKENS + (handle[1] === 'tool' ? Math.min(handle[2], mostAt(marks, handle[0], snip)) : handle[2]);

export const unitTokens = (unit: ContextUnit, marks: Marks): number =>
  unit.tokens[RESIDENCIES.indexOf(residencyAt(marks, unit.toSeq))] ?? 0;

/** What the next prompt would take, before the correction by what the provider counted. */
export interface Estimates {
  readonly asIs: number;
  /** With results up to a place snipped, and with previews of them. */
  readonly snipped: number;
  readonly previews: number;
}

/** All three in one walk over the cards: it is walks that a step of a long turn takes its time for. */
export function estimates(view: View, upTo: number): Estimates {
  const { context, config, handles } = view;
  const { marks, earlier, given, summary } = context;
  const { fixedTokens, windowTokens } = config.context;
  const fixed = fixedTokens + (summary?.[2] ?? 0) + handles.length * MESSAGE_TOKENS;
  const whole = given.reduce((sum, unit) => sum + unit.tokens[0], fixed);
  const remembered = (change: Partial<Marks>): number => {
    const with_ = raised(marks, change);
    return earlier.reduce((sum, unit) => sum + unitTokens(unit, with_), whole);
  };
  const snip = snipTokens(windowTokens);
  const preview = previewTokens(snip);
  const sums: Sums = { asIs: 0, snipped: 0, previews: 0 };
  const last = indexAfter(handles, upTo);
  let from = 0;
  const bands = [
    [indexAfter(handles, marks.collapsed), COLLAPSED_TOKENS, COLLAPSED_TOKENS, COLLAPSED_TOKENS],
    [indexAfter(handles, marks.preview), preview, preview, preview],
    [indexAfter(handles, marks.snipped), snip, snip, preview],
    [handles.length, WHOLE, snip, preview],
  ] as const;
  for (const [end, asIs, snipped, previews] of bands) {
    const to = Math.max(from, end);
    const middle = Math.min(to, Math.max(from, last));
    addUp(sums, handles, from, middle, { asIs, snipped, previews });
    addUp(sums, handles, middle, to, { asIs, snipped: asIs, previews: asIs });
    from = to;
  }
  return {
    asIs: sums.asIs + remembered({}),
    snipped: sums.snipped + remembered({ snipped: upTo }),
    previews: sums.previews + remembered({ preview: upTo }),
  };
}

type Sums = { -readonly [K in keyof Estimates]: number };

/** Of the cards from one index up to another; `most`: what a result is rendered with. */
function addUp(sums: Sums, handles: readonly Handle[], from: number, to: number, most: Estimates): void {
  let { asIs, snipped, previews } = sums;
  for (let index = from; index < to; index += 1) {
    const handle = handles[index];
    if (!handle) continue;
    const tokens = handle[2];
    const result = handle[1] === 'tool';
    asIs += result && tokens > most.asIs ? most.asIs : tokens;
    snipped += result && tokens > most.snipped ? most.snipped : tokens;
    previews += result && tokens > most.previews ? most.previews : tokens;
  }
  Object.assign(sums, { asIs, snipped, previews });
}

export const estimatedTokens = (view: View): number => estimates(view, 0).asIs;

/** Marks only move on. */
export const raised = (marks: Marks, change: Partial<Marks>): Marks => ({
  snipped: Math.max(marks.snipped, change.snipped ?? 0),
  preview: Math.max(marks.preview, change.preview ?? 0),
  collapsed: Math.max(marks.collapsed, change.collapsed ?? 0),
});

/** Tokens a prompt may have: the window without what the answer needs. */
export const promptLimit = ({ config }: View): number => config.context.windowTokens - config.context.answerTokens;

/** 1 is a prompt that fills all it may. */
export const pressure = (view: View): number => pressureOf(view, estimatedTokens(view));

/** With that estimate. */
export const pressureOf = (view: View, tokens: number): number =>
  (tokens * view.context.correction) / promptLimit(view);

/** In whole tokens: what a provider found too long counts as filling the limit exactly, and must not exceed it by a rounding error. */
export const fits = (view: View, tokens: number): boolean =>
  Math.floor(tokens * view.context.correction) <= promptLimit(view);

/** Of what a prompt of that estimate leaves of the window, in tokens as we count them: the rest is for what comes of the step. */
export const roomLeft = (view: View, tokens: number): number =>
  Math.max(0, Math.floor((promptLimit(view) / view.context.correction - tokens) / 2));

/** Providers count otherwise than we do, and more is what must not surprise us. */
const MOST_CORRECTION = 4;

/**
 * By the count of the provider for the prompt that was estimated last; a count of our own says nothing about it. `added`: what the prompt had
 * besides, which no plan knew.
 */
export function corrected(view: View, observed: Usage, added: readonly Handle[]): number {
  const { correction, estimate } = view.context;
  if (estimate === 0 || observed.input === 0 || observed.estimated) return correction;
  const rendered = added.reduce((sum, [, , tokens]) => sum + tokens + MESSAGE_TOKENS, estimate);
  return Math.min(MOST_CORRECTION, Math.max(1, observed.input / rendered));
}

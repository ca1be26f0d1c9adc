/**
 * How much of the window a prompt takes, by handles alone (K3, K15). Pure.
 *
 * Invariants
 * 1. The sum is exact for what is in view: every card counts once, with as much of it as is rendered.
 * 2. Only results of tools shrink. What users and the model said, and notes, are rendered whole until a summary takes their place.
 * 3. Each residency takes at most what the one before it takes, in a window of any size.
 */
import type { Usage } from '../protocol/turn.ts';
import type { ContextUnit, Marks, View } from './context.ts';
import { type Handle, indexAfter } from './handles.ts';

/** With how much of a result of a tool it is rendered, from the whole to one line. */
export const RESIDENCIES = ['full', 'snipped', 'preview', 'collapsed'] as const;
/** With how much of its results a card is rendered; it depends on the place of the card. */
export type Residency = (typeof RESIDENCIES)[number];

/** The most tokens of a result that is rendered as a preview, in a window that is large enough. */
const PREVIEW_TOKENS = 200;
/** The most tokens of a result that is collapsed to a line. */
export const COLLAPSED_TOKENS = 60;

const SNIP_SHARE = 0.05;

/** The most tokens of a result that is snipped, in a window of this size. */
export const snipTokens = (windowTokens: number): number =>
  Math.max(COLLAPSED_TOKENS, Math.floor(windowTokens * SNIP_SHARE));

/** The most tokens of a preview, where a snipped result has at most `snip`: never more than that. */
export const previewTokens = (snip: number): number => Math.min(PREVIEW_TOKENS, snip);

/** How many tokens the wire format adds to each message. */
export const MESSAGE_TOKENS = 8;

/** The residency at a place of the output box. */
export const residencyAt = (marks: Marks, seq: number): Residency =>
  seq <= marks.collapsed ? 'collapsed' : seq <= marks.preview ? 'preview' : seq <= marks.snipped ? 'snipped' : 'full';

/** The length of a result of `tokens` as it is rendered, in tokens. */
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

/** More tokens than any card has. It is a small integer, because sums with infinity take twice as long. */
const WHOLE = 2 ** 30 - 1;

/** The most tokens of a result at a place of the output box, where a snipped one has at most `snip`. */
export const mostAt = (marks: Marks, seq: number, snip: number): number =>
  seq <= marks.collapsed
    ? COLLAPSED_TOKENS
    : seq <= marks.preview
      ? previewTokens(snip)
      : seq <= marks.snipped
        ? snip
        : WHOLE;

/**
 * How many tokens a card takes in a prompt. A step asks this of every card in view, many times, so the handle is read by index: taking the
 * tuple apart costs several times as much.
 */
export const handleTokens = (handle: Handle, marks: Marks, snip: number): number =>
  MESSAGE_TOKENS + (handle[1] === 'tool' ? Math.min(handle[2], mostAt(marks, handle[0], snip)) : handle[2]);

/** How many tokens a context unit takes in a prompt. */
export const unitTokens = (unit: ContextUnit, marks: Marks): number =>
  unit.tokens[RESIDENCIES.indexOf(residencyAt(marks, unit.toSeq))] ?? 0;

/** How many tokens the next prompt would take by our count, before the correction by what the provider counted. */
export interface Estimates {
  /** With the marks as they are. */
  readonly asIs: number;
  /** With the results up to a place snipped. */
  readonly snipped: number;
  /** With previews of the results up to that place. */
  readonly previews: number;
}

/** The three sums for the place `upTo`, in one walk over the cards: walks are what a step of a long turn takes its time for. */
export function estimates({ context, config, handles }: View, upTo: number): Estimates {
  const { marks, given, summary } = context;
  const sums: Sums = { asIs: 0, snipped: 0, previews: 0 };
  const last = indexAfter(handles, upTo);
  let from = 0;
  for (const { end, most } of bands(handles, marks, snipTokens(config.context.windowTokens))) {
    const to = Math.max(from, end);
    const middle = Math.min(to, Math.max(from, last));
    addUp(sums, handles, from, middle, most);
    addUp(sums, handles, middle, to, alike(most.asIs));
    from = to;
  }
  const fixed = config.context.fixedTokens + (summary?.[2] ?? 0) + handles.length * MESSAGE_TOKENS;
  const whole = given.reduce((sum, unit) => sum + unit.tokens[0], fixed);
  const rest = (change: Partial<Marks>) => whole + earlierTokens(context.earlier, raised(marks, change));
  return {
    asIs: sums.asIs + rest({}),
    snipped: sums.snipped + rest({ snipped: upTo }),
    previews: sums.previews + rest({ preview: upTo }),
  };
}

const earlierTokens = (earlier: readonly ContextUnit[], marks: Marks): number =>
  earlier.reduce((sum, unit) => sum + unitTokens(unit, marks), 0);

/** Cards that follow one another and have the same residency. */
interface Band {
  /** The index behind the last of them. */
  readonly end: number;
  /** The length that a result among them has at most in each of the three sums. */
  readonly most: Estimates;
}

/** All cards in bands, so that no card need be compared with a mark; a band may be empty. */
function bands(handles: readonly Handle[], marks: Marks, snip: number): readonly Band[] {
  const preview = previewTokens(snip);
  return [
    { end: indexAfter(handles, marks.collapsed), most: alike(COLLAPSED_TOKENS) },
    { end: indexAfter(handles, marks.preview), most: alike(preview) },
    { end: indexAfter(handles, marks.snipped), most: { asIs: snip, snipped: snip, previews: preview } },
    { end: handles.length, most: { asIs: WHOLE, snipped: snip, previews: preview } },
  ];
}

const alike = (most: number): Estimates => ({ asIs: most, snipped: most, previews: most });

type Sums = { -readonly [K in keyof Estimates]: number };

/** Adds up the cards from one index up to another; `most` is the length that a result in each of the sums has at most. */
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

/** How many tokens the next prompt would take by our count, with the marks as they are. */
export const estimatedTokens = (view: View): number => estimates(view, 0).asIs;

/** The marks, moved on to these places. They never move back: what was shortened once stays so, or cached prompts would be lost. */
export const raised = (marks: Marks, change: Partial<Marks>): Marks => ({
  snipped: Math.max(marks.snipped, change.snipped ?? 0),
  preview: Math.max(marks.preview, change.preview ?? 0),
  collapsed: Math.max(marks.collapsed, change.collapsed ?? 0),
});

/** The most tokens a prompt may have: the window without the part that is kept for the answer. */
export const promptLimit = ({ config }: View): number => config.context.windowTokens - config.context.answerTokens;

/** How full the window is with a prompt of this estimate: 1 for one that fills all it may. */
export const pressureOf = (view: View, tokens: number): number =>
  (tokens * view.context.correction) / promptLimit(view);

/**
 * Whether a prompt of this estimate fits. It is rounded down to whole tokens, because a prompt that a provider found too long counts as
 * filling the limit exactly, and must not exceed it by a rounding error.
 */
export const fits = (view: View, tokens: number): boolean =>
  Math.floor(tokens * view.context.correction) <= promptLimit(view);

/**
 * How many tokens, by our count, messages of users may add to a prompt of this estimate (T22): half of what it leaves of the window. The
 * other half is for the results of the step.
 */
export const roomLeft = (view: View, tokens: number): number =>
  Math.max(0, Math.floor((promptLimit(view) / view.context.correction - tokens) / 2));

/** The largest correction that a count of the provider leads to. */
const MOST_CORRECTION = 4;

/**
 * The correction by the provider's count of the prompt that was estimated last; it is at least 1, because only a count above ours must not
 * surprise us. A count that is only an estimate of our own changes nothing. `added` are the cards the prompt had besides its plan.
 */
export function corrected(view: View, observed: Usage, added: readonly Handle[]): number {
  const { correction, estimate } = view.context;
  if (estimate === 0 || observed.input === 0 || observed.estimated) return correction;
  const rendered = added.reduce((sum, [, , tokens]) => sum + tokens + MESSAGE_TOKENS, estimate);
  return Math.min(MOST_CORRECTION, Math.max(1, observed.input / rendered));
}

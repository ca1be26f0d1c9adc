/**
 * Cuts a text into the stretches that may be quoted: runs of sentences of one paragraph, list item or comment, and runs of lines of one
 * code block.
 *
 * Invariants
 * 1. A span is one contiguous stretch of the text, at most MAX_QUOTE characters, trimmed.
 * 2. A line longer than MAX_LINE is skipped in code. In prose, where a paragraph is often one line, its sentences may be quoted, but none
 *    of them is cut short.
 */
import { isComment, isNoise, isProseFile, MAX_LINE } from './lines.ts';

/** The most characters that a quote has. */
export const MAX_QUOTE = 300;
const MAX_SENTENCES = 3;
const MAX_CODE_LINES = 8;

/** A stretch of a text that may be quoted: from the index `start` to the index `end`, which is not part of it. */
export interface Span {
  readonly start: number;
  readonly end: number;
  readonly kind: 'prose' | 'code';
  /** Whether the span is the whole of its block. */
  readonly whole: boolean;
  /** Whether the span opens its block, so that it needs nothing said before it. */
  readonly opens: boolean;
}

/** A line of a text, with the index at which it starts. */
interface Line {
  readonly text: string;
  readonly start: number;
}

interface Block {
  readonly kind: 'prose' | 'code';
  readonly lines: readonly Line[];
}

/** The spans of a text; its path tells whether it is prose or code. */
export function spansOf(text: string, path: string): readonly Span[] {
  const lines = linesWithStarts(text);
  const blocks = isProseFile(path) ? proseBlocks(lines) : sourceBlocks(lines);
  return blocks.flatMap((block) => (block.kind === 'code' ? codeSpans(block) : proseSpans(block, text)));
}

/** The lines of a text, each with the index at which it starts. */
export function linesWithStarts(text: string): readonly Line[] {
  let start = 0;
  return text.split('\n').map((line) => {
    const at = start;
    start += line.length + 1;
    return { text: line, start: at };
  });
}

const FENCE = /^\s*(?:```|~~~)/;
const OWN_BLOCK = /^\s*(?:[-*+]\s|\d+[.)]\s|>|\|)/;

function proseBlocks(lines: readonly Line[]): Block[] {
  // The text may begin inside a fence: it does when an odd number of fences stands before the first that names a language, which opens.
  const opening = lines.filter((line) => FENCE.test(line.text)).findIndex((line) => /[`~]\s*\w/.test(line.text));
  let fenced = opening % 2 === 1;
  const blocks: Block[] = [];
  let open: Line[] = [];
  const flush = () => {
    if (open.length > 0) blocks.push({ kind: fenced ? 'code' : 'prose', lines: open });
    open = [];
  };
  for (const line of lines) {
    if (FENCE.test(line.text)) {
      flush();
      fenced = !fenced;
    } else if (fenced) {
      open.push(line);
    } else if (line.text.trim() === '' || isHeading(line.text) || isNoise(line.text)) {
      flush();
    } else {
      if (OWN_BLOCK.test(line.text) || line.text.length > MAX_LINE) flush();
      open.push(line);
    }
  }
  flush();
  return blocks;
}

/** Whether a line is a heading in Markdown, or the line under one. */
export const isHeading = (line: string): boolean => /^#{1,6}\s|^(?:=|-){3,}\s*$/.test(line);

function sourceBlocks(lines: readonly Line[]): Block[] {
  const blocks: Block[] = [];
  let open: Line[] = [];
  const flush = () => {
    if (open.length > 0) blocks.push({ kind: 'prose', lines: open });
    open = [];
  };
  for (const line of lines) {
    const readable = line.text.trim() !== '' && line.text.length <= MAX_LINE && !isNoise(line.text);
    if (readable && isComment(line.text) && !/^\s*\*\s*@/.test(line.text)) {
      open.push(line);
      continue;
    }
    flush();
    if (readable) blocks.push({ kind: 'code', lines: [line] });
  }
  flush();
  return blocks;
}

function codeSpans(block: Block): Span[] {
  return block.lines.flatMap((first, index) => {
    // A quote that begins with the end of something else cannot be understood.
    if (/^\s*(?:$|[)}\]]|\*\/)/.test(first.text)) return [];
    let end = first.start;
    const lines = block.lines.slice(index, index + MAX_CODE_LINES);
    for (const line of lines) {
      const next = line.start + line.text.trimEnd().length;
      if (next - first.start > MAX_QUOTE) break;
      if (line.text.trim() !== '') end = next;
    }
    const start = first.start + (first.text.length - first.text.trimStart().length);
    const whole = index === 0 && end === endOf(block);
    return end > start ? [{ start, end, kind: 'code' as const, whole, opens: index === 0 }] : [];
  });
}

function endOf(block: Block): number {
  const last = block.lines.at(-1);
  return last ? last.start + last.text.trimEnd().length : 0;
}

function proseSpans(block: Block, text: string): Span[] {
  const first = block.lines[0];
  const last = block.lines.at(-1);
  if (!first || !last) return [];
  const sentences = sentencesOf(text, first.start, last.start + last.text.length);
  return sentences.flatMap((from, index) =>
    sentences
      .slice(index, index + MAX_SENTENCES)
      .map((to) => {
        const whole = index === 0 && to === sentences.at(-1);
        return { start: from.start, end: to.end, kind: 'prose' as const, whole, opens: index === 0 };
      })
      .filter((span) => span.end - span.start <= MAX_QUOTE),
  );
}

/** How many characters before and after the end of a sentence are looked at, to tell whether it is one. */
const GLANCE = 40;
const SENTENCE_END = /[.!?][)\]"'`*_]*(?=\s|$)/g;
const ABBREVIATION = /\b(?:e\.g|i\.e|vs|cf|approx|resp|no|incl)\.$|(?:^|\n)[\s*/#>-]*\d{1,2}\.$/i;
const MARKERS = /^(?:\s|\/\*\*?|\*\/?(?=\s|$)|\/\/+|#+(?=\s)|>|[-+](?=\s)|\d+[.)](?=\s)|\|)+/;

function sentencesOf(text: string, start: number, end: number): { start: number; end: number }[] {
  const block = text.slice(start, end);
  const sentences: { start: number; end: number }[] = [];
  let from = 0;
  const push = (to: number) => {
    const raw = block.slice(from, to);
    const lead = MARKERS.exec(raw)?.[0].length ?? 0;
    const body = raw.slice(lead).replace(/(?:\s|\*\/|\|)+$/, '');
    if (body !== '') sentences.push({ start: start + from + lead, end: start + from + lead + body.length });
    from = to;
  };
  for (const match of block.matchAll(SENTENCE_END)) {
    const to = match.index + match[0].length;
    const rest = block.slice(to, to + GLANCE).replace(MARKERS, '');
    if (ABBREVIATION.test(block.slice(Math.max(0, match.index - GLANCE), match.index + 1)) || !/^[^\p{Ll}]/u.test(rest))
      continue;
    push(to);
  }
  push(block.length);
  return sentences;
}

/**
 * Chooses the quotes that answer a question from the lines that were read, or finds that none does.
 *
 * A question counts as answered only when, for the best quote,
 * 1. every specific word of the question is in the quote, near it, or elsewhere in the same file or its path; and
 * 2. at least 60 % of the question's words, by weight, are within three lines of it or in the heading above. A word
 *    that was found nowhere in the folder weighs more: the question is probably about something else.
 */
import type { ReadText, SearchHit } from './document-turn.ts';
import { asksForDefinition, asksForNumber, asksForReason, asksWhatItIs, definitionIn } from './intent.ts';
import { type Keyword, matchOf, tellingOf, weighByRarity } from './keywords.ts';
import { documentPrior, isDocComment, isMarkup, isProseFile } from './lines.ts';
import { isHeading, linesWithStarts, MAX_QUOTE, type Span, spansOf } from './spans.ts';
import { partsOf, stemsOf } from './stemming.ts';

/** A literal quote and where it begins. */
export interface Quote {
  readonly path: string;
  readonly line: number;
  readonly quote: string;
}

interface Question {
  readonly text: string;
  readonly keywords: readonly Keyword[];
}

type FoundText = Pick<SearchHit, 'path' | 'text'>;

interface Candidate extends Quote {
  readonly score: number;
  /** How well the quote itself holds each keyword. */
  readonly own: readonly number[];
  /** How well the quote together with its surroundings holds each keyword. */
  readonly near: readonly number[];
}

/** The share of the question's words, by weight, that must be near a quote that answers it. */
const ENOUGH = 0.6;
/** How many lines before and after a quote are near it. */
const NEAR_LINES = 3;
const MAX_QUOTES = 3;
/** How good a further quote must be in proportion to the best; one that is worse would only blur it. */
const WORTH_ADDING = 0.9;

/** The quotes that answer a question, the best first and three at most; empty when none does. */
export function chooseQuotes(
  text: string,
  asked: readonly Keyword[],
  reads: readonly ReadText[],
  hits: readonly SearchHit[],
): readonly Quote[] {
  const texts = [...hits, ...reads];
  const keywords = weighByRarity(
    asked,
    hits.map((hit) => hit.text),
  );
  const question = { text, keywords };
  const candidates = reads
    .flatMap((read) => candidatesOf(question, read))
    .filter((candidate) => isAnswer(question, candidate, texts))
    .sort((a, b) => b.score - a.score || order(a, b));
  const chosen: Candidate[] = [];
  for (const candidate of candidates) {
    if (chosen.length === MAX_QUOTES || candidate.score < WORTH_ADDING * (chosen[0]?.score ?? 0)) break;
    if (chosen.every((other) => isDistinct(candidate, other))) chosen.push(candidate);
  }
  return chosen.map(({ path, line, quote }) => ({ path, line, quote }));
}

/** The first sentences of a document: the answer to a question that asks what all this is. */
export function openingQuotes(reads: readonly ReadText[]): readonly Quote[] {
  for (const read of reads) {
    const span = spansOf(read.text, read.path).find(({ kind, start, end }) => kind === 'prose' && end - start >= 40);
    if (span) return [quoteOf(read, span)];
  }
  return [];
}

function order(a: Quote, b: Quote): number {
  if (a.path !== b.path) return a.path < b.path ? -1 : 1;
  return a.line - b.line || a.quote.length - b.quote.length || (a.quote < b.quote ? -1 : 1);
}

function isDistinct(a: Quote, b: Quote): boolean {
  if (a.quote.includes(b.quote) || b.quote.includes(a.quote)) return false;
  return a.path !== b.path || a.line > lastLineOf(b) + 1 || b.line > lastLineOf(a) + 1;
}

const lastLineOf = ({ line, quote }: Quote): number => line + quote.split('\n').length - 1;

function quoteOf(read: ReadText, span: Span): Quote {
  const line = read.fromLine + (read.text.slice(0, span.start).match(/\n/g)?.length ?? 0);
  return { path: read.path, line, quote: read.text.slice(span.start, span.end) };
}

function candidatesOf({ text, keywords }: Question, read: ReadText): Candidate[] {
  const lines = linesWithStarts(read.text).map((line) => line.text);
  const path = stemsOf(read.path);
  return spansOf(read.text, read.path).flatMap((span) => {
    const found = quoteOf(read, span);
    const stems = stemsOf(found.quote);
    const own = keywords.map((keyword) => matchOf(keyword, stems));
    if (!holdsAny(keywords, found.quote)) return [];
    const first = found.line - read.fromLine;
    const docs = !isProseFile(read.path) && isDocComment(lines[first] ?? '') ? 0.3 : 0;
    const last = lastLineOf(found) - read.fromLine;
    const around = stemsOf(lines.slice(Math.max(0, first - NEAR_LINES), last + NEAR_LINES + 1).join('\n'));
    const heading = stemsOf(lines.slice(0, first).findLast(isHeading) ?? '');
    const near = keywords.map((keyword, index) =>
      Math.max(own[index] ?? 0, matchOf(keyword, around), matchOf(keyword, heading), matchOf(keyword, path)),
    );
    const score = weigh(keywords, (keyword, index) => {
      const surroundings = 0.35 * Math.max(matchOf(keyword, around), 0.5 * matchOf(keyword, path));
      return Math.max(own[index] ?? 0, 0.6 * matchOf(keyword, heading), surroundings);
    });
    return [{ ...found, own, near, score: score + shapeBonus(text, keywords, found, span) + docs }];
  });
}

function holdsAny(keywords: readonly Keyword[], text: string): boolean {
  const stems = stemsOf(text);
  return tellingOf(keywords).some((keyword) => matchOf(keyword, stems) > 0);
}

function weigh(keywords: readonly Keyword[], value: (keyword: Keyword, index: number) => number): number {
  return keywords.reduce((sum, keyword, index) => sum + keyword.weight * value(keyword, index), 0);
}

const LINK = /\[[^\]]*\]\([^)]*\)/g;
const HEAD = 100;
/** How a sentence begins that leans on the one before it. */
const LEANS =
  /^(?:otherwise|this|these|that|those|it|its|they|he|she|but|and|or|so|then|also|however|here|you can also)\b/i;

/** What the form of a quote says about its use as an answer; more is better. */
function shapeBonus(question: string, keywords: readonly Keyword[], quote: Quote, span: Span): number {
  const { quote: text, path, line } = quote;
  const defines = Math.max(0, ...keywords.map((keyword) => definitionIn(keyword, text)));
  const rules: readonly (readonly [boolean, number])[] = [
    [span.kind === 'prose', 0.5],
    [span.opens && !LEANS.test(text) && holdsAny(keywords, text.slice(0, HEAD)), 0.25],
    [LEANS.test(text), -0.3],
    [asksForDefinition(question), 1.2 * defines + 0.4 / (1 + line / 40)],
    [!asksForDefinition(question), 0.3 * defines],
    [asksForNumber(question) && /\d/.test(text), 0.5],
    [asksForReason(question) && /\b(?:because|since|so that|therefore|otherwise|hence)\b/i.test(text), 0.5],
    [/[?:]$/.test(text), -0.5],
    [text.replace(LINK, '').length < 25, -0.4],
    [span.kind === 'code' && span.whole && isProseFile(path), 0.3],
    [span.kind === 'prose' && isMarkup(text), -0.8],
  ];
  const form = rules.reduce((sum, [holds, value]) => (holds ? sum + value : sum), 0);
  const phrases = adjacentPairs(keywords, text);
  return form + 0.4 * phrases + 0.5 * documentPrior(path) - 0.4 * (text.length / MAX_QUOTE);
}

/** How many neighbouring words of the question are neighbours in the quote too. */
function adjacentPairs(keywords: readonly Keyword[], quote: string): number {
  const words = partsOf(quote).map(stemsOf);
  return keywords.slice(1).filter((keyword, index) => {
    const before = keywords[index];
    return words.some((stems, at) => {
      const next = words[at + 1];
      return before && next && matchOf(before, stems) === 1 && matchOf(keyword, next) === 1;
    });
  }).length;
}

function isAnswer(question: Question, candidate: Candidate, texts: readonly FoundText[]): boolean {
  const { keywords } = question;
  const inFile = texts.filter((text) => text.path === candidate.path);
  const isThere = (keyword: Keyword) =>
    inFile.some(({ text, path }) => matchOf(keyword, stemsOf(`${text} ${path}`)) > 0);
  const specificsFound = keywords.every((keyword, index) => {
    return keyword.kind !== 'specific' || (candidate.near[index] ?? 0) > 0 || isThere(keyword);
  });
  if (!specificsFound) return false;
  const [only, ...others] = tellingOf(keywords);
  if (only && others.length === 0 && asksWhatItIs(question.text) && definitionIn(only, candidate.quote) === 0) {
    return false;
  }
  const total = keywords.reduce((sum, keyword) => sum + keyword.weight, 0);
  return weigh(keywords, (_, index) => candidate.near[index] ?? 0) >= ENOUGH * total;
}

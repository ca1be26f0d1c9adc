/** What kind of answer a question asks for, and which lines have its form. */
import { type Keyword, keywordsOf, tellingOf } from './keywords.ts';
import { stemOf } from './stemming.ts';

/** The sentences of a request that ask, where it also says other things; else all of it. */
export function questionIn(text: string): string {
  const asking = text.split(/(?<=[.?!])\s+|\n+/).filter((sentence) => sentence.trim().endsWith('?'));
  return asking.length > 0 ? asking.join(' ') : text;
}

const ASKS_PARTICULARS = /^\W*(?:why|when|where|who|which|how (?:many|much|long|often))\b/i;

/** Whether a question asks for an overview: it has no telling word ("What is this about?") and does not ask for a particular. */
export function asksForOverview(question: string): boolean {
  return tellingOf(keywordsOf(question)).length === 0 && !ASKS_PARTICULARS.test(question);
}

const ASKS_DEFINITION = /^\W*(?:what(?:'s| is| are| does)|who is|define)\b|\bmean\b|\bmeaning of\b/i;

const ASKS_WHAT_IT_IS = /^\W*what(?:'s| is| are)\b|\bmeaning\b|^\W*define\b/i;
const ASKS_NUMBER = /\bhow (?:many|much|long|often|big|large|fast|old)\b|^\W*when\b|\bwhich (?:version|port|year)\b/i;
const ASKS_REASON = /^\W*why\b/i;

/** Whether a question asks what something is, means or does. */
export const asksForDefinition = (question: string): boolean => ASKS_DEFINITION.test(question);
/**
 * Whether a question asks what something is. This is narrower than a definition: "What does X do?" may be answered without saying what X
 * is.
 */
export const asksWhatItIs = (question: string): boolean => ASKS_WHAT_IT_IS.test(question);
/** Whether a question asks for a number, a size or a time. */
export const asksForNumber = (question: string): boolean => ASKS_NUMBER.test(question);
/** Whether a question asks why. */
export const asksForReason = (question: string): boolean => ASKS_REASON.test(question);

const TERM = '([\\p{L}\\p{N}_]+)';
const DEFINITIONS: readonly (readonly [RegExp, number])[] = [
  [new RegExp(`${TERM}[*_\`"]*,?\\s+(?:\\([^)]*\\),?\\s+)?(?:is|are)\\s+(?:an?|the|one)\\b`, 'giu'), 1],
  [new RegExp(`[*_\`"]+${TERM}[*_\`"]+\\s*(?::|—|–|-\\s|\\()`, 'giu'), 1],
  [new RegExp(`\\b(?:class|interface|type|enum|function|const|def|struct|fn)\\s+${TERM}`, 'giu'), 0.9],
  [new RegExp(`^[\\s*-]*"?${TERM}"?\\s*[:=]\\s[^?{}();]*$`, 'giu'), 0.9],
  [new RegExp(`${TERM}\\s+(?:means|refers to|stands for|consists of|is|are)\\b`, 'giu'), 0.7],
  [new RegExp(`(?:^|[.!?:]\\s)\\W*(?:an?|the)\\s+[*_\`]+${TERM}[*_\`]+`, 'giu'), 0.7],
];

/** How plainly a line defines the keyword, from 0 to 1: "X is a", "**X**:", "A *X* takes", "class X"; 0 when it does not. */
export function definitionIn(keyword: Keyword, line: string): number {
  if (keyword.kind === 'weak') return 0;
  const defines = (pattern: RegExp) =>
    [...line.matchAll(pattern)].some(([, term]) => stemOf(term?.toLowerCase() ?? '') === keyword.stem);
  return Math.max(0, ...DEFINITIONS.map(([pattern, value]) => (defines(pattern) ? value : 0)));
}

/**
 * The content words of a question, and how to recognise them in a text: stop words removed, simple stemming, a few synonyms.
 *
 * Invariant: everything here is a table or a rule; nothing is learnt.
 */
import { joinedVerbs, stemOf, stemsOf, WORD } from './stemming.ts';

/**
 * What a word decides. `specific` is an identifier, a number, a proper noun or a quoted word, so that a text without it answers another
 * question. `weak` is a word that nearly every text has, like "use"; it helps but decides nothing.
 */
export type KeywordKind = 'specific' | 'plain' | 'weak';

/** A content word of a question. */
export interface Keyword {
  readonly word: string;
  readonly stem: string;
  readonly kind: KeywordKind;
  /** How much the word counts beside the others of its question; 1 is usual. */
  readonly weight: number;
  /** Words that count for this one, a little less than the word itself. */
  readonly synonyms: readonly string[];
}

const wordsOf = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/).filter(Boolean));

const STOP_WORDS = wordsOf(`
  a about above after again all also am an and any anybody anyone anything are aren as at be because been before being
  between both but by can cannot could couldn did didn do does doesn doing don done down during each either else etc
  ever every everything for from had has hasn have having he her here hers him his how however i if in into is isn it
  its itself just let ll may me might mine more most must my no nor not now of off on once one ones only onto or other
  our ours out over own per please re same shall she should shouldn so some somebody someone something such than that
  the their theirs them then there these they this those through to too under until up upon us ve very via was wasn we
  were weren what whatever when where whether which while who whom whose why will with within without won't would
  wouldn yes yet you your yours
`);

const WEAK_WORDS = wordsOf(`
  actually allow allowed answer best call called case cause certain choose come consider contain current define describe
  detail details different doc docs document documentation documents example examples exactly exist exists explain file
  files find first folder follow following for full general get gets getting give given gives go good happen happening
  happens have held help here important
  include including information involve keep kept kind know known like list lives located long look made
  main make makes making many matter mean meaning means mention mentioned much name need needed needs new next number
  often part possible project provide provided put question quickly really say says section see set show shown simple
  still tell text thing things take taken takes times two use used useful user uses using various want wants way ways
  well work working works write
`);

/** Groups of words that documents use for each other. */
const SYNONYM_GROUPS = [
  'field property key attribute',
  'function method',
  'install installation setup',
  'error exception failure',
  'configure configuration setting option',
  'delete remove',
  'create add build',
  'fast speed performance latency',
  'author maintainer creator',
  'argument parameter',
  'begin start',
  'end finish',
  'convert transform',
  'check validate verify',
  'transaction atomic',
  'license licence',
  'several multiple repeated repeatable repeat',
].map((group) => group.split(' '));

const WEIGHT: Readonly<Record<KeywordKind, number>> = { specific: 1.3, plain: 1, weak: 0.25 };
const SYNONYM_VALUE = 0.7;
const MAX_RARITY = 3;

/** The content words of a question, one for each stem. */
export function keywordsOf(asked: string): readonly Keyword[] {
  const question = joinedVerbs(asked);
  const titleCase = isTitleCase(question);
  const found = new Map<string, Keyword>();
  for (const match of question.matchAll(WORD)) {
    const word = match[0].toLowerCase();
    if (word.length < 2 || STOP_WORDS.has(word)) continue;
    const stem = stemOf(word);
    const kind = kindOf(question, match[0], match.index, titleCase);
    if (found.get(stem)?.kind === 'specific') continue;
    const synonyms = kind === 'specific' ? [] : synonymsOf(stem);
    found.set(stem, { word, stem, kind, weight: WEIGHT[kind], synonyms });
  }
  return [...found.values()];
}

function synonymsOf(stem: string): string[] {
  return SYNONYM_GROUPS.filter((group) => group.some((word) => stemOf(word) === stem))
    .flat()
    .filter((word) => stemOf(word) !== stem);
}

function kindOf(question: string, word: string, at: number, titleCase: boolean): KeywordKind {
  const before = question.slice(0, at);
  const after = question.slice(at + word.length);
  const isIdentifier =
    /\p{N}|_|\p{Ll}\p{Lu}/u.test(word) || /^\p{Lu}{2,}$/u.test(word) || /^\(/.test(after) || /^\.\p{L}/u.test(after);
  const isQuoted = /[`"“'(]\s*$/u.test(before) && /^[^\s]*[`"”']/u.test(after);
  const startsSentence = /(?:^|[.!?:]\s)[^\p{L}\p{N}]*$/u.test(before);
  const isProper = /^\p{Lu}\p{Ll}/u.test(word) && !startsSentence && !titleCase;
  if (isIdentifier || isQuoted || isProper) return 'specific';
  // "How large" asks for a size; the answer names it without the word.
  const isMeasure = /\bhow\s+$/i.test(before);
  return isMeasure || WEAK_WORDS.has(word.toLowerCase()) ? 'weak' : 'plain';
}

/** Whether a question is in title case, where a capital says nothing about a word. */
function isTitleCase(question: string): boolean {
  const words = (question.match(/\p{L}{4,}/gu) ?? []).slice(1);
  return words.length > 1 && words.filter((word) => /^\p{Lu}/u.test(word)).length > words.length / 2;
}

/** How well a text with these stems holds the keyword: 1 for the word, less for a synonym or a part of an identifier, 0 for none. */
export function matchOf(keyword: Keyword, stems: ReadonlyMap<string, number>): number {
  const synonyms = keyword.synonyms.map((synonym) => SYNONYM_VALUE * (stems.get(stemOf(synonym)) ?? 0));
  return Math.max(stems.get(keyword.stem) ?? 0, ...synonyms);
}

/**
 * The keywords with weights by how rare they are among the lines found: "dependencies" says more about the place of an answer than the
 * product's name on every second line. A word found nowhere weighs most: the question may be about something else.
 */
export function weighByRarity(keywords: readonly Keyword[], lines: readonly string[]): readonly Keyword[] {
  const stems = lines.map(stemsOf);
  const counts = keywords.map((keyword) => stems.filter((line) => line.has(keyword.stem)).length);
  const most = Math.max(1, ...counts);
  return keywords.map((keyword, index) => {
    if (keyword.kind === 'weak') return keyword;
    const rarity = 1 + 0.7 * Math.log(most / Math.max(0.5, counts[index] ?? 0));
    return { ...keyword, weight: keyword.weight * Math.min(MAX_RARITY, rarity) };
  });
}

/** The words to search for, separated by spaces: the telling ones as asked, and what their other forms begin with. */
export function searchTerms(keywords: readonly Keyword[]): string {
  const telling = tellingOf(keywords);
  return termsOf((telling.length > 0 ? telling : keywords).map((keyword) => keyword.word));
}

/** The synonyms to search for, separated by spaces; empty when there are none. */
export function synonymTerms(keywords: readonly Keyword[]): string {
  return termsOf(tellingOf(keywords).flatMap((keyword) => keyword.synonyms));
}

function termsOf(words: readonly string[]): string {
  const terms = words.flatMap((word) => {
    const root = stemOf(word).replace(/i$/, '');
    return root.length >= 5 && word.startsWith(root) ? [word, root] : [word];
  });
  return [...new Set(terms)].join(' ');
}

/** The keywords that decide something, which are all but the weak ones. */
export function tellingOf(keywords: readonly Keyword[]): readonly Keyword[] {
  return keywords.filter((keyword) => keyword.kind !== 'weak');
}

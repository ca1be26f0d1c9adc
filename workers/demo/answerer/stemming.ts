/** A light English stemmer: enough that `migrations` meets `migrate`. Words with one stem count as the same word. */

/** A word of a text: letters, digits and underscores in a row. */
export const WORD = /[\p{L}\p{N}_]+/gu;

/** The words of a text with identifiers taken apart: `maxResults` is `max` and `results`. */
export function partsOf(text: string): readonly string[] {
  const apart = text.replace(/(\p{Ll})(\p{Lu})/gu, '$1_$2').replaceAll('_', ' ');
  return apart.match(WORD) ?? [];
}

const SPLIT_VERB =
  /\b(?:(time)[sd]?[ -](out)|(log|sign)(?:g?ing|g?ed|s)?[ -](in|out)|(set|start|back|clean|look)(?:t?ing|ed|s)?[ -](up)|(shut)(?:ting|s)?[ -](down)|(roll|fall)(?:ing|ed|s)?[ -](back))\b/gi;

/** The text with a verb and its particle written as one word, as the noun is: "a request times out" tells of a `timeout`. */
export const joinedVerbs = (text: string): string => text.replace(SPLIT_VERB, '$1$2$3$4$5$6$7$8$9$10');

/** How much a part of an identifier counts beside a whole word. */
const PART_VALUE = 0.7;

/**
 * The stems of all words of a text and how much each counts: an identifier counts as a whole, and less by its parts (`maxResults` holds
 * `max` and `results`), since a name says less than a word of a sentence.
 */
export function stemsOf(text: string): ReadonlyMap<string, number> {
  const stems = new Map<string, number>();
  for (const [token] of joinedVerbs(text).matchAll(WORD)) {
    stems.set(stemOf(token.toLowerCase()), 1);
    const parts = partsOf(token);
    for (const part of parts.length > 1 ? parts : []) {
      const stem = stemOf(part.toLowerCase());
      if (stem !== '' && !stems.has(stem)) stems.set(stem, PART_VALUE);
    }
  }
  return stems;
}

/** Endings, each with what takes its place and the fewest letters that it must leave. */
const SUFFIXES: readonly (readonly [ending: RegExp, replacement: string, leaves: number])[] = [
  [/(?:ization|isation)$/, 'iz', 4],
  [/(?:ation|ator|ating|ated|ate)$/, '', 4],
  [/(?:ion|ment|er|or|edly|ingly)$/, '', 4],
  [/(?:ing|ed|ly)$/, '', 3],
];

/** The stem of a word in lower case; a word with other letters than a to z is its own stem. */
export function stemOf(word: string): string {
  if (word.length < 4 || !/^[a-z]+$/.test(word)) return word;
  const singular = word
    .replace(/ies$/, 'y')
    .replace(/(ss|x|z|ch|sh)es$/, '$1')
    .replace(/([^sui])s$/, '$1');
  for (const [ending, replacement, leaves] of SUFFIXES) {
    const cut = singular.replace(ending, replacement);
    if (cut !== singular && cut.length >= leaves) return tidy(cut);
  }
  return tidy(singular);
}

/** The common form of stems that are spelt differently: `stopp` and `stop`, `store` and `stor`, `query` and `queri` are one. */
const tidy = (stem: string): string =>
  stem
    .replace(/([bdfgmnprst])\1$/, '$1')
    .replace(/e$/, '')
    .replace(/y$/, 'i');

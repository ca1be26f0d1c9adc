/** A light English stemmer: enough that `migrations` meets `migrate`. Words with one stem count as the same word. */

export const WORD = /[\p{L}\p{N}_]+/gu;

/** The words of a text, identifiers taken apart: `maxResults` is `max` and `results`. */
export function partsOf(text: string): readonly string[] {
  const apart = text.replace(/(\p{Ll})(\p{Lu})/gu, '$1_$2').replaceAll('_', ' ');
  return apart.match(WORD) ?? [];
}

const PART_VALUE = 0.7;

/**
 * Stems of all words of a text and how much each counts: an identifier counts as a whole, and less by its parts
 * (`maxResults` holds `max` and `results`), since a name says less than a word of a sentence.
 */
export function stemsOf(text: string): ReadonlyMap<string, number> {
  const stems = new Map<string, number>();
  for (const [token] of text.matchAll(WORD)) {
    stems.set(stemOf(token.toLowerCase()), 1);
    const parts = partsOf(token);
    for (const part of parts.length > 1 ? parts : []) {
      const stem = stemOf(part.toLowerCase());
      if (stem !== '' && !stems.has(stem)) stems.set(stem, PART_VALUE);
    }
  }
  return stems;
}

/** Endings, each with the fewest letters it must leave. */
const SUFFIXES: readonly (readonly [ending: RegExp, replacement: string, leaves: number])[] = [
  [/(?:ization|isation)$/, 'iz', 4],
  [/(?:ation|ator|ating|ated|ate)$/, '', 4],
  [/(?:ion|ment|er|or|edly|ingly)$/, '', 4],
  [/(?:ing|ed|ly)$/, '', 3],
];

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

/** `stopp` and `stop`, `store` and `stor`, `query` and `queri` are one stem. */
const tidy = (stem: string): string =>
  stem
    .replace(/([bdfgmnprst])\1$/, '$1')
    .replace(/e$/, '')
    .replace(/y$/, 'i');

/** Elements around what others say, which a model is shown as theirs. Pure. */

const BLANK = /\s/;

/** The place behind which only blanks stand before `end`. */
function beforeBlanks(text: string, end: number): number {
  let at = end;
  while (at > 0 && BLANK.test(text.charAt(at - 1))) at -= 1;
  return at;
}

/**
 * The text, in which nothing opens or closes an element of that name, a plain word: a blank stands behind each `<` that would.
 *
 * Invariant: each character is looked at a fixed number of times, whatever stands between `<` and the name.
 */
export function withoutElement(name: string, text: string): string {
  let kept = '';
  let taken = 0;
  for (const { index } of text.matchAll(new RegExp(name, 'giu'))) {
    const slash = beforeBlanks(text, index);
    const open = text.charAt(slash - 1) === '/' ? beforeBlanks(text, slash - 1) : slash;
    if (text.charAt(open - 1) !== '<') continue;
    kept += `${text.slice(taken, open)} `;
    taken = open;
  }
  return kept + text.slice(taken);
}

/** The name that was most likely meant by one that is not there. */

/** How many letters must be inserted, removed or changed, or change places with the next one, to get from one name to the other. */
function distance(from: string, to: string): number {
  let before: number[] = [];
  let above = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row += 1) {
    const here = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const changed = (above[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1);
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      const swap = swapped ? (before[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY;
      here.push(Math.min(changed, (above[column] ?? 0) + 1, (here[column - 1] ?? 0) + 1, swap));
    }
    before = above;
    above = here;
  }
  return above[to.length] ?? 0;
}

/** A name that differs in more than this share of its letters was not meant. */
const MOST_DIFFERENT = 0.4;

/** The name that is written most like `name`, however it is cased; undefined when none is written like it. */
export function nearest(name: string, names: Iterable<string>): string | undefined {
  const ranked = [...names]
    .map((each) => ({ each, far: distance(name.toLowerCase(), each.toLowerCase()) }))
    .filter(({ each, far }) => far <= Math.max(name.length, each.length) * MOST_DIFFERENT)
    .sort((a, b) => a.far - b.far);
  return ranked[0]?.each;
}

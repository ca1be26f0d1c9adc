/** Doing many things of which one may hang or fail without delaying the others. */

/** How many are done at the same time. */
const SIDE_BY_SIDE = 16;

/** How many were taken up, and how many of them failed. */
export interface Done {
  readonly done: number;
  readonly failed: number;
}

/** Takes up one item after the other, several at a time, for as long as `goesOn`; `act` says whether it succeeded, and never rejects. */
export async function sideBySide<T>(
  items: readonly T[],
  goesOn: () => Promise<boolean>,
  act: (item: T) => Promise<boolean>,
): Promise<Done> {
  const waiting = [...items];
  let failed = 0;
  const work = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) {
      if (!(await goesOn())) {
        waiting.unshift(item);
        return;
      }
      if (!(await act(item))) failed += 1;
    }
  };
  await Promise.all(Array.from({ length: Math.min(SIDE_BY_SIDE, items.length) }, work));
  return { done: items.length - waiting.length, failed };
}

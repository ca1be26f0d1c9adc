/** Work side by side, with a bound. */

/**
 * Runs each item, in their order and at most so many at once; resolves with the outcomes in the same order. Throws the first error at once, and
 * begins no further item then.
 */
export async function inLanes<Item, Outcome>(
  items: readonly Item[],
  atOnce: number,
  run: (item: Item, index: number) => Promise<Outcome>,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  const rest = items.entries();
  let failed = false;
  const lane = async (): Promise<void> => {
    for (const [index, item] of rest) {
      if (failed) return;
      try {
        outcomes[index] = await run(item, index);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane));
  return outcomes;
}

/** All turns of a store, of which a page is held at a time. */
import type { ListStore, TurnQuery, TurnSummary } from '../workflows/contract/lists.ts';

const PAGE = 200;

/** The newest first, `limit` in all. Turns that are accepted meanwhile are not among them. */
export async function* everyTurn(
  store: Pick<ListStore, 'findTurns'>,
  { limit = Number.POSITIVE_INFINITY, ...query }: Omit<TurnQuery, 'before'>,
): AsyncGenerator<TurnSummary, void> {
  let left = limit;
  for (let before: TurnQuery['before']; left > 0; ) {
    const size = Math.min(PAGE, left);
    const page = await store.findTurns({ ...query, ...(before ? { before } : {}), limit: size });
    yield* page;
    left -= page.length;
    before = page.at(-1);
    if (page.length < size) return;
  }
}

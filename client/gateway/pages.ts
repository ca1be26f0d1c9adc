/** Pages of a list: of so many items at most, and of so many bytes, for an item may have a megabyte. */
import { utf8Bytes } from '../../workflows/protocol/sizes.ts';

/** The most bytes that the items of a page have as JSON, unless the first of them has more. */
export const PAGE_BYTES = 4 * 1024 * 1024;
/** Items that are read at once: more than these are not in memory for one answer, besides those that are in it. */
const ROWS = 16;

/** A page as it goes out. */
export interface Page<T> {
  readonly items: readonly T[];
  /** What gives the next page; null behind the last one. */
  readonly next: string | null;
}

/** A list that is read in pages. */
export interface Paged<T> {
  /** The most items of a page. */
  readonly limit: number;
  /** Where the page begins: what `place` says of the item before it; undefined for the first page. */
  readonly after: string | undefined;
  /** Reads so many items behind a place; fewer where there are no more. */
  read(after: string | undefined, limit: number): Promise<readonly T[]>;
  /** The place of an item. */
  place(item: T): string;
}

/** Reads a page. */
export async function readPage<T>({ limit, after, read, place }: Paged<T>): Promise<Page<T>> {
  const items: T[] = [];
  let bytes = 0;
  for (let at = after; ; ) {
    const wanted = Math.min(ROWS, limit - items.length);
    const rows = await read(at, wanted);
    for (const row of rows) {
      bytes += bytesOf(row);
      const before = items.at(-1);
      // What has one place is in one page: nothing goes on behind a part of it.
      if (before !== undefined && bytes > PAGE_BYTES && place(before) !== place(row))
        return { items, next: place(before) };
      items.push(row);
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < wanted) return { items, next: null };
    at = place(last);
    if (items.length >= limit) return { items, next: at };
  }
}

/** Reads the last items of a list, in their order: so many at most, and no more than a page has bytes. `read` gives so many of the last ones. */
export async function readLast<T>(limit: number, read: (last: number) => Promise<readonly T[]>): Promise<Page<T>> {
  for (let wanted = Math.min(ROWS, limit); ; wanted = Math.min(2 * wanted, limit)) {
    const rows = await read(wanted);
    const items = endOf(rows);
    if (items.length < rows.length || rows.length < wanted || wanted === limit) return { items, next: null };
  }
}

/** As many items from the end of a list as fit into a page; the last one always does. */
function endOf<T>(rows: readonly T[]): readonly T[] {
  let bytes = 0;
  for (let at = rows.length - 1; at >= 0; at -= 1) {
    bytes += bytesOf(rows[at]);
    if (bytes > PAGE_BYTES && at < rows.length - 1) return rows.slice(at + 1);
  }
  return rows;
}

/** A list whose places are numbers. */
export interface NumberedList<T> {
  readonly limit: number;
  readonly after: number | undefined;
  read(page: { readonly after?: number; readonly limit: number }): Promise<readonly T[]>;
  place(item: T): number;
}

/** As `readPage`, for places that are numbers. */
export const readNumbered = <T>({ limit: most, after: from, read, place }: NumberedList<T>): Promise<Page<T>> =>
  readPage({
    limit: most,
    after: from === undefined ? undefined : String(from),
    read: (after, limit) => read({ ...(after === undefined ? {} : { after: Number(after) }), limit }),
    place: (item) => String(place(item)),
  });

const bytesOf = (item: unknown): number => utf8Bytes(JSON.stringify(item));

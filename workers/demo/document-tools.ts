/**
 * What the demo's tools do with a folder, as plain functions: list, search, read.
 *
 * Invariant: a result stays below 8 KiB or so, because it is sent to the model again with every later step.
 */
import type { Folder, FolderFile } from './folder.ts';

const MAX_RESULT_BYTES = 8 * 1024;
const DEFAULT_MAX_RESULTS = 20;
/** How much of a line that matches is shown. */
const LINE_CHARACTERS = 400;
/** How much of a long line is shown before its first match. */
const BEFORE_MATCH = 100;

/** The result of `list_files`: `total` counts all files of the folder, `truncated` says that some are missing from the list. */
export type FileList = {
  readonly files: readonly FolderFile[];
  readonly total: number;
  readonly truncated: boolean;
};

/** A line that matches a search; a long line is shown in part. */
export type Match = {
  readonly path: string;
  readonly line: number;
  readonly text: string;
};

/** The result of `search_text`; `truncated` says that not all matches are in it, or not all files were searched. */
export type SearchResult = {
  readonly matches: readonly Match[];
  readonly files_searched: number;
  readonly truncated: boolean;
};

/** The result of `read_file`: the lines from `from_line` to `to_line`, both included and counted from 1. */
export type ReadResult = {
  readonly path: string;
  readonly from_line: number;
  readonly to_line: number;
  readonly total_lines: number;
  readonly text: string;
};

/** The text files of the folder with their sizes, shallow ones first, as many as fit into a result. */
export async function listFiles(folder: Folder, signal?: AbortSignal): Promise<FileList> {
  const listing = await folder.list(signal);
  const files = withinLimit(listing.files);
  return {
    files,
    total: listing.files.length,
    truncated: listing.truncated || files.length < listing.files.length,
  };
}

interface Ranked {
  readonly match: Match;
  readonly words: number;
}

/** The lines with any of the words, those with most distinct ones first, then by path and line. */
export async function searchText(
  folder: Folder,
  { query, max_results = DEFAULT_MAX_RESULTS }: { query: string; max_results?: number | undefined },
  signal?: AbortSignal,
): Promise<SearchResult> {
  const words = [...new Set(query.toLowerCase().split(/\s+/))].filter((word) => word !== '');
  const listing = await folder.list(signal);
  const found: Ranked[] = [];
  for (const { path } of listing.files) {
    signal?.throwIfAborted();
    const text = await folder.read(path).catch(() => '');
    for (const [index, line] of linesOf(text).entries()) {
      const ranked = rank(words, path, index + 1, line);
      if (ranked) found.push(ranked);
    }
  }
  const sorted = found.sort(
    (a, b) => b.words - a.words || compare(a.match.path, b.match.path) || a.match.line - b.match.line,
  );
  const matches = withinLimit(sorted.slice(0, max_results).map(({ match }) => match));
  const truncated = listing.truncated || matches.length < found.length;
  return { matches, files_searched: listing.files.length, truncated };
}

function rank(words: readonly string[], path: string, line: number, text: string): Ranked | undefined {
  const lower = text.toLowerCase();
  const places = words.map((word) => lower.indexOf(word)).filter((place) => place >= 0);
  if (places.length === 0) return undefined;
  // A long line is shown from shortly before its first hit; what is shown is still literal.
  const start = text.length <= LINE_CHARACTERS ? 0 : Math.max(0, Math.min(...places) - BEFORE_MATCH);
  return { match: { path, line, text: text.slice(start, start + LINE_CHARACTERS) }, words: places.length };
}

/**
 * The lines that were asked for, as many whole ones as fit into a result; `to_line` tells where they end. Throws an error written for the
 * model when there is no such file or line.
 */
export async function readFile(
  folder: Folder,
  { path, from_line = 1, to_line }: { path: string; from_line?: number | undefined; to_line?: number | undefined },
): Promise<ReadResult> {
  const lines = linesOf(await folder.read(path));
  const total_lines = lines.length;
  if (from_line > total_lines)
    throw new Error(`${path} has ${total_lines} lines; from_line ${from_line} is behind its end`);
  const asked = lines.slice(from_line - 1, Math.max(from_line, to_line ?? total_lines));
  const fitting = withinLimit(asked);
  // A single line that is too long is given as far as it fits.
  const text = fitting.length > 0 ? fitting.join('\n') : (asked[0] ?? '').slice(0, MAX_RESULT_BYTES);
  return { path, from_line, to_line: from_line + Math.max(fitting.length, 1) - 1, total_lines, text };
}

/** The lines of a text. A final line break ends the last line and does not begin another. */
export function linesOf(text: string): string[] {
  const lines = text.split(/\r?\n/);
  if (lines.length > 1 && lines.at(-1) === '') lines.pop();
  return lines;
}

/** The first of the items, as many as fit into a result. */
function withinLimit<T>(items: readonly T[]): readonly T[] {
  let bytes = 0;
  const end = items.findIndex((item) => {
    bytes += Buffer.byteLength(JSON.stringify(item)) + 1;
    return bytes > MAX_RESULT_BYTES;
  });
  return end < 0 ? items : items.slice(0, end);
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Where to read: ranks search hits and turns the best into a few line ranges. */
import type { SearchHit } from './document-turn.ts';
import { asksForDefinition, definitionIn } from './intent.ts';
import { type Keyword, matchOf, tellingOf, weighByRarity } from './keywords.ts';
import { documentPrior, isComment, isDocComment, isMarkup, isNoise, isProseFile, MAX_LINE } from './lines.ts';
import { stemsOf } from './stemming.ts';

/** The lines to read of one file, as arguments of `read_file`. */
export interface ReadWindow {
  readonly path: string;
  readonly from_line: number;
  readonly to_line: number;
}

const NEIGHBOURHOOD = 6;
const LINES_BEFORE = 14;
const LINES_BEFORE_LONG = 3;
const CHARACTERS_BEFORE = 2400;
const LINES_AFTER = 26;
const MAX_WINDOWS = 3;

/** The line ranges around the best hits, at most three; a hit that lies well inside an earlier range gets none of its own. */
export function windowsToRead(
  question: string,
  keywords: readonly Keyword[],
  hits: readonly SearchHit[],
): readonly ReadWindow[] {
  const weighted = weighByRarity(
    keywords,
    hits.map((hit) => hit.text),
  );
  const windows: ReadWindow[] = [];
  for (const hit of rankHits(question, weighted, hits)) {
    if (windows.length === MAX_WINDOWS) break;
    const isRead = windows.some(
      (read) => read.path === hit.path && hit.line >= read.from_line && hit.line <= read.to_line - NEIGHBOURHOOD,
    );
    if (isRead) continue;
    const from_line = Math.max(1, hit.line - linesBefore(hit, hits));
    windows.push({ path: hit.path, from_line, to_line: hit.line + LINES_AFTER });
  }
  return windows;
}

/**
 * How many lines to read before a hit. They are fewer where lines are long: a tool may cut a long text short, and the hit itself must not
 * be lost.
 */
function linesBefore(hit: SearchHit, hits: readonly SearchHit[]): number {
  const lengths = hits.filter((other) => other.path === hit.path).map((other) => other.text.length);
  const usual = lengths.reduce((sum, length) => sum + length, 0) / Math.max(1, lengths.length);
  const fitting = Math.round(CHARACTERS_BEFORE / Math.max(1, usual));
  return Math.min(LINES_BEFORE, Math.max(LINES_BEFORE_LONG, fitting));
}

function rankHits(question: string, keywords: readonly Keyword[], hits: readonly SearchHit[]): readonly SearchHit[] {
  const texts = new Set<string>();
  const usable = hits.filter((hit) => {
    const text = hit.text.trim();
    // The same line is often shipped in several builds of one source; one of them is enough.
    if (texts.has(text) || isUnreadable(hit)) return false;
    return texts.add(text);
  });
  const stems = new Map(usable.map((hit) => [hit, stemsOf(hit.text)]));
  const telling = tellingOf(keywords);
  const scored = usable
    .filter((hit) => telling.some((keyword) => matchOf(keyword, stemsOf(hit.text)) > 0))
    .map((hit) => ({ hit, score: scoreOf(question, keywords, hit, stems) }));
  const order = (a: SearchHit, b: SearchHit) => (a.path < b.path ? -1 : a.path > b.path ? 1 : a.line - b.line);
  return scored.sort((a, b) => b.score - a.score || order(a.hit, b.hit)).map(({ hit }) => hit);
}

const isUnreadable = (hit: SearchHit): boolean =>
  (hit.text.length > MAX_LINE && !isProseFile(hit.path)) || isNoise(hit.text);

function scoreOf(
  question: string,
  keywords: readonly Keyword[],
  hit: SearchHit,
  stems: ReadonlyMap<SearchHit, ReadonlyMap<string, number>>,
): number {
  const own = stems.get(hit) ?? new Map();
  const path = stemsOf(hit.path);
  const near = [...stems].filter(
    ([other]) => other !== hit && other.path === hit.path && Math.abs(other.line - hit.line) <= NEIGHBOURHOOD,
  );
  const words = keywords.reduce((sum, keyword) => {
    const around = Math.max(0, ...near.map(([, set]) => matchOf(keyword, set)));
    return sum + keyword.weight * Math.max(matchOf(keyword, own), 0.6 * around, 0.3 * matchOf(keyword, path));
  }, 0);
  // A well-formed line in a README is worth nothing when it is about something else.
  const share = words / keywords.reduce((sum, keyword) => sum + keyword.weight, 0);
  return words + share * (documentPrior(hit.path) + formOf(question, keywords, hit));
}

function formOf(question: string, keywords: readonly Keyword[], hit: SearchHit): number {
  const isProse = isProseFile(hit.path);
  const defines = Math.max(0, ...keywords.map((keyword) => definitionIn(keyword, hit.text)));
  const rules: readonly (readonly [boolean, number])[] = [
    [isProse && /^#{1,6}\s/.test(hit.text), 0.5],
    [isProse || isComment(hit.text), 0.6],
    [!isProse && isDocComment(hit.text), 0.3],
    [isProse && isMarkup(hit.text), -0.8],
    [asksForDefinition(question), 1.2 * defines],
  ];
  return rules.reduce((sum, [holds, value]) => (holds ? sum + value : sum), 0);
}

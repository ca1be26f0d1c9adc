/** Where to read: ranks search hits and turns the best into a few line ranges. Prose comes before code, source before tests. */
import type { SearchHit } from './document-turn.ts';
import { asksForDefinition, definitionIn, type Keyword, matchOf, tellingOf, weighByRarity } from './keywords.ts';
import { stemsOf } from './stemming.ts';

export interface ReadWindow {
  readonly path: string;
  readonly from_line: number;
  readonly to_line: number;
}

/** Longer lines in code are generated or minified; nobody reads an answer out of them. */
export const MAX_LINE = 400;
const NEIGHBOURHOOD = 6;
const LINES_BEFORE = 14;
const LINES_AFTER = 26;
const MAX_WINDOWS = 3;
const PROSE_FILE = /\.(?:md|mdx|markdown|rst|adoc|txt)$|(?:^|\/)(?:readme|licen[cs]e|notice|authors|changes)$/i;
const COMMENT = /^\s*(?:\/\/|\/\*|\*(?:\s|$)|#(?!\w*(?:include|define|if|endif|region))\s)/;
const NOISE =
  /^\s*[-*]\s*\[[^\]]*\]\(#[^)]*\)\s*$|^\s*(?:<[^>]+>\s*)+$|^\s*\[?!\[|^\s*<(?:a|img|p|div|br|h\d)\b|^\s*(?:import|export \*|require\()/;

export const isProseFile = (path: string): boolean => PROSE_FILE.test(path);
export const isNoise = (line: string): boolean => NOISE.test(line);
/** Markup in prose: links, images and layout, seldom an answer. */
export const isMarkup = (line: string): boolean => /<\/?[a-z][^>]*>/i.test(line);
/** Documentation for users, unlike a remark between two lines of code. */
export const isDocComment = (line: string): boolean => /^\s*(?:\/\*\*|\*\s)/.test(line);
export const isComment = (line: string): boolean => COMMENT.test(line);

/** How likely a file is to hold an answer in words, before its text is looked at. */
export function documentPrior(path: string): number {
  const rules: readonly (readonly [RegExp, number])[] = [
    [PROSE_FILE, 0.8],
    [/(?:^|\/)readme[^/]*$/i, 0.4],
    [/(?:^|\/)(?:docs?|guides?|spec|manual)\//i, 0.3],
    [/(?:^|\/)(?:change-?log|history|licen[cs]e|contributing|code_of_conduct)[^/]*$/i, -0.6],
    [/(?:^|\/)(?:tests?|__tests__|fixtures?|bench(?:marks)?|locales?)\/|\.(?:test|spec|bench)\./i, -1],
    [/\.d\.ts$/, 0.2],
    [/\.min\.|\.map$|\.lock$|lock\.json$|\.svg$/i, -2],
    [/\.(?:js|cjs|mjs|cts|mts|json)$/i, -0.4],
  ];
  return rules.reduce((sum, [pattern, value]) => (pattern.test(path) ? sum + value : sum), 0);
}

/** Line ranges around the best hits, at most three, none overlapping. */
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
    windows.push({ path: hit.path, from_line: Math.max(1, hit.line - LINES_BEFORE), to_line: hit.line + LINES_AFTER });
  }
  return windows;
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

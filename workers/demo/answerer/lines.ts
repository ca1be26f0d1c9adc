/** What kind of file and line this is, before its words are looked at: prose before code, source before tests. */

/** The longest line, in characters, that is read in code: longer ones are generated or minified, and no answer is in them. */
export const MAX_LINE = 400;
const PROSE_FILE = /\.(?:md|mdx|markdown|rst|adoc|txt)$|(?:^|\/)(?:readme|licen[cs]e|notice|authors|changes)$/i;
const COMMENT = /^\s*(?:\/\/|\/\*|\*(?:\s|$)|#(?!\w*(?:include|define|if|endif|region))\s)/;
const NOISE = [
  /^\s*[-*]\s*\[[^\]]*\]\(#[^)]*\)\s*$/,
  /^\s*(?:<[^>]+>\s*)+$/,
  /^\s*\[?!\[/,
  /^\s*<(?:a|img|p|div|br|h\d)\b/,
  /^\s*(?:import|export \*|require\()/,
];

/** Whether a file is prose by its name: Markdown, text, a README or a licence. */
export const isProseFile = (path: string): boolean => PROSE_FILE.test(path);
/** Whether a line belongs to a table of contents, a badge, layout or an import. */
export const isNoise = (line: string): boolean => NOISE.some((pattern) => pattern.test(line));
/** Whether a line of prose has markup (links, images, layout), which is seldom an answer. */
export const isMarkup = (line: string): boolean => /<\/?[a-z][^>]*>/i.test(line);
/** Whether a line belongs to documentation for users, unlike a remark between two lines of code. */
export const isDocComment = (line: string): boolean => /^\s*(?:\/\*\*|\*\s)/.test(line);
/** Whether a line of code is a comment. */
export const isComment = (line: string): boolean => COMMENT.test(line);

/** How likely a file is to hold an answer in words, before its text is looked at. Higher is likelier, and 0 is an unremarkable file. */
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

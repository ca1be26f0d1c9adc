/** Takes secrets out of words that others wrote, before the words reach a log or a message. */

const HIDDEN = '***';

/** The length from which a secret is taken out wherever it stands: a shorter one would take ordinary words with it. */
const SHORTEST_SECRET = 8;

/**
 * What looks like a secret, and what is shown in its place: the part that says which secret stood there. Every part that could run on is
 * bounded, because hostile words would take quadratic time otherwise.
 */
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer)\s+[^\s"'\\,;]+/gi, `$1 ${HIDDEN}`],
  [/\b(basic)\s+[a-z0-9+/]{8,}=*/gi, `$1 ${HIDDEN}`],
  [/\b(sk|pk|rk)-[\w*.-]{4,}/gi, `$1-${HIDDEN}`],
  // A colon with digits up to a slash is the port of a URL that has an @ further on.
  [/(:\/\/[^\s/?#:@"']{0,256}):(?!\d{0,5}[/?#])[^\s"']{0,256}@/g, `$1:${HIDDEN}@`],
  [/(:\/\/)[^\s/?#:@"']{1,256}@/g, `$1${HIDDEN}@`],
  [/([?&](?:password|passwd|pwd|secret|token|key|api[-_]?key|access[-_]token)=)[^\s&#"']+/gi, `$1${HIDDEN}`],
  [/\b((?:password|passwd|secret|api[-_ ]?key(?: provided)?)["']?\s*[=:]\s*["']?)[^\s"',;&}]+/gi, `$1${HIDDEN}`],
];

/** The text without these secrets, and without what looks like a secret: bearer tokens, `sk-…` keys, passwords in URLs and settings. */
export function redact(text: string, secrets: readonly string[] = []): string {
  const forms = secrets
    .filter((secret) => secret.length >= SHORTEST_SECRET)
    .flatMap((secret) => [secret, encodeURIComponent(secret.toWellFormed()), JSON.stringify(secret).slice(1, -1)])
    .sort((a, b) => b.length - a.length);
  const without = forms.reduce((rest, form) => rest.replaceAll(form, HIDDEN), text);
  return PATTERNS.reduce((rest, [pattern, shown]) => rest.replace(pattern, shown), without);
}

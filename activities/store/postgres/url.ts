/** A store's URL, for people and logs. */

const SECRET = /passw/i;

/**
 * The URL without the passwords that it may hold, in front of the host or among the parameters. One that is malformed is not shown at all,
 * and neither is one whose password has a `/`, `?` or `#` in it, which ends up in another part of the URL.
 */
export function shownUrl(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  const scheme = /^\w+:/.exec(url)?.[0] ?? '';
  if (parsed === null || `${parsed.pathname}${parsed.search}${parsed.hash}`.includes('@')) {
    return `${scheme}//(malformed URL)`;
  }
  if (parsed.password !== '') parsed.password = '***';
  for (const name of new Set(parsed.searchParams.keys())) {
    if (SECRET.test(name)) parsed.searchParams.set(name, '***');
  }
  return parsed.href;
}

/** Puts tables into docs/performance.md, between the two marks that name them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const DOCS = fileURLToPath(new URL('../docs/performance.md', import.meta.url));

export function writeDocs(part: string, tables: string): void {
  const begin = `<!-- bench:${part}:begin -->`;
  const end = `<!-- bench:${part}:end -->`;
  const text = readFileSync(DOCS, 'utf8');
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from < 0 || to < from) throw new Error(`${DOCS} has no ${begin} … ${end} to put the tables between`);
  writeFileSync(DOCS, `${text.slice(0, from)}${begin}\n\n${tables}\n\n${text.slice(to)}`);
}

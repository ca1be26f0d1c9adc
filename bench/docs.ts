/** Puts tables into the pages that show them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { sizesTable, withPart } from './sizes.ts';

const page = (name: string): string => fileURLToPath(new URL(`../docs/${name}.md`, import.meta.url));

/** Writes the tables of a run into docs/performance.md, and what operators plan with into docs/production.md. */
export function writeDocs(part: string, tables: string): void {
  const performance = withPart(readFileSync(page('performance'), 'utf8'), part, tables);
  // Neither page is written where one of them cannot be.
  const production = withPart(readFileSync(page('production'), 'utf8'), 'sizes', sizesTable(performance));
  writeFileSync(page('performance'), performance);
  writeFileSync(page('production'), production);
}

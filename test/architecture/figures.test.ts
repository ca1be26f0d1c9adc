/** What is said in two places is measured once. */
import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { partOf, sizesTable } from '../../bench/sizes.ts';

const page = (name: string): string => readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8');

test('the figures that operators plan with are those of the bench', () => {
  expect(partOf(page('production'), 'sizes')).toBe(sizesTable(page('performance')));
});

/** Lists in statements: what may have any length is one value, or is split, so that no number of ids or rows is too many, and none no error. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));
const store = globSync('activities/store/**/*.ts', { cwd: root }).map((file) => ({
  file,
  text: readFileSync(join(root, file), 'utf8'),
}));

/** Written out in the statement, or of names that the code chose. */
const FIXED = /^(\[|OPEN\b)/;

test('no statement of the store spells out a list of any length', () => {
  const found = store.flatMap(({ file, text }) =>
    [...text.matchAll(/'(?:not )?in',\s*(.*)/g)].flatMap(([, list = '']) =>
      FIXED.test(list) ? [] : `${file}: ${list}`,
    ),
  );
  expect(found).toEqual([]);
});

test('no statement of the store inserts any number of rows by itself', () => {
  const found = store.filter(({ text }) => /\.values\(\s*\w+\.(map|flatMap)\(/.test(text)).map(({ file }) => file);
  expect(found).toEqual([]);
});

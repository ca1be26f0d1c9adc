/** Rows of a terminal: broken at words, wide characters counted, nothing of the text obeyed by the terminal. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { clipped, columnsOf, printable, roughly, rowsOf, TextFlow } from '../../../../client/cli/chat/text.ts';

describe('rows', () => {
  test.each([
    ['the quick brown fox', 10, ['the quick', 'brown fox']],
    ['abc def', 3, ['abc', 'def']],
    ['abcdefgh ij', 3, ['abc', 'def', 'gh', 'ij']],
    ['  indented text', 11, ['  indented', 'text']],
    ['one\n\ntwo', 10, ['one', '', 'two']],
    ['日本語のテキスト', 7, ['日本語', 'のテキ', 'スト']],
    ['a 日本 b', 4, ['a', '日本', 'b']],
    ['👩‍👩‍👧 family', 4, ['👩‍👩‍👧', 'fami', 'ly']],
    ['日', 1, ['日']],
    ['', 5, ['']],
  ])('%j in %i columns', (text, columns, rows) => {
    expect(rowsOf(text, columns)).toEqual(rows);
  });

  const words = fc.array(
    fc.constantFrom('a', 'quick', 'brown', '日本語', 'extraordinarily', ' ', ' ', '  ', '\n', '🙂', ','),
    { maxLength: 60 },
  );

  test('none is wider than it may be, and no word is lost', () => {
    fc.assert(
      fc.property(words, fc.integer({ min: 2, max: 30 }), (pieces, columns) => {
        const rows = rowsOf(pieces.join(''), columns);
        for (const row of rows) expect(columnsOf(row)).toBeLessThanOrEqual(columns);
        expect(rows.join('').replace(/\s/g, '')).toBe(pieces.join('').replace(/\s/g, ''));
      }),
    );
  });

  test('a text that comes in pieces has the rows of the whole', () => {
    fc.assert(
      fc.property(words, fc.integer({ min: 2, max: 30 }), fc.array(fc.nat(5)), (given, columns, cuts) => {
        const text = given.join('').trimEnd();
        const flow = new TextFlow();
        const rows: string[] = [];
        let at = 0;
        for (const length of [...cuts, text.length]) {
          rows.push(...flow.add(text.slice(at, at + length), columns));
          at += length;
        }
        const last = flow.end();
        expect([...rows, ...(last === null ? [] : [last])]).toEqual(text === '' ? [] : rowsOf(text, columns));
      }),
    );
  });
});

test('a text moves no cursor, changes no colour, and hides nothing', () => {
  expect(printable('a\u001b[31mred\u001b[0m\u001b]0;title\u0007b\rc\u0008\u202edcba\u2066')).toBe('aredbcdcba');
  expect(printable('a\r\n\tb\u009b2J')).toBe('a\n    b');
});

test('a text on one row is cut where it is too wide', () => {
  expect(clipped('  · look  up\n {"city":"Rome"}', 40)).toBe('  · look up {"city":"Rome"}');
  expect(clipped('日本語のテキスト', 8)).toBe('日本語…');
});

test.each([
  [-5, '0 s'],
  [59_400, '59 s'],
  [600_000, '10 min'],
  [86_399_000, '24 h'],
  [7 * 86_400_000, '7 days'],
])('%i ms are %s', (ms, words) => {
  expect(roughly(ms)).toBe(words);
});

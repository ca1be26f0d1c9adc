import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { MAX_QUOTE, spansOf } from '../../../../workers/demo/answerer/spans.ts';

const quotesOf = (text: string, path = 'a.md', kind?: 'prose' | 'code') =>
  spansOf(text, path)
    .filter((span) => kind === undefined || span.kind === kind)
    .map((span) => text.slice(span.start, span.end));

describe('prose', () => {
  test('is cut into sentences and runs of up to three', () => {
    expect(quotesOf('One is. Two is. Three is. Four is.')).toEqual([
      ...['One is.', 'One is. Two is.', 'One is. Two is. Three is.'],
      ...['Two is.', 'Two is. Three is.', 'Two is. Three is. Four is.'],
      ...['Three is.', 'Three is. Four is.'],
      'Four is.',
    ]);
  });

  test.each([
    ['an abbreviation', 'It waits, e.g. An hour.'],
    ['a numbered step', 'Open it,\n// 2. Close it'],
    ['a small letter after the dot', 'Use .parse. and go'],
  ])('does not end a sentence at %s', (_, text) => {
    expect(quotesOf(`// ${text}`, 'a.ts')).toEqual([text]);
  });

  test('leaves out headings, badges, tables of contents and markers', () => {
    const text = '# Title\n\n[![badge](x)](y)\n- [Part](#part)\n\n- An item\n> A remark\n| a | b |\n';
    expect(quotesOf(text)).toEqual(['An item', 'A remark', 'a | b']);
  });

  test('may be a sentence of a line that is very long, but never a piece of one', () => {
    const filler = `${'Word '.repeat(90).trim()}. `;
    expect(quotesOf(`${filler}The port is 80. ${filler}`)).toEqual(['The port is 80.']);
  });
});

describe('code', () => {
  test('in a fence is quoted by lines, the fences left out', () => {
    const text = 'Run it:\n\n```sh\nnpm install x\nnpm start\n```\n\nIt is done.\n';
    expect(quotesOf(text, 'a.md', 'code')).toEqual(['npm install x\nnpm start', 'npm start']);
    expect(quotesOf(text, 'a.md', 'prose')).toEqual(['Run it:', 'It is done.']);
  });

  test('is known when the text begins inside a fence', () => {
    const text = 'npm start\n```\n\nIt is done.\n\n```sh\nnpm stop\n```\n';
    expect(quotesOf(text, 'a.md', 'code')).toEqual(['npm start', 'npm stop']);
  });

  test('never begins with the end of something else', () => {
    expect(quotesOf('```\n});\n\nrun();\n```', 'a.md')).toEqual(['run();']);
  });

  test('of a source file is quoted line by line, its comments as prose', () => {
    const text = '/**\n * Opens the file.\n * It waits.\n */\nexport function open() {\n  // Not yet\n}\n';
    expect(quotesOf(text, 'a.ts', 'prose')).toEqual([
      ...['Opens the file.', 'Opens the file.\n * It waits.', 'It waits.', 'Not yet'],
    ]);
    expect(quotesOf(text, 'a.ts', 'code')).toEqual(['export function open() {']);
  });

  test('with a comment on a very long line is generated, so none of it is quoted', () => {
    expect(quotesOf(`// ${'Word '.repeat(90)}. The port is 80. It waits.`, 'a.ts')).toEqual([]);
  });

  test.each(['a.js', 'a.md'])('of more than 400 characters a line is never quoted (%s)', (path) => {
    expect(quotesOf(`\`\`\`js\n${'x();'.repeat(101)}\n\`\`\`\n`, path)).toEqual(
      path === 'a.md' ? [] : ['```js', '```'],
    );
  });
});

test('every span of any text is trimmed, not empty and short enough', () => {
  const piece = fc.constantFrom(
    '```',
    '\n',
    '\r\n',
    '. ',
    'Word',
    '* ',
    '// ',
    '/** ',
    '*/',
    '# ',
    '| ',
    ' ',
    'x'.repeat(150),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 60 }), fc.constantFrom('a.md', 'a.ts'), (pieces, path) => {
      for (const quote of quotesOf(pieces.join(''), path)) {
        expect(quote).toBe(quote.trim());
        expect(quote.length).toBeGreaterThan(0);
        expect(quote.length).toBeLessThanOrEqual(MAX_QUOTE);
      }
    }),
  );
});

import { expect, test } from '@jest/globals';
import { visible, visibleIo } from '../../../client/cli/visible.ts';

test('what would draw, hide or move something is an escape, and everything else stays', () => {
  expect(visible('\u001b[2Jgone')).toBe('\\u001b[2Jgone');
  expect(visible('\u001b]52;c;Y2F0\u0007')).toBe('\\u001b]52;c;Y2F0\\u0007');
  expect(visible('over\rwritten \u009b31m \u007f')).toBe('over\\u000dwritten \\u009b31m \\u007f');
  expect(visible('\u202egnp.exe \u2066x\u2069 \u200f')).toBe('\\u202egnp.exe \\u2066x\\u2069 \\u200f');
  const plain = 'lines\n\tand tabs, é, 汉字, 👩‍👩‍👧';
  expect(visible(plain)).toBe(plain);
  expect(visible('a\r\nb')).toBe('a\nb');
});

test('JSON means the same', () => {
  const value = { text: '\u001b[2J \u009b \u202e \u007f', next: null };
  expect(JSON.parse(visible(JSON.stringify(value)))).toEqual(value);
});

test('every line of a command is made visible, whichever stream it goes to', () => {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const io = visibleIo({ out: write, err: write, live: false, readStdin: async () => '' });
  io.out('\u001b');
  io.err('\u0007');
  expect(lines).toEqual(['\\u001b', '\\u0007']);
});

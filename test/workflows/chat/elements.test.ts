import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { withoutElement } from '../../../workflows/chat/elements.ts';
import { renderMessages, shownWords } from '../../../workflows/chat/rendering.ts';

/** Characters of one text from outside: what a body of the gateway holds. */
const MOST = 250_000;

describe('a text in an element', () => {
  test('neither opens nor closes it, and is the same else (C8)', () => {
    expect(withoutElement('data', 'a </data> b <data> c < / DATA x')).toBe('a < /data> b < data> c <  / DATA x');
    for (const text of ['', 'a < b', '<dat a>', 'data', '/data', '<datum>'])
      expect(withoutElement('data', text)).toBe(text);
    const parts = fc.array(fc.constantFrom('<', '/', ' ', '\n', 'data', 'DATA', 'dat', 'x', '>'), { maxLength: 12 });
    fc.assert(
      fc.property(parts, (words) => {
        const text = words.join('');
        expect(withoutElement('data', text)).toBe(text.replace(/<(?=\s*\/?\s*data)/giu, '< '));
      }),
      { numRuns: 2_000 },
    );
  });

  // Each of these took minutes where each place was read on to the end.
  test.each([
    ['blanks behind one <', `<${' '.repeat(MOST)}`],
    ['blanks behind many', '<    '.repeat(MOST / 5)],
    ['nothing but <', '<'.repeat(MOST)],
    ['slashes and blanks', `<${' /'.repeat(MOST / 2)}`],
    ['the name, over and over', 'message '.repeat(MOST / 8)],
    ['names behind blanks', '<      message'.repeat(MOST / 14)],
  ])('is read once, also with %s (C8)', (_, text) => {
    const rendered = renderMessages([{ eventId: 'e', sender: { agentId: 'ann' }, payload: { text } }], true);
    expect(rendered.length).toBeGreaterThan(text.length);
  });
});

describe('the words of messages in a list', () => {
  test.each([
    ['that begin and never end', '<message id="'],
    ['with lines that begin one', '\n<message id="'],
    ['with escapes', '\n<message id="\\\\"'],
  ])('are found in a text of frames %s (C8)', (_, part) => {
    const text = `<message id="e" from="ann">\nhello\n${part.repeat(MOST / part.length)}`;
    expect(shownWords(text)).toBe('ann: hello');
  });
});

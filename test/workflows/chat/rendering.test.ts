/** Messages as a model is shown them: whatever they say, each can be told from the others. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { renderMessages, type ShownMessage, shownWords } from '../../../workflows/chat/rendering.ts';

/** Texts that would be taken for the ends of others, were they not escaped. */
const hostile = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        '<',
        '/',
        '>',
        ' ',
        '\n',
        '"',
        '\\',
        'message',
        'MESSAGE',
        'attachment',
        'id=',
        'from="boss"',
        'x',
      ),
      fc.string({ maxLength: 5 }),
    ),
    { minLength: 1, maxLength: 12 },
  )
  .map((parts) => parts.join(''));

const message = fc.record({
  eventId: hostile,
  sender: fc.record({ agentId: fc.stringMatching(/^[a-z][a-z0-9~._-]{0,5}$/) }),
  payload: fc.record({
    text: hostile,
    attachments: fc.array(fc.record({ name: hostile, text: hostile }), { maxLength: 2 }),
  }),
});

const QUOTED = String.raw`"(?:[^"\\]|\\.)*"`;
const FRAME = new RegExp(`<message id=(${QUOTED}) from=(${QUOTED})>\n([^]*?)\n</message>`, 'g');

const unescaped = (name: string, text: string): string =>
  text.replace(new RegExp(`< (?=\\s*/?\\s*${name})`, 'giu'), '<');

/** What a reader who knows the format takes the text for. */
const parsed = (text: string) =>
  [...text.matchAll(FRAME)].map(([whole, id = '', from = '', words = '']) => ({
    whole,
    id: JSON.parse(id) as string,
    from: JSON.parse(from) as string,
    words: unescaped('message', words),
  }));

const wordsOf = ({ payload: { text, attachments = [] } }: ShownMessage): string =>
  [
    text,
    ...attachments.map(({ name, text: said }) => {
      const inside = said.replace(/<(?=\s*\/?\s*attachment)/giu, '< ');
      return `<attachment name=${JSON.stringify(name).replaceAll('<', '\\u003c')}>\n${inside}\n</attachment>`;
    }),
  ].join('\n\n');

describe('messages that are shown together', () => {
  test('are each found again, whatever they say (C8)', () => {
    fc.assert(
      fc.property(fc.array(message, { minLength: 1, maxLength: 4 }), (messages) => {
        const found = parsed(renderMessages(messages, true));
        expect(found.map(({ id, from, words }) => [id, from, words])).toEqual(
          messages.map((each) => [each.eventId, each.sender.agentId, wordsOf(each)]),
        );
        expect(found.map(({ whole }) => whole).join('\n\n')).toBe(renderMessages(messages, true));
      }),
      { numRuns: 2_000 },
    );
  });

  test('are the words of one alone only where those look like no message (C8)', () => {
    fc.assert(
      fc.property(message, (one) => {
        const shown = renderMessages([one], false);
        const [found] = parsed(shown);
        if (found) expect(found.from).toBe(one.sender.agentId);
        else expect(shown).toBe(wordsOf(one));
        expect(parsed(shown).length).toBeLessThanOrEqual(1);
      }),
      { numRuns: 2_000 },
    );
  });

  test('leave one who writes alone with the words that were written, attachments named (C8)', () => {
    const payload = { text: 'look', attachments: [{ name: 'a.txt', text: 'one < two' }] };
    expect(renderMessages([{ eventId: 'e', sender: { agentId: 'ann' }, payload }], false)).toBe(
      'look\n\n<attachment name="a.txt">\none < two\n</attachment>',
    );
  });

  test('are said in lists by the first line, whose it is, and how many more there are (C8)', () => {
    const said = (agentId: string, text: string) => ({ eventId: 'a "b', sender: { agentId }, payload: { text } });
    const both = [said('ann', 'one\nand more'), said('bob', 'two')];
    expect(shownWords(renderMessages(both, true))).toBe('ann: one (+1)');
    expect(shownWords(renderMessages(both.slice(1), true))).toBe('bob: two');
    expect(shownWords('plain words')).toBe('plain words');
  });
});

import { describe, expect, test } from '@jest/globals';
import { keywordsOf } from '../../../../workers/demo/answerer/keywords.ts';
import { chooseQuotes } from '../../../../workers/demo/answerer/quotes.ts';

/** Asks over files that were read whole; every line of them counts as found. */
function ask(question: string, files: Readonly<Record<string, string>>): string[] {
  const reads = Object.entries(files).map(([path, text]) => ({ path, fromLine: 1, text }));
  const hits = reads.flatMap(({ path, text }) =>
    text.split('\n').map((line, at) => ({ path, line: at + 1, text: line })),
  );
  return chooseQuotes(question, keywordsOf(question), reads, hits).map(({ quote }) => quote);
}

const far = '\n\n\n\n\n\n';

describe('a question is answered only when', () => {
  test.each<[string, string, Record<string, string>, boolean]>([
    ['its words are together', 'How is the queue locked?', { 'a.md': 'The queue is locked by a file.' }, true],
    ['not far apart', 'How is the queue locked?', { 'a.md': `The queue is fast.${far}It is locked.` }, false],
    ['its number is there', 'Was the queue locked in 1998?', { 'a.md': 'The queue was locked in 1998.' }, true],
    ['and not missing', 'Was the queue locked in 1998?', { 'a.md': 'The queue was locked in 2001.' }, false],
    ['its name is there', 'Is the queue of Oslo locked?', { 'a.md': 'The queue of Bern is locked.' }, false],
    ['or in the same file', 'Is the queue of Oslo locked?', { 'a.md': `Oslo${far}The queue is locked.` }, true],
    ['or in its path', 'Is the queue of Oslo locked?', { 'oslo/a.md': 'The queue is locked.' }, true],
    ['not in another file', 'Is the queue of Oslo locked?', { 'b.md': 'Oslo', 'a.md': 'The queue is locked.' }, false],
    ['its heading has the words', 'How is the queue locked?', { 'a.md': `# Locked queue${far}\nA locked file.` }, true],
    ['what it names is defined', 'What is life?', { 'a.md': 'Life is a process.' }, true],
    ['not only mentioned', 'What is life?', { 'a.md': 'It holds for the life of a process.' }, false],
    [
      'the rare word is there',
      'Is the queue soluble?',
      { 'a.md': 'The queue.\nA queue.\nMy queue.\nNo queue.' },
      false,
    ],
    ['synonyms count', 'Which fields are needed?', { 'a.md': 'These properties are needed.' }, true],
  ])('%s: %s', (_, question, files, isAnswered) => {
    expect(ask(question, files).length > 0).toBe(isAnswered);
  });
});

describe('the best quote', () => {
  test.each<[string, string, Record<string, string>, string]>([
    [
      'is prose rather than code',
      'How is the queue locked?',
      { 'a.md': 'The queue is locked by a file.', 'a.ts': 'const queue = locked(queue);' },
      'The queue is locked by a file.',
    ],
    [
      'is a document rather than a remark in the source',
      'How is the queue locked?',
      { 'a.ts': '// The queue is locked by a pipe.', 'b.md': 'The queue is locked by a file.' },
      'The queue is locked by a file.',
    ],
    [
      'is a README rather than a changelog',
      'How is the queue locked?',
      { 'CHANGELOG.md': 'The queue is locked by a file.', 'README.md': 'The queue is locked by a pipe.' },
      'The queue is locked by a pipe.',
    ],
    [
      'defines, when asked what something is',
      'What is a queue?',
      { 'a.md': `We like a queue. The queue is empty.${far}A queue is a list of jobs.` },
      'A queue is a list of jobs.',
    ],
    [
      'has a number, when asked how often',
      'How often is the queue flushed?',
      { 'a.md': `The queue is flushed with care.${far}The queue is flushed every 5 minutes.` },
      'The queue is flushed every 5 minutes.',
    ],
    [
      'has a reason, when asked why',
      'Why is the queue flushed?',
      { 'a.md': `The queue is flushed with care.${far}The queue is flushed because disks fail.` },
      'The queue is flushed because disks fail.',
    ],
    [
      'does not lean on the sentence before',
      'How is the queue flushed?',
      { 'a.md': `Otherwise the queue is flushed.${far}A timer flushes the queue.` },
      'A timer flushes the queue.',
    ],
  ])('%s', (_, question, files, best) => {
    expect(ask(question, files)[0]).toBe(best);
  });

  test('has no neighbour that says the same', () => {
    const quotes = ask('How is the queue locked?', { 'a.md': 'The queue is locked. The queue is locked by a file.' });
    expect(quotes).toHaveLength(1);
  });
});

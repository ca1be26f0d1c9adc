import { describe, expect, test } from '@jest/globals';
import { asksForOverview, questionIn } from '../../../../workers/demo/answerer/intent.ts';
import { keywordsOf, searchTerms, weighByRarity } from '../../../../workers/demo/answerer/keywords.ts';
import { stemOf, stemsOf } from '../../../../workers/demo/answerer/stemming.ts';

const kindsOf = (question: string) =>
  Object.fromEntries(keywordsOf(question).map((keyword) => [keyword.word, keyword.kind]));

describe('the keywords of a question', () => {
  test.each<[string, Record<string, string>]>([
    ['How do I make a field optional?', { make: 'weak', field: 'plain', optional: 'plain' }],
    ['What is the capital of Mongolia?', { capital: 'plain', mongolia: 'specific' }],
    ['Who won the 1998 world cup?', { won: 'plain', 1998: 'specific', world: 'plain', cup: 'plain' }],
    ['What does `parse` do?', { parse: 'specific' }],
    ['What does safeParse() return?', { safeparse: 'specific', return: 'plain' }],
    ['Is the max_results limit an API limit?', { max_results: 'specific', limit: 'plain', api: 'specific' }],
    ['How Do I Make A Field Optional?', { make: 'weak', field: 'plain', optional: 'plain' }],
    ['What happens when a request times out?', { happens: 'weak', request: 'plain', timeout: 'plain' }],
    ['May it be given several times?', { given: 'weak', several: 'plain', times: 'weak' }],
    ['How large is a card?', { large: 'weak', card: 'plain' }],
    ['What is this about?', {}],
  ])('%s', (question, kinds) => {
    expect(kindsOf(question)).toEqual(kinds);
  });

  test('are searched for as asked and by what their other forms begin with', () => {
    expect(searchTerms(keywordsOf('Which installation is optional?'))).toBe('installation install optional');
  });

  test('weigh more the rarer they are', () => {
    const lines = [...Array.from({ length: 20 }, () => 'the queue'), 'a lock'];
    const [queue, lock, ghost] = weighByRarity(keywordsOf('queue lock ghost'), lines).map(({ weight }) => weight);
    expect(queue).toBe(1);
    expect(lock).toBeGreaterThan(2);
    expect(ghost).toBeGreaterThanOrEqual(lock ?? 0);
  });
});

test.each([
  ['error', 'errors'],
  ['make', 'making'],
  ['migrate', 'migrations'],
  ['database', 'databases'],
  ['install', 'installation'],
  ['configure', 'configuration'],
  ['dependency', 'dependencies'],
  ['stop', 'stopped'],
  ['class', 'classes'],
  ['cache', 'caching'],
  ['validate', 'validator'],
])('%s and %s have one stem', (a, b) => {
  expect(stemOf(a)).toBe(stemOf(b));
});

test.each([
  ['A request timed out.', 'timeout'],
  ['Users who are logging in', 'login'],
  ['It rolls back.', 'rollback'],
])('a verb and its particle count as the noun that is one word: %s', (text, noun) => {
  expect(stemsOf(text).has(stemOf(noun))).toBe(true);
});

test('a verb before a word that is no particle of it stays as it is', () => {
  expect(stemsOf('the time in seconds').has(stemOf('time'))).toBe(true);
});

test('an identifier counts as a whole, and less by its parts', () => {
  expect([...stemsOf('maxResults')]).toEqual([
    ['maxresult', 1],
    ['max', 0.7],
    ['result', 0.7],
  ]);
});

test.each([
  ['Please help. What is a lane? Thanks.', 'What is a lane?'],
  ['Tell me about lanes', 'Tell me about lanes'],
])('the question in "%s" is "%s"', (text, question) => {
  expect(questionIn(text)).toBe(question);
});

test.each([
  ['What is this about?', true],
  ['Explain the project', true],
  ['Why is that?', false],
  ['What is a lane?', false],
])('"%s" asks for an overview: %s', (question, isOverview) => {
  expect(asksForOverview(question)).toBe(isOverview);
});

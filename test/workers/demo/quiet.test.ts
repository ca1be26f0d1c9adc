import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { Quiet } from '../../../workers/demo/quiet.ts';

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

test('a person who watches is told every few seconds that it goes on, and no more once it is over', () => {
  const said: string[] = [];
  const quiet = new Quiet((line) => void said.push(line));
  quiet.say('begun');
  jest.advanceTimersByTime(2_900);
  quiet.say('a step');
  jest.advanceTimersByTime(6_100);
  expect(said).toEqual([
    'begun',
    'a step',
    expect.stringMatching(/still at it, 3 s after the last of these/),
    expect.stringMatching(/ 6 s/),
  ]);
  quiet.end();
  quiet.say('the result');
  jest.advanceTimersByTime(60_000);
  expect(said).toHaveLength(5);
});

test('nothing is said into the line in which a person writes an answer', async () => {
  const said: string[] = [];
  const quiet = new Quiet((line) => void said.push(line));
  const { promise, resolve } = Promise.withResolvers<string>();
  const terminal = quiet.around({ interactive: true, ask: () => promise });
  const answered = terminal.ask('your name? ', new AbortController().signal);
  jest.advanceTimersByTime(60_000);
  quiet.say('what somebody else has to say');
  jest.advanceTimersByTime(60_000);
  expect(said).toHaveLength(1);
  resolve('Ada');
  expect(await answered).toBe('Ada');
  jest.advanceTimersByTime(3_100);
  expect(said).toHaveLength(2);
});

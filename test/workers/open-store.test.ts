import { inspect } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { shownFailure } from '../../client/cli/failure.ts';
import { openStore, shownStore } from '../../workers/open-store.ts';

describe('a store is shown', () => {
  test.each([
    ['postgres://user:secret@host:5432/db', 'postgres://user:***@host:5432/db'],
    ['postgres://user@host/db', 'postgres://user@host/db'],
    [
      'postgres://host/db?user=u&password=secret&sslmode=require',
      'postgres://host/db?user=u&password=***&sslmode=require',
    ],
    ['postgres://host/db?sslpassword=secret&PASSWORD=secret', 'postgres://host/db?sslpassword=***&PASSWORD=***'],
    ['postgres://user:12/secret@host/db', 'postgres://(malformed URL)'],
    ['postgres://user:#secret@host/db', 'postgres://(malformed URL)'],
    ['postgres://user:?secret@host/db', 'postgres://(malformed URL)'],
    ['postgres://user:se/cret@host/db', 'postgres://(malformed URL)'],
    ['postgres://user:secret@one:1,two:2/db', 'postgres://(malformed URL)'],
    ['mysql://user:secret@host/db', 'mysql://user:***@host/db'],
    ['sqlite:a:b@c.db', 'sqlite:a:b@c.db'],
    ['store.db', 'store.db'],
  ])('%s as %s', (url, shown) => {
    expect(shownStore(url)).toBe(shown);
  });
});

test.each([
  'postgres://someone:hidden@127.0.0.1:1/x',
  'postgres://127.0.0.1:1/x?user=someone&password=hidden',
  'postgres://127.0.0.1:1/x?sslpassword=hidden&sslkey=/none',
  'postgres://someone:1/hidden@127.0.0.1:1/x',
  'postgres://someone:hidden/more@127.0.0.1:1/x',
  'postgres://someone:hidden@one:1,two:1/x',
  'postgresql://someone:hidden@127.0.0.1:1/x?sslnegotiation=none',
  'mysql://someone:hidden@127.0.0.1:1/x',
  'postgres:someone:hidden@127.0.0.1',
])('that %s cannot be opened is told without the password, in the error and all that has caused it', async (url) => {
  const error: unknown = await openStore(url).then(
    () => new Error('it was opened'),
    (failure: unknown) => failure,
  );
  expect(['store_unavailable', 'invalid_config']).toContain(shownFailure(error).code);
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('hidden@');
  expect(`${shownFailure(error).message} ${inspect(error)}`).not.toContain('hidden');
});

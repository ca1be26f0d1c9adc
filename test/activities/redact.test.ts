import { describe, expect, test } from '@jest/globals';
import { redact } from '../../activities/redact.ts';

describe('words for a log', () => {
  test.each([
    ['a bearer token', 'sent "Authorization: Bearer abc.DEF-123_x" to it', 'sent "Authorization: Bearer ***" to it'],
    ['basic credentials', 'Authorization: Basic dXNlcjpwYXNzd29yZA==', 'Authorization: Basic ***'],
    ['a provider key', 'the key sk-proj-a1B2c3_d4 is wrong', 'the key sk-*** is wrong'],
    ['a key that the provider masked', 'Incorrect: sk-ab****************yz.', 'Incorrect: sk-***'],
    [
      'a password in a URL',
      'connect postgres://ann:s3cret@db:5432/x failed',
      'connect postgres://ann:***@db:5432/x failed',
    ],
    ['one with an at sign', 'postgres://ann:p@ss@db/x', 'postgres://ann:***@db/x'],
    ['one with a slash', 'postgres://ann:p/a?s#s@db/x', 'postgres://ann:***@db/x'],
    ['one without a user', 'redis://:hunter22@cache', 'redis://:***@cache'],
    ['a token in place of a user', 'https://ghp_0123456789@git.example/x', 'https://***@git.example/x'],
    ['a key in a query', 'GET /v1?api_key=abc123&n=1', 'GET /v1?api_key=***&n=1'],
    ['a setting', 'password=hunter22; user=ann', 'password=***; user=ann'],
    ['a member of an object', '{"api_key":"abc123","n":1}', '{"api_key":"***","n":1}'],
    ['the words of OpenAI', 'Incorrect API key provided: abc123. See', 'Incorrect API key provided: *** See'],
  ])('are without %s', (_, text, expected) => {
    expect(redact(text)).toBe(expected);
  });

  test('are without the secrets that are known, however they are encoded', () => {
    const secret = 'pa"ss/word 1';
    const told = `plain ${secret}, in a URL ${encodeURIComponent(secret)}, as JSON ${JSON.stringify({ it: secret })}`;
    expect(redact(told, [secret])).toBe('plain ***, in a URL ***, as JSON {"it":"***"}');
  });

  test('are without the longer of two secrets that begin alike', () => {
    expect(redact('abcdefgh-ijkl', ['abcdefgh', 'abcdefgh-ijkl'])).toBe('***');
  });

  test.each([
    'Rate limit reached for gpt-5 in organization org: 3 requests per minute.',
    'cannot reach http://127.0.0.1:11434/v1/models@latest (ECONNREFUSED)',
    'maximum context length is 8192 tokens; the token budget is spent',
    'https://example.com/a?page=2#key',
  ])('that hold none are left as they are: %s', (text) => {
    expect(redact(text, ['', 'key', 'none'])).toBe(text);
  });

  test('are read in time that grows with their length', () => {
    const hostile = ['://', '://a:', 'bearer ', 'password=', 'sk-', '?token='].map((part) => part.repeat(200_000));
    for (const text of hostile) expect(redact(text).length).toBeLessThanOrEqual(2 * text.length);
  });
});

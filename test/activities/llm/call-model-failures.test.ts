import { afterEach, describe, expect, test } from '@jest/globals';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import type { ModelAnswer } from '../../../workers/model-server/wire.ts';
import { Attempt, attempt, modelInput } from './leased-turn.ts';
import { API_KEY, bench, cardsOf, closeBenches, failureOf } from './model-bench.ts';

afterEach(closeBenches);

describe('a failure', () => {
  test.each([
    [
      { kind: 'error', status: 401 },
      { type: 'provider_auth', nonRetryable: true },
    ],
    [
      { kind: 'error', status: 400, code: 'context_length_exceeded' },
      { type: 'context_overflow', nonRetryable: true },
    ],
    [
      { kind: 'error', status: 400 },
      { type: 'provider_error', nonRetryable: true },
    ],
    [
      { kind: 'error', status: 503 },
      { type: 'provider_error', nonRetryable: false },
    ],
    [
      { kind: 'reset', afterChunks: 2 },
      { type: 'provider_error', nonRetryable: false },
    ],
  ] as const)('%j crosses into Temporal as %j, and nothing is stored (W14)', async (answer, expected) => {
    const on = await bench(answer);
    const error = await failureOf(attempt(on.run, modelInput(on.turn)));
    expect(error).toBeInstanceOf(ApplicationFailure);
    expect(error).toMatchObject(expected);
    expect(await cardsOf(on)).toHaveLength(1);
  });

  test('leaves the words of the provider, key and prompt in them, in the log of the worker alone, and the key not even there (W14)', async () => {
    const words = `Incorrect key ${API_KEY} or sk-proj-a1b2c3, sent as "Bearer ${API_KEY}", for the prompt: do it`;
    for (const status of [400, 401, 404, 429, 500]) {
      const on = await bench({ kind: 'error', status, message: words });
      const environment = new Attempt();
      const error = await failureOf(environment.of(on.run, modelInput(on.turn)));
      expect(error).toBeInstanceOf(ApplicationFailure);
      const { message, stack = '', cause } = error as ApplicationFailure;
      expect(cause).toBeUndefined();
      expect(`${message}${stack}`).not.toMatch(/0123|sk-proj|do it/);
      expect(message).toContain(String(status));
      const logged = JSON.stringify(environment.logged.map(({ meta }) => meta));
      expect(logged).toContain('for the prompt: do it');
      expect(logged).not.toMatch(/0123|a1b2c3/);
    }
  });

  test('with retry-after says when to try again (W14)', async () => {
    const on = await bench({ kind: 'error', status: 429, headers: { 'retry-after': '7' } });
    const error = await failureOf(attempt(on.run, modelInput(on.turn)));
    expect(error).toMatchObject({ type: 'provider_error', nonRetryable: false, nextRetryDelay: 7_000 });
  });

  test('is forgotten when the next attempt succeeds (W14)', async () => {
    const answers: ModelAnswer[] = [
      { kind: 'error', status: 500 },
      { kind: 'message', content: 'there' },
    ];
    const on = await bench(() => answers.shift() ?? { kind: 'error', status: 400 });
    await failureOf(attempt(on.run, modelInput(on.turn), 1));
    expect(await attempt(on.run, modelInput(on.turn), 2)).toMatchObject({ stepIndex: 1, hasText: true });
  });
});

describe('a cancellation', () => {
  test.each([
    ['before the first byte', { kind: 'message', delayMs: 60_000 } as const],
    ['in the middle of the stream', { kind: 'stall', afterChunks: 3 } as const],
  ])('%s aborts the stream at once and stores nothing (T21)', async (_, answer) => {
    const on = await bench(answer);
    const environment = new Attempt();
    const call = failureOf(environment.of(on.run, modelInput(on.turn)));
    while (on.server.requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
    environment.cancel();
    expect(await call).toBeInstanceOf(CancelledFailure);
    expect(await cardsOf(on)).toHaveLength(1);
  });
});

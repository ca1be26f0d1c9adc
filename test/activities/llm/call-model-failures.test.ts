import { afterEach, describe, expect, test } from '@jest/globals';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { pauseMs } from '../../../activities/llm/patience.ts';
import type { ModelAnswer } from '../../../workers/model-server/wire.ts';
import { testApp } from '../../support/app.ts';
import { Attempt, attempt, modelInput } from './leased-turn.ts';
import { API_KEY, type Bench, bench, cardsOf, closeBenches, failureOf } from './model-bench.ts';

afterEach(closeBenches);

describe('a failure', () => {
  test.each([
    [
      { kind: 'error', status: 401 },
      { type: 'provider_auth', nonRetryable: false, nextRetryDelay: 5_000 },
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
      { type: 'provider_error', nonRetryable: false, nextRetryDelay: 1_000 },
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

  test('with a retry-after of next to nothing is not asked again at once (W14)', async () => {
    const on = await bench({ kind: 'error', status: 429, headers: { 'retry-after-ms': '5' } });
    for (const number of [1, 2, 3]) {
      const error = await failureOf(attempt(on.run, modelInput(on.turn), number));
      expect(error).toMatchObject({ nonRetryable: false, nextRetryDelay: 1_000 });
    }
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

describe('an outage of the provider', () => {
  const of = (providerPatienceMs: number) => ({ app: testApp([], { providerPatienceMs }) });
  const outageOf = async ({ turn }: Bench) => (await turn.store.getTurn(turn.fence.agentTurnId))?.waitingForProvider;

  test('is shown with its reason, its attempts and the next one, until a call succeeds (W14)', async () => {
    const answers: ModelAnswer[] = [
      { kind: 'error', status: 503 },
      { kind: 'error', status: 503 },
      { kind: 'error', status: 401 },
      { kind: 'message', content: 'there' },
    ];
    const on = await bench(() => answers.shift() ?? { kind: 'error', status: 400 });
    expect(await outageOf(on)).toBeNull();
    for (const [number, failures, pauseMs] of [
      [1, 1, 1_000],
      [2, 2, 2_000],
      [3, 3, 20_000],
    ] as const) {
      const error = await failureOf(attempt(on.run, modelInput(on.turn), number));
      expect(error).toMatchObject({ nonRetryable: false, nextRetryDelay: pauseMs });
      const code = number === 3 ? 'provider_auth' : 'provider_error';
      const outage = await outageOf(on);
      expect(outage).toMatchObject({ code, failures });
      const said = /^(.*) \(failed (?:once|\d times) since (\S+Z), next try at (\S+Z)\)$/.exec(
        (error as Error).message,
      );
      const times = [outage?.since, outage?.nextTryAt].map((at) => new Date(at ?? 0).toISOString());
      expect(said?.slice(1)).toEqual([outage?.message, ...times]);
    }
    const events = await on.turn.store.readEvents({ agentId: on.turn.fence.agentId });
    const told = events.filter(({ type }) => type === 'provider').map(({ payload }) => payload);
    // The second failure was like the first.
    expect(told).toMatchObject([{ code: 'provider_error' }, { code: 'provider_auth' }]);
    await attempt(on.run, modelInput(on.turn), 4);
    expect(await outageOf(on)).toBeNull();
  });

  test.each([
    ['a server that fails', { kind: 'error', status: 503 }, 'provider_error'],
    ['refused credentials', { kind: 'error', status: 401 }, 'provider_auth'],
    ['a wait that is longer', { kind: 'error', status: 429, headers: { 'retry-after': '7' } }, 'provider_error'],
  ] as const)(
    'ends the turn for %s when the patience does not cover the next attempt (W14)',
    async (_, answer, type) => {
      const on = await bench(answer, of(900));
      const error = await failureOf(attempt(on.run, modelInput(on.turn)));
      expect(error).toMatchObject({ type, nonRetryable: true });
      expect(await outageOf(on)).toBeNull();
    },
  );

  test('counts the time from its first failure, whoever makes the attempts, and says how often it was tried (W14)', async () => {
    const on = await bench({ kind: 'error', status: 503 }, of(3_500));
    // The pauses are 1, 2 and 4 s, and none of them is waited for here.
    for (const number of [1, 2]) await failureOf(attempt(on.run, modelInput(on.turn), number));
    const error = await failureOf(attempt(on.run, modelInput(on.turn), 3));
    const message = expect.stringMatching(/it was tried 3 times in \d+ s$/);
    expect(error).toMatchObject({ type: 'provider_error', nonRetryable: true, message });
  });

  test('has no end by the number of its attempts, but those that are lost with their worker have (W14, T23)', async () => {
    const answers: ModelAnswer[] = Array.from({ length: 12 }, () => ({ kind: 'error', status: 503 }));
    const on = await bench(() => answers.shift() ?? { kind: 'message', content: 'there' });
    for (let number = 1; number <= 12; number += 1)
      expect(await failureOf(attempt(on.run, modelInput(on.turn), number))).toMatchObject({ nonRetryable: false });
    // What never came to open the step, because it was handed on, say, was not lost.
    expect(await attempt(on.run, modelInput(on.turn), 12 + 100)).toMatchObject({ hasText: true });
  });

  test.each([
    [7, { hasText: true }],
    [8, { type: 'worker_lost', nonRetryable: true }],
  ])(
    'after %i attempts that were lost once they had opened the step, the next one ends so (W14, T23)',
    async (lost, outcome) => {
      const on = await bench({ kind: 'message', content: 'there' });
      const { profileHash } = on.turn.lease;
      for (let opened = 0; opened < lost; opened += 1)
        await on.turn.store.openStep(on.turn.fence, { stepIndex: 1, profileHash });
      const next = attempt(on.run, modelInput(on.turn), lost + 1);
      expect(await next.catch((error: unknown) => error)).toMatchObject(outcome);
    },
  );

  test.each([
    ['provider_error', [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]],
    ['provider_auth', [5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]],
  ] as const)('is tried again ever more rarely, within bounds: %s (W14)', (code, expected) => {
    expect(expected.map((_, index) => pauseMs(code, index + 1))).toEqual(expected);
    expect(pauseMs(code, 10_000)).toBe(expected.at(-1));
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

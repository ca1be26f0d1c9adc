/** What of an error leaves an activity for the history, where it stays. */
import { describe, expect, test } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { causesOf, mapFailures } from '../../activities/failure.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';

const KEY = 'sk-live-0123456789abcdef';

/** What an activity that throws this is seen to throw on that attempt. */
async function crossed(thrown: unknown, attempt = 1): Promise<unknown> {
  const fail = async () => {
    throw thrown;
  };
  const environment = new MockActivityEnvironment({ attempt });
  return environment.run(mapFailures({ fail }).fail).catch((error: unknown) => error);
}

describe('an error that leaves an activity', () => {
  test('has the words of the catalogue and no cause: what a provider or a driver said is not in the history', async () => {
    const cause = new Error(`401: the key ${KEY} is wrong; your prompt was: the diary of Anna`);
    const failure = await crossed(new CodedError('provider_auth', 'the provider refused the credentials', { cause }));
    expect(failure).toBeInstanceOf(ApplicationFailure);
    expect(failure).toMatchObject({ type: 'provider_auth', message: 'the provider refused the credentials' });
    expect(failure).toMatchObject({ nonRetryable: true, cause: undefined });
  });

  test('loses its secrets even where a message of ours quotes one, and the rest of what is too long', async () => {
    const message = `cannot open postgres://ann:hunter22@db/x with ${KEY} ${'x'.repeat(10_000)}`;
    const failure = (await crossed(new CodedError('store_unavailable', message))) as ApplicationFailure;
    expect(failure.nonRetryable).toBe(false);
    expect(failure.message).toMatch(/^cannot open postgres:\/\/ann:\*\*\*@db\/x with sk-\*\*\* x+…$/);
    expect(Buffer.byteLength(failure.message)).toBeLessThanOrEqual(2_000);
  });

  test.each([
    ['an error of a library', new TypeError(`cannot read ${KEY}`)],
    ['a text', `half a prompt and ${KEY}`],
    ['nothing', undefined],
    ['what has no string form', Object.create(null)],
  ])('says nothing of %s but where it happened', async (_, thrown) => {
    const failure = (await crossed(thrown)) as ApplicationFailure;
    expect(failure).toMatchObject({ type: 'internal_error', nonRetryable: false, cause: undefined });
    expect(failure.message).toBe(
      'the activity fail failed in a way that nobody foresaw; the log of the worker says how',
    );
  });

  test('may name itself as its cause, or be as long as a prompt: it still leaves, and the log stays readable', async () => {
    const circle = new Error('x'.repeat(1_000_000));
    circle.cause = new Error('in between', { cause: circle });
    expect(await crossed(circle)).toMatchObject({ type: 'internal_error' });
    expect(causesOf(circle)).toHaveLength(5);
  });

  test('that nobody foresaw and that comes again and again is not tried for ever', async () => {
    const tried = async (attempt: number) =>
      ((await crossed(new Error('a bug'), attempt)) as ApplicationFailure).nonRetryable;
    expect([await tried(199), await tried(200)]).toEqual([false, true]);
  });

  test('that was mapped before, or says that the activity was cancelled, stays as it is', async () => {
    const mapped = ApplicationFailure.nonRetryable('ours', 'stale_epoch');
    expect(await crossed(mapped)).toBe(mapped);
    const environment = new MockActivityEnvironment();
    const aborted = mapFailures({
      wait: async () => {
        environment.cancel();
        throw environment.context.cancellationSignal.reason;
      },
    });
    const outcome = await environment.run(aborted.wait).catch((error: unknown) => error);
    expect((outcome as Error).name).toBe('CancelledFailure');
  });
});

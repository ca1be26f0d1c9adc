import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { ProgressReporter } from '../../../activities/tools/progress-reporter.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import { SIZES, utf8Bytes } from '../../../workflows/protocol/sizes.ts';

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

function reporting(write: (progress: JsonValue) => Promise<void> = async () => {}) {
  const written: JsonValue[] = [];
  const logged: string[] = [];
  const note = (message: string, attributes: object = {}) =>
    void logged.push(`${message} ${JSON.stringify(attributes)}`);
  const logger = { debug: note, info: note, warn: note, error: note };
  const reporter = new ProgressReporter((value) => {
    written.push(value);
    return write(value);
  }, logger);
  return { reporter, written, logged };
}

const pass = (ms: number) => jest.advanceTimersByTimeAsync(ms);

describe('the progress of a tool', () => {
  test('is written at once, and then the latest value a second later', async () => {
    const { reporter, written } = reporting();
    for (let done = 1; done <= 50; done += 1) reporter.report(`${done} of 100`);
    expect(written).toEqual(['1 of 100']);
    await pass(999);
    expect(written).toHaveLength(1);
    await pass(1);
    expect(written).toEqual(['1 of 100', '50 of 100']);
  });

  test('is not written again while it stays the same, nor after the end', async () => {
    const { reporter, written } = reporting();
    reporter.report({ done: 1 });
    await pass(1_000);
    reporter.report({ done: 1 });
    await pass(1_000);
    expect(written).toEqual([{ done: 1 }]);
    reporter.report({ done: 2 });
    reporter.report({ done: 3 });
    reporter.close();
    reporter.report({ done: 4 });
    await pass(10_000);
    expect(written).toEqual([{ done: 1 }, { done: 2 }]);
  });

  test('of an hour, said every tenth of a second, is a few hundred values', async () => {
    const { reporter, written } = reporting();
    for (let tick = 0; tick < 36_000; tick += 1) {
      reporter.report(tick);
      await pass(100);
    }
    expect(written.length).toBeGreaterThan(400);
    expect(written.length).toBeLessThan(500);
  });

  test('that cannot be written is left out, and what is said later is written', async () => {
    let away = true;
    const { reporter, written, logged } = reporting(async () => {
      if (away) throw new Error('the store is away');
    });
    reporter.report('first');
    await pass(1_000);
    away = false;
    reporter.report('first');
    await pass(0);
    expect(written).toEqual(['first', 'first']);
    expect(logged).toEqual([expect.stringContaining('the store is away')]);
  });

  test('waits while a value is being written, and is never written twice at a time', async () => {
    const slow = Promise.withResolvers<void>();
    const { reporter, written } = reporting(() => slow.promise);
    reporter.report(1);
    reporter.report(2);
    await pass(5_000);
    expect(written).toEqual([1]);
    slow.resolve();
    await pass(0);
    expect(written).toEqual([1, 2]);
  });

  test.each([
    ['plain', 'x'.repeat(5_000)],
    ['of wide letters', '€'.repeat(5_000)],
    ['of what JSON escapes', '\u0001'.repeat(5_000)],
  ])('that is a long text %s loses its end', (_, text) => {
    const { reporter, written } = reporting();
    reporter.report(text);
    const [kept] = written as string[];
    expect(kept).toMatch(/…$/);
    expect(utf8Bytes(JSON.stringify(kept))).toBeLessThanOrEqual(SIZES.progressBytes);
  });

  test.each([
    ['too large', { text: 'x'.repeat(5_000) }, 'more than 1024 bytes'],
    ['no JSON', () => 1, 'a function is no JSON'],
    ['a circle', circle(), 'circular'],
  ])('that is %s is left out with a line in the log: the tool goes on', (_, value, reason) => {
    const { reporter, written, logged } = reporting();
    reporter.report(value);
    expect(written).toEqual([]);
    expect(logged).toEqual([expect.stringContaining(reason)]);
  });
});

function circle(): object {
  const value: Record<string, unknown> = {};
  value.self = value;
  return value;
}

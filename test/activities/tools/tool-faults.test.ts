/** One execution of a tool, from the outside: what its signal does, and what becomes of a fault (T20, W10). */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { currentToolRun, ToolRun } from '../../../activities/tools/tool-faults.ts';

const LONG_MS = 60_000;
const never = () => new AbortController().signal;

describe('the signal of a tool', () => {
  test.each<['the attempt' | 'the time' | 'a fault']>([['the attempt'], ['the time'], ['a fault']])(
    'is heard in the context of the call when %s ends it: what its listeners throw is a fault of the call',
    async (what) => {
      const run = new ToolRun('work', 'c1');
      const ended = new AbortController();
      const heard: unknown[] = [];
      const started = Promise.withResolvers<void>();
      const waited = run.wait(
        (signal) => {
          signal.addEventListener('abort', () => heard.push(currentToolRun()));
          started.resolve();
          return new Promise<never>(() => {});
        },
        ended.signal,
        what === 'the time' ? 20 : LONG_MS,
      );
      await started.promise;
      if (what === 'the attempt') ended.abort(new Error('over'));
      if (what === 'a fault') run.fail(new Error('somewhere else'));
      await expect(waited).rejects.toThrow();
      expect(heard).toEqual([run]);
      expect(run.timedOut).toBe(what === 'the time');
    },
  );

  test('fires no more when the call has its result', async () => {
    const run = new ToolRun('work', 'c1');
    const ended = new AbortController();
    const signal = await run.wait(async (own) => own, ended.signal, 20);
    ended.abort();
    await sleep(40);
    expect(signal.aborted).toBe(false);
    expect(run.timedOut).toBe(false);
  });
});

describe('a fault', () => {
  test('after the time of the call is late: the call has timed out', async () => {
    const run = new ToolRun('work', 'c1');
    const late: boolean[] = [];
    const waited = run.wait(
      (signal) => {
        signal.addEventListener('abort', () => late.push(run.fail(new Error('too late'))));
        return new Promise<never>(() => {});
      },
      never(),
      20,
    );
    await expect(waited).rejects.toThrow('longer than 20 ms');
    expect(late).toEqual([false]);
    expect(run.timedOut).toBe(true);
  });

  test('is what the call throws, though the tool returns', async () => {
    const run = new ToolRun('work', 'c1');
    const waited = run.wait(async () => void run.fail(new Error('left behind')), never(), LONG_MS);
    await expect(waited).rejects.toThrow('left behind');
  });
});

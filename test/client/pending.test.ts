/** Something that is waited for again and again. */
import { describe, expect, test } from '@jest/globals';
import { Pending } from '../../client/pending.ts';

describe('what is pending', () => {
  test('wakes who waits when it has come, and is there to be taken', async () => {
    const { promise, resolve } = Promise.withResolvers<number>();
    const woken: string[] = [];
    const pending = new Pending(promise, () => void woken.push('woken'));
    expect(pending.isDone).toBe(false);
    expect(() => pending.take()).toThrow('nothing has come yet');
    resolve(7);
    await pending.done;
    expect([pending.isDone, pending.take(), woken]).toEqual([true, 7, ['woken']]);
  });

  test('wakes who waits when it has failed, and fails when it is taken', async () => {
    const woken: string[] = [];
    const pending = new Pending(Promise.reject(new Error('no more')), () => void woken.push('woken'));
    await pending.done;
    expect(pending.isDone).toBe(true);
    expect(() => pending.take()).toThrow('no more');
    expect(woken).toEqual(['woken']);
  });
});

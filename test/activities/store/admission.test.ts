import { expect, test } from '@jest/globals';
import { Admission, type VainWait } from '../../../activities/store/admission.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';

const LONG_MS = 60_000;

const inVain = (wait: VainWait) => new CodedError('store_locked', JSON.stringify(wait));
const admission = (options: { places?: number; writes?: number; oneLine?: number; waitMs?: number } = {}) =>
  new Admission({ waitMs: LONG_MS, inVain, ...options });

/** Calls that end when they are told to, and the order in which they began. */
class Calls {
  readonly began: string[] = [];
  readonly #ends = new Map<string, () => void>();

  run(name: string): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.began.push(name);
    this.#ends.set(name, () => resolve(name));
    return promise;
  }

  async end(name: string): Promise<void> {
    this.#ends.get(name)?.();
    await settled();
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('of the writes with the same name one is under way, in the order in which they came; others go on', async () => {
  const lines = admission();
  const calls = new Calls();
  const write = (name: string, call: string) => lines.inLine([name], lines.deadline, () => calls.run(call));
  const all = [write('alice', 'a1'), write('alice', 'a2'), write('bob', 'b1'), write('alice', 'a3')];
  await settled();
  expect(calls.began).toEqual(['a1', 'b1']);
  await calls.end('a1');
  expect(calls.began).toEqual(['a1', 'b1', 'a2']);
  await calls.end('a2');
  await calls.end('a3');
  await calls.end('b1');
  expect(await Promise.all(all)).toEqual(['a1', 'a2', 'b1', 'a3']);
});

test('whoever fails lets the next one in', async () => {
  const lines = admission();
  const failing = lines.inLine(['alice'], lines.deadline, () => Promise.reject(new Error('failed')));
  const next = lines.inLine(['alice'], lines.deadline, async () => 'went on');
  await expect(failing).rejects.toThrow('failed');
  await expect(next).resolves.toBe('went on');
});

test('a write of several names has all of them, and two that name them in another order do not wait for each other', async () => {
  const lines = admission();
  const calls = new Calls();
  const write = (names: string[], call: string) => lines.inLine(names, lines.deadline, () => calls.run(call));
  const all = [write(['alice', 'bob'], 'ab'), write(['bob', 'alice'], 'ba')];
  await settled();
  const later = write(['bob'], 'b');
  await settled();
  expect(calls.began).toEqual(['ab']);
  for (const call of ['ab', 'b', 'ba']) await calls.end(call);
  expect(await Promise.all([...all, later])).toEqual(['ab', 'ba', 'b']);
});

test('writes leave places to reads, and together they take no more than there are', async () => {
  const lines = admission({ places: 3, writes: 2 });
  const calls = new Calls();
  const writes = ['w1', 'w2', 'w3'].map((call) => lines.writing(lines.deadline, () => calls.run(call)));
  await settled();
  const reads = ['r1', 'r2'].map((call) => lines.reading(lines.deadline, () => calls.run(call)));
  await settled();
  expect(calls.began.toSorted()).toEqual(['r1', 'w1', 'w2']);
  await calls.end('w1');
  expect(calls.began).toContain('r2');
  for (const call of ['r1', 'w2', 'r2', 'w3']) await calls.end(call);
  expect(await Promise.all([...writes, ...reads])).toHaveLength(5);
});

test('nobody stands in lines for longer than he may, and is told what he waited for; those behind him lose nothing', async () => {
  const lines = admission({ places: 1 });
  const calls = new Calls();
  const soon = () => performance.now() + 20;
  const first = lines.inLine(['alice'], lines.deadline, () => lines.writing(lines.deadline, () => calls.run('first')));
  const second = lines.inLine(['alice'], soon(), () => calls.run('second'));
  const third = lines.inLine(['alice'], lines.deadline, () => calls.run('third'));
  await expect(second).rejects.toThrow(JSON.stringify({ name: 'alice', others: 1, waitMs: LONG_MS }));
  const reading = lines.reading(soon(), () => calls.run('reading'));
  await expect(reading).rejects.toThrow(JSON.stringify({ name: null, others: 1, waitMs: LONG_MS }));
  await calls.end('first');
  await calls.end('third');
  expect(await Promise.all([first, third])).toEqual(['first', 'third']);
  expect(calls.began).toEqual(['first', 'third']);
});

test('where there is one lock, all writes stand in one line', async () => {
  const lines = admission({ oneLine: 1 });
  const calls = new Calls();
  const write = (names: string[], call: string) => lines.inLine(names, lines.deadline, () => calls.run(call));
  const all = [write(['alice', 'bob'], 'first'), write(['carol'], 'second')];
  await settled();
  expect(calls.began).toEqual(['first']);
  await calls.end('first');
  await calls.end('second');
  expect(await Promise.all(all)).toEqual(['first', 'second']);
});

test('when it is closed, whoever waits is refused at once, and whoever comes later too; what is under way ends', async () => {
  const lines = admission();
  const calls = new Calls();
  const first = lines.inLine(['alice'], lines.deadline, () => calls.run('first'));
  const second = lines.inLine(['alice'], lines.deadline, () => calls.run('second'));
  lines.close(new CodedError('store_unavailable', 'closed'));
  await expect(second).rejects.toThrow('closed');
  await expect(lines.inLine(['bob'], lines.deadline, () => calls.run('third'))).rejects.toThrow('closed');
  await calls.end('first');
  expect(await first).toBe('first');
  expect(calls.began).toEqual(['first']);
});

/** Pages of lists, bounded in items and in bytes. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { PAGE_BYTES, readLast, readPage } from '../../../client/gateway/pages.ts';
import { testApp } from '../../support/app.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { type GatewayBench, openGateway } from './bench.ts';

/** Items of that many bytes, which are numbered. */
const listOf = (bytes: readonly number[]) => bytes.map((size, at) => ({ at: at + 1, text: 'x'.repeat(size) }));

const pagesOf = async (list: ReturnType<typeof listOf>, limit: number) => {
  const pages: number[][] = [];
  const reads: number[] = [];
  for (let after: string | undefined; ; ) {
    const page = await readPage({
      limit,
      after,
      read: async (from, most) => {
        reads.push(most);
        return list.filter(({ at }) => at > Number(from ?? 0)).slice(0, most);
      },
      place: ({ at }) => String(at),
    });
    pages.push(page.items.map(({ at }) => at));
    if (page.next === null) return { pages, reads };
    after = page.next;
  }
};

describe('a page', () => {
  test.each([
    ['of small items has as many as were asked for', Array.from({ length: 45 }, () => 10), 20, [20, 20, 5]],
    ['of large ones ends before it is too large', Array.from({ length: 9 }, () => PAGE_BYTES / 4), 100, [3, 3, 3]],
    ['has one item at least, however large', [PAGE_BYTES * 2, 10, PAGE_BYTES * 2], 100, [1, 1, 1]],
    ['of nothing is the last one', [], 100, [0]],
    ['that ends where the list does is followed by an empty one at most', [1, 1], 2, [2, 0]],
  ])('%s', async (_, bytes, limit, sizes) => {
    const list = listOf(bytes);
    const { pages, reads } = await pagesOf(list, limit);
    expect(pages.map(({ length }) => length)).toEqual(sizes);
    expect(pages.flat()).toEqual(list.map(({ at }) => at));
    // However many are asked for, few are read at once.
    expect(Math.max(...reads)).toBeLessThanOrEqual(16);
  });

  test('is not cut between items of one place', async () => {
    const list = [1, 2, 2, 3].map((at) => ({ at, text: 'x'.repeat(PAGE_BYTES / 2) }));
    const read = async (after: string | undefined, most: number) =>
      list.filter(({ at }) => at > Number(after ?? 0)).slice(0, most);
    const page = await readPage({ limit: 9, after: undefined, read, place: ({ at }) => String(at) });
    expect(page).toMatchObject({ items: [{ at: 1 }], next: '1' });
    const second = await readPage({ limit: 9, after: '1', read, place: ({ at }) => String(at) });
    expect(second).toMatchObject({ items: [{ at: 2 }, { at: 2 }], next: '2' });
  });

  test('of the last items has those at the end', async () => {
    const list = listOf(Array.from({ length: 50 }, (_, at) => (at % 2 === 0 ? PAGE_BYTES / 3 : 10)));
    const { items } = await readLast(50, async (last) => list.slice(-last));
    expect(items.map(({ at }) => at)).toEqual([46, 47, 48, 49, 50]);
    const small = listOf(Array.from({ length: 50 }, () => 10));
    expect((await readLast(40, async (last) => small.slice(-last))).items).toHaveLength(40);
  });
});

describe('answers of a gateway', () => {
  let harness: Harness;
  let gateway: GatewayBench;

  beforeAll(async () => {
    harness = await openHarness();
    await harness.store.registerProfiles([...testApp([]).agents.values()]);
    gateway = await openGateway(harness);
  });
  afterAll(async () => {
    await gateway?.server.close();
    await harness?.close();
  });

  test('have a bound in bytes, however many turns share a large instruction; a client reads on', async () => {
    const agentId = `agent-${v7()}`;
    const instructionCardId = await harness.client.writeInstruction('x'.repeat(900_000));
    const agent = gateway.client.agent(agentId, { profile: 'tester' });
    for (let turn = 0; turn < 12; turn += 1) await agent.enqueue({ instructionCardId });
    for (const query of ['limit=1000', 'last=1000']) {
      const { text, json } = await gateway.call('GET', `/v1/agents/${agentId}/turns?${query}`);
      expect(text.length).toBeLessThan(PAGE_BYTES + 100_000);
      expect(json.items.length).toBe(4);
    }
    const all = await agent.turns({ limit: 1_000 });
    expect(all.map(({ acceptSeq }) => acceptSeq)).toEqual(Array.from({ length: 12 }, (_, at) => at + 1));
    expect(await agent.turns({ limit: 7 })).toHaveLength(7);
  });

  test('give a client as many of the last turns as it asks for, and the very last ones', async () => {
    const agent = gateway.client.agent(`agent-${v7()}`, { profile: 'tester' });
    for (let turn = 0; turn < 130; turn += 1) await (await agent.enqueue({ instruction: 'x' })).stop();
    const last = await agent.turns({ last: 120 });
    expect(last.map(({ acceptSeq }) => acceptSeq)).toEqual(Array.from({ length: 120 }, (_, at) => at + 11));
    expect(await agent.turns()).toHaveLength(100);
  });
});

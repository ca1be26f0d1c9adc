/** The tail of the event log, on both stores: each event once and in order, however writers, readers and pauses fall. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { type FollowOptions, followEvents, storedEvents } from '../../client/event-tail.ts';
import { openStore } from '../../workers/open-store.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { Store } from '../../workflows/contract/store.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import { testApp } from '../support/app.ts';
import { freshSchemaUrl } from '../support/postgres.ts';

async function all(events: AsyncIterable<AgentEvent>): Promise<AgentEvent[]> {
  const found: AgentEvent[] = [];
  for await (const event of events) found.push(event);
  return found;
}

/** The store as for a reader that is never told to ask again: whoever is not woken by a commit waits until the test is given up. */
const waking = (store: Store): Store => ({ ...store, changed: (_, topic) => store.changed(600_000, topic) });

const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

describe.each(['sqlite', 'postgres'])('the event tail on %s', (backend) => {
  let reader: Store;
  let writers: readonly Store[];

  beforeAll(async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'agentturn-tail-')), 'store.db');
    const url = backend === 'sqlite' ? `sqlite:${file}` : await freshSchemaUrl();
    reader = await openStore(url);
    writers = await Promise.all([openStore(url), openStore(url)]);
    await reader.registerProfiles([...testApp([]).agents.values()]);
  });
  afterAll(async () => {
    await reader?.close();
    for (const writer of writers ?? []) await writer.close();
  });

  const newAgent = () => `agent-${v7()}`;
  const drop = (agentId: string, on: Store = reader) =>
    on.recordDropped(agentId, v7(), { what: 'enqueue', reason: 'test' });
  const write = async (agentId: string, count: number, on: Store) => {
    for (let i = 0; i < count; i += 1) await drop(agentId, on);
  };

  /** Reads until `count` events came. */
  async function take(count: number, options: FollowOptions, on: Store = reader): Promise<AgentEvent[]> {
    const events: AgentEvent[] = [];
    for await (const event of followEvents(on, options)) {
      events.push(event);
      if (events.length === count) break;
    }
    return events;
  }

  async function started(agentId: string): Promise<Fence> {
    const request = { instruction: 'x', profile: 'tester', priority: 'normal' } as const;
    const outcome = await reader.accept({ agentId, request });
    if (outcome.kind === 'refused' || !outcome.lease) throw new Error('no lease');
    const { agentTurnId, turnEpoch } = outcome.lease;
    return { agentId, agentTurnId, turnEpoch };
  }
  const end = (fence: Fence) =>
    writers[0]?.commitTurn(fence, {
      termination: { status: 'success' },
      deliverable: { from: 'fallback' },
      engine: null,
    });

  test('several readers of what several processes write get every event once and in order', async () => {
    const agentId = newAgent();
    const reading = [0, 0, 7].map((afterSeq) => take(200 - afterSeq, { agentId, afterSeq }));
    await Promise.all(writers.map((writer) => write(agentId, 100, writer)));
    const [first, second, late] = await Promise.all(reading);
    expect(first?.map((event) => event.seq)).toEqual(numbers(1, 200));
    expect(second).toEqual(first);
    expect(late).toEqual(first?.slice(7));
  });

  test('a reader that stops at any event and comes back with its seq misses nothing and gets nothing twice', async () => {
    const agentId = newAgent();
    const writing = write(agentId, 60, writers[0] ?? reader);
    const seen: number[] = [];
    for (const batch of [1, 7, 2, 30, 5, 15]) {
      const events = await take(batch, { agentId, afterSeq: seen.at(-1) ?? 0 });
      seen.push(...events.map((event) => event.seq));
    }
    await writing;
    expect(seen).toEqual(numbers(1, 60));
  });

  test('an event written while the reader waits wakes it: nobody has to ask again', async () => {
    const agentId = newAgent();
    for (let round = 1; round <= 5; round += 1) {
      const reading = take(1, { agentId, afterSeq: round - 1 }, waking(reader));
      await sleep(30 * round);
      await drop(agentId, writers[0]);
      expect((await reading)[0]?.seq).toBe(round);
    }
  });

  test('a commit between the look and the wait is not slept through', async () => {
    const agentId = newAgent();
    const others = new AbortController();
    // Another reader hears of the commits first.
    const listening = all(followEvents(reader, { agentId, signal: others.signal }));
    let behind = 5;
    const store: Store = {
      ...waking(reader),
      readEvents: async (filter) => {
        const events = await reader.readEvents(filter);
        if (behind > 0) {
          behind -= 1;
          await drop(agentId, writers[0]);
          await sleep(30);
        }
        return events;
      },
    };
    const seqs: number[] = [];
    for await (const event of followEvents(store, { agentId })) if (seqs.push(event.seq) === 5) break;
    others.abort();
    await listening;
    expect(seqs).toEqual(numbers(1, 5));
  });

  test('a turn is followed up to its task event, without what belongs to other turns', async () => {
    const agentId = newAgent();
    await end(await started(agentId));
    const fence = await started(agentId);
    const { agentTurnId } = fence;
    const reading = all(followEvents(reader, { agentId, agentTurnId }));
    await end(fence);
    await reader.reportResult(agentTurnId, { callId: 'late', status: 'success' });
    const events = await reading;
    expect(events.at(-1)?.type).toBe('task');
    expect(new Set(events.map((event) => event.agentTurnId))).toEqual(new Set([agentTurnId]));
    expect(events.filter((event) => event.type === 'task')).toHaveLength(1);
  });

  test('resumed at or behind the task event of an ended turn, it ends instead of waiting for ever', async () => {
    const agentId = newAgent();
    const fence = await started(agentId);
    const { agentTurnId } = fence;
    await end(fence);
    const events = await all(followEvents(reader, { agentId, agentTurnId }));
    const task = events.at(-1)?.seq ?? 0;
    expect(await all(followEvents(reader, { agentId, agentTurnId, afterSeq: task - 1 }))).toHaveLength(1);
    expect(await all(followEvents(reader, { agentId, agentTurnId, afterSeq: task }))).toEqual([]);
    expect(await all(followEvents(reader, { agentId, agentTurnId: v7() }))).toEqual([]);
  });

  test('a turn that ends between the look and the question whether it is over loses no event', async () => {
    const agentId = newAgent();
    const fence = await started(agentId);
    const { agentTurnId } = fence;
    const store: Store = {
      ...reader,
      getTurnStatus: async (id) => {
        await end(fence);
        return reader.getTurnStatus(id);
      },
    };
    const events = await all(followEvents(store, { agentId, agentTurnId }));
    expect(events.at(-1)?.type).toBe('task');
  });

  test('the signal ends it, and no change has to come: waiting, reading, and before it began', async () => {
    const agentId = newAgent();
    await write(agentId, 3, reader);
    const controller = new AbortController();
    const { signal } = controller;
    const seenAll = Promise.withResolvers<void>();
    const reading = (async () => {
      let count = 0;
      for await (const _ of followEvents(waking(reader), { agentId, signal })) {
        count += 1;
        if (count === 3) seenAll.resolve();
      }
      return count;
    })();
    await seenAll.promise;
    await sleep(100);
    controller.abort();
    expect(await reading).toBe(3);
    expect(await all(followEvents(reader, { agentId, signal }))).toEqual([]);
    const other = new AbortController();
    const seen: number[] = [];
    for await (const event of followEvents(reader, { agentId, signal: other.signal })) {
      seen.push(event.seq);
      other.abort();
    }
    expect(seen).toEqual([1]);
  });

  test('what is stored is read in pages to its end, and then it is over', async () => {
    const agentId = newAgent();
    await Promise.all(writers.map((writer) => write(agentId, 300, writer)));
    const events = await all(storedEvents(reader, { agentId }));
    expect(events.map((event) => event.seq)).toEqual(numbers(1, 600));
    expect(await all(storedEvents(reader, { agentId, afterSeq: 595 }))).toHaveLength(5);
  });
});

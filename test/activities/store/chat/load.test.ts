/** Many messages to one session: at once from two processes, and after very many others. */
import { describe, expect, test } from '@jest/globals';
import SqliteDatabase from 'better-sqlite3';
import pg from 'pg';
import { QUEUE_POLICIES } from '../../../../workflows/protocol/chat.ts';
import { statementsOf } from '../../../support/postgres.ts';
import { WAIT } from '../../../support/wait.ts';
import { fenceOf, newAgent, type OpenStore, STORES, StoreBench, SUCCESS } from '../store-bench.ts';
import { messageOf, Session } from './session.ts';

const AT_ONCE = 1_000;
const BATCH = 100;
/** Messages before those that are counted; with `AGENTTURN_TEST_MESSAGES=10000` it takes a minute. */
const EARLIER = Number(process.env.AGENTTURN_TEST_MESSAGES ?? 300);

/** The texts of the statements that are sent while the body runs, each as often as it is sent. */
async function sentDuring(body: () => Promise<unknown>): Promise<string[]> {
  const sent: string[] = [];
  const statement = Object.getPrototypeOf(new SqliteDatabase(':memory:').prepare('select 1')) as Record<
    string,
    unknown
  >;
  const client = pg.Client.prototype as unknown as Record<string, unknown>;
  const restore = [
    ...['all', 'run', 'get', 'iterate'].map((name) =>
      spied(statement, name, function (this: { source: string }) {
        sent.push(this.source);
      }),
    ),
    spied(client, 'query', (query: unknown) => {
      for (const { text } of statementsOf(query)) sent.push(text);
    }),
  ];
  try {
    await body();
  } finally {
    for (const back of restore) back();
  }
  return sent;
}

/** Calls the function before each call of the method; returns what puts the method back. */
function spied(on: Record<string, unknown>, name: string, before: (...args: never[]) => void): () => void {
  const method = on[name] as (...args: unknown[]) => unknown;
  on[name] = function (this: unknown, ...args: unknown[]) {
    before.apply(this, args as never[]);
    return method.apply(this, args);
  };
  return () => {
    on[name] = method;
  };
}

/** A thousand callers wait behind one another here, on a machine that others may keep busy. */
const patient = (open: () => OpenStore) => (): OpenStore => {
  const make = open();
  return (now, options) => make(now, { ...options, waitMs: WAIT.timeoutMs });
};

describe.each(STORES)('a session on %s', (_, open) => {
  const bench = new StoreBench(patient(open));

  test('takes a thousand messages at once by two processes: each is in one turn or rejected, and none is lost (C8)', async () => {
    const session = new Session(bench);
    const texts = Array.from({ length: AT_ONCE }, (__, n) => `m${n + 1}`);
    const outcomes = await Promise.all(
      texts.map((text, n) => {
        const policy = QUEUE_POLICIES[n % QUEUE_POLICIES.length] ?? 'collect';
        return session.send(text, { policy }, n % 2 === 0 ? bench.store : bench.other);
      }),
    );
    expect(outcomes.filter(({ kind }) => kind === 'refused')).toEqual([]);
    for (let next = (await bench.store.leaseNext(session.agentId)).next; next; )
      next = (await bench.store.commitTurn(fenceOf(next), SUCCESS)).handover.next;
    const messages: Awaited<ReturnType<typeof bench.store.listMessages>>[number][] = [];
    while (messages.length < AT_ONCE) {
      const page = await bench.store.listMessages(session.agentId, { after: messages.length });
      if (page.length === 0) break;
      messages.push(...page);
    }
    expect(messages.map(({ seq }) => seq)).toEqual(texts.map((__, n) => n + 1));
    expect(messages.map(({ payload }) => payload.text).toSorted()).toEqual(texts.toSorted());
    for (const { status, agentTurnId, policy } of messages) {
      expect(['done', 'rejected']).toContain(status);
      if (status === 'rejected') expect(policy).toBe('reject');
      else expect(agentTurnId).not.toBeNull();
    }
    const turns = new Set(messages.flatMap(({ agentTurnId }) => agentTurnId ?? []));
    for (const turn of turns) expect((await bench.store.getTurn(turn))?.endedAt).not.toBeNull();
    expect(turns.size).toBeGreaterThan(AT_ONCE / QUEUE_POLICIES.length);
    expect(await bench.store.violations()).toEqual([]);
  });

  test('costs no statement more for a message after very many others (C8)', async () => {
    const session = new Session(bench);
    const lease = await session.started('m1');
    const costOf = async (policy: (typeof QUEUE_POLICIES)[number]) =>
      (await sentDuring(() => session.sent('more', { policy }))).toSorted();
    const costs = async () => {
      const found: Record<string, string[]> = {};
      for (const policy of ['collect', 'steer', 'reject'] as const) found[policy] = await costOf(policy);
      found.interrupt = await costOf('interrupt');
      return found;
    };
    await session.sent('first that waits');
    const before = await costs();
    for (let n = 0; n < EARLIER / BATCH; n += 1) {
      const batch = Array.from({ length: BATCH }, (__, at) => `${n}-${at}`);
      await Promise.all(batch.map((text) => session.send(text, { policy: 'reject' })));
    }
    await session.sent('another that waits');
    expect(await costs()).toEqual(before);
    expect(await bench.store.getSession(session.agentId)).toMatchObject({ lastSeq: EARLIER + 11 });
    expect(lease.agentId).toBe(session.agentId);
  });

  test('leaves turns of no chat what they were: none of their statements reads or writes messages (C2)', async () => {
    const sent = await sentDuring(async () => {
      const lease = await bench.started(newAgent());
      await bench.think(lease, 1, ['look']);
      await bench.store.steerTurn(lease.agentTurnId, 'more');
      await bench.ended(lease);
    });
    expect(sent.length).toBeGreaterThan(20);
    expect(
      sent.filter((text) => /chat_(?:messages|sessions)/.test(text) && !/card_id" (?:= any|in)/.test(text)),
    ).toEqual([]);
    expect(messageOf('x').type).toBe('chat.message');
  });
});

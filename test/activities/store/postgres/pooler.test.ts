/** The store behind a pooler that gives each transaction another connection of the server. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { storePool } from '../../../../activities/store/postgres/client.ts';
import { openPostgresStore } from '../../../../activities/store/postgres/open.ts';
import { openPools } from '../../../../activities/store/postgres/pools.ts';
import type { Store } from '../../../../workflows/contract/store.ts';
import { describePgBouncer } from '../../../support/describe-pgbouncer.ts';
import { PgBouncer, type PgBouncerProgram } from '../../../support/pgbouncer.ts';
import { freshSchemaUrl } from '../../../support/postgres.ts';
import { describeStore } from '../conformance.ts';

const request = { instruction: 'go', priority: 'normal' } as const;
/** Longer than any change takes to be heard of, and shorter than a caller waits for one. */
const LONG_MS = 20_000;

type Settings = Readonly<Record<string, string | number>>;

const KEEPING: [string, Settings] = ['that keeps prepared statements', { max_prepared_statements: 200 }];

/** How a pooler may be set up: by version 1.21 it can keep what its clients prepare. */
function modesOf({ keepsPrepared }: PgBouncerProgram): [string, Settings][] {
  const notKeeping: Settings = keepsPrepared ? { max_prepared_statements: 0 } : {};
  return [
    ['that keeps no prepared statements', notKeeping],
    ['that leaves out what it does not know', { ...notKeeping, ignore_startup_parameters: 'options' }],
    ...(keepsPrepared ? [KEEPING] : []),
    ['of sessions', { pool_mode: 'session', default_pool_size: 40 }],
  ];
}

describePgBouncer('PgBouncer', (program) => {
  let direct: string;
  beforeAll(async () => {
    direct = await freshSchemaUrl();
  });

  test.each(modesOf(program))('%s serves a store in a schema of its own', async (_, settings) => {
    const bouncer = await PgBouncer.start(program, direct, { default_pool_size: 3, ...settings });
    const url = bouncer.to(direct);
    const pools = await openPools({ url, connections: 3 });
    expect(pools.turns.keepsPrepared).toBe(Number(settings.max_prepared_statements ?? 0) > 0);
    await pools.close();
    const stores = await Promise.all(Array.from({ length: 3 }, () => openPostgresStore({ url })));
    const [a, b] = stores;
    const agents = Array.from({ length: 30 }, (_, at) => `agent-${crypto.randomUUID()}-${at}`);
    const outcomes = await Promise.all(
      agents.map((agentId, at) => stores[at % stores.length]?.accept({ agentId, request })),
    );
    expect(outcomes.filter((outcome) => outcome?.kind !== 'accepted')).toEqual([]);
    const events = (store?: Store) => Promise.all(agents.map((agentId) => store?.listTurns(agentId)));
    expect(await events(a)).toEqual(await events(b));
    // What the URL's options say holds: the tables are there where it says, and nowhere else.
    const client = new pg.Client({ connectionString: direct });
    await client.connect();
    const { rows } = await client.query('select count(*)::int as turns from turns');
    expect(rows[0]?.turns).toBeGreaterThanOrEqual(agents.length);
    await client.end();
    await Promise.all(stores.map((store) => store.close()));
    await bouncer.stop();
  });

  test('gives each transaction its limits and plans, also one of a single statement, and leaves nothing to others', async () => {
    const bouncer = await PgBouncer.start(program, direct, { default_pool_size: 1 });
    const { turns, scanner, listening, close } = await openPools({
      url: `${bouncer.to(direct)}&statement_timeout=20000`,
      connections: 3,
    });
    expect(listening).toBeNull();
    const names = ['enable_seqscan', 'jit', 'lock_timeout', 'statement_timeout', 'search_path'];
    const asked = `select ${names.map((name) => `current_setting('${name}') as ${name}`).join()}`;
    const ask = async (of = turns, around: readonly string[] = []) => {
      const client = await storePool(of).connect();
      if (around.length > 0) await client.query('begin', []);
      const { rows } = await client.query<Record<string, string>>(asked, []);
      if (around.length > 0) await client.query('commit', []);
      client.release();
      return rows[0];
    };
    const schema = /search_path%3D(\w+)/.exec(direct)?.[1];
    const limits = {
      enable_seqscan: 'off',
      jit: 'off',
      lock_timeout: '5s',
      statement_timeout: '20s',
      search_path: schema,
    };
    expect(await ask()).toEqual(limits);
    expect(await ask(turns, ['transaction'])).toEqual(limits);
    expect(await ask(scanner)).toMatchObject({ statement_timeout: '1h', lock_timeout: '0', search_path: schema });
    const { rows } = await turns.pool.query(asked);
    expect(rows[0]).toMatchObject({ enable_seqscan: 'on', lock_timeout: '0', statement_timeout: '0' });
    await close();
    await bouncer.stop();
  });

  test('never gives a process the statement of another one, in whatever order they prepare', async () => {
    const bouncer = await PgBouncer.start(program, direct, { default_pool_size: 1 });
    const url = bouncer.to(direct);
    const processes = await Promise.all([1, 2].map(() => openPools({ url, connections: 3 })));
    const texts = Array.from({ length: 8 }, (_, at) => `select ${at} as answer, $1 as given`);
    const clients = await Promise.all(processes.map(({ turns }) => storePool(turns).connect()));
    for (let round = 0; round < 3; round += 1) {
      for (const [at, client] of clients.entries()) {
        for (const text of at === 0 ? texts : [...texts].reverse()) {
          const asked = async () => (await client.query<{ answer: number }>(text, ['x'])).rows[0]?.answer;
          // One that is not known is asked for again, as the store does.
          expect(`select ${await asked().catch(asked)} as answer, $1 as given`).toBe(text);
        }
      }
    }
    for (const client of clients) client.release();
    await Promise.all(processes.map(({ close }) => close()));
    await bouncer.stop();
  });

  test.each([
    ['by asking the server', () => undefined],
    ['by a connection that goes around the pooler', (): string | undefined => direct],
    ['by asking, where the other connection goes through it as well', (url: string): string | undefined => url],
  ])('tells of what another process commits %s', async (_, another) => {
    const bouncer = await PgBouncer.start(program, direct);
    const url = bouncer.to(direct);
    const around = another(url);
    const [teller, hearer] = await Promise.all([
      openPostgresStore({ url }),
      openPostgresStore({ url, ...(around === undefined ? {} : { direct: around }) }),
    ]);
    // The first wait begins to listen.
    await hearer.changed(500);
    for (const only of [undefined, 'turn_ended'] as const) {
      const heard = hearer.changed(LONG_MS, only);
      const begun = performance.now();
      const agentId = `agent-${crypto.randomUUID()}`;
      const outcome = await teller.accept({ agentId, request });
      if (only && outcome.kind === 'accepted') await teller.stopTurn(outcome.agentTurnId, 'enough');
      await heard;
      expect(performance.now() - begun).toBeLessThan(LONG_MS / 4);
    }
    await Promise.all([teller.close(), hearer.close()]);
    await bouncer.stop();
  });
});

// As long as the whole suite of a store: where programs are named.
if (process.env.AGENTTURN_TEST_PGBOUNCER) {
  describePgBouncer('all through PgBouncer', (program) => {
    describe.each(modesOf(program))('%s', (_, settings) => {
      let bouncer: PgBouncer | undefined;
      afterAll(() => bouncer?.stop());
      describeStore('PostgreSQL', () => {
        const opening = freshSchemaUrl().then(async (url) => {
          bouncer ??= await PgBouncer.start(program, url, settings);
          return bouncer.to(url);
        });
        return async (now, options) => openPostgresStore({ url: await opening, now, ...options });
      });
    });
  });
}

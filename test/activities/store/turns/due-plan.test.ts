/** What statements cost that are run often: they read by index what they are about, however many agents and turns there are (T12, K9). */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import SqliteDatabase from 'better-sqlite3';
import { Kysely, PostgresDialect, type RawBuilder, SqliteDialect, sql } from 'kysely';
import pg from 'pg';
import { dueCursors } from '../../../../activities/store/log/webhooks.ts';
import { openPostgresStore } from '../../../../activities/store/postgres/open.ts';
import type { Tables } from '../../../../activities/store/schema/rows.ts';
import { openSqliteStore } from '../../../../activities/store/sqlite/open.ts';
import { dueQuery } from '../../../../activities/store/turns/supervision.ts';
import type { Store } from '../../../../workflows/contract/store.ts';
import { testApp } from '../../../support/app.ts';
import { freshSchemaUrl, hasPostgres } from '../../../support/postgres.ts';

const NOW = 1_000_000_000;
const IDLE_AGENTS = 25_000;
const DUE = 1_000;
/** As many as the supervisor asks for. */
const IN_ONE_PASS = 200;

interface Opened {
  readonly store: Store;
  readonly db: Kysely<Tables>;
  /** The tables that the statement reads as a whole, the indexes it uses, and whether it sorts what it finds. */
  readonly plan: (statement: RawBuilder<unknown>) => Promise<{
    readonly scanned: readonly string[];
    readonly indexes: readonly string[];
    readonly isSorted: boolean;
  }>;
}

const BACKENDS: readonly (readonly [name: string, open: () => Promise<Opened>])[] = [
  [
    'SQLite',
    async () => {
      const path = join(mkdtempSync(join(tmpdir(), 'agentturn-sqlite-')), 'store.db');
      const store = await openSqliteStore({ path, now: () => NOW });
      const db = new Kysely<Tables>({ dialect: new SqliteDialect({ database: new SqliteDatabase(path) }) });
      return { store, db, plan: (statement) => sqlitePlan(db, statement) };
    },
  ],
  [
    'PostgreSQL',
    async () => {
      const url = await freshSchemaUrl();
      const store = await openPostgresStore({ url, now: () => NOW });
      const pool = new pg.Pool({ connectionString: url });
      const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
      return { store, db, plan: (statement) => postgresPlan(db, statement) };
    },
  ],
];

async function sqlitePlan(db: Kysely<Tables>, statement: RawBuilder<unknown>) {
  const { rows } = await sql<{ detail: string }>`explain query plan ${statement}`.execute(db);
  const named = (pattern: RegExp) => rows.flatMap(({ detail }) => pattern.exec(detail)?.[1] ?? []);
  return {
    scanned: named(/^SCAN (\S+)/),
    indexes: named(/ USING (?:COVERING )?INDEX (\S+)/),
    isSorted: rows.some(({ detail }) => detail.includes('FOR ORDER BY')),
  };
}

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly Plans?: readonly PlanNode[];
}

async function postgresPlan(db: Kysely<Tables>, statement: RawBuilder<unknown>) {
  const { rows } = await sql<{
    'QUERY PLAN': [{ Plan: PlanNode }];
  }>`explain (format json) ${statement}`.execute(db);
  const nodes: PlanNode[] = [];
  const visit = (node: PlanNode): void => {
    nodes.push(node);
    node.Plans?.forEach(visit);
  };
  for (const { 'QUERY PLAN': plans } of rows) for (const { Plan } of plans) visit(Plan);
  return {
    scanned: nodes.flatMap((node) => (node['Node Type'] === 'Seq Scan' ? [node['Relation Name'] ?? ''] : [])),
    indexes: nodes.flatMap((node) => node['Index Name'] ?? []),
    isSorted: nodes.some((node) => node['Node Type'] === 'Sort'),
  };
}

describe.each(hasPostgres ? BACKENDS : BACKENDS.slice(0, 1))('in a large store on %s', (_, open) => {
  let opened: Opened;

  beforeAll(async () => {
    opened = await open();
    const { store, db } = opened;
    await store.registerProfiles([...testApp([]).agents.values()]);
    const request = { instruction: 'do it', profile: 'tester', priority: 'normal' } as const;
    await store.accept({ agentId: 'template', agentTurnId: 'template', request });
    await copies(db, 'idle', IDLE_AGENTS, { status: 'success', checkAt: sql`cast(null as bigint)` });
    await copies(db, 'due', DUE, { status: 'running', checkAt: sql`${sql.lit(NOW - DUE)} + n.i` });
    await copies(db, 'later', DUE, { status: 'suspended', checkAt: sql`${sql.lit(NOW)} + n.i` });
    await calls(db, 'idle', IDLE_AGENTS, 'applied');
    await calls(db, 'due', DUE, 'received');
    await calls(db, 'later', DUE, 'waiting');
    await sql`insert into deferred_reports (agent_turn_id, call_id, report, defer_reason, retry_count, next_retry_at, created_at)
      select agent_turn_id, call_id, '{}', 'card_not_found', 0, ${NOW}, ${NOW} from turn_waiting where status = 'waiting'`.execute(
      db,
    );
  });
  afterAll(async () => {
    await opened?.db.destroy();
    await opened?.store.close();
  });

  /** Agents with one turn each, as the template but for its status and schedule. */
  async function copies(
    db: Kysely<Tables>,
    name: string,
    count: number,
    { status, checkAt }: { readonly status: string; readonly checkAt: ReturnType<typeof sql> },
  ): Promise<void> {
    const numbers = sql`with recursive n(i) as (select 1 union all select i + 1 from n where i < ${sql.lit(count)})`;
    const id = sql`${sql.lit(`${name}-`)} || n.i`;
    const isIdle = status === 'success';
    const changes: Readonly<Record<keyof Tables & ('turns' | 'agents' | 'agent_state_head'), object>> = {
      turns: { agent_turn_id: id, agent_id: id, status: sql.lit(status), check_at: checkAt },
      agents: { agent_id: id },
      agent_state_head: {
        agent_id: id,
        status: sql.lit(isIdle ? 'idle' : status),
        active_agent_turn_id: isIdle ? sql`null` : id,
      },
    };
    for (const [table, change] of Object.entries(changes)) {
      const template = await sql<object>`select * from ${sql.table(table)} where agent_id = 'template'`.execute(db);
      const columns = Object.keys(template.rows[0] ?? {});
      const values = columns.map(
        (column) => (change as Record<string, ReturnType<typeof sql>>)[column] ?? sql`t.${sql.ref(column)}`,
      );
      await sql`insert into ${sql.table(table)} (${sql.join(columns.map((column) => sql.ref(column)))}) ${numbers}
        select ${sql.join(values)} from ${sql.table(table)} t cross join n where t.agent_id = 'template'`.execute(db);
    }
  }

  /** One call of each of these turns that waits, or has waited. */
  async function calls(db: Kysely<Tables>, name: string, count: number, status: string): Promise<void> {
    await sql`insert into turn_waiting (agent_turn_id, call_id, step_index, kind, tool_name, deadline, status, created_at)
      select agent_turn_id, agent_turn_id || '-call', 1, 'tool', 'ask', ${NOW}, ${sql.lit(status)}, ${NOW}
      from turns where agent_turn_id like ${`${name}-%`}`.execute(db);
    const found = await sql<{ count: number }>`select count(*) as count from turn_waiting
      where status = ${status}`.execute(db);
    expect(Number(found.rows[0]?.count)).toBe(count);
  }

  test.each([
    ['before the server knows the sizes of its tables', false],
    ['when it knows them', true],
  ])(
    'a look for due turns reads by the index of what is due, and no table as a whole, %s (T12)',
    async (_when, analysed) => {
      if (analysed) await sql`analyze`.execute(opened.db);
      const { scanned, indexes } = await opened.plan(dueQuery(NOW, IN_ONE_PASS));
      expect(scanned).toEqual([]);
      expect(indexes).toContain('turns_due');
    },
  );

  test('a look for agents that a webhook is to be told of sorts nothing, however many are due', async () => {
    await sql`insert into webhook_cursors (webhook_id, agent_id, seq, event_id, due_at, failures)
      select 'hook', agent_id, 1, 1, ${NOW}, 0 from agents`.execute(opened.db);
    await sql`analyze`.execute(opened.db);
    const { indexes, isSorted } = await opened.plan(dueCursors('hook', sql`due_at <= ${NOW}`, IN_ONE_PASS));
    expect(indexes).toEqual(['webhook_cursors_due']);
    expect(isSorted).toBe(false);
    const due = await opened.store.dueAgents('hook', IN_ONE_PASS);
    expect(due).toHaveLength(IN_ONE_PASS);
    expect(due[0]).toEqual({ agentId: expect.any(String), seq: 1, failures: 0 });
  });

  test('a look for due turns finds a thousand among tens of thousands, the longest due first (T12)', async () => {
    const { store } = opened;
    const due = await store.dueTurns(DUE);
    expect(due.map(({ agentTurnId }) => agentTurnId)).toEqual(Array.from({ length: DUE }, (__, i) => `due-${i + 1}`));
    expect(due[0]).toMatchObject({ agentId: 'due-1', status: 'running', checkAt: NOW - DUE + 1, unread: true });
    expect(await store.dueTurns(10)).toEqual(due.slice(0, 10));
    expect(await store.countOpenTurns()).toBe(2 * DUE);
  });
});

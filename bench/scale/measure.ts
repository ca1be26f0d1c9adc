/**
 * The same operations on stores of several sizes. The stores take turns, operation round by operation round, so that whatever else the
 * machine does disturbs all of them alike.
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { openPostgresStore } from '../../activities/store/postgres/open.ts';
import { openSqliteStore } from '../../activities/store/sqlite/open.ts';
import { PostgresServer } from '../../test/support/postgres-server.ts';
import type { Store } from '../../workflows/contract/store.ts';
import { type MachineFacts, machineFacts } from '../facts.ts';
import type { StoreKind } from '../lab.ts';
import { type Spread, spreadOf } from '../numbers.ts';
import { openRaw } from './database.ts';
import { Rounds } from './rounds.ts';
import { agentIdAt, LONG_AGENT, runTemplate, type Seeded, seed } from './seed.ts';

export const SIZES = [1_000, 100_000, 1_000_000] as const;
export const ROUNDS = 300;
/** Not counted: caches are filled. */
const WARM_UP = 20;
/** The copies ended long ago. */
const SEEDED_AT = Date.UTC(2026, 0, 1);

export interface SizeResults extends Seeded {
  readonly seedSeconds: number;
  /** Milliseconds by operation. */
  readonly spreads: Readonly<Record<string, Spread>>;
  /** Those of turns, which write; and milliseconds of all of them together. */
  readonly writes: readonly string[];
  readonly allWrites: Spread;
}

export interface ScaleResults {
  readonly facts: MachineFacts;
  readonly store: StoreKind;
  readonly sizes: readonly SizeResults[];
}

export interface ScaleOptions {
  readonly store: StoreKind;
  readonly sizes: readonly number[];
  readonly rounds: number;
}

interface Scaled extends Seeded {
  readonly url: string;
  readonly seedSeconds: number;
}

export async function measureScale(options: ScaleOptions, say: (line: string) => void): Promise<ScaleResults> {
  const facts = machineFacts();
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-scale-'));
  // PostgreSQL may run as a user of its own.
  chmodSync(dir, 0o755);
  const server = options.store === 'postgres' ? await PostgresServer.start(dir) : null;
  try {
    const scaled: Scaled[] = [];
    if (server) await flushing(server.url, false);
    for (const turns of options.sizes) {
      say(`${turns} turns`);
      const url = server ? await schemaUrl(server.url, `turns_${turns}`) : `sqlite:${join(dir, `${turns}.db`)}`;
      scaled.push(await seededStore(url, turns));
    }
    if (server) await flushing(server.url, true);
    say(`${options.rounds} rounds on each`);
    const spreads = await runRounds(scaled, options.rounds);
    const sizes = scaled.flatMap(({ url: _, ...size }, index) => {
      const measured = spreads[index];
      return measured ? [{ ...size, ...measured }] : [];
    });
    return { facts, store: options.store, sizes };
  } finally {
    await server?.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

export async function seededStore(url: string, turns: number): Promise<Scaled> {
  const template = await openAt(url, () => SEEDED_AT);
  await runTemplate(template);
  await template.close();
  const startedAt = performance.now();
  const db = await openRaw(url);
  const seeded = await seed(db, turns);
  await db.close();
  return { url, ...seeded, seedSeconds: (performance.now() - startedAt) / 1_000 };
}

const openAt = (url: string, now?: () => number): Promise<Store> => {
  const more = now ? { now } : {};
  return url.startsWith('sqlite:')
    ? openSqliteStore({ path: url.slice('sqlite:'.length), ...more })
    : openPostgresStore({ url, ...more });
};

type Measured = Pick<SizeResults, 'spreads' | 'writes' | 'allWrites'>;

async function runRounds(scaled: readonly Scaled[], rounds: number): Promise<Measured[]> {
  const stores: Store[] = [];
  try {
    for (const { url } of scaled) stores.push(await openAt(url));
    const warm = stores.map((store) => new Rounds(store));
    const counted = stores.map((store) => new Rounds(store));
    for (let round = 0; round < WARM_UP + rounds; round += 1) {
      for (const [index, { agents }] of scaled.entries()) {
        const on = (round < WARM_UP ? warm : counted)[index];
        if (on) await runRound(on, agentIdAt((round * 7_919) % (agents - 1)));
      }
    }
    return counted.map(({ timings, writes }) => ({
      spreads: Object.fromEntries([...timings].map(([what, values]) => [what, spreadOf(values)] as const)),
      writes: [...writes],
      allWrites: spreadOf([...writes].flatMap((what) => timings.get(what) ?? [])),
    }));
  } finally {
    for (const store of stores) await store.close();
  }
}

async function runRound(rounds: Rounds, agentId: string): Promise<void> {
  await rounds.turns(agentId);
  await rounds.turns(LONG_AGENT, LONG_BOX);
  await rounds.supervise();
  await rounds.read(agentId);
  await rounds.search(agentId);
}

/** How operations on the agent with the long box are named. */
export const LONG_BOX = ', 10,000 cards behind it';

/** Whether the bench's own server flushes what it commits: while it is filled it need not, and all is flushed before it is measured. */
async function flushing(url: string, on: boolean): Promise<void> {
  const settings = { fsync: 'off', full_page_writes: 'off', max_wal_size: '8GB', autovacuum: 'off' };
  const statements = Object.entries(settings).map(([name, value]) =>
    on ? `alter system reset ${name}` : `alter system set ${name} = '${value}'`,
  );
  await execute(url, [...statements, 'select pg_reload_conf()', 'checkpoint']);
}

async function execute(url: string, statements: readonly string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
}

async function schemaUrl(url: string, schema: string): Promise<string> {
  await execute(url, [`create schema ${schema}`]);
  return `${url}?options=${encodeURIComponent(`-csearch_path=${schema}`)}`;
}

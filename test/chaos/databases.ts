/** The store of a run, SQLite or PostgreSQL, and the outages each can have. */
import { join } from 'node:path';
import { aPgBouncer, PgBouncer } from '../support/pgbouncer.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import { startScript } from '../support/programs.ts';
import type { LockHolder } from './lock-holder.ts';
import type { Random } from './random.ts';

export interface ChaosDatabase {
  readonly url: string;
  /** Takes the store away for a while; resolves with what was done when it is back. */
  outage(random: Random): Promise<string>;
  /** Takes the store away for so long: the write lock of a file, a server as a whole. */
  away(ms: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startDatabase(
  { store, pooled }: { readonly store: 'sqlite' | 'postgres'; readonly pooled: boolean },
  dir: string,
): Promise<ChaosDatabase> {
  if (store === 'sqlite') return sqlite(dir);
  const server = await PostgresServer.start(dir);
  return pooled
    ? behindPooler(postgres(server), await PgBouncer.start(aPgBouncer(), server.url, { server_login_retry: 1 }))
    : postgres(server);
}

function sqlite(dir: string): ChaosDatabase {
  const url = `sqlite:${join(dir, 'agentturn.db')}`;
  const away = (ms: number) =>
    new Promise<void>((ended) => {
      const holder: LockHolder = { storeUrl: url, agentId: '', ms };
      const script = new URL('./lock-holder.ts', import.meta.url);
      startScript(script, holder, join(dir, 'lock-holder.log'), () => ended());
    });
  return {
    url,
    away,
    async outage(random) {
      const ms = random.int(1_000, 8_000);
      await away(ms);
      return `write lock held for ${ms} ms`;
    },
    stop: async () => {},
  };
}

const postgres = (server: PostgresServer): ChaosDatabase => ({
  url: server.url,
  away: (ms) => server.restart('SIGINT', ms),
  async outage(random) {
    const ms = random.int(1_000, 10_000);
    const kind = random.weighted({ frozen: 1, stopped: 1, crashed: 1 });
    if (kind === 'frozen') await server.freeze(ms);
    else await server.restart(kind === 'stopped' ? 'SIGINT' : 'SIGQUIT', ms);
    return `PostgreSQL ${kind} for ${ms} ms`;
  },
  stop: () => server.stop(),
});

const behindPooler = (database: ChaosDatabase, pooler: PgBouncer): ChaosDatabase => ({
  ...database,
  url: pooler.to(database.url),
  async outage(random) {
    if (random.int(0, 2) > 0) return database.outage(random);
    const ms = random.int(1_000, 10_000);
    await pooler.restart(ms);
    return `PgBouncer killed for ${ms} ms`;
  },
  async stop() {
    await pooler.stop();
    await database.stop();
  },
});

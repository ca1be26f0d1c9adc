/** How a server is reached that demands TLS and a password. */
import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { openPostgresStore } from '../../../../activities/store/postgres/open.ts';
import { openPools, type PoolOptions } from '../../../../activities/store/postgres/pools.ts';
import { ownedByServer, PostgresServer } from '../../../support/postgres-server.ts';
import { seen } from '../../../support/wait.ts';

/** A CA, and the certificate that it gave to `localhost`: valid for a hundred years, and used nowhere else. */
const fixture = (name: string): string => fileURLToPath(new URL(`../../../fixtures/tls/${name}`, import.meta.url));

let server: PostgresServer;
let admin: pg.Client;

beforeAll(async () => {
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-tls-'));
  const [cert, key, access] = [join(dir, 'server.crt'), join(dir, 'server.key'), join(dir, 'pg_hba.conf')];
  copyFileSync(fixture('server.crt'), cert);
  // PostgreSQL takes no key that others may read, and a clone has one that they may.
  writeFileSync(key, readFileSync(fixture('server.key')), { mode: 0o600 });
  writeFileSync(access, ['host all agentturn all trust', 'hostssl all all all scram-sha-256', ''].join('\n'));
  ownedByServer(dir, cert, key, access);
  const settings = { ssl: 'on', ssl_cert_file: cert, ssl_key_file: key, hba_file: access };
  server = await PostgresServer.start(dir, settings);
  admin = new pg.Client({ connectionString: server.url });
  await admin.connect();
  await admin.query("create role limited login password 'first'");
  await admin.query('grant create on schema public to limited');
});
afterAll(async () => {
  await admin.end();
  await server.stop();
});

/** The server's URL with another host, user and parameters. */
function at(host: string, parameters: Readonly<Record<string, string>>, user = 'agentturn'): string {
  const url = new URL(server.url);
  url.hostname = host;
  url.username = user;
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** Whether connections are encrypted. Errors: those of the driver. */
async function isEncrypted(options: Omit<PoolOptions, 'connections'>): Promise<boolean> {
  const { turns, close } = await openPools({ connections: 3, ...options });
  try {
    const { rows } = await turns.pool.query<{ ssl: boolean }>(
      'select ssl from pg_stat_ssl where pid = pg_backend_pid()',
    );
    return rows[0]?.ssl === true;
  } finally {
    await close();
  }
}

describe('TLS', () => {
  const trusted = { sslrootcert: fixture('ca.crt') };

  test.each([
    ['as libpq has it: encrypted, and nobody asked who the server is', '127.0.0.1', { sslmode: 'require' }, true],
    ['and the CA of the server, whatever its name', '127.0.0.1', { sslmode: 'require', ...trusted }, true],
    ['and its name', 'localhost', { sslmode: 'verify-full', ...trusted }, true],
    ['not at all', '127.0.0.1', { sslmode: 'disable' }, false],
  ])('%s', async (_, host, parameters, encrypted) => {
    expect(await isEncrypted({ url: at(host, parameters) })).toBe(encrypted);
  });

  test.each([
    ['of another name', '127.0.0.1', { sslmode: 'verify-full', ...trusted }],
    ['whose CA is not known', 'localhost', { sslmode: 'verify-full' }],
  ])('a server %s is store_unavailable, and what is to be checked is said', async (_, host, parameters) => {
    await expect(openPostgresStore({ url: at(host, parameters) })).rejects.toMatchObject({
      code: 'store_unavailable',
      message: expect.stringMatching(/by TLS .*sslmode, sslrootcert/),
    });
  });

  test('a file of a CA that is not there is invalid_config, which names it and no password', async () => {
    const url = at('localhost', { sslmode: 'verify-full', sslrootcert: '/nowhere/ca.crt', password: 'secret' });
    const opening = openPostgresStore({ url });
    await expect(opening).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringContaining('/nowhere/ca.crt'),
    });
    await expect(opening).rejects.not.toMatchObject({ message: expect.stringContaining('secret') });
  });
});

test('a password that changes is asked for each new connection', async () => {
  let password = 'first';
  let asked = 0;
  let fails = false;
  const url = at('127.0.0.1', { sslmode: 'require' }, 'limited');
  const current = () => {
    asked += 1;
    return fails ? Promise.reject(new Error('no token to be had')) : Promise.resolve(password);
  };
  const store = await openPostgresStore({ url, password: current });
  const request = { instruction: 'go', priority: 'normal' } as const;
  await store.accept({ agentId: 'alice', request });
  // As a token that has run out: connections that stand go on, and new ones need the next.
  await admin.query("alter role limited password 'second'");
  await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'limited'");
  password = 'second';
  const before = asked;
  // What was about to be asked on a connection that has gone is asked again.
  const accepted = () => store.accept({ agentId: 'alice', request }).catch(() => undefined);
  expect(await seen(store, accepted)).toMatchObject({ kind: 'accepted' });
  expect(asked).toBeGreaterThan(before);
  // One that cannot be had is no error of the work: it is waited for.
  fails = true;
  await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'limited'");
  const refused = () =>
    store.listAgents().then(
      () => undefined,
      (error: unknown) => (String(error).includes('password') ? error : undefined),
    );
  expect(await seen(store, refused)).toMatchObject({ code: 'store_unavailable' });
  await store.close();
  await expect(openPostgresStore({ url, password: () => 'first' })).rejects.toMatchObject({
    code: 'store_unavailable',
  });
  await expect(
    openPostgresStore({
      url,
      password: () => {
        throw new Error('no token to be had');
      },
    }),
  ).rejects.toMatchObject({ code: 'store_unavailable', message: expect.stringContaining('no token to be had') });
});

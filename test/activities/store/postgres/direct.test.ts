/** The way around a pooler, over which a process hears of changes: also one that is away, and one that leads elsewhere. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { openPostgresStore } from '../../../../activities/store/postgres/open.ts';
import type { Store } from '../../../../workflows/contract/store.ts';
import { freshSchemaUrl } from '../../../support/postgres.ts';
import { seen } from '../../../support/wait.ts';

/** Longer than any change takes to be heard of, and shorter than a caller waits for one. */
const LONG_MS = 20_000;

let url: string;
let teller: Store;
beforeAll(async () => {
  url = await freshSchemaUrl();
  teller = await openPostgresStore({ url });
});
afterAll(() => teller?.close());

const nowhere = (): string => Object.assign(new URL(url), { host: '127.0.0.1:1' }).href;

/** Opens a store that is to hear by `direct`, and what it said of it. */
async function hearing(direct: string) {
  const said: string[] = [];
  return { store: await openPostgresStore({ url, direct, warn: (line) => said.push(line) }), said };
}

/** Waits until the store has heard of a commit of another process. */
async function expectHeard(store: Store): Promise<void> {
  await store.changed(100);
  const begun = performance.now();
  const heard = store.changed(LONG_MS);
  await teller.accept({ agentId: `agent-${crypto.randomUUID()}`, request: { instruction: 'go', priority: 'normal' } });
  await heard;
  expect(performance.now() - begun).toBeLessThan(LONG_MS / 4);
}

/** Leads to the server while it is open. */
async function relay() {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const server = createServer((incoming) => {
    const outgoing = connect(Number(port), hostname);
    for (const socket of [incoming, outgoing]) sockets.add(socket.on('error', () => {}));
    incoming.pipe(outgoing).pipe(incoming);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const at = (server.address() as AddressInfo).port;
  return {
    url: Object.assign(new URL(url), { host: `127.0.0.1:${at}` }).href,
    open: () => once(server.listen(at, '127.0.0.1'), 'listening'),
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

test('a way that is away is told, and changes are asked for', async () => {
  const { store, said } = await hearing(nowhere());
  expect(said).toEqual([
    expect.stringMatching(/^AGENTTURN_STORE_DIRECT is not used, .*: it cannot be reached: .*ECONNREFUSED/),
  ]);
  await expectHeard(store);
  await store.close();
});

test('a way that is lost is asked around, and taken again when it is back', async () => {
  const way = await relay();
  const { store, said } = await hearing(way.url);
  expect(said).toEqual([]);
  await expectHeard(store);
  way.close();
  await expectHeard(store);
  await way.open();
  const observer = new pg.Client({ connectionString: url });
  await observer.connect();
  // The next waiter takes it again.
  const listeners = async () => {
    await store.changed(50);
    const { rows } = await observer.query(`select 1 from pg_stat_activity where query = 'listen agentturn'`);
    return rows.length > 0 || undefined;
  };
  await seen(teller, listeners);
  await expectHeard(store);
  await observer.end();
  await store.close();
  way.close();
});

test.each([
  [
    'to another database',
    () => Object.assign(new URL(url), { pathname: '/template1' }).href,
    'leads to the database template1',
  ],
  ['into nothing', () => Object.assign(new URL(url), { pathname: '/no_such' }).href, 'refuses this process'],
  [
    'to a server that knows nobody of that name',
    () => Object.assign(new URL(url), { username: 'nobody' }).href,
    'refuses',
  ],
])('a way that leads %s is refused', async (_, direct, why) => {
  await expect(hearing(direct())).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringContaining(why),
  });
});

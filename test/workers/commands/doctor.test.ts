/** `doctor` on installations that are well, and on such that are broken: each is made for real, and found by its name with a cure. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import Long from 'long';
import { v7 } from 'uuid';
import { DEFECTS, type Finding } from '../../../workers/commands/doctor/findings.ts';
import { doctor } from '../../../workers/commands/doctor.ts';
import { readConfig } from '../../../workers/config.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import { openStore } from '../../../workers/open-store.ts';
import { FAILURES } from '../../../workflows/protocol/failures.ts';
import app from '../../client/cli/fixture-app.ts';
import { startCli } from '../../client/cli/processes.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { freshSchemaUrl } from '../../support/postgres.ts';

const PACKAGE = fileURLToPath(new URL('../../../index.ts', import.meta.url));
const APP = fileURLToPath(new URL('../../client/cli/fixture-app.ts', import.meta.url));
const TARGETS = ['worker_generic', 'worker_remote'];
/** Makes a process believe that it is an hour later. */
const AN_HOUR_LATER = 'data:text/javascript,const%20now=Date.now;Date.now=()=>now()+3600000;';

let harness: Harness;
let model: ModelServer;
let strict: Server;
let folder: string;

beforeAll(async () => {
  harness = await openHarness();
  model = await startModelServer({ answer: () => ({ kind: 'error', status: 400 }), model: 'ours' });
  // It wants a key.
  strict = createServer((_, response) => void response.writeHead(401).end()).listen(0, '127.0.0.1');
  folder = mkdtempSync(join(tmpdir(), 'agentturn-doctor-'));
  await harness.startWorker(app, model, { targets: TARGETS });
});
afterAll(async () => {
  await harness?.close();
  await model?.close();
  strict?.close();
});

type Env = Readonly<Record<string, string>>;

const place = (): Env => ({
  TEMPORAL_ADDRESS: harness.address,
  TEMPORAL_NAMESPACE: harness.namespace,
  AGENTTURN_STORE: harness.storeUrl,
  AGENTTURN_APP: APP,
  AGENTTURN_MODEL: 'ours',
  OPENAI_BASE_URL: model.url,
});

interface Examined {
  readonly code: number;
  readonly findings: readonly Finding[];
}

/** What it finds in an environment. */
async function examined(env: Env, fix = false): Promise<Examined> {
  const lines: string[] = [];
  const say = (line: string) => void lines.push(line);
  const io = { out: say, err: say, live: false, readStdin: () => Promise.resolve('') };
  const code = await doctor(readConfig(env), io, { json: true, fix });
  return { code, findings: JSON.parse(lines.join('')).findings };
}

/** What a broken installation is, the check that finds it and the name that it gives it. */
type SetUp = readonly [problem: string, check: string, env: () => Env | Promise<Env>];

/** A namespace of its own, with what is named of the search attributes. */
async function namespace(attributes: Readonly<Record<string, number>> = {}): Promise<string> {
  const name = `doctor-${v7()}`;
  const { connection } = harness.temporal;
  await connection.workflowService.registerNamespace({
    namespace: name,
    workflowExecutionRetentionPeriod: { seconds: Long.fromNumber(86_400) },
  });
  if (Object.keys(attributes).length > 0)
    await connection.operatorService.addSearchAttributes({ namespace: name, searchAttributes: attributes });
  return name;
}

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

async function newStore(): Promise<string> {
  const url = `sqlite:${join(folder, `${v7()}.db`)}`;
  await (await openStore(url)).close();
  return url;
}

/** The clerk of the fixture's app under another name, or with other words. */
const appOf = (name: string): string =>
  file(
    `app-of-${name}.ts`,
    `import { defineAgent, defineApp } from ${JSON.stringify(PACKAGE)};
     export default defineApp({ agents: [defineAgent({ name: '${name}', instructions: 'something else' })] });`,
  );

/** A keyword of ours as an Int of temporal.api.enums.v1.IndexedValueType. */
const OTHER_TYPES = { AgentId: 3 };
const CURES = Object.fromEntries(Object.entries(FAILURES).map(([code, { cure }]) => [code, cure]));
/** What doctor mends. */
const FIXED = ['namespace', 'attributes', 'owner'];

const SET_UPS: readonly SetUp[] = [
  ['temporal_unreachable', 'temporal', () => ({ TEMPORAL_ADDRESS: '127.0.0.1:1' })],
  ['namespace_not_found', 'namespace', () => ({ TEMPORAL_NAMESPACE: 'agnets' })],
  ['attributes_missing', 'attributes', async () => ({ TEMPORAL_NAMESPACE: await namespace() })],
  ['temporal_not_ready', 'attributes', async () => ({ TEMPORAL_NAMESPACE: await namespace(OTHER_TYPES) })],
  ['store_unavailable', 'store', () => ({ AGENTTURN_STORE: `sqlite:${join(folder, 'nowhere', 'agentturn.db')}` })],
  ['store_unavailable', 'store', () => ({ AGENTTURN_STORE: 'postgres://nobody:wrong@127.0.0.1:1/agents' })],
  ['store_corrupt', 'store', () => ({ AGENTTURN_STORE: `sqlite:${file('notes.db', 'These are notes. '.repeat(99))}` })],
  ['store_mismatch', 'owner', async () => ({ AGENTTURN_STORE: await newStore() })],
  ['no_supervisor', 'supervisor', async () => ({ AGENTTURN_STORE: await newStore() })],
  ['journal_unavailable', 'journal', () => ({ AGENTTURN_JOURNAL: file('no-folder', 'a file') })],
  ['app_not_loaded', 'app', () => ({ AGENTTURN_APP: file('broken-app.ts', 'export default {') })],
  ['agent_not_registered', 'versions', () => ({ AGENTTURN_APP: appOf('stranger') })],
  ['agent_outdated', 'versions', () => ({ AGENTTURN_APP: appOf('clerk') })],
  ['provider_error', 'model', () => ({ OPENAI_BASE_URL: 'http://127.0.0.1:1' })],
  ['provider_auth', 'model', () => ({ OPENAI_BASE_URL: `http://127.0.0.1:${(strict.address() as AddressInfo).port}` })],
  ['model_not_found', 'model', () => ({ AGENTTURN_MODEL: 'gpt-nine' })],
];

test('finds nothing wrong where all is there', async () => {
  const { code, findings } = await examined(place());
  expect(findings.filter(({ ok }) => ok !== true)).toEqual([]);
  expect(findings.map(({ check }) => check)).toEqual([
    ...['temporal', 'namespace', 'attributes', 'store', 'clock', 'supervisor', 'owner'],
    ...['app', 'versions', 'model', 'workers', 'workers'],
  ]);
  expect(code).toBe(0);
});

describe('finds a broken installation by its name, with a cure', () => {
  test.each(SET_UPS)('%s', async (problem, check, env) => {
    const { code, findings } = await examined({ ...place(), ...(await env()) });
    const found = findings.filter((finding) => finding.problem === problem);
    // An error may know a better one than the catalogue.
    const cure = { ...CURES, ...DEFECTS }[problem] === undefined ? undefined : expect.stringMatching(/[a-z]/);
    expect(found).toEqual([{ check, ok: false, problem, what: expect.any(String), cure }]);
    expect(code).toBe(1);
  });

  test('target_not_served', async () => {
    const lonely = await openHarness();
    try {
      // It serves one of the two targets of its app.
      await lonely.startWorker(app, model, { targets: TARGETS.slice(0, 1) });
      const own = { TEMPORAL_NAMESPACE: lonely.namespace, AGENTTURN_STORE: lonely.storeUrl };
      const { findings } = await examined({ ...place(), ...own });
      const wrong = findings.filter(({ ok }) => ok === false);
      expect(wrong).toMatchObject([{ check: 'workers', problem: 'target_not_served' }]);
      expect(wrong[0]?.what).toContain('worker_remote');
      // Nobody says that the agents there are wanted, until a turn is.
      const { AGENTTURN_APP: _, ...unnamed }: Env = { ...place(), ...own };
      const remote = async () => (await examined(unnamed)).findings.find(({ what }) => what.includes('worker_remote'));
      expect(await remote()).toMatchObject({ check: 'workers', ok: null });
      await lonely.client.agent('rita').enqueue({ instruction: 'hi', profile: 'remote' });
      expect(await remote()).toMatchObject({ ok: false, problem: 'target_not_served' });
    } finally {
      await lonely.close();
    }
  });

  test('clock_skew', async () => {
    const env = { ...place(), AGENTTURN_STORE: await freshSchemaUrl(), NODE_OPTIONS: `--import ${AN_HOUR_LATER}` };
    await (await openStore(env.AGENTTURN_STORE)).close();
    const { code, stdout } = await startCli(['doctor'], { env }).finished();
    expect(code).toBe(1);
    expect(stdout).toMatch(/WRONG +clock +\[clock_skew\] this machine's clock is 3600 s ahead of the store's/);
    expect(stdout).toContain(`cure: ${DEFECTS.clock_skew}`);
  });
});

test('direct_unreachable', async () => {
  const env = {
    ...place(),
    AGENTTURN_STORE: await freshSchemaUrl(),
    AGENTTURN_STORE_DIRECT: 'postgres://127.0.0.1:1/a',
  };
  await (await openStore(env.AGENTTURN_STORE)).close();
  const found = (await examined(env)).findings.filter(({ check }) => check === 'store');
  expect(found).toMatchObject([
    { ok: true },
    { ok: false, problem: 'direct_unreachable', cure: DEFECTS.direct_unreachable },
  ]);
  const { findings } = await examined({
    ...env,
    AGENTTURN_STORE_DIRECT: env.AGENTTURN_STORE.replace(/\/\w+\?/, '/template1?'),
  });
  expect(findings).toContainEqual(expect.objectContaining({ check: 'store', problem: 'invalid_config' }));
});

test('says of everything that is wrong what to do about it, whatever else is wrong', async () => {
  const { code, findings } = await examined({
    TEMPORAL_ADDRESS: '127.0.0.1:1',
    AGENTTURN_STORE: 'sqlite:/nowhere/agentturn.db',
    OPENAI_BASE_URL: 'http://127.0.0.1:1',
    AGENTTURN_APP: '/nowhere/app.ts',
  });
  expect(code).toBe(1);
  expect(findings.map(({ check, ok, problem }) => [check, ok, problem])).toEqual([
    ['temporal', false, 'temporal_unreachable'],
    ['store', false, 'store_unavailable'],
    ['app', false, 'app_not_loaded'],
    ['model', false, 'provider_error'],
  ]);
});

test('says what has several lines in one column', async () => {
  const lines: string[] = [];
  const say = (line: string) => void lines.push(line);
  const app = file(
    'mistaken-app.ts',
    `import { defineAgent } from ${JSON.stringify(PACKAGE)};\ndefineAgent({ name: 'a b', budgets: { maxSteps: 0 } });`,
  );
  await doctor(
    readConfig({ TEMPORAL_ADDRESS: '127.0.0.1:1' }),
    { out: say, err: say, live: false, readStdin: async () => '' },
    { app },
  );
  expect(lines.filter((line) => !/^((ok|WRONG|-) {2,}\w+ {2,}| {9,})\S/.test(line))).toEqual([]);
  expect(lines.length).toBeGreaterThan(6);
});

test('checks no model and no app where none is named', async () => {
  const { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, AGENTTURN_STORE } = place();
  const { findings } = await examined({ TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, AGENTTURN_STORE } as Env);
  expect(findings.filter(({ ok }) => ok === null).map(({ check }) => check)).toEqual(['app', 'model']);
  expect(findings.filter(({ check }) => check === 'workers')).toHaveLength(2);
});

describe('with --fix', () => {
  test('makes the namespace and its search attributes, and gives it to the store', async () => {
    const own = { ...place(), TEMPORAL_NAMESPACE: `made-${v7()}` };
    const ok = ({ findings }: Examined) => findings.flatMap(({ check, ok }) => (FIXED.includes(check) ? [ok] : []));
    expect(ok(await examined(own))).toEqual([false]);
    expect(ok(await examined(own, true))).toEqual([true, true, true]);
    expect(ok(await examined(own))).toEqual([true, true, true]);
  });

  test('gives the namespace of another store to this one', async () => {
    const own = { ...place(), TEMPORAL_NAMESPACE: `made-${v7()}` };
    await examined(own, true);
    const other = { ...own, AGENTTURN_STORE: await newStore() };
    const owner = ({ findings }: Examined) => findings.find(({ check }) => check === 'owner');
    expect(owner(await examined(other))).toMatchObject({ problem: 'store_mismatch' });
    expect(owner(await examined(other, true))?.ok).toBe(true);
    expect(owner(await examined(own))).toMatchObject({
      problem: 'store_mismatch',
      what: expect.stringContaining(other.AGENTTURN_STORE.slice('sqlite:'.length)),
    });
  });
});

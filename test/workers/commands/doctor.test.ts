/** `doctor` on installations that are well, and on such that lack something. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { doctor, type Finding } from '../../../workers/commands/doctor.ts';
import { readConfig } from '../../../workers/config.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { openStore } from '../../../workers/open-store.ts';
import { testApp } from '../../support/app.ts';
import { type Harness, openHarness } from '../../support/harness.ts';

const APP = fileURLToPath(new URL('../../client/cli/fixture-app.ts', import.meta.url));

let harness: Harness;
let model: ScriptedServer;
beforeAll(async () => {
  harness = await openHarness();
  model = await startScriptedModel({ scripts: {} });
});
afterAll(async () => {
  await harness?.close();
  await model?.close();
});

/** What it finds with this environment, and its exit code. */
async function examined(
  env: Record<string, string>,
  app?: string,
  fix = false,
): Promise<{ code: number; found: Map<string, Finding> }> {
  const lines: string[] = [];
  const say = (line: string) => void lines.push(line);
  const io = { out: say, err: say, live: false, readStdin: () => Promise.resolve('') };
  const code = await doctor(readConfig(env), io, { json: true, fix, ...(app === undefined ? {} : { app }) });
  const { findings } = JSON.parse(lines.join('')) as { findings: readonly Finding[] };
  return { code, found: new Map(findings.map((finding) => [finding.check, finding])) };
}

const place = () => ({
  TEMPORAL_ADDRESS: harness.address,
  TEMPORAL_NAMESPACE: harness.namespace,
  AGENTTURN_STORE: `sqlite:${harness.storePath}`,
  OPENAI_BASE_URL: model.url,
});

test('finds nothing wrong where all is there, and says which target nobody serves', async () => {
  const unserved = await examined(place(), APP);
  expect(unserved.code).toBe(1);
  expect(unserved.found.get('workers')).toMatchObject({
    ok: false,
    what: expect.stringContaining('--targets worker_generic'),
  });
  await harness.startWorker(testApp([]), model, { targets: ['worker_generic', 'worker_remote'] });
  const { code, found } = await examined(place(), APP);
  expect([...found.values()].filter(({ ok }) => ok !== true)).toEqual([]);
  expect([...found.keys()]).toEqual(['temporal', 'namespace', 'clock', 'store', 'owner', 'model', 'app', 'workers']);
  expect(code).toBe(0);
});

test('says of everything that is wrong what to do about it, whatever else is wrong', async () => {
  const { code, found } = await examined(
    {
      TEMPORAL_ADDRESS: '127.0.0.1:1',
      AGENTTURN_STORE: 'sqlite:/nowhere/agentturn.db',
      OPENAI_BASE_URL: 'http://127.0.0.1:1',
    },
    '/nowhere/app.ts',
  );
  expect(code).toBe(1);
  const wrong = [...found.values()]
    .filter(({ ok }) => ok === false)
    .map(({ check, what }) => [check, what.split(']')[0]]);
  expect(wrong).toEqual([
    ['temporal', '[temporal_unreachable'],
    ['store', '[store_unavailable'],
    ['model', '[provider_error'],
    ['app', '[app_not_loaded'],
  ]);
});

test('checks no model and no app where none is named', async () => {
  const { OPENAI_BASE_URL: _, ...rest } = place();
  const { found } = await examined(rest);
  expect([found.get('model')?.ok, found.get('app')?.ok]).toEqual([null, null]);
});

test('finds that the namespace belongs to another store, and gives it to this one when it is asked to', async () => {
  await harness.startWorker(testApp([]), model);
  const path = join(mkdtempSync(join(tmpdir(), 'agentturn-other-')), 'other.db');
  await (await openStore(`sqlite:${path}`)).close();
  const other = { ...place(), AGENTTURN_STORE: `sqlite:${path}` };
  const { code, found } = await examined(other);
  expect(code).toBe(1);
  expect(found.get('owner')).toMatchObject({ ok: false, what: expect.stringContaining(harness.storePath) });
  expect((await examined(other, undefined, true)).found.get('owner')?.ok).toBe(true);
  expect((await examined(other)).found.get('owner')?.ok).toBe(true);
  expect((await examined(place())).found.get('owner')).toMatchObject({
    ok: false,
    what: expect.stringContaining(path),
  });
  await examined(place(), undefined, true);
});

/** The settings of a process: its environment and its app module. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { loadApp } from '../../workers/app-module.ts';
import { readConfig } from '../../workers/config.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';

const folder = mkdtempSync(join(tmpdir(), 'agentturn-config-'));
/** No profile file of the person who runs the tests. */
const read = (env: Record<string, string>) => readConfig({ XDG_CONFIG_HOME: folder, ...env });

function complaint(env: Record<string, string>): string {
  try {
    read(env);
  } catch (error) {
    if (error instanceof CodedError && error.code === 'invalid_config') return error.message;
    throw error;
  }
  throw new Error(`expected invalid_config, and ${JSON.stringify(env)} was accepted`);
}

describe('the environment', () => {
  test('may be empty: everything has a default', () => {
    expect(read({})).toMatchObject({
      storeUrl: undefined,
      storeAccess: { connections: 10 },
      appModule: undefined,
      workerTargets: ['worker_generic'],
      logFormat: 'text',
      supervisor: 'process',
      model: { apiKey: undefined, baseUrl: undefined, defaultModel: 'gpt-5-mini' },
      temporal: undefined,
      path: '',
      cacheHome: undefined,
    });
  });

  const all = {
    AGENTTURN_STORE: 'sqlite:/tmp/a.db',
    AGENTTURN_STORE_CONNECTIONS: '7',
    AGENTTURN_STORE_DIRECT: 'postgres://db/agents',
    AGENTTURN_APP: './app.ts',
    AGENTTURN_MODEL: 'small',
    AGENTTURN_WORKER_TARGETS: 'ui_worker, sandbox',
    AGENTTURN_LOG: 'json',
    AGENTTURN_SUPERVISOR: 'schedule',
    OPENAI_API_KEY: 'sk-1',
    OPENAI_BASE_URL: 'http://127.0.0.1:8080/v1',
    PATH: '/bin',
    XDG_CACHE_HOME: '/cache',
    AGENTTURN_GATEWAY_PORT: '8090',
    AGENTTURN_GATEWAY_TOKEN: 'a-token-that-is-long-enough',
    AGENTTURN_GATEWAY_TOKENS: '/tmp/tokens.json',
    TEMPORAL_ADDRESS: 'localhost:7233',
    TEMPORAL_NAMESPACE: 'mine',
  };

  test('is read as it is given', () => {
    expect(read(all)).toEqual({
      storeUrl: 'sqlite:/tmp/a.db',
      storeAccess: { connections: 7, direct: 'postgres://db/agents' },
      appModule: './app.ts',
      workerTargets: ['ui_worker', 'sandbox'],
      logFormat: 'json',
      supervisor: 'schedule',
      model: { apiKey: 'sk-1', baseUrl: 'http://127.0.0.1:8080/v1', defaultModel: 'small' },
      temporal: { address: 'localhost:7233', namespace: 'mine', credentials: {} },
      gateway: { port: 8090, token: 'a-token-that-is-long-enough', tokensFile: '/tmp/tokens.json' },
      path: '/bin',
      cacheHome: '/cache',
    });
  });

  test.each(Object.keys(all))('with %s empty is as if it were not set', (name) => {
    const { [name as keyof typeof all]: _, ...others } = all;
    expect(read({ ...all, [name]: '' })).toEqual(read(others));
  });

  test.each([
    ['AGENTTURN_STORE', 'mysql://db'],
    ['AGENTTURN_STORE', 'sqlite:'],
    ['AGENTTURN_STORE_DIRECT', 'sqlite:/tmp/a.db'],
    ['AGENTTURN_STORE_CONNECTIONS', '2'],
    ['AGENTTURN_STORE_CONNECTIONS', 'many'],
    ['AGENTTURN_STORE_CONNECTIONS', '2.5'],
    ['AGENTTURN_STORE_CONNECTIONS', '-3'],
    ['AGENTTURN_WORKER_TARGETS', 'a.b'],
    ['AGENTTURN_SUPERVISOR', 'cron'],
    ['AGENTTURN_WORKER_TARGETS', 'good,,also_good'],
    ['AGENTTURN_WORKER_TARGETS', 'UPPER'],
    ['AGENTTURN_WORKER_TARGETS', ','],
    ['OPENAI_BASE_URL', 'localhost:8080'],
    ['OPENAI_BASE_URL', 'ftp://host/v1'],
    ['OPENAI_BASE_URL', 'not a url'],
  ])('with %s=%s is invalid_config that names it', (name, value) => {
    expect(complaint({ [name]: value })).toContain(name);
  });

  test('names all that is wrong at once', () => {
    const message = complaint({ AGENTTURN_STORE: 'x', OPENAI_BASE_URL: 'y' });
    expect(message).toContain('AGENTTURN_STORE');
    expect(message).toContain('OPENAI_BASE_URL must be an http(s) URL, and is "y"');
    // It may hold a password.
    expect(message).not.toContain('"x"');
  });

  test('has signing keys that are long enough, several with commas between them, and shows none in a complaint', () => {
    const [first, second] = ['f'.repeat(32), 's'.repeat(40)];
    expect(read({ AGENTTURN_SIGNING_KEY: `${first}, ${second}` }).signingKeys).toEqual([first, second]);
    expect(read({ AGENTTURN_SIGNING_KEY: first }).signingKeys).toEqual([first]);
    for (const wrong of ['short-key', `${first},short-key`]) {
      const said = complaint({ AGENTTURN_SIGNING_KEY: wrong });
      expect(said).toMatch(/AGENTTURN_SIGNING_KEY/);
      expect(said).toMatch(/at least 32 bytes/);
      expect(said).not.toContain('short-key');
    }
    expect(complaint({ AGENTTURN_GATEWAY_URL: 'gateway.example' })).toMatch(/AGENTTURN_GATEWAY_URL/);
  });

  test('never shows the API key in a complaint', () => {
    expect(complaint({ OPENAI_API_KEY: 'sk-secret', AGENTTURN_STORE: 'x' })).not.toContain('sk-secret');
  });
});

describe('the Temporal server', () => {
  test('is that of the environment, with its credentials', () => {
    const { temporal } = read({
      TEMPORAL_ADDRESS: 'cloud:7233',
      TEMPORAL_API_KEY: 'key',
      TEMPORAL_GRPC_META_X_TEAM: 'blue',
    });
    expect(temporal).toMatchObject({ address: 'cloud:7233', namespace: 'default' });
    expect(temporal?.credentials).toMatchObject({ tls: true, apiKey: 'key' });
  });

  test('is that of a profile file, which the environment overrides', () => {
    const file = join(folder, 'profiles.toml');
    writeFileSync(file, '[profile.default]\naddress = "from-file:7233"\nnamespace = "filed"\n');
    const env = { TEMPORAL_CONFIG_FILE: file };
    expect(read(env).temporal).toMatchObject({ address: 'from-file:7233', namespace: 'filed' });
    expect(read({ ...env, TEMPORAL_NAMESPACE: 'other' }).temporal).toMatchObject({ namespace: 'other' });
  });

  test('is the address every client assumes when only a namespace is named', () => {
    expect(read({ TEMPORAL_NAMESPACE: 'mine' }).temporal).toMatchObject({
      address: 'localhost:7233',
      namespace: 'mine',
    });
  });

  test('is none when nothing names an address', () => {
    expect(read({}).temporal).toBeUndefined();
    expect(read({ TEMPORAL_CONFIG_FILE: join(folder, 'nowhere.toml') }).temporal).toBeUndefined();
  });

  const broken = join(folder, 'broken.toml');
  writeFileSync(broken, '[profile.default\naddress = ');
  test.each([
    ['profile that is not there', { TEMPORAL_PROFILE: 'nobody' }, 'nobody'],
    ['profile file that does not parse', { TEMPORAL_CONFIG_FILE: broken }, 'TOML'],
    [
      'certificate that is not there',
      { TEMPORAL_ADDRESS: 'a:1', TEMPORAL_TLS_CLIENT_CERT_PATH: '/nowhere.pem' },
      '/nowhere.pem',
    ],
  ])('with a %s is invalid_config that says so', (_, env, reason) => {
    const message = complaint(env);
    expect(message).toContain('TEMPORAL_');
    expect(message).toContain(reason);
  });
});

describe('an app module', () => {
  const module = (name: string, text: string): string => {
    const file = join(folder, name);
    writeFileSync(file, text);
    return file;
  };

  test('is what its default export defines', async () => {
    const app = 'export default { agents: new Map([["a", {}]]), tools: new Map(), prices: new Map() };';
    expect((await loadApp(module('good.mjs', app))).agents.has('a')).toBe(true);
  });

  test.each([
    ['is not there', () => join(folder, 'nowhere.mjs'), 'nowhere.mjs'],
    ['does not parse', () => module('syntax.mjs', 'export default {'), 'could not be loaded'],
    ['throws', () => module('throws.mjs', 'throw new Error("no database");'), 'no database'],
    ['throws what is no error', () => module('odd.mjs', 'throw "just a text";'), 'just a text'],
    ['has no default export', () => module('none.mjs', 'export const app = 1;'), 'defineApp'],
    ['exports something else', () => module('other.mjs', 'export default { agents: [], tools: [] };'), 'defineApp'],
  ])('that %s is app_not_loaded with its path and the reason', async (_, make, reason) => {
    const file = make();
    const error = await loadApp(file).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({ code: 'app_not_loaded' });
    expect(String(error)).toContain(file);
    expect(String(error)).toContain(reason);
  });

  test('may be named by a path relative to where the process runs', async () => {
    await expect(loadApp('no-such-app.ts')).rejects.toThrow(join(process.cwd(), 'no-such-app.ts'));
  });
});

/** The demo with a model endpoint of the user's: servers that are not ours, wrong, down, or refusing. */
import { existsSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import { LLMock } from '@copilotkit/aimock';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { emptyFolder, type Finished, jsonOf, runCli } from '../../client/cli/processes.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { type DemoJson, documents, effectsOf, QUESTION } from './documents.ts';

const folder = documents();
let harness: Harness;

beforeAll(async () => {
  harness = await openHarness();
});
afterAll(() => harness?.close());

const demo = (env: Readonly<Record<string, string>>, cwd = emptyFolder()): Promise<Finished> =>
  runCli(['demo', QUESTION, '--dir', folder.dir, '--answer', 'yes', '--json'], { cwd, env });

const onServer = (env: Readonly<Record<string, string>>): Promise<Finished> =>
  demo({
    TEMPORAL_ADDRESS: harness.address,
    TEMPORAL_NAMESPACE: harness.namespace,
    AGENTTURN_STORE: `sqlite:${harness.storePath}`,
    ...env,
  });

async function answering(status: number): Promise<{ readonly url: string; close(): void }> {
  const server: Server = createServer((_, response) => response.writeHead(status).end('{"error":{"message":"no"}}'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return { url: `http://127.0.0.1:${port}/v1`, close: () => void server.close() };
}

describe('an endpoint that cannot work', () => {
  async function refused(env: Readonly<Record<string, string>>): Promise<{ code: string; message: string }> {
    const cwd = emptyFolder();
    const ended = await demo(env, cwd);
    expect(ended.code).toBe(1);
    // Found before anything was started or written.
    expect(existsSync(join(cwd, '.agentturn'))).toBe(false);
    return jsonOf<{ error: { code: string; message: string } }>(ended).error;
  }

  test('nothing listens: provider_error with the URL', async () => {
    const closed = await answering(200);
    closed.close();
    const error = await refused({ OPENAI_BASE_URL: closed.url });
    expect(error).toMatchObject({ code: 'provider_error', message: expect.stringContaining(closed.url) });
  });

  test.each([
    [401, 'provider_auth', 'OPENAI_API_KEY'],
    [503, 'provider_error', 'OPENAI_BASE_URL'],
  ])('%d: %s', async (status, code, cure) => {
    const server = await answering(status);
    try {
      const error = await refused({ OPENAI_BASE_URL: server.url, OPENAI_API_KEY: 'wrong' });
      expect(error).toMatchObject({ code, message: expect.stringContaining(cure) });
    } finally {
      server.close();
    }
  });

  test('no URL at all: invalid_config with the variable', async () => {
    const error = await refused({ OPENAI_BASE_URL: 'localhost' });
    expect(error).toMatchObject({ code: 'invalid_config', message: expect.stringContaining('OPENAI_BASE_URL') });
  });
});

describe('an endpoint that fails later', () => {
  async function failing(env: Readonly<Record<string, string>>): Promise<DemoJson> {
    const ended = await onServer(env);
    expect(ended.code).toBe(1);
    const report = jsonOf<DemoJson>(ended);
    const { agentId, agentTurnId } = report;
    const events = await harness.store.readEvents({ agentId, agentTurnId });
    expect(events.filter((event) => event.type === 'task')).toHaveLength(1);
    return report;
  }

  test('a key refused by the model: the turn ends with provider_auth and one task event', async () => {
    const model = await startScriptedModel([{ kind: 'error', status: 401, message: 'bad key' }]);
    try {
      const env = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'wrong' };
      expect(await failing(env)).toMatchObject({ ok: false, status: 'failed', error: { code: 'provider_auth' } });
    } finally {
      await model.close();
    }
  });

  test('a URL without such a service (404): the turn ends with provider_error and one task event', async () => {
    const server = await answering(404);
    try {
      const report = await failing({ OPENAI_BASE_URL: server.url });
      expect(report).toMatchObject({ ok: false, status: 'failed', error: { code: 'provider_error' } });
    } finally {
      server.close();
    }
  });
});

/** @copilotkit/aimock speaks the wire independently of this project. */
describe('an OpenAI-compatible server of others', () => {
  const source = { path: 'guide/retries.md', line: 3, quote: 'A failed job is retried five times' };
  const fields = [
    { name: 'answer', value: 'Five times.' },
    { name: 'sources', value: [source] },
  ];
  const call = (name: string, args: object) => ({ toolCalls: [{ name, arguments: JSON.stringify(args) }] });
  let mock: LLMock;

  beforeAll(async () => {
    mock = new LLMock({ port: 0 });
    mock.onTurn(0, /failed job/, call('list_files', {}));
    mock.onTurn(1, /failed job/, call('confirm_scope', { question: QUESTION, plan: 'read the guide' }));
    mock.onTurn(2, /failed job/, {
      toolCalls: [
        { name: 'search_text', arguments: '{"query":"failed retried"}' },
        { name: 'read_file', arguments: '{"path":"guide/retries.md"}' },
        { name: 'read_file', arguments: '{"path":"../../../etc/passwd"}' },
      ],
    });
    mock.onTurn(3, /failed job/, call('submit_result', { fields }));
    await mock.start();
  });
  afterAll(() => mock?.stop());

  test('carries a whole demo', async () => {
    const ended = await onServer({
      OPENAI_BASE_URL: `${mock.url}/v1`,
      OPENAI_API_KEY: 'mock',
      AGENTTURN_MODEL: 'gpt-4o',
    });
    const report = jsonOf<DemoJson>(ended);
    expect(report).toMatchObject({
      ok: true,
      status: 'success',
      offline: false,
      answer: 'Five times.',
      sources: [source],
    });
    // Calls of one step run at the same time.
    const tools = effectsOf(report).map((effect) => effect.tool);
    expect(tools.slice(0, 2)).toEqual(['list_files', 'confirm_scope']);
    expect(tools.slice(2).sort()).toEqual(['read_file', 'read_file', 'search_text']);
    expect(report.turn.stepCount).toBe(4);
    const asked = mock.getRequests().filter((entry) => entry.path.endsWith('/chat/completions'));
    expect(asked).toHaveLength(4);
    expect(JSON.stringify(asked.at(-1)?.body)).toContain('there is no file');
    expect(ended.code).toBe(0);
  });
});

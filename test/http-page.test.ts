/** docs/http.md: its walk through the HTTP interface in one shell, and its program, as they stand there. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type CliProcess, startCli } from './client/cli/processes.ts';
import { type Harness, openHarness } from './support/harness.ts';
import { Shell } from './support/shell.ts';
import { WAIT } from './support/wait.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PAGE = readFileSync(join(ROOT, 'docs/http.md'), 'utf8');
const APP = join(ROOT, 'examples/01-weather-app.ts');

const blocks = (language: string): string[] =>
  [...PAGE.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].flatMap(([, text]) => text ?? []);

let harness: Harness;
let dev: CliProcess;
let env: NodeJS.ProcessEnv;

beforeAll(async () => {
  harness = await openHarness();
  const place = {
    // The example imports the package by its name: from the sources, which need no build.
    NODE_OPTIONS: '--conditions=agentturn:source',
    TEMPORAL_ADDRESS: harness.address,
    TEMPORAL_NAMESPACE: harness.namespace,
    AGENTTURN_STORE: harness.storeUrl,
  };
  dev = startCli(['dev', '--app', APP, '--json'], { env: place });
  const [line] = await dev.until(/\{"ready".*\n/);
  const { url, token } = (JSON.parse(line) as { ready: { gateway: { url: string; token: string } } }).ready.gateway;
  env = { ...process.env, ...place, URL: url, TOKEN: token };
}, WAIT.timeoutMs);
afterAll(async () => {
  await dev?.end('SIGTERM');
  await harness?.close();
});

test('the walk works as it is printed', async () => {
  const walk = blocks('sh').filter((block) => !block.startsWith('npx'));
  // What each command says begins a line of its own.
  const script = `set -eu\n${walk.join('\necho\n')}`;
  const { code, output } = await new Shell(script, { cwd: ROOT, env }).ended();
  expect({ code, output }).toMatchObject({ code: 0 });
  expect(output).toContain('"status":"success"');
  expect(output).toMatch(/event: text\ndata: .*\n/);
  expect(output).toMatch(/event: result\ndata: .*"tool":"forecast"/);
  expect(output).toContain('event: done');
  expect(output.match(/"ack":"applied"/g)).toHaveLength(3);
  expect(output).toContain('warm and dry');
  expect(output).toContain('"booked":"Rome"');
  expect(output).toContain('"price":200');
  expect(output).toContain('"answeredBy":"dev"');
  expect(output).toMatch(/\{"node":"turn",.*"children":\[\{"node":"call",.*"tool":"book"/m);
  expect(output).toMatch(/"ack":"(stopped|canceled)"/);
  expect(output).toMatch(/\{"disposition":"(woken|kept)"\}\{"disposition":"duplicate"\}/);
  expect(output).toContain('"revoked":true');
  expect(output).toMatch(/"agentId":"ann","disposition":"(woken|kept)"/);
  expect(output).toMatch(/Send the next message[^\n]*\ncompleted\n/);
  expect(output).toMatch(/"total":\d+,"readAt":\d+/);
});

test('the program works as it is printed', async () => {
  const [program = ''] = blocks('ts');
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-http-'));
  const file = join(folder, 'program.ts');
  writeFileSync(file, program.replace("'agentturn'", JSON.stringify(join(ROOT, 'index.ts'))));
  const { code, output } = await new Shell(`"${process.execPath}" "${file}"`, { cwd: ROOT, env }).ended();
  expect({ code, output }).toMatchObject({ code: 0 });
  expect(output).toContain('calls forecast {"city":"Rome"}');
  expect(output).toMatch(/^ended: success$/m);
});

test('a token that the command makes works until it is made anew, and is kept as its hash alone', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-tokens-'));
  const tokens = join(folder, 'tokens.json');
  const here = { ...env, AGENTTURN_GATEWAY_TOKENS: tokens, AGENTTURN_GATEWAY_PORT: '0' } as Record<string, string>;
  const [first = ''] = blocks('sh').filter((block) => block.startsWith('npx'));
  const made: string[] = [];
  for (const line of [...first.trim().split('\n'), ...first.trim().split('\n').slice(0, 1)]) {
    const { code, stdout } = await startCli(line.replace('npx agentturn ', '').split(' '), { env: here }).finished();
    expect(code).toBe(0);
    made.push(stdout.trim());
  }
  const [old = '', acme = '', team = '', ann = ''] = made;
  const kept = readFileSync(tokens, 'utf8');
  for (const token of made) expect(kept).not.toContain(token);
  const gateway = startCli(['gateway', '--json'], { env: here });
  const [line] = await gateway.until(/\{"ready".*\n/);
  const { url } = (JSON.parse(line) as { ready: { url: string } }).ready;
  const status = async (token: string, path: string) =>
    (await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${token}` } })).status;
  expect(await status(old, '/v1/agents')).toBe(401);
  expect(await status(ann, '/v1/agents/ann')).toBe(200);
  for (const other of [team, acme]) expect(await status(other, '/v1/agents/ann')).toBe(404);
  expect((await fetch(`${url}/readyz`)).status).toBe(200);
  const { code } = await gateway.end('SIGTERM');
  expect(code).toBe(0);
});

test('the commands of webhooks work as they are printed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-webhooks-'));
  const here = { ...env, AGENTTURN_GATEWAY_WEBHOOKS: join(folder, 'webhooks.json') } as Record<string, string>;
  const block = blocks('sh').find((each) => each.includes('gateway webhook ')) ?? '';
  const outputs: string[] = [];
  for (const line of block.trim().split('\n')) {
    const { code, stdout } = await startCli(line.replace('npx agentturn ', '').split(' '), { env: here }).finished();
    expect(code).toBe(0);
    outputs.push(stdout);
  }
  expect(outputs.slice(0, 3)).toEqual(Array(3).fill(expect.stringMatching(/^whsec_/)));
  expect(outputs[3]).toMatch(/pager[\s\S]*chat[\s\S]*acme/);
});

test('a gateway without tokens does not start, and one without Temporal serves what there is', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-tokens-'));
  const here = { ...env, AGENTTURN_GATEWAY_TOKENS: join(folder, 'none.json'), AGENTTURN_GATEWAY_PORT: '0' } as Record<
    string,
    string
  >;
  const refused = await startCli(['gateway'], { env: here }).finished();
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('gateway token NAME');
  const gateway = startCli(['gateway', '--json'], {
    env: { ...here, TEMPORAL_ADDRESS: '127.0.0.1:1', AGENTTURN_GATEWAY_TOKEN: 'a-token-that-is-long-enough' },
  });
  const [line] = await gateway.until(/\{"ready".*\n/);
  const { url } = (JSON.parse(line) as { ready: { url: string } }).ready;
  const headers = { authorization: 'Bearer a-token-that-is-long-enough', 'content-type': 'application/json' };
  expect((await fetch(`${url}/readyz`)).status).toBe(503);
  const read = await fetch(`${url}/v1/agents`, { headers });
  expect([read.status, read.headers.get('agentturn-temporal')]).toEqual([200, 'unreachable']);
  const body = JSON.stringify({ instruction: 'x', profile: 'weather' });
  const written = await fetch(`${url}/v1/agents/ann/turns`, { method: 'POST', headers, body });
  expect(written.status).toBe(503);
  expect(await written.json()).toMatchObject({ code: 'temporal_unreachable' });
  await gateway.end('SIGTERM');
});

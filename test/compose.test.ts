/** examples/compose: the processes that its file starts, with the commands and the environment that it gives them, and no containers. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { parse } from 'yaml';
import { z } from 'zod';
import manifest from '../package.json' with { type: 'json' };
import { doctor } from '../workers/commands/doctor.ts';
import { readConfig } from '../workers/config.ts';
import { type ModelServer, startModelServer } from '../workers/model-server/wire.ts';
import { findTemporalBinary } from '../workers/temporal/binary.ts';
import { type CliProcess, startCli } from './client/cli/processes.ts';
import { temporalAddress } from './support/harness.ts';
import { freshSchemaUrl } from './support/postgres.ts';
import { WAIT } from './support/wait.ts';

const FOLDER = fileURLToPath(new URL('../examples/compose', import.meta.url));
const STARTER = fileURLToPath(new URL('../examples/starter', import.meta.url));
const read = (file: string): string => readFileSync(join(FOLDER, file), 'utf8');

const condition = z.enum(['service_healthy', 'service_completed_successfully']);
const serviceSchema = z.looseObject({
  command: z.array(z.string()).default([]),
  entrypoint: z.array(z.string()).optional(),
  environment: z.record(z.string(), z.string()).default({}),
  depends_on: z.record(z.string(), z.object({ condition })).default({}),
  healthcheck: z.looseObject({ test: z.array(z.string()) }).optional(),
  deploy: z.object({ replicas: z.int() }).optional(),
  ports: z.array(z.string()).default([]),
});
const fileSchema = z.looseObject({ services: z.record(z.string(), serviceSchema) });

/** The file as it is read with these variables. Errors: a variable that must be set and is not. */
function composed(env: Readonly<Record<string, string>>) {
  const filledIn = (text: string): string =>
    text.replace(/\$(?:\$|\{(\w+)(:[-?])([^}]*)\})/g, (whole, name, kind, rest) => {
      if (whole === '$$') return '$';
      const value = env[name] ?? '';
      if (value === '' && kind === ':?') throw new Error(`${name}: ${rest}`);
      return value === '' ? rest : value;
    });
  const reviver = (_: unknown, value: unknown) => (typeof value === 'string' ? filledIn(value) : value);
  return fileSchema.parse(parse(read('compose.yaml'), reviver, { merge: true })).services;
}

const SET = { POSTGRES_PASSWORD: 'abc123', AGENTTURN_GATEWAY_TOKEN: 'a-token-that-is-long-enough' };

test('what must be set is asked for, and .env.example names all that can be', () => {
  const inFile = new Set([...read('compose.yaml').matchAll(/(?<!\$)\$\{(\w+)/g)].map(([, name]) => name));
  const inExample = [...read('.env.example').matchAll(/^(\w+)=/gm)].map(([, name]) => name);
  expect([...inFile].filter((name) => !inExample.includes(name ?? ''))).toEqual(['TEMPORAL_NAMESPACE']);
  expect(inExample.filter((name) => !inFile.has(name ?? ''))).toEqual([]);
  expect(() => composed({ ...SET, POSTGRES_PASSWORD: '' })).toThrow('POSTGRES_PASSWORD: set it in .env');
  expect(() => composed({ ...SET, AGENTTURN_GATEWAY_TOKEN: '' })).toThrow('AGENTTURN_GATEWAY_TOKEN: set it in .env');
});

test('whoever is waited for tells how it is, and ports are open to this machine alone', () => {
  const services = composed(SET);
  for (const { depends_on: needs, ports } of Object.values(services)) {
    for (const [name, { condition: wanted }] of Object.entries(needs)) {
      const service = services[name];
      expect([name, service !== undefined]).toEqual([name, true]);
      if (wanted === 'service_healthy') expect(service?.healthcheck).toBeDefined();
    }
    for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
  }
});

test('the image runs the program of the package, as no root', () => {
  const file = read('Dockerfile');
  const [, entry = '[]'] = /^ENTRYPOINT (.*)$/m.exec(file) ?? [];
  expect(JSON.parse(entry)).toEqual(['node', `node_modules/${manifest.name}/${manifest.bin.agentturn}`]);
  expect(file).toMatch(/^USER node$/m);
});

describe('its processes', () => {
  const namespace = `compose-${v7()}`;
  const running: CliProcess[] = [];
  let model: ModelServer;
  let place: Readonly<Record<string, string>>;
  let services: ReturnType<typeof composed>;

  beforeAll(async () => {
    model = await startModelServer({
      answer: ({ messages }) =>
        messages.some(({ role }) => role === 'tool')
          ? { kind: 'message', content: 'It will be sunny.' }
          : { kind: 'message', toolCalls: [{ name: 'forecast', arguments: { city: 'Rome' } }] },
    });
    services = composed({ ...SET, TEMPORAL_NAMESPACE: namespace, OPENAI_BASE_URL: model.url });
    // What is elsewhere here, and a port that is free.
    place = {
      TEMPORAL_ADDRESS: temporalAddress(),
      AGENTTURN_STORE: await freshSchemaUrl(),
      AGENTTURN_GATEWAY_PORT: '0',
      NODE_OPTIONS: '--conditions=agentturn:source',
    };
  }, WAIT.timeoutMs);
  afterAll(async () => {
    await Promise.all(running.map((each) => each.end('SIGKILL')));
    await model?.close();
  });

  const environmentOf = (name: string) => ({ ...services[name]?.environment, ...place });

  function start(name: string): CliProcess {
    const started = startCli(services[name]?.command ?? [], { env: environmentOf(name), cwd: STARTER });
    running.push(started);
    return started;
  }

  test('the namespace is made once and found then; two workers and a gateway run a turn, and end when they are told to', async () => {
    const bin = mkdtempSync(join(tmpdir(), 'agentturn-compose-'));
    const { path } = await findTemporalBinary({ pathEnv: process.env.PATH ?? '', log: () => {} });
    symlinkSync(path, join(bin, 'temporal'));
    const [shell = '', ...flags] = services.namespace?.entrypoint ?? [];
    const args = [...flags, ...(services.namespace?.command ?? [])];
    const env = { ...environmentOf('namespace'), PATH: `${bin}:${process.env.PATH}`, HOME: bin };
    for (let times = 0; times < 2; times += 1) await promisify(execFile)(shell, args, { env });

    expect(services.worker?.deploy?.replicas).toBe(2);
    const workers = [start('worker'), start('worker')];
    const gateway = start('gateway');
    await Promise.all(workers.map((each) => each.until(/^ready: serving /m)));
    const [, url = ''] = await gateway.until(/^ready: (http:\/\/[\w.]+:\d+)/m);
    const at = `http://127.0.0.1:${new URL(url).port}`;

    const [, program = '', ...probe] = services.gateway?.healthcheck?.test ?? [];
    expect(program).toBe('node');
    const healthy = probe.map((word) => word.replace('http://127.0.0.1:7280', at));
    await promisify(execFile)(process.execPath, healthy);

    const headers = { authorization: `Bearer ${SET.AGENTTURN_GATEWAY_TOKEN}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ profile: 'weather', instruction: 'Is it sunny in Rome?' });
    const accepted = await fetch(`${at}/v1/agents/ann/turns`, { method: 'POST', headers, body });
    const { agentTurnId } = (await accepted.json()) as { agentTurnId: string };
    const ended = await fetch(`${at}/v1/turns/${agentTurnId}?waitSeconds=60`, { headers });
    expect(await ended.json()).toMatchObject({ status: 'success', deliverable: { text: 'It will be sunny.' } });

    const lines: string[] = [];
    const io = { out: (line: string) => void lines.push(line), err: () => {}, live: false, readStdin: async () => '' };
    await doctor(readConfig(environmentOf('worker')), io, { json: true, app: join(STARTER, 'app.ts') });
    const { findings } = JSON.parse(lines.join('')) as { findings: { check: string; ok: boolean; what: string }[] };
    // The model of the test is none that the endpoint lists.
    expect(findings.filter(({ ok, check }) => !ok && check !== 'model')).toEqual([]);

    const ends = await Promise.all([gateway, ...workers].map((each) => each.end('SIGTERM')));
    expect(ends.map(({ code }) => code)).toEqual([0, 0, 0]);
  });
});

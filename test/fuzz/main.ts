/**
 * `npm run fuzz`: schemathesis sends thousands of requests, most of them malformed, to all routes of a gateway that its OpenAPI document names: with
 * no token, with each scope alone, with all of them, and with all of them for an agent and a turn that there are. Every answer is checked
 * (checks.py), and nothing may have happened by what was refused. It takes some minutes, needs Python 3, and ends with 1 when anything was wrong.
 * With `--tenants` it is the border between two tenants that is tried (tenants.ts).
 */
import { type ExecFileException, execFile } from 'node:child_process';
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { SCOPES } from '../../client/gateway/caller.ts';
import { AgentHttpClient } from '../../client/http/http-client.ts';
import { defaultCacheDir } from '../../workers/temporal/binary.ts';
import { FAILURES } from '../../workflows/protocol/failures.ts';
import { startCli } from '../client/cli/processes.ts';
import { tenantsHold } from './tenants.ts';

const run = promisify(execFile);
const HERE = fileURLToPath(new URL('.', import.meta.url));
const APP = fileURLToPath(new URL('../../examples/01-weather-app.ts', import.meta.url));
const SCHEMATHESIS = 'schemathesis==4.32.5';
const VALIDATOR = 'openapi-spec-validator==0.9.0';
const CHECKS = [
  ...['not_a_server_error', 'status_code_conformance', 'content_type_conformance', 'response_schema_conformance'],
  ...['problem_of_the_catalogue', 'closed_without_scope'],
];
/** A gateway takes 100 requests a second of one token. */
const RATE = '80/s';
const PASS_MS = 10 * 60_000;
/** The events of an agent, and a chat, can be followed before anything was asked: nothing ends those streams. */
const ENDLESS = '^/v1/agents/\\{agentId\\}/(events|chats/\\{chatId\\}/stream)$';
const STREAMS = '/(events|stream|chat)$';

/** One run of schemathesis. */
interface Pass {
  readonly scope: string;
  readonly token: string | null;
  /** Operations that are left out. */
  readonly without?: string;
  /** What takes the place of generated path parameters. */
  readonly known?: Readonly<Record<string, string>>;
}

/** The folder of the programs, which are installed once. Errors: those of Python and pip. */
async function installed(): Promise<string> {
  const folder = join(defaultCacheDir(), SCHEMATHESIS.replace('==', '-'));
  const bin = join(folder, 'bin');
  if (existsSync(join(bin, 'schemathesis')) && existsSync(join(bin, 'openapi-spec-validator'))) return bin;
  console.error(`installing ${SCHEMATHESIS} in ${folder}`);
  await run('python3', ['-m', 'venv', folder]);
  await run(join(bin, 'pip'), ['install', '--quiet', SCHEMATHESIS, VALIDATOR]);
  return bin;
}

/** Whether the document is valid OpenAPI; why it is not is printed. */
async function isValid(bin: string, url: string): Promise<boolean> {
  const file = join(mkdtempSync(join(tmpdir(), 'agentturn-fuzz-')), 'openapi.json');
  writeFileSync(file, await (await fetch(`${url}/openapi.json`)).text());
  const { said, ok } = await run(join(bin, 'openapi-spec-validator'), [file]).then(
    ({ stdout }) => ({ said: stdout, ok: true }),
    (error: ExecFileException & { stdout: string }) => ({ said: error.stdout, ok: false }),
  );
  console.log(said.trim());
  return ok;
}

/** Whether every answer of a pass was as it must be; what was wrong is printed. */
async function held(program: string, url: string, { scope, token, without, known = {} }: Pass): Promise<boolean> {
  const parameters = Object.entries(known).map(([name, value]) => `${name} = ${JSON.stringify(value)}\n`);
  const config = join(mkdtempSync(join(tmpdir(), 'agentturn-fuzz-')), 'schemathesis.toml');
  writeFileSync(config, parameters.length > 0 ? `[parameters]\n${parameters.join('')}` : '');
  const args = [
    ...['--config-file', config, 'run', `${url}/openapi.json`, '--checks', CHECKS.join(',')],
    ...['--phases', 'examples,coverage,fuzzing', '--max-examples', '15', '--seed', '1', '--continue-on-failure'],
    ...['--request-timeout', '60', '--rate-limit', RATE],
    ...(token === null ? [] : ['--header', `Authorization: Bearer ${token}`]),
    ...(without === undefined ? [] : ['--exclude-path-regex', without]),
  ];
  const env = {
    ...process.env,
    PYTHONPATH: HERE,
    SCHEMATHESIS_HOOKS: 'checks',
    AGENTTURN_SCOPE: scope,
    AGENTTURN_CODES: JSON.stringify(Object.keys(FAILURES)),
  };
  const options = { env, cwd: tmpdir(), timeout: PASS_MS, maxBuffer: 64 * 1024 * 1024 };
  const { stdout, code } = await run(program, args, options).then(
    ({ stdout }) => ({ stdout, code: 0 }),
    (error: ExecFileException & { stdout: string }) => ({ stdout: error.stdout, code: error.code ?? 1 }),
  );
  const counted = /Test cases:\n\s*(.*)/.exec(stdout)?.[1] ?? 'no test case was counted';
  console.log(`${scope}${parameters.length > 0 ? ', of what there is' : ''}: ${code === 0 ? '' : 'WRONG: '}${counted}`);
  if (code !== 0) console.log(stdout);
  return code === 0;
}

async function main(): Promise<boolean> {
  const bin = await installed();
  const program = join(bin, 'schemathesis');
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-fuzz-'));
  const tokens = new Map<string, string>();
  for (const scope of SCOPES) {
    const made = await startCli(['gateway', 'token', scope, '--scopes', scope, '--data-dir', dir]).finished();
    tokens.set(scope, made.stdout.trim());
  }
  const env = { AGENTTURN_GATEWAY_PORT: '0', NODE_OPTIONS: '--conditions=agentturn:source' };
  const dev = startCli(['dev', '--app', APP, '--data-dir', dir, '--port', '0', '--ui-port', '0', '--json'], { env });
  try {
    const [line] = await dev.until(/\{"ready".*\n/);
    const { url, token } = (JSON.parse(line) as { ready: { gateway: { url: string; token: string } } }).ready.gateway;
    const client = new AgentHttpClient({ url, token });
    const passes: boolean[] = [await isValid(bin, url), await held(program, url, { scope: 'none', token: null })];
    const withToken = (scope: string): Pass => ({ scope, token: tokens.get(scope) ?? '', without: ENDLESS });
    for (const scope of ['read', 'approve', 'operate']) passes.push(await held(program, url, withToken(scope)));
    const made = await Array.fromAsync(client.listAgents({ oneShot: 'with' }));
    if (made.length > 0) console.log(`WRONG: ${made.length} agents were made without scope write`);
    passes.push(made.length === 0, await held(program, url, withToken('write')));
    passes.push(await held(program, url, { scope: 'all', token, without: ENDLESS }));
    const turn = await client
      .agent('ann', { profile: 'weather' })
      .enqueue({ instruction: 'call ask_person {"question":"?"}' });
    await client.chat('ann', 'trip').send('call forecast {"city":"Rome"}');
    const known = { agentId: 'ann', agentTurnId: turn.id, chatId: 'trip' };
    passes.push(await held(program, url, { scope: 'all', token, without: STREAMS, known }));
    return passes.every(Boolean);
  } finally {
    await dev.end('SIGTERM');
  }
}

process.exit((await (process.argv.includes('--tenants') ? tenantsHold() : main())) ? 0 : 1);

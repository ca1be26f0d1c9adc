/** `agentturn dev` as a process: everything up, used, drained; and what keeps it from starting. */
import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, test } from '@jest/globals';
import { GATEWAY_PORT } from '../../../workers/commands/gateway.ts';
import { settingsOf } from '../../../workers/commands/settings.ts';
import { startTemporal } from '../../../workers/commands/start-temporal.ts';
import { readConfig } from '../../../workers/config.ts';
import type { TurnView } from '../../../workflows/contract/views.ts';
import { emptyFolder, jsonOf, runCli, startCli } from '../../client/cli/processes.ts';

const APP = new URL('../../client/cli/fixture-app.ts', import.meta.url).pathname;
const servers: Server[] = [];
afterAll(() => {
  for (const server of servers) server.close();
});

async function takenPort(): Promise<number> {
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

interface Ready {
  readonly ready: {
    readonly temporal: string;
    readonly temporalPid: number;
    readonly webUi: string;
    readonly store: string;
    readonly offline: boolean;
    readonly agents: readonly string[];
    readonly targets: readonly string[];
  };
}

/** Holds the port, as soon as nobody else does: what runs beside this test may have it for a while. */
async function takePort(port: number): Promise<AsyncDisposable> {
  for (;;) {
    const server = createServer();
    const isTaken = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (isTaken) return { [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())) };
    await sleep(200);
  }
}

describe('dev', () => {
  test('a server that serves workers of another data folder is left alone, one that serves nobody is shared', async () => {
    const theirs = startCli(['dev', '--app', APP, '--port', '0', '--ui-port', '0', '--json'], { cwd: emptyFolder() });
    try {
      const [line] = await theirs.until(/\{"ready".*\n/);
      const { temporal } = (JSON.parse(line) as Ready).ready;
      const start = async (address: string) => {
        const settings = settingsOf(readConfig({ PATH: process.env.PATH }), { dataDir: emptyFolder() });
        const preferredPort = Number(address.split(':')[1]);
        return startTemporal(settings, { preferredPort, log: () => {} });
      };
      const ours = await start(temporal);
      try {
        expect(ours.started).toBe(true);
        expect(ours.address).not.toBe(temporal);
        // No worker polls it.
        expect(await start(ours.address)).toMatchObject({ started: false, address: ours.address });
      } finally {
        await ours.stop();
      }
    } finally {
      await theirs.end();
    }
  });

  test('says that the file of its app has changed since it was loaded', async () => {
    const cwd = emptyFolder();
    const app = join(cwd, 'app.ts');
    writeFileSync(app, `export { default } from ${JSON.stringify(APP)};\n`);
    const dev = startCli(['dev', '--app', app, '--port', '0', '--ui-port', '0', '--json'], { cwd });
    await dev.until(/\{"ready".*\n/);
    appendFileSync(app, '// edited\n');
    await dev.until(/app\.ts has changed: stop this and start it again/);
    expect((await dev.end()).code).toBe(0);
  });

  test('ends with an error when its server ends by itself', async () => {
    const cwd = emptyFolder();
    const dev = startCli(['dev', '--port', '0', '--ui-port', '0', '--json'], { cwd });
    const [line] = await dev.until(/\{"ready".*\n/);
    const { temporalPid } = (JSON.parse(line) as Ready).ready;
    process.kill(temporalPid, 'SIGKILL');
    const { code, stdout } = await dev.finished();
    expect(code).toBe(1);
    expect(JSON.parse(stdout.split('\n')[1] ?? '')).toMatchObject({ error: { code: 'temporal_unreachable' } });
  });

  test('runs an app with nothing else installed, finds it from other commands, and ends in good order', async () => {
    const cwd = emptyFolder();
    const dev = startCli(['dev', '--app', APP, '--port', '0', '--ui-port', '0', '--json'], { cwd });
    const [line] = await dev.until(/\{"ready".*\n/);
    const { ready } = JSON.parse(line) as Ready;
    expect(ready).toMatchObject({
      offline: true,
      agents: ['remote', 'clerk'],
      targets: ['worker_remote', 'worker_generic'],
    });
    expect((await fetch(ready.webUi)).status).toBe(200);
    // No address given: the data folder tells where the server is.
    const asked = await runCli(['run', 'clerk', 'call add {"a":2,"b":3}', '--wait', '--json'], { cwd });
    const view = jsonOf<TurnView>(asked);
    expect(view).toMatchObject({ status: 'success', stepCount: 2 });
    expect(JSON.stringify(view.deliverable)).toContain('sum');
    const ended = await dev.end('SIGTERM');
    expect(ended.code).toBe(0);
    expect(ended.stderr).toContain('stopping');
    // What a tool says to its logger, and nothing that the runtime says below a warning.
    expect(ended.stderr).toMatch(/ INFO {2}adds .*tool=add/);
    expect(ended.stderr.match(/ INFO /g)).toHaveLength(1);
    expect(existsSync(join(cwd, '.agentturn', 'temporal-server.json'))).toBe(false);
    const gone = await runCli(['run', 'clerk', 'hi', '--temporal', ready.temporal, '--json'], { cwd });
    expect(jsonOf(gone)).toMatchObject({ error: { code: 'temporal_unreachable' } });
  });

  test('says to a person where everything is', async () => {
    const cwd = emptyFolder();
    const dev = startCli(['dev', '--port', '0', '--ui-port', '0'], { cwd });
    await dev.until(
      /ready \(Ctrl-C stops\)\. Try: npm run agentturn -- chat demo; or: npm run agentturn -- run demo "your request" --wait/,
    );
    const { code, stdout } = await dev.end('SIGINT');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Started a Temporal dev server at 127\.0\.0\.1:\d+ on .*temporal\.db/m);
    expect(stdout).toMatch(/^Web UI: http:\/\/127\.0\.0\.1:\d+$/m);
    expect(stdout).toContain('model: offline, a weak rule-based stand-in and no language model; set OPENAI_API_KEY or');
    // Another program can work with that model.
    expect(stdout).toMatch(/a program of yours uses it with OPENAI_BASE_URL=http:\/\/127\.0\.0\.1:\d+\/v1$/m);
    expect(stdout).toContain('app: built-in demo');
  });

  test('a second one on the same data says that the first one serves it with another model, where it does', async () => {
    const cwd = emptyFolder();
    await using _taken = await takePort(GATEWAY_PORT);
    const first = startCli(['dev', '--app', APP, '--port', '0', '--ui-port', '0', '--json'], { cwd });
    const [line] = await first.until(/\{"ready".*\n/);
    const { temporal } = (JSON.parse(line) as Ready).ready;
    const started = async (env: Readonly<Record<string, string>>) => {
      const second = startCli(['dev', '--app', APP, '--json'], { cwd, env });
      const [ready] = await second.until(/\{"ready".*\n/);
      expect((JSON.parse(ready) as Ready).ready.temporal).toBe(temporal);
      return (await second.end('SIGTERM')).stderr;
    };
    try {
      const told = await started({ OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' });
      expect(told).toMatch(
        /this process serves .*worker_generic.* with gpt-5-mini at http:\/\/127\.0\.0\.1:1\/v1, and process \d+/,
      );
      expect(told).toContain('serves the same data with the offline model');
      expect(told).toMatch(/process \d+ runs everything of \.agentturn already: this one adds a worker and a gateway/);
      expect(told).toMatch(/port 7280 is taken, by another dev perhaps: the gateway of this one is at http:/);
      expect(await started({})).not.toContain('serves the same data');
    } finally {
      await first.end('SIGTERM');
    }
  });

  test.each([['--port'], ['--ui-port']])('%s that is taken is port_in_use', async (option) => {
    const cwd = emptyFolder();
    const port = await takenPort();
    const free = option === '--port' ? [] : ['--port', '0'];
    const ended = await runCli(['dev', option, String(port), ...free, '--json'], { cwd });
    expect(ended.code).toBe(1);
    const message = expect.stringMatching(new RegExp(`${port}.*${option}`));
    expect(jsonOf(ended)).toMatchObject({ error: { code: 'port_in_use', message } });
    expect(existsSync(join(cwd, '.agentturn', 'temporal.db'))).toBe(false);
  });
});

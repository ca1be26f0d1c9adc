#!/usr/bin/env node
/**
 * The process behind `agentturn`: it hands the command line its world. What only some commands need is loaded only by them, so that
 * a look into the store does not wait for Temporal's native library.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { runCli } from '../client/cli/cli.ts';
import { clientCommands } from '../client/cli/client-commands.ts';
import type { CliEnvironment, CliIo, CommonOptions, OpenedClient } from '../client/cli/environment.ts';
import type { Store } from '../workflows/contract/store.ts';
import { Interrupt } from './commands/interrupt.ts';
import { packageRoot } from './commands/package-root.ts';
import { type ProcessActions, processCommands, verifyCommand } from './commands/process-commands.ts';
import { openExistingStore, type Settings, settingsOf } from './commands/settings.ts';
import { readConfig } from './config.ts';
import { openStore } from './open-store.ts';

const io: CliIo = {
  out: (line) => void process.stdout.write(`${line}\n`),
  err: (line) => void process.stderr.write(`${line}\n`),
  live: Boolean(process.stderr.isTTY),
  readStdin: () => text(process.stdin),
};

/** Not before a command asks: `--help` works whatever the environment says. */
const config = () => readConfig(process.env);
const settings = (options: CommonOptions): Settings => settingsOf(config(), options);

async function openClient(options: CommonOptions, open: (resolved: Settings) => Promise<Store>): Promise<OpenedClient> {
  const { AgentClient } = await import('../client/agent-client.ts');
  const { locateTemporal } = await import('./commands/locate-temporal.ts');
  const { connectClient } = await import('../client/connect.ts');
  const resolved = settings(options);
  // The connection first: a request that no server can be told of is not accepted.
  const { client: temporal, connection } = await connectClient(await locateTemporal(resolved));
  const store = await open(resolved).catch(async (error: unknown) => {
    await connection.close();
    throw error;
  });
  const close = async () => {
    await connection.close();
    await store.close();
  };
  return { client: new AgentClient({ temporal, store }), close };
}

const { version } = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as { version: string };

const environment: CliEnvironment = {
  io,
  openStore: async (options) => openExistingStore(settings(options)),
  openClient: (options) =>
    openClient(options, ({ storeUrl, storeConnections }) => openStore(storeUrl, { connections: storeConnections })),
  openExistingClient: (options) => openClient(options, openExistingStore),
  interruption: () => new Interrupt().signal,
};

const processes: ProcessActions = {
  dev: async (options) => (await import('./commands/dev.ts')).dev(config(), io, options),
  worker: async (options) => (await import('./commands/worker.ts')).worker(config(), io, options),
  demo: async (options) => {
    const { terminal } = await import('./commands/terminal.ts');
    return (await import('./demo/demo.ts')).demo(config(), io, terminal, options);
  },
  demoWorker: async (options) => (await import('./demo/child-worker.ts')).demoWorker(config(), io, options),
  verify: async (options) => (await import('./commands/verify.ts')).verify(config(), io, options),
};

const commands = [processCommands(processes), clientCommands(environment), verifyCommand(processes)];

// A reader that went away (`agentturn agents ls | head -1`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));

// Said and done: nothing that still waits in the background, a reader of the terminal say, keeps the process.
process.exit(await runCli(process.argv.slice(2), { version, io }, commands));

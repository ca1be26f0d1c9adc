/**
 * The process behind `agentturn`: it hands the command line its world. What only some commands need is loaded only by them, so that
 * a look into the store does not wait for Temporal's native library.
 */
import { text } from 'node:stream/consumers';
import { runCli } from '../client/cli/cli.ts';
import { clientCommands } from '../client/cli/client-commands.ts';
import { completionCommand } from '../client/cli/completion.ts';
import type { CliEnvironment, CliIo, CommonOptions, OpenedClient, PersonTerminal } from '../client/cli/environment.ts';
import { Interrupt } from './commands/interrupt.ts';
import { packageManifest } from './commands/package-root.ts';
import { checkCommands, type ProcessActions, processCommands } from './commands/process-commands.ts';
import { openExistingStore, type Settings, settingsOf } from './commands/settings.ts';
import { readConfig } from './config.ts';

const io: CliIo = {
  out: (line) => void process.stdout.write(`${line}\n`),
  err: (line) => void process.stderr.write(`${line}\n`),
  live: Boolean(process.stderr.isTTY),
  screen: Boolean(process.stdout.isTTY),
  readStdin: () => text(process.stdin),
};

/** A terminal that calls itself dumb has no cursor that could be moved. */
function terminal(): PersonTerminal | null {
  const { stdin: input, stdout: output } = process;
  if (!input.isTTY || !output.isTTY || process.env.TERM === 'dumb') return null;
  return { input, output, colour: output.hasColors() };
}

/** Not before a command asks: `--help` works whatever the environment says. */
const config = () => readConfig(process.env);
const settings = (options: CommonOptions): Settings => settingsOf(config(), options);

async function openClient(options: CommonOptions): Promise<OpenedClient> {
  const { connectTo } = await import('./connected-client.ts');
  const client = await connectTo(settings(options), openExistingStore);
  return { client, close: () => client.close() };
}

const findStall: CliEnvironment['findStall'] = async (store, agentTurnId, options) => {
  const { locateTemporal, refuseOthers } = await import('./commands/locate-temporal.ts');
  const { connectClient } = await import('../client/connect.ts');
  const stalls = await import('../client/stalls.ts');
  const { client, connection } = await connectClient(await locateTemporal(settings(options)));
  try {
    await refuseOthers(client, store, settings(options));
    return await stalls.findStall(store, client, agentTurnId);
  } finally {
    await connection.close();
  }
};

const environment: CliEnvironment = {
  io,
  terminal,
  findStall,
  openStore: async (options) => openExistingStore(settings(options)),
  openClient,
  interruption: () => new Interrupt().signal,
  writeJournals: async (store, session, options) =>
    (await import('./commands/journals.ts')).writeJournals(settings(options), store, session),
};

const processes: ProcessActions = {
  init: async (options) => (await import('./commands/init.ts')).init(io, options),
  dev: async (options) => (await import('./commands/dev.ts')).dev(config(), io, options),
  worker: async (options) => (await import('./commands/worker.ts')).worker(config(), io, options),
  gateway: async (options) => (await import('./commands/gateway.ts')).gateway(config(), io, options),
  gatewayToken: async (options) => (await import('./commands/gateway-tokens.ts')).gatewayToken(config(), io, options),
  gatewayWebhook: async (options) => (await import('./commands/webhooks.ts')).gatewayWebhook(config(), io, options),
  gatewayWebhooks: async (options) => (await import('./commands/webhooks.ts')).gatewayWebhooks(config(), io, options),
  demo: async (options) => {
    const { terminal } = await import('./commands/terminal.ts');
    return (await import('./demo/demo.ts')).demo(config(), io, terminal, options);
  },
  demoWorker: async (options) => (await import('./demo/child-worker.ts')).demoWorker(config(), io, options),
  doctor: async (options) => (await import('./commands/doctor.ts')).doctor(config(), io, options),
  recover: async (options) => (await import('./commands/recover.ts')).recoverCommand(config(), io, options),
  verify: async (options) => (await import('./commands/verify.ts')).verify(config(), io, options),
};

const commands = [processCommands(processes), clientCommands(environment), checkCommands(processes), completionCommand];

// A reader that went away (`agentturn agents ls | head -1`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));

// Said and done: nothing that still waits in the background, a reader of the terminal say, keeps the process.
process.exit(await runCli(process.argv.slice(2), { version: packageManifest().version, io }, commands));

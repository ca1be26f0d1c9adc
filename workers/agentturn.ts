/**
 * `agentturn`: all its commands, for the process that they are given. What only some commands need is loaded only by them, so that a look
 * into the store does not wait for Temporal's native library.
 */
import { runCli } from '../client/cli/cli.ts';
import { clientCommands } from '../client/cli/client-commands.ts';
import { completionCommand } from '../client/cli/completion.ts';
import type { CliEnvironment, CliIo, CommonOptions, OpenedClient } from '../client/cli/environment.ts';
import { visibleIo } from '../client/cli/visible.ts';
import { checkedTenant } from '../workflows/contract/border.ts';
import type { ClientStore, Store } from '../workflows/contract/store.ts';
import { packageManifest } from './commands/package-root.ts';
import { checkCommands, type ProcessActions, processCommands } from './commands/process-commands.ts';
import { openExistingStore, type Settings, settingsOf } from './commands/settings.ts';
import { type Config, readConfig } from './config.ts';

/** What the commands have of the process they run in. */
export interface CliProcess extends Pick<CliEnvironment, 'terminal' | 'interruption'> {
  readonly io: CliIo;
  readonly env: NodeJS.ProcessEnv;
}

/** Runs one command; resolves with its exit code. `argv` is without the program's own name. */
export function agentturn(argv: readonly string[], ours: CliProcess): Promise<number> {
  const { env } = ours;
  const io = visibleIo(ours.io);
  // Not before a command asks: `--help` works whatever the environment says.
  const config = () => readConfig(env);
  const processes = processActions(config, io);
  const client = clientCommands(clientEnvironment(config, { ...ours, io }));
  const commands = [processCommands(processes), client, checkCommands(processes), completionCommand];
  return runCli(argv, { version: packageManifest().version, io }, commands);
}

function clientEnvironment(config: () => Config, { io, terminal, interruption }: CliProcess): CliEnvironment {
  const settings = (options: CommonOptions): Settings => settingsOf(config(), options);
  return {
    io,
    terminal,
    interruption,
    findStall: async (store, agentTurnId, options) => {
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
    },
    openStore: async (options) => ofTenant(await openExistingStore(settings(options)), settings(options)),
    openClient: (options) => openClient(settings(options)),
    writeJournals: async (store, session, options) =>
      (await import('./commands/journals.ts')).writeJournals(settings(options), store, session),
  };
}

/** The store as the tenant has it, if there is one. Errors: `invalid_request` for a name that is none. */
const ofTenant = (store: Store, { tenant }: Settings): ClientStore =>
  tenant === undefined ? store : store.within({ tenant: checkedTenant(tenant), anyProfile: true });

async function openClient(settings: Settings): Promise<OpenedClient> {
  const { connectTo } = await import('./connected-client.ts');
  const client = await connectTo(settings, openExistingStore);
  const { tenant } = settings;
  return { client: tenant === undefined ? client : client.forTenant(tenant), close: () => client.close() };
}

const processActions = (config: () => Config, io: CliIo): ProcessActions => ({
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
});

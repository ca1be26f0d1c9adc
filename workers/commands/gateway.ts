/** `gateway`: serves HTTP callers, until it is interrupted. */
import { Client, Connection } from '@temporalio/client';
import { describeError } from '../../activities/failure.ts';
import { AgentClient } from '../../client/agent-client.ts';
import type { CliIo } from '../../client/cli/environment.ts';
import { commandLine } from '../../client/command-line.ts';
import type { TemporalAddress } from '../../client/connect.ts';
import type { CallbackTokens } from '../../client/gateway/callback-tokens.ts';
import type { GatewayToken } from '../../client/gateway/caller.ts';
import { createGateway } from '../../client/gateway/gateway.ts';
import { refuseOther, storeOfNamespace } from '../../client/store-mark.ts';
import type { SessionJournal } from '../../workflows/contract/journal.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { Config } from '../config.ts';
import { type GatewayServer, type GatewayServerOptions, listen } from '../gateway-server.ts';
import { keepHeapSmall } from '../heap.ts';
import { levelOf, type Say, sayer } from '../log.ts';
import { reachability } from '../temporal/reachability.ts';
import { callbackTokens } from './callbacks.ts';
import { type Cleanup, withCleanup } from './cleanup.ts';
import { knownTokens, tokensFile } from './gateway-tokens.ts';
import { Interrupt } from './interrupt.ts';
import { namedJournal } from './journals.ts';
import { locateTemporal, PREFERRED_PORT } from './locate-temporal.ts';
import type { GatewayOptions } from './process-commands.ts';
import { openExistingStore, type Settings, settingsOf } from './settings.ts';
import { tellWebhooks } from './webhooks.ts';

/** The port of a gateway where none is named. */
export const GATEWAY_PORT = 7280;

/** Resolves with the exit code when it was interrupted and all is closed. */
export function gateway(config: Config, io: CliIo, options: GatewayOptions): Promise<number> {
  keepHeapSmall();
  const settings = settingsOf(config, options);
  const interrupt = new Interrupt();
  return withCleanup(async (cleanup) => {
    cleanup.add(() => interrupt.release());
    const log = sayer(io.err, levelOf(options), options.log ?? config.logFormat);
    const tokens = knownTokens(settings);
    if (tokens.length === 0)
      throw new CodedError(
        'invalid_config',
        `nobody could call: ${tokensFile(settings)} has no tokens; make one with "${commandLine('gateway token NAME --scopes read,write')}", or set AGENTTURN_GATEWAY_TOKEN`,
      );
    const warn = (line: string) => log(line, 'WARN');
    const store = await openExistingStore(settings, { warn });
    cleanup.add(() => store.close());
    const { host = '127.0.0.1', port = config.gateway.port ?? GATEWAY_PORT, webUi: uiUrl } = options;
    const at = await addressOf(settings);
    const callbacks = callbackTokens(config);
    const named = settings.temporal !== undefined;
    const listenAt = { host, port };
    const journal = namedJournal(config, store);
    const parts = { at, named, store, journal, tokens, callbacks, listenAt, uiUrl, log };
    const server = await serveGateway(parts, cleanup);
    tellWebhooks(settings, { store, log: warn }, cleanup);
    if (options.json)
      io.out(JSON.stringify({ ready: { url: server.url, temporal: at.address, namespace: at.namespace } }));
    else
      io.out(
        `ready: ${server.url}, with a console at ${server.url}/console/, described at ${server.url}/openapi.json (Ctrl-C stops)`,
      );
    await interrupt.requested();
    log('stopping: open streams end, and requests get a moment to finish...');
    return 0;
  });
}

/** The server that is named or runs; while none runs, where one would be. */
async function addressOf(settings: Settings): Promise<TemporalAddress> {
  try {
    return await locateTemporal(settings);
  } catch (error) {
    if (!(error instanceof CodedError && error.code === 'temporal_unreachable')) throw error;
    return { address: `127.0.0.1:${PREFERRED_PORT}`, namespace: settings.namespace };
  }
}

/** What a gateway is served with. */
export interface ServedGateway {
  readonly at: TemporalAddress;
  /** Whether somebody named that server, as opposed to one that was found; it counts as named when left out. */
  readonly named?: boolean;
  readonly store: ClientStore;
  /** Keeps journals of chat sessions; none are kept when left out. */
  readonly journal?: SessionJournal | undefined;
  readonly tokens: readonly GatewayToken[];
  /** Knows the tokens of callbacks; none is known when left out. */
  readonly callbacks?: CallbackTokens | undefined;
  readonly listenAt: GatewayServerOptions;
  /** The address of Temporal's Web UI, where it is known. */
  readonly uiUrl?: string | undefined;
  /** Takes a line for the operator. */
  readonly log: Say;
}

/**
 * Serves a gateway, which `cleanup` closes; it needs no Temporal server to start. Errors: `port_in_use`; `store_mismatch` when the namespace
 * belongs to another store.
 */
export async function serveGateway(
  { at, named, store, journal, tokens, callbacks, listenAt, uiUrl, log }: ServedGateway,
  cleanup: Cleanup,
): Promise<GatewayServer> {
  const connection = Connection.lazy({ ...at.credentials, address: at.address });
  cleanup.add(() => connection.close());
  const temporal = new Client({ connection, namespace: at.namespace });
  const temporalAnswers = reachability(connection);
  if (await temporalAnswers()) refuseOther(temporal, await store.identity(), await storeOfNamespace(temporal), named);
  else
    log(
      `the Temporal server at ${at.address} does not answer: requests are refused until it does, and all can be read`,
      'WARN',
    );
  const served = createGateway({
    client: new AgentClient({
      temporal,
      store,
      journal,
      journalFailed: (error) => log(`a journal is behind, and is written later: ${describeError(error)}`, 'WARN'),
    }),
    store,
    temporalAnswers,
    tokens,
    callbacks,
    webUi: uiUrl === undefined ? undefined : `${uiUrl}/namespaces/${at.namespace}/workflows`,
    onError: (error) =>
      log(`gateway: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`, 'ERROR'),
  });
  const server = await listen(served, listenAt);
  cleanup.add(() => server.close());
  return server;
}

/** Connections to Temporal, with errors that say what to do. */
import { Client, Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { CodedError } from '../workflows/protocol/failures.ts';
import type { TemporalCredentials } from './temporal/probe.ts';

const CONNECT_TIMEOUT_MS = 10_000;

export interface TemporalAddress {
  readonly address: string;
  readonly namespace: string;
  readonly credentials?: TemporalCredentials;
}

/** The client, and the connection under it for what only that can do. */
export interface TemporalClient {
  readonly client: Client;
  readonly connection: Connection;
}

/** `timeoutMs` is for the connection to stand; a busy machine needs more than a moment. Errors: `temporal_unreachable`. */
export async function connectClient(
  { address, namespace, credentials }: TemporalAddress,
  timeoutMs = CONNECT_TIMEOUT_MS,
): Promise<TemporalClient> {
  const connection = await reaching(address, () =>
    Connection.connect({ ...credentials, address, connectTimeout: timeoutMs }),
  );
  return { client: new Client({ connection, namespace }), connection };
}

/** Errors: `temporal_unreachable`. */
export function connectWorker({ address, credentials }: TemporalAddress): Promise<NativeConnection> {
  const { tls, apiKey } = credentials ?? {};
  const options = { address, ...(tls ? { tls } : {}), ...(typeof apiKey === 'string' ? { apiKey } : {}) };
  return reaching(address, () => NativeConnection.connect(options));
}

async function reaching<T>(address: string, connect: () => Promise<T>): Promise<T> {
  try {
    return await connect();
  } catch (error) {
    const cure = 'start one with "npm run dev", or set TEMPORAL_ADDRESS';
    throw new CodedError('temporal_unreachable', `no Temporal server answers at ${address}; ${cure}`, { cause: error });
  }
}

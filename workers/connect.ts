/** Connections to a Temporal server, with errors that say what to do. */
import { Client, Connection } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { CodedError } from '../workflows/protocol/failures.ts';
import type { TemporalCredentials } from './temporal/probe.ts';

const CONNECT_TIMEOUT_MS = 10_000;

/** Where a Temporal server is, and the namespace in it. */
export interface TemporalAddress {
  readonly address: string;
  readonly namespace: string;
  /** What the server asks for beyond its address; absent for one that lets everything in. */
  readonly credentials?: TemporalCredentials;
}

/** A client of a Temporal server. */
export interface TemporalClient {
  readonly client: Client;
  /** The connection that the client uses, for requests that the client itself does not offer. */
  readonly connection: Connection;
}

/** Connects for requests of a client. Throws `temporal_unreachable` when no server answers within `timeoutMs`; ten seconds when left out. */
export async function connectClient(
  { address, namespace, credentials }: TemporalAddress,
  timeoutMs = CONNECT_TIMEOUT_MS,
): Promise<TemporalClient> {
  const connection = await reaching(address, () =>
    Connection.connect({ ...credentials, address, connectTimeout: timeoutMs }),
  );
  return { client: new Client({ connection, namespace }), connection };
}

/** Connects for workers, which poll through Temporal's native library. Throws `temporal_unreachable`. */
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

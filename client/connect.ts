/** The connection of a client to a Temporal server, with errors that say what to do. */

import { Client, Connection, type ConnectionOptions, isGrpcServiceError, ServiceError } from '@temporalio/client';
import { NamespaceNotFoundError } from '@temporalio/common';
import { CodedError } from '../workflows/protocol/failures.ts';
import { commandLine } from './command-line.ts';

const CONNECT_TIMEOUT_MS = 10_000;

/** What a server asks for beyond its address. */
export type TemporalCredentials = Pick<ConnectionOptions, 'tls' | 'metadata'> & { readonly apiKey?: string };

/** Where a Temporal server is, and the namespace in it. */
export interface TemporalAddress {
  /** Host and port, such as `127.0.0.1:7233`. */
  readonly address: string;
  readonly namespace: string;
  /** Absent for a server that lets everything in. */
  readonly credentials?: TemporalCredentials;
}

/** A client of a Temporal server. Whoever opened it closes its `connection`. */
export interface TemporalClient {
  readonly client: Client;
  /** The connection that the client uses, for requests that the client itself does not offer. */
  readonly connection: Connection;
  /** Where it is connected to, for workers that open a connection of their own. */
  readonly at: TemporalAddress;
}

/** Connects for requests of a client. Throws `temporal_unreachable` when no server answers within `timeoutMs`; ten seconds when left out. */
export async function connectClient(at: TemporalAddress, timeoutMs = CONNECT_TIMEOUT_MS): Promise<TemporalClient> {
  const { address, namespace, credentials } = at;
  const connection = await reachTemporal(address, () =>
    Connection.connect({ ...credentials, address, connectTimeout: timeoutMs }),
  );
  return { client: new Client({ connection, namespace }), connection, at };
}

/** Runs `connect`; whatever it throws becomes `temporal_unreachable`, which names the address and what to do. */
export async function reachTemporal<T>(address: string, connect: () => Promise<T>): Promise<T> {
  try {
    return await connect();
  } catch (error) {
    const cure = `Start one with "${commandLine('dev')}", or correct TEMPORAL_ADDRESS.`;
    throw new CodedError('temporal_unreachable', `no Temporal server answers at ${address}`, { cause: error, cure });
  }
}

/** The error for a namespace that a server does not have. */
export const noNamespace = (namespace: string, at = '', cause?: unknown): CodedError => {
  const cure = `Correct --namespace or TEMPORAL_NAMESPACE, or make it with "${commandLine('doctor --fix')}".`;
  return new CodedError('namespace_not_found', `the Temporal server${at} has no namespace ${namespace}`, {
    cause,
    cure,
  });
};

const GRPC_NOT_FOUND = 5;

/** Whether an error says that the server has no such namespace; the services that the client wraps say it in a class, the others in words. */
const lacksNamespace = (error: unknown): boolean =>
  error instanceof NamespaceNotFoundError ||
  (isGrpcServiceError(error) && error.code === GRPC_NOT_FOUND && /namespace/i.test(error.details));

/** What an error of Temporal's client is to a caller: `namespace_not_found`, or else `temporal_unreachable` with the message. */
export const temporalFailure = (error: Error, { options }: Client, message: string): CodedError =>
  lacksNamespace(error)
    ? noNamespace(options.namespace, '', error)
    : new CodedError('temporal_unreachable', message, { cause: error });

/** Whether an error says that the Temporal server did not answer, or not as it was asked. */
export const isOfTemporal = (error: unknown): error is Error =>
  error instanceof ServiceError || error instanceof NamespaceNotFoundError || isGrpcServiceError(error);

/** Questions to the network, each bounded in time: does a Temporal server answer here, is this port free? */
import { connect, createServer, type Server } from 'node:net';
import { Connection } from '@temporalio/client';
import type { TemporalCredentials } from '../../client/connect.ts';

/** Whether a server can be used. `no_namespace` is a server that answers and does not know the namespace; `reason` is for people. */
export type ProbeResult = { healthy: true } | { healthy: false; kind: 'unreachable' | 'no_namespace'; reason: string };

const TCP_MS = 5_000;
const GRPC_NOT_FOUND = 5;
const GRPC_PERMISSION_DENIED = 7;

/** Whether a server answers `getSystemInfo` (part of connecting) and knows the namespace, found out within `limitMs`. Never throws. */
export async function probeTemporal(
  address: string,
  namespace: string,
  limitMs: number,
  credentials: TemporalCredentials = {},
): Promise<ProbeResult> {
  const deadline = Date.now() + limitMs;
  let connection: Connection | undefined;
  let connected = false;
  try {
    connection = Connection.lazy({ ...credentials, address, connectTimeout: limitMs });
    await connection.ensureConnected();
    connected = true;
    const { workflowService } = connection;
    await connection.withDeadline(deadline, () => workflowService.describeNamespace({ namespace }));
    return { healthy: true };
  } catch (error) {
    const code = connected ? grpcCode(error) : undefined;
    // A key may be allowed to run workflows in a namespace and yet not to describe it.
    if (code === GRPC_PERMISSION_DENIED) return { healthy: true };
    if (code === GRPC_NOT_FOUND) return { healthy: false, kind: 'no_namespace', reason: reasonOf(error) };
    return { healthy: false, kind: 'unreachable', reason: reasonOf(error) };
  } finally {
    await connection?.close();
  }
}

/** Whether a program could listen on this port of the loopback interface at the moment; 0 asks whether any port is free. */
export async function isPortFree(port: number): Promise<boolean> {
  const server = await listen(port);
  if (server === undefined) return false;
  await close(server);
  return true;
}

/** Whether something accepts connections on a loopback port. Unlike `isPortFree` this never holds the port itself. */
export function answersTcp(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const end = (answer: boolean) => {
      socket.destroy();
      done(answer);
    };
    socket.setTimeout(TCP_MS, () => end(false));
    socket.once('connect', () => end(true)).once('error', () => end(false));
  });
}

/** The port `preferred` when it is free, else any free port. Another process may still take it before it is used. */
export async function freePort(preferred: number): Promise<number> {
  const server = (preferred <= 65_535 ? await listen(preferred) : undefined) ?? (await listen(0));
  const bound = server?.address();
  if (server === undefined || bound === null || typeof bound !== 'object') throw new Error('no free port on 127.0.0.1');
  await close(server);
  return bound.port;
}

function grpcCode(error: unknown): number | undefined {
  for (let e = error; e instanceof Error; e = e.cause) {
    if ('code' in e && typeof e.code === 'number') return e.code;
  }
  return undefined;
}

/** The messages of an error and of its causes, in one line. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${reasonOf(error.cause)}` : error.message;
}

function listen(port: number): Promise<Server | undefined> {
  return new Promise((done) => {
    const server = createServer();
    server.once('error', () => done(undefined));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => done(server));
  });
}

function close(server: Server): Promise<void> {
  return new Promise((done) => {
    server.close(() => done());
  });
}

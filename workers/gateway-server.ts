/** The HTTP server in front of a gateway. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import type { Gateway } from '../client/gateway/gateway.ts';
import { CodedError } from '../workflows/protocol/failures.ts';

/** Where a gateway listens. */
export interface GatewayServerOptions {
  readonly host: string;
  /** 0 for any that is free. */
  readonly port: number;
}

/** A gateway that listens. */
export interface GatewayServer {
  readonly url: string;
  /** Ends streams, takes no new requests, and waits for those under way, a few seconds at most. */
  close(): Promise<void>;
}

/** How long a request may take to come in, and how long requests under way are waited for at the end. */
const REQUEST_MS = 30_000;
const CLOSING_MS = 5_000;
const IDLE_LOOK_MS = 20;

/**
 * How long a connection is kept that nobody uses. Whoever calls must be the one who closes it, or a request is lost that is sent at that very
 * moment: load balancers keep one for 60 s.
 */
const KEEP_ALIVE_MS = 75_000;

/** Listens. Errors: `port_in_use`. */
export async function listen(gateway: Gateway, { host, port }: GatewayServerOptions): Promise<GatewayServer> {
  const listener = getRequestListener((request) => gateway.fetch(request));
  const server = createServer(
    { requestTimeout: REQUEST_MS, keepAliveTimeout: KEEP_ALIVE_MS },
    (incoming, outgoing) => void listener(incoming, outgoing),
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error;
    throw new CodedError('port_in_use', `port ${port} of ${host} is taken; choose another one`, { cause: error });
  });
  const { port: taken } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${taken}`,
    async close() {
      gateway.stop();
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      // One becomes idle when what it asked for has been answered, and would be kept.
      const idle = setInterval(() => server.closeIdleConnections(), IDLE_LOOK_MS);
      const timer = setTimeout(() => server.closeAllConnections(), CLOSING_MS);
      await closed;
      clearInterval(idle);
      clearTimeout(timer);
    },
  };
}

/**
 * The door in front of a dev server's Web UI. The UI answers whatever name it is called by, so a page whose name an attacker points at this machine
 * (DNS rebinding) would be let in as the UI's own, and could answer calls that wait. The door answers the names of this machine alone.
 *
 * Invariant: the UI itself listens where no page can guess it, where the platform has such addresses, else on a port that nobody is told.
 */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { isIPv4 } from 'node:net';
import { pipeline } from 'node:stream';

/** Where a UI listens. */
export interface UiPlace {
  readonly ip: string;
  readonly port: number;
}

/** An address of this machine that a UI may listen on: macOS has but one. */
export const hiddenIp = (platform: string = process.platform): string =>
  platform === 'darwin' ? '127.0.0.1' : `127.${randomInt(1, 255)}.${randomInt(1, 255)}.${randomInt(1, 255)}`;

/** Whether a `Host` header names this machine. */
export function isOwnName(host: string | undefined): boolean {
  const { hostname } = URL.parse(`http://${host ?? ''}`) ?? { hostname: '' };
  return hostname === 'localhost' || hostname === '[::1]' || (isIPv4(hostname) && hostname.startsWith('127.'));
}

/** A door that is open. */
export interface UiDoor {
  close(): Promise<void>;
}

/** Opens the door to a UI at a port of the loopback interface. Errors: those of the platform, such as `EADDRINUSE`. */
export async function openUiDoor(port: number, ui: UiPlace): Promise<UiDoor> {
  const agent = new Agent({ keepAlive: true });
  const server = createServer((incoming, outgoing) => {
    if (isOwnName(incoming.headers.host)) return passOn(incoming, outgoing, ui, agent);
    outgoing.writeHead(421, { 'content-type': 'text/plain' });
    outgoing.end(`This Web UI is at http://127.0.0.1:${port}, and answers the names of this machine alone.\n`);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  // It is there as long as its process, and keeps none.
  server.unref();
  return {
    async close() {
      server.closeAllConnections();
      agent.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function passOn(incoming: IncomingMessage, outgoing: ServerResponse, { ip, port }: UiPlace, agent: Agent): void {
  const { method, url, headers } = incoming;
  const upstream = request({ host: ip, port, method, path: url, headers, agent }, (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
    // A part is never ended as a whole.
    pipeline(answer, outgoing, () => {});
  });
  const gone = () => {
    if (outgoing.headersSent) return void outgoing.destroy();
    outgoing.writeHead(502, { 'content-type': 'text/plain' });
    outgoing.end('The Temporal server does not answer.\n');
  };
  upstream.on('error', gone);
  // Who has left reads nothing more.
  outgoing.on('close', () => upstream.destroy());
  incoming.pipe(upstream);
}

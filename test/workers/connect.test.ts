/** What the connection of a worker says to its server. */
import { createServer, type IncomingHttpHeaders } from 'node:http2';
import { expect, test } from '@jest/globals';
import type { TemporalCredentials } from '../../client/connect.ts';
import { connectWorker } from '../../workers/connect.ts';

/** The headers of all requests to a server that refuses them, reached by that name of the machine. */
async function headersSent(
  host: string,
  credentials: TemporalCredentials = {},
): Promise<readonly IncomingHttpHeaders[]> {
  const seen: IncomingHttpHeaders[] = [];
  const server = createServer();
  server.on('stream', (stream, headers) => {
    seen.push(headers);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '7' }, { endStream: true });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const at = server.address();
  const address = `${host}:${typeof at === 'object' ? at?.port : 0}`;
  const connecting = connectWorker({ address, namespace: 'default', credentials });
  await expect(connecting).rejects.toMatchObject({ code: 'temporal_unreachable' });
  await new Promise((resolve) => server.close(resolve));
  expect(seen).not.toEqual([]);
  return seen;
}

test('sends the headers that the credentials name', async () => {
  const seen = await headersSent('127.0.0.1', { metadata: { 'x-tenant': 'north' } });
  expect(new Set(seen.map((headers) => headers['x-tenant']))).toEqual(new Set(['north']));
});

// By the address that stands for any of a machine's own, Linux and macOS reach the machine itself.
test.each([
  ['127.0.0.1', undefined],
  ['localhost', undefined],
  ['0.0.0.0', 'gzip'],
])('compresses what it sends, but not to a server on the same machine: %s', async (host, compression) => {
  const seen = await headersSent(host);
  expect(new Set(seen.map((headers) => headers['grpc-encoding']))).toEqual(new Set([compression]));
});

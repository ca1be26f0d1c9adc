/** What the connection of a worker says to its server. */
import { createServer } from 'node:http2';
import { expect, test } from '@jest/globals';
import { connectWorker } from '../../workers/connect.ts';

test('sends the headers that the credentials name', async () => {
  const seen: (string | undefined)[] = [];
  const server = createServer();
  server.on('stream', (stream, headers) => {
    seen.push(headers['x-tenant'] as string | undefined);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '7' }, { endStream: true });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const at = server.address();
  const address = `127.0.0.1:${typeof at === 'object' ? at?.port : 0}`;
  const connecting = connectWorker({
    address,
    namespace: 'default',
    credentials: { metadata: { 'x-tenant': 'north' } },
  });
  await expect(connecting).rejects.toMatchObject({ code: 'temporal_unreachable' });
  await new Promise((resolve) => server.close(resolve));
  expect(new Set(seen)).toEqual(new Set(['north']));
});

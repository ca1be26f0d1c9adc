/** What is written to a PostgreSQL server between two waits is sent at once. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from '@jest/globals';
import { GatheringSocket } from '../../../../activities/store/postgres/gathering-socket.ts';

test('several writes of one turn of the event loop are held back until it ends, also once the socket is connected', async () => {
  const server = createServer((peer) => peer.resume()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = new GatheringSocket();
  socket.connect((server.address() as AddressInfo).port, '127.0.0.1');
  await once(socket, 'connect');
  const sent = new Promise((resolve) => {
    socket.write('begin');
    expect([socket.writableCorked, socket.writableLength]).toEqual([1, 5]);
    socket.write('commit', resolve);
  });
  expect([socket.writableCorked, socket.writableLength]).toEqual([1, 11]);
  await sent;
  expect([socket.writableCorked, socket.writableLength, socket.bytesWritten]).toEqual([0, 0, 11]);
  socket.destroy();
  server.close();
  await once(server, 'close');
});

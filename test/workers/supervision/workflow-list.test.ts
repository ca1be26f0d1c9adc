/** Calls to a Temporal server that end when their caller does (T3). */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { listWorkflows } from '../../../workers/supervision/workflow-list.ts';

describe('a list of workflows from a server that takes connections and says nothing', () => {
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket));
  let connection: Connection;
  let temporal: Client;

  beforeEach(async () => {
    await once(server.listen(0, '127.0.0.1'), 'listening');
    connection = Connection.lazy({ address: `127.0.0.1:${(server.address() as AddressInfo).port}` });
    temporal = new Client({ connection });
  });
  afterEach(async () => {
    await connection.close();
    for (const socket of sockets.splice(0)) socket.destroy();
    await once(server.close(), 'close');
  });

  test('is given up when its reader ends, with the reason', async () => {
    const ended = new AbortController();
    const first = listWorkflows({ temporal, ended: ended.signal }, '').next();
    await once(server, 'connection');
    ended.abort(new Error('the reader ends'));
    await expect(first).rejects.toThrow('the reader ends');
  });

  test('fails with the reason that the server, or the connection to it, gives', async () => {
    const ended = new AbortController().signal;
    const list = () => listWorkflows({ temporal, ended }, '').next();
    await expect(temporal.withDeadline(Date.now() + 100, list)).rejects.toThrow(
      /the server did not list workflows: .*DEADLINE_EXCEEDED/,
    );
  });

  test('is not asked for when its reader has ended', async () => {
    const ended = AbortSignal.abort(new Error('the reader has ended'));
    await expect(listWorkflows({ temporal, ended }, '').next()).rejects.toThrow('the reader has ended');
    expect(sockets).toEqual([]);
  });
});

/** The connections of model calls, over real HTTP: the next call finds the one of the last call, and one that never ends is let go. */
import { channel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import { openAiModel } from '../../../activities/llm/openai.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

const request = { model: 'm', messages: [{ role: 'user' as const, content: 'Hello' }] };
const EVENTS = [
  { choices: [{ index: 0, delta: { content: 'hi' }, finish_reason: 'stop' }] },
  { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } },
];

/** A provider that sends the whole answer up to the event that ends it, and leaves the end of the response to `finish`. */
async function provider(finish: (response: ServerResponse) => unknown) {
  const sockets: Socket[] = [];
  const server = createServer((incoming, response) => {
    sockets.push(incoming.socket);
    incoming.resume().on('end', () => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of EVENTS) response.write(`data: ${JSON.stringify(event)}\n\n`);
      response.write('data: [DONE]\n\n', () => finish(response));
    });
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const at = server.address();
  const baseUrl = `http://127.0.0.1:${typeof at === 'object' ? at?.port : 0}/v1`;
  const model = openAiModel({ apiKey: 'key', baseUrl, defaultModel: 'd' });
  // The connection of each call.
  return { sockets, call: () => model.stream(request, new AbortController().signal) };
}

/** Resolves when a response has been read to its end, also what nobody asked for. */
function readToItsEnd(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const trailers = channel('undici:request:trailers');
  const seen = () => {
    trailers.unsubscribe(seen);
    resolve();
  };
  trailers.subscribe(seen);
  return promise;
}

test('is kept for the next call when what ends the response comes after the event that ends the answer (W14)', async () => {
  const { sockets, call } = await provider((response) => setTimeout(() => response.end(), 20));
  for (let calls = 0; calls < 3; calls += 1) {
    const ended = readToItsEnd();
    expect((await call()).text).toBe('hi');
    await Promise.race([ended, sleep(5_000, undefined, { ref: false })]);
    // The connection is free when the event has been told to all.
    await setImmediate();
  }
  expect(sockets).toHaveLength(3);
  expect(new Set(sockets).size).toBe(1);
});

test.each([
  ['never ends', () => {}],
  ['goes on and on', (response: ServerResponse) => void response.write(`: ${'x'.repeat(1024 * 1024)}\n\n`)],
])('is closed a moment after an answer whose response %s (W15)', async (_, finish) => {
  const { sockets, call } = await provider(finish);
  expect((await call()).text).toBe('hi');
  const [socket] = sockets;
  if (!socket) throw new Error('no connection was made');
  // It is reset when bytes come that nobody takes any more.
  socket.on('error', () => {});
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
});

/**
 * A model that writes slowly and says when: each chunk of its answer is `NUMBER:TIME `, the epoch ms at which it was sent. The last user message
 * says how many chunks there are and how many ms lie between two.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { serveParent } from '../child.ts';

interface Request {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

const eventOf = (delta: object, finish: string | null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;

async function write(request: Request, response: ServerResponse): Promise<void> {
  const asked = request.messages.findLast(({ role }) => role === 'user')?.content ?? '';
  const [, chunks, everyMs] = /(\d+) chunks every (\d+) ms/.exec(asked) ?? [];
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (let number = 0; number < Number(chunks) && !response.destroyed; number += 1) {
    response.write(eventOf({ content: `${number}:${Date.now()} ` }, null));
    await sleep(Number(everyMs));
  }
  response.end(`${eventOf({}, 'stop')}data: [DONE]\n\n`);
}

await serveParent(async () => {
  const server = createServer(async (request, response) => write((await json(request)) as Request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = async () => {
    server.closeAllConnections();
    server.close();
  };
  return { served: { stop }, value: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` };
});

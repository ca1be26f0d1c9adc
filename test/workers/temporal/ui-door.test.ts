import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { freePort } from '../../../workers/temporal/probe.ts';
import { hiddenIp, isOwnName, openUiDoor, type UiDoor } from '../../../workers/temporal/ui-door.ts';

test.each([
  ['localhost', true],
  ['localhost:8233', true],
  ['127.0.0.1:8233', true],
  ['127.1.2.3', true],
  ['[::1]:8233', true],
  ['evil.example:8233', false],
  ['localhost.evil.example', false],
  ['127.0.0.1.evil.example:8233', false],
  ['10.0.0.1:8233', false],
  ['', false],
  [undefined, false],
])('%s is a name of this machine: %p', (host, isOwn) => {
  expect(isOwnName(host)).toBe(isOwn);
});

describe('the door of a Web UI', () => {
  const closing: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  /** A door to a UI that answers with the method, the path and the body that it was asked with. */
  async function opened(ip = hiddenIp()) {
    const ui = createServer((incoming, outgoing) => {
      outgoing.writeHead(200, { 'x-ui': 'yes' });
      outgoing.write(`${incoming.method} ${incoming.url} `);
      incoming.pipe(outgoing);
    }).listen(0, ip);
    await once(ui, 'listening');
    const port = await freePort(0);
    const door: UiDoor = await openUiDoor(port, { ip, port: (ui.address() as AddressInfo).port });
    closing.push(
      () => ui.close(),
      () => door.close(),
    );
    return { ui, port };
  }

  async function asked(port: number, host: string, body = ''): Promise<{ status: number | undefined; text: string }> {
    const sent = request({ host: '127.0.0.1', port, path: '/a?b=c', method: 'POST', headers: { host } }).end(body);
    const [answer] = await once(sent, 'response');
    const chunks: Buffer[] = [];
    for await (const chunk of answer) chunks.push(chunk);
    return { status: answer.statusCode, text: Buffer.concat(chunks).toString() };
  }

  test('passes on what is asked by a name of this machine, whole', async () => {
    const { port } = await opened();
    const body = 'x'.repeat(1_000_000);
    expect(await asked(port, `localhost:${port}`, body)).toEqual({ status: 200, text: `POST /a?b=c ${body}` });
  });

  test('is shut for a page that calls itself something else', async () => {
    const { port } = await opened();
    expect(await asked(port, `evil.example:${port}`)).toEqual({
      status: 421,
      text: expect.stringContaining(`http://127.0.0.1:${port}`),
    });
  });

  test('breaks an answer off that the UI broke off: a part is none', async () => {
    const { ui, port } = await opened();
    ui.removeAllListeners('request').on('request', (_, outgoing) => {
      outgoing.writeHead(200).write('half', () => outgoing.destroy());
    });
    await expect(asked(port, `localhost:${port}`)).rejects.toThrow('aborted');
  });

  test('says so where the UI does not answer', async () => {
    const { ui, port } = await opened();
    ui.closeAllConnections();
    await new Promise((resolve) => ui.close(resolve));
    expect(await asked(port, `127.0.0.1:${port}`)).toMatchObject({ status: 502 });
  });
});

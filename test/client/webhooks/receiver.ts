/** A receiver of webhooks: a real HTTP server that does what a test wants, and keeps what it took. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect } from '@jest/globals';
import OpenAI from 'openai';

export interface Message {
  readonly id: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came.
  readonly json: any;
}

/** Answers a message; a status is an answer with nothing else. */
export type Behaviour = (message: Message, response: ServerResponse) => number | undefined;

export class Receiver {
  readonly #taken: Message[] = [];
  readonly #came: Message[] = [];
  #server: Server;
  #port = 0;
  #news = Promise.withResolvers<void>();
  behaviour: Behaviour = () => 204;

  constructor() {
    this.#server = this.#newServer();
  }

  /** Listens, at the port it had before. */
  async open(): Promise<this> {
    this.#server = this.#newServer();
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  /** Goes away, also from whoever is connected. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => void this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/hook`;
  }

  /** What was answered with success, in the order in which it came. */
  get taken(): readonly Message[] {
    return this.#taken;
  }

  /** All that came, whatever was answered. */
  get came(): readonly Message[] {
    return this.#came;
  }

  /** Resolves when so much is true of what it has. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await this.#news.promise;
  }

  /** The turns whose ends were taken, of one agent, each once and in the order in which they came first. */
  turnsOf(agentId: string): string[] {
    const turns = this.#taken.flatMap(({ json }) => (json.data.agentId === agentId ? [json.data.agentTurnId] : []));
    return [...new Set<string>(turns)];
  }

  #newServer(): Server {
    return createServer((request, response) => void this.#take(request, response));
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request).catch(() => null);
    if (body === null) return;
    const headers = request.headers as Record<string, string>;
    const message = { id: headers['webhook-id'] ?? '', body, headers, json: JSON.parse(body) };
    this.#came.push(message);
    const status = this.behaviour(message, response);
    if (status !== undefined) {
      if (status < 300) this.#taken.push(message);
      response.writeHead(status).end();
    }
    const { resolve } = this.#news;
    this.#news = Promise.withResolvers();
    resolve();
  }
}

/** Verifies a message by an implementation that is none of ours. Rejects for one that this secret has not signed. */
export const verified = ({ body, headers }: Message, secret: string): Promise<void> =>
  new OpenAI({ apiKey: 'none' }).webhooks.verifySignature(body, headers, secret);

/** Errors: a message that is none of this secret. */
export async function expectSigned(messages: readonly Message[], secret: string): Promise<void> {
  for (const message of messages) await verified(message, secret);
  const [first] = messages;
  if (!first) return;
  await expect(verified({ ...first, body: `${first.body} ` }, secret)).rejects.toThrow();
  const headers = { ...first.headers, 'webhook-id': 'evt_other' };
  await expect(verified({ ...first, headers }, secret)).rejects.toThrow();
}

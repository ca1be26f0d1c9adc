/**
 * A local HTTP server that speaks the OpenAI Chat Completions wire. What it answers is a function of the request; everything between,
 * validation, streaming and failures, happens on a real socket as with a provider.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { type ChatRequest, invalidRequest, parseChatRequest, type WireError } from './chat-request.ts';
import {
  type BrokenAnswer,
  brokenMessage,
  chunksOf,
  completionOf,
  type MessageAnswer,
  type ModelAnswer,
  type RawAnswer,
} from './completion.ts';
import { checkConversation } from './conversation.ts';

export type { ChatMessage, ChatRequest } from './chat-request.ts';
export type { ModelAnswer } from './completion.ts';

/** Answers a request. When it throws, the client gets a server error that names the reason. */
export type AnswerFunction = (request: ChatRequest) => ModelAnswer | Promise<ModelAnswer>;

/** What a model server answers, and where it listens. */
export interface ModelServerOptions {
  readonly answer: AnswerFunction;
  /** The port to listen on; any free one when absent. */
  readonly port?: number;
  /** The address to listen on; 127.0.0.1 when absent. */
  readonly host?: string;
  /** The name that every answer carries and `/v1/models` lists; when it is absent, an answer carries the name that was asked for. */
  readonly model?: string;
  /** How many requests are kept, the newest last; all when absent. A server that runs for long sets a bound. */
  readonly keepRequests?: number;
  /** Called with each valid request, before it is answered. */
  readonly onRequest?: (request: ChatRequest) => void;
  /** Called with each request that is refused as a provider would refuse it. */
  readonly onRefusal?: (error: WireError) => void;
}

/** A model server that listens. */
export interface ModelServer {
  /** The base URL for a client; it ends with `/v1`. */
  readonly url: string;
  readonly port: number;
  /** The bodies of the valid requests so far, in the order of their arrival. */
  readonly requests: readonly ChatRequest[];
  /** Ends every connection, stalled streams included, and stops listening. */
  close(): Promise<void>;
}

/** Starts a server. Throws `port_in_use` when the port is taken. */
export async function startModelServer(options: ModelServerOptions): Promise<ModelServer> {
  const requests: ChatRequest[] = [];
  const host = options.host ?? '127.0.0.1';
  const server = createServer((incoming, response) => {
    serve(incoming, response, options, requests).catch((error: unknown) => abandon(response, error));
  });
  const port = await listen(server, options.port ?? 0, host);
  const authority = host.includes(':') ? `[${host}]` : host;
  return { url: `http://${authority}:${port}/v1`, port, requests, close: () => close(server) };
}

function listen(server: Server, port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') return reject(error);
      const message = `The model server cannot listen on ${host}:${port}: the port is in use. Choose another port.`;
      reject(new CodedError('port_in_use', message, { cause: error }));
    });
    server.listen(port, host, () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : port);
    });
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

async function serve(
  incoming: IncomingMessage,
  response: ServerResponse,
  options: ModelServerOptions,
  requests: ChatRequest[],
): Promise<void> {
  const path = (incoming.url ?? '').split('?')[0];
  const route = `${incoming.method} ${path}`;
  if (route === 'GET /v1/models') {
    const data = [{ id: options.model ?? 'scripted', object: 'model', created: 0, owned_by: 'agentturn' }];
    return sendJson(response, 200, { object: 'list', data });
  }
  if (route !== 'POST /v1/chat/completions') {
    return sendError(response, 404, invalidRequest(`Unknown request URL: ${route}.`, null, 'unknown_url'));
  }
  const checked = check(await text(incoming));
  if (!checked.ok) {
    options.onRefusal?.(checked.error);
    return sendError(response, 400, checked.error);
  }
  const { request } = checked;
  requests.push(request);
  if (requests.length > (options.keepRequests ?? Number.POSITIVE_INFINITY)) requests.shift();
  options.onRequest?.(request);
  await reply(response, request, options);
}

function check(body: string): ReturnType<typeof parseChatRequest> {
  let json: unknown;
  try {
    json = JSON.parse(body);
  } catch {
    return { ok: false, error: invalidRequest('We could not parse the JSON body of your request.', null) };
  }
  const parsed = parseChatRequest(json);
  const error = parsed.ok ? checkConversation(parsed.request) : undefined;
  return error ? { ok: false, error } : parsed;
}

async function reply(response: ServerResponse, request: ChatRequest, options: ModelServerOptions): Promise<void> {
  const answer = await answerOf(options.answer, request);
  const model = options.model ?? request.model;
  switch (answer.kind) {
    case 'error':
      await pause(answer.delayMs, response);
      return sendError(response, answer.status, errorOf(answer), answer.headers);
    case 'message':
      await pause(answer.delayMs, response);
      if (!request.stream) return sendJson(response, 200, completionOf(request, answer, model));
      return stream(response, request, answer, model);
    case 'raw':
      return streamRaw(response, answer);
    case 'reset':
    case 'stall':
      return breakOff(response, request, answer, model);
    default:
      return answer satisfies never;
  }
}

/** The answer to a request. An answer function that throws is a bug on this side, so the client sees a server error that names it. */
async function answerOf(answer: AnswerFunction, request: ChatRequest): Promise<ModelAnswer> {
  try {
    return await answer(request);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { kind: 'error', status: 500, message: `The model's answer function threw: ${message}` };
  }
}

async function stream(
  response: ServerResponse,
  request: ChatRequest,
  answer: MessageAnswer,
  model: string,
): Promise<void> {
  openStream(response);
  for (const [index, chunk] of chunksOf(request, answer, model).entries()) {
    if (index > 0) await pause(answer.chunkDelayMs, response);
    response.write(eventOf(JSON.stringify(chunk)));
  }
  response.end(eventOf('[DONE]'));
}

async function streamRaw(response: ServerResponse, { chunks }: RawAnswer): Promise<void> {
  openStream(response);
  for (const chunk of chunks) {
    const free = response.write(typeof chunk === 'string' ? chunk : eventOf(JSON.stringify(chunk)));
    if (!free) await drained(response);
    if (response.closed) return;
  }
  response.end(eventOf('[DONE]'));
}

/** Resolves when more can be written, or when the client is gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      response.off('drain', go).off('close', go);
      resolve();
    };
    response.once('drain', go).once('close', go);
  });
}

async function breakOff(
  response: ServerResponse,
  request: ChatRequest,
  answer: BrokenAnswer,
  model: string,
): Promise<void> {
  if (request.stream) {
    openStream(response);
    const chunks = chunksOf(request, brokenMessage(answer), model, false).slice(0, answer.afterChunks);
    const events = chunks.map((chunk) => eventOf(JSON.stringify(chunk))).join('');
    // The cut waits for the write, because it could overtake the chunks that the client is to see.
    if (events !== '') await new Promise<void>((resolve) => response.write(events, () => resolve()));
  }
  if (answer.kind === 'reset') response.socket?.destroy();
}

function openStream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  response.flushHeaders();
}

const eventOf = (data: string): string => `data: ${data}\n\n`;

/** Gives a response up after an error. Mostly the client is gone; where it is not, it gets the fault on this side as a server error. */
function abandon(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  sendError(response, 500, { message: String(error), type: 'server_error', param: null, code: null });
}

/** Waits; rejects when the client is gone, so that nothing goes on for a client that is not there. */
async function pause(ms: number | undefined, response: ServerResponse): Promise<void> {
  if (ms === undefined || ms <= 0) return;
  const gone = new AbortController();
  const onClose = () => gone.abort();
  response.once('close', onClose);
  try {
    await sleep(ms, undefined, { signal: gone.signal });
  } finally {
    response.off('close', onClose);
  }
}

function errorOf(answer: Extract<ModelAnswer, { kind: 'error' }>): WireError {
  const message = answer.message ?? `The model server answered with status ${answer.status}.`;
  if (answer.status >= 500) return { message, type: 'server_error', param: null, code: answer.code ?? null };
  if (answer.status !== 429) return invalidRequest(message, null, answer.code ?? null);
  const code = answer.code ?? 'rate_limit_exceeded';
  return { message, type: code === 'insufficient_quota' ? code : 'requests', param: null, code };
}

function sendError(response: ServerResponse, status: number, error: WireError, headers = {}): void {
  sendJson(response, status, { error }, headers);
}

function sendJson(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

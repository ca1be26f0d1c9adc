/**
 * The gateway: everything a client can do, over HTTP, for callers that reach neither the store nor Temporal (design §7). It is one function
 * from a request to its response, for any server.
 *
 * Invariants
 * 1. Nothing but health, the OpenAPI document and the empty page of the console is answered without a known token, and nothing is done that its scopes do not allow.
 *    The token of a callback is in its path, and is for one call; that of a trigger too, and wakes one agent.
 * 2. Each error is a problem with a code of the catalogue; words of errors that nobody foresaw go to the log, and not out.
 */
import { isUtf8 } from 'node:buffer';
import { OpenAPIHono } from '@hono/zod-openapi';
import type { Context, MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { HTTPException } from 'hono/http-exception';
import { z } from 'zod';
import type { ClientStore } from '../../workflows/contract/store.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { SIZES } from '../../workflows/protocol/sizes.ts';
import type { BorderedClient } from '../client-api.ts';
import { consoleApp } from '../console/console.ts';
import type { CallbackTokens } from './callback-tokens.ts';
import { type GatewayToken, Tokens } from './caller.ts';
import { eventStream } from './event-stream.ts';
import { Accounts, type GatewayLimits } from './limits.ts';
import { problemResponse } from './problems.ts';
import { type AnyRoute, addRoute, type GatewayEnv, type GatewayParts } from './route.ts';
import { AGENT_WORK_ROUTES } from './routes/agent-work.ts';
import { AGENT_ROUTES } from './routes/agents.ts';
import { addCallbacks, CALLBACK_ROUTE } from './routes/callbacks.ts';
import { CHAT_ROUTES } from './routes/chat.ts';
import { MESSAGE_ROUTES } from './routes/chats.ts';
import { LIST_ROUTES } from './routes/lists.ts';
import { TURN_ROUTES } from './routes/turns.ts';
import { addWake, WAKE_ROUTE } from './routes/wake.ts';

/** What a gateway is made of. */
export interface GatewayDeps {
  readonly client: BorderedClient;
  readonly store: ClientStore;
  /** Whether the Temporal server answers: while it does not, nothing is written and everything can be read. */
  readonly temporalAnswers: () => Promise<boolean>;
  readonly tokens: readonly GatewayToken[];
  readonly limits?: GatewayLimits;
  /** Knows the tokens of callbacks; none is known when left out. */
  readonly callbacks?: CallbackTokens | undefined;
  /** The address of the list of workflows in Temporal's Web UI, for links of the console; none are shown when left out. */
  readonly webUi?: string | undefined;
  /** Takes errors that nobody foresaw. */
  readonly onError: (error: unknown) => void;
}

/** A gateway. */
export interface Gateway {
  /** Answers a request. */
  fetch(request: Request): Promise<Response>;
  /** Ends all streams, and takes no new ones: the server in front of it can then close. */
  stop(): void;
}

/** The largest body: a card in JSON, where each of its bytes may be escaped, and some room around it. */
const BODY_BYTES = 2 * SIZES.cardBytes;

/** The largest delivery of a third party: its result fits into a card, however it is written. */
const CALLBACK_BYTES = SIZES.cardBytes / 2;

const ROUTES: readonly AnyRoute[] = [
  ...AGENT_ROUTES,
  ...AGENT_WORK_ROUTES,
  ...TURN_ROUTES,
  ...MESSAGE_ROUTES,
  ...CHAT_ROUTES,
  ...LIST_ROUTES,
];

/** Makes a gateway. */
export function createGateway(deps: GatewayDeps): Gateway {
  const stopping = new AbortController();
  const accounts = new Accounts(deps.limits);
  const app = new OpenAPIHono<GatewayEnv>({
    defaultHook: (result) => {
      if (result.success) return;
      throw new CodedError('invalid_request', z.prettifyError(result.error as z.ZodError));
    },
  });
  app.onError((error) => refusal(error, deps.onError));
  addHealth(app, deps);
  // Before the check of who calls: whoever has the token of a trigger needs no other.
  addWake(app, deps.client, reachable(deps.temporalAnswers));
  app.all(WAKE_ROUTE.path.replace('{token}', ':token'), wrongPath([WAKE_ROUTE]));
  const bounded = bodyLimit({ maxSize: BODY_BYTES, onError: () => problemResponse(tooLarge(BODY_BYTES)) });
  app.use('/v1/*', known(new Tokens(deps.tokens), accounts), reachable(deps.temporalAnswers), bounded, utf8);
  const parts: GatewayParts = {
    client: deps.client,
    store: deps.store,
    webUi: deps.webUi ?? null,
    stream(caller, open, ending) {
      if (stopping.signal.aborted) throw new CodedError('too_many_requests', 'the gateway is stopping: try again soon');
      const closed = accounts.stream(caller.name);
      return eventStream({ open, ending, stopping: stopping.signal, closed, onError: deps.onError });
    },
  };
  for (const each of ROUTES) addRoute(app, parts, each);
  addCallbacks(app, parts, deps.callbacks ?? null, [
    reachable(deps.temporalAnswers),
    bodyLimit({ maxSize: CALLBACK_BYTES, onError: () => problemResponse(tooLarge(CALLBACK_BYTES)) }),
  ]);
  addDocument(app);
  // Relative, for whoever serves this under a path of theirs.
  app.get('/', (c) => c.redirect('console/'));
  app.get('/console', (c) => c.redirect('console/'));
  app.route('/console/', consoleApp());
  app.all('*', wrongPath([...ROUTES, CALLBACK_ROUTE]));
  return {
    async fetch(request) {
      try {
        return await (request.method === 'HEAD' ? headOf(request, app.fetch) : app.fetch(request));
      } catch (error) {
        // The app takes nothing for an error that another realm has made.
        return refusal(error, deps.onError);
      }
    },
    stop: () => stopping.abort(),
  };
}

/** Answers as to a GET, without the body. The router would leave the body of a stream neither read nor cancelled, and the stream open. */
async function headOf(
  { url, headers }: Request,
  fetch: (get: Request) => Promise<Response> | Response,
): Promise<Response> {
  const got = await fetch(new Request(url, { headers }));
  await got.body?.cancel();
  return new Response(null, got);
}

const tooLarge = (most: number): CodedError =>
  new CodedError('payload_too_large', `the body has more than ${most} bytes; write large texts as cards`);

/** Health of the process, and of what it needs: asked by machines, without a token. */
function addHealth(app: OpenAPIHono<GatewayEnv>, { store, temporalAnswers, onError }: GatewayDeps): void {
  app.get('/healthz', (c) => c.json({ status: 'ok' }));
  app.get('/readyz', async (c) => {
    const storeAnswers = await store.getTurnStatus('').then(
      () => true,
      (error: unknown) => {
        onError(error);
        return false;
      },
    );
    const temporal = await temporalAnswers();
    const status = { store: storeAnswers ? 'ok' : 'unreachable', temporal: temporal ? 'ok' : 'unreachable' };
    return c.json(status, storeAnswers && temporal ? 200 : 503);
  });
}

/** Lets in who has a known token and does not ask too often. */
const known =
  (tokens: Tokens, accounts: Accounts): MiddlewareHandler<GatewayEnv> =>
  async (c, next) => {
    const caller = tokens.callerOf(c.req.header('authorization'));
    if (!caller)
      throw new CodedError('unauthenticated', 'this needs "Authorization: Bearer TOKEN" with a token of this gateway');
    const waitS = accounts.request(caller.name);
    if (waitS > 0)
      return problemResponse(
        new CodedError('too_many_requests', `the token of ${caller.name} asks too often; wait ${waitS} s`),
        waitS,
      );
    c.set('caller', caller);
    return next();
  };

/** Says while Temporal does not answer; then nothing is written, for nobody could be told of it. */
const reachable =
  (temporalAnswers: () => Promise<boolean>): MiddlewareHandler<GatewayEnv> =>
  async (c, next) => {
    const answers = await temporalAnswers();
    if (!answers && c.req.method !== 'GET')
      throw new CodedError(
        'temporal_unreachable',
        'the Temporal server does not answer: nothing was written; what there is can be read',
      );
    await next();
    if (!answers) c.res.headers.set('agentturn-temporal', 'unreachable');
  };

/** Refuses a body with bytes that are no UTF-8: decoded, it would say something that nobody has sent. */
const utf8: MiddlewareHandler<GatewayEnv> = async (c, next) => {
  if (c.req.method !== 'GET' && !isUtf8(await c.req.arrayBuffer()))
    throw new CodedError('invalid_request', 'the body has bytes that are no UTF-8; send JSON as UTF-8');
  return next();
};

function addDocument(app: OpenAPIHono<GatewayEnv>): void {
  app.openAPIRegistry.registerComponent('securitySchemes', 'bearer', { type: 'http', scheme: 'bearer' });
  const document = app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: { title: 'AgentTurn', version: '1', description: 'Durable turns of LLM agents.' },
  });
  app.get('/openapi.json', (c) => c.json(document));
}

/** What no route took: a path that is none, or one that takes another method. */
const wrongPath = (routes: readonly Pick<AnyRoute, 'method' | 'path'>[]) => (c: Context) => {
  const takes = routes.filter(({ path }) => patternOf(path).test(c.req.path)).map(({ method }) => method.toUpperCase());
  if (takes.length === 0)
    return problemResponse(new CodedError('not_found', `there is no ${c.req.path.slice(0, 200)}`));
  const message = `${c.req.path.slice(0, 200)} takes ${takes.join(', ')}, not ${c.req.method}`;
  const response = problemResponse(new CodedError('method_not_allowed', message));
  response.headers.set('allow', takes.join(', '));
  return response;
};

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`);

function refusal(error: unknown, onError: (error: unknown) => void): Response {
  if (error instanceof HTTPException) {
    if (error.status === 415)
      return problemResponse(
        new CodedError('unsupported_media_type', 'the body must be JSON, with "Content-Type: application/json"'),
      );
    if (error.status === 413) return problemResponse(tooLarge(BODY_BYTES));
    return problemResponse(new CodedError('invalid_request', `the request cannot be read: ${error.message}`));
  }
  const response = problemResponse(error);
  if (response.status >= 500) onError(error);
  return response;
}

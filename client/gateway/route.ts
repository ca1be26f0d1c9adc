/** What a route is: where it is, who may use it, what it takes and gives. One function puts it into the app and into the OpenAPI document. */
import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import type { Context, MiddlewareHandler } from 'hono';
import { z } from 'zod';
import type { Border } from '../../workflows/contract/border.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { BorderedClient, ClientApi } from '../client-api.ts';
import { TENANT_HEADER } from '../http/gateway-connection.ts';
import type { Caller, Scope } from './caller.ts';
import type { ServerSentEvent, StreamEnding } from './event-stream.ts';
import { problemSchema } from './schemas.ts';

/** What the app keeps of a request while it is handled. */
export interface GatewayEnv {
  readonly Variables: { caller: Caller };
}

/** What all handlers work with. */
export interface GatewayParts extends Omit<GatewayContext, 'client' | 'store'> {
  readonly client: BorderedClient;
  readonly store: ClientStore;
}

/** What handlers of one request work with: client and store show what its caller sees, and nothing else. */
export interface GatewayContext {
  /** What the caller asks for is done by this client. */
  readonly client: ClientApi;
  readonly store: ClientStore;
  /** The address of the list of workflows in Temporal's Web UI; null where nobody named it. */
  readonly webUi: string | null;
  /** Sends the events of an iterator. Errors: `too_many_requests`. */
  stream(
    caller: Caller,
    open: (signal: AbortSignal) => AsyncIterator<ServerSentEvent>,
    ending?: StreamEnding,
  ): Response;
}

type Shape = z.ZodObject;

/** What a handler gets of a request: what was checked, and who sent it. */
export interface Call<Params, Query, Body> {
  readonly caller: Caller;
  /** What the caller sees, for the tenant that it calls for. */
  readonly border: Border;
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** The value of a header; undefined where there is none. */
  header(name: string): string | undefined;
}

/** A route. `handle` returns what is sent as JSON, or a response of its own. */
export interface RouteDefinition<P extends Shape, Q extends Shape, B extends z.ZodType> {
  readonly method: 'get' | 'post' | 'put' | 'delete';
  /** With `{name}` where a parameter stands. */
  readonly path: string;
  readonly scope: Scope;
  readonly summary: string;
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  /** The status of the good answer; 200 when left out. */
  readonly status?: 200 | 201 | 202;
  /** What comes back; `events` for server-sent events. */
  readonly result: z.ZodType | 'events';
  /** The status of another good answer; it has no body where there is no `result`. */
  readonly also?: { readonly status: number; readonly description: string; readonly result?: z.ZodType };
  handle(context: GatewayContext, call: Call<z.output<P>, z.output<Q>, z.output<B>>): Promise<unknown> | unknown;
}

/** A route whose handler's types have been checked against its schemas. */
export type AnyRoute = RouteDefinition<Shape, Shape, z.ZodType>;

/** Checks the types of a route. */
export const route = <P extends Shape, Q extends Shape, B extends z.ZodType>(
  definition: RouteDefinition<P, Q, B>,
): AnyRoute => definition as unknown as AnyRoute;

/** The problems that any route may answer with, for the OpenAPI document. */
export const PROBLEMS = {
  '4XX': {
    description: 'The request was refused: a problem with a code of the catalogue.',
    content: { 'application/problem+json': { schema: problemSchema } },
  },
  '503': {
    description: 'The store or the Temporal server does not answer; `Retry-After` says when to try again.',
    content: { 'application/problem+json': { schema: problemSchema } },
  },
};

/** Puts a route into the app. */
export function addRoute(app: OpenAPIHono<GatewayEnv>, parts: GatewayParts, definition: AnyRoute): void {
  const { method, path, scope, summary, params, query, body, status = 200, result, also, handle } = definition;
  const config = createRoute({
    method,
    path,
    summary,
    description: `Needs the scope \`${scope}\`.`,
    security: [{ bearer: [scope] }],
    middleware: [demand(scope)],
    request: {
      ...(params ? { params } : {}),
      ...(query ? { query } : {}),
      ...(body ? { body: { required: true, content: { 'application/json': { schema: body } } } } : {}),
    },
    responses: {
      [status]: goodAnswer(result),
      ...(also
        ? { [also.status]: { ...(also.result ? goodAnswer(also.result) : {}), description: also.description } }
        : {}),
      ...PROBLEMS,
    },
  });
  const run = async (c: Context<GatewayEnv>): Promise<Response> => {
    const valid = c.req.valid.bind(c.req) as unknown as (target: string) => Record<string, unknown>;
    const caller = c.get('caller');
    const border = caller.borderFor(c.req.header(TENANT_HEADER));
    const came = await handle(
      { ...parts, ...seenBy(parts, border) },
      {
        caller,
        border,
        params: params ? valid('param') : {},
        query: query ? valid('query') : {},
        body: body ? valid('json') : undefined,
        header: (name) => c.req.header(name),
      },
    );
    return came instanceof Response ? came : c.json(came as object, status);
  };
  app.openapi(config, run as never);
}

const VIEWS = new WeakMap<GatewayParts, WeakMap<Border, Pick<GatewayContext, 'client' | 'store'>>>();

/** Client and store as they are seen within a border; those of a border are made once. */
function seenBy(parts: GatewayParts, border: Border): Pick<GatewayContext, 'client' | 'store'> {
  const views = VIEWS.get(parts) ?? new WeakMap();
  VIEWS.set(parts, views);
  const view = views.get(border) ?? { client: parts.client.within(border), store: parts.store.within(border) };
  views.set(border, view);
  return view;
}

const goodAnswer = (result: z.ZodType | 'events') =>
  result === 'events'
    ? {
        description: 'Server-sent events; `Last-Event-ID` goes on behind the event with that id.',
        content: { 'text/event-stream': { schema: z.string() } },
      }
    : { description: 'What was asked for.', content: { 'application/json': { schema: result } } };

/** Refuses callers without the scope. */
const demand =
  (scope: Scope): MiddlewareHandler<GatewayEnv> =>
  async (c, next) => {
    const caller = c.get('caller');
    if (caller.may(scope)) return next();
    throw new CodedError('permission_denied', `the token of ${caller.name} has no scope ${scope}; use one that has it`);
  };

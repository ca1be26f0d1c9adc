/**
 * The one route for third parties: whoever has the token of a callback delivers the result of its call (design §7).
 *
 * Invariants
 * 1. The token alone says which call; nothing that is sent names another one, ends the turn, or refers to what is in the store.
 * 2. A delivery that is repeated is acknowledged like the first one, also after the turn, and writes nothing.
 */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { MiddlewareHandler } from 'hono';
import { RESULT_STATUSES } from '../../../workflows/protocol/cards.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { type JsonObject, own } from '../../../workflows/protocol/json.ts';
import { jsonSchema } from '../../../workflows/protocol/json-schema.ts';
import { type ToolResultReport, toolErrorSchema } from '../../../workflows/protocol/tool-result.ts';
import { isTerminal } from '../../../workflows/protocol/turn.ts';
import type { CallbackCall, CallbackTokens } from '../callback-tokens.ts';
import { Accounts } from '../limits.ts';
import { problemResponse } from '../problems.ts';
import { type GatewayContext, type GatewayEnv, PROBLEMS } from '../route.ts';

/** Where callbacks are delivered. */
export const CALLBACK_ROUTE = { method: 'post', path: '/callbacks/{token}' } as const;

/** Deliveries for one call: a service that repeats itself needs few. */
const LIMITS = { requestsPerSecond: 5, burst: 50 };

const ackSchema = z.object({ ack: z.enum(['applied', 'buffered', 'duplicate']) });
type DeliveryAck = z.output<typeof ackSchema>;

/** What a third party may say: a report without what only callers with a token of their own may wish. */
const deliverySchema = z.strictObject({
  status: z.enum([...RESULT_STATUSES, 'running']),
  result: jsonSchema.optional(),
  error: toolErrorSchema.optional(),
});

const config = createRoute({
  ...CALLBACK_ROUTE,
  summary: 'Deliver the result of the one call that the token is for.',
  description: 'Needs nothing but the token in the path, which `context.callbackUrl()` of a tool has made.',
  security: [],
  request: {
    params: z.object({ token: z.string() }),
    query: z.strictObject({
      body: z.enum(['report', 'result']).optional().openapi({
        description: 'What the body is: a report, or any JSON, which is then the result itself.',
      }),
    }),
    body: { required: true, content: { 'application/json': { schema: z.unknown().openapi('CallbackDelivery', {}) } } },
  },
  responses: {
    200: {
      description: 'The delivery was taken, now or before.',
      content: { 'application/json': { schema: ackSchema } },
    },
    ...PROBLEMS,
  },
});

/** Puts the route into the app. `checks` come between the token and the body; without `tokens` none is known. */
export function addCallbacks(
  app: OpenAPIHono<GatewayEnv>,
  { client, store }: GatewayContext,
  tokens: CallbackTokens | null,
  checks: readonly MiddlewareHandler<GatewayEnv>[],
): void {
  const accounts = new Accounts(LIMITS);
  const demandToken: MiddlewareHandler<GatewayEnv> = async (c, next) => {
    const call = callOf(tokens, c.req.param('token') ?? '');
    const waitS = accounts.request(call.callId);
    if (waitS === 0) return next();
    const message = `too many deliveries for one call; wait ${waitS} s`;
    return problemResponse(new CodedError('too_many_requests', message), waitS);
  };
  app.post('/callbacks/:token', demandToken, ...checks);
  app.openapi(config, async (c) => {
    const call = callOf(tokens, c.req.valid('param').token);
    const report = reportOf(call, c.req.valid('json'), c.req.valid('query').body ?? 'report');
    return c.json(await deliver({ client, store }, call, report), 200);
  });
}

/** Errors: `callbacks_not_configured`, `callback_unknown`. */
function callOf(tokens: CallbackTokens | null, token: string): CallbackCall {
  if (!tokens)
    throw new CodedError('callbacks_not_configured', 'this gateway has no AGENTTURN_SIGNING_KEY and knows no callback');
  const call = tokens.callOf(token);
  if (call) return call;
  throw new CodedError(
    'callback_unknown',
    'this callback was not made with a key of this gateway, or its URL was cut or changed on the way',
  );
}

/** What a delivery says of the call. Errors: `invalid_request`. */
function reportOf({ callId }: CallbackCall, body: unknown, kind: 'report' | 'result'): ToolResultReport {
  const parsed = deliverySchema.safeParse(kind === 'result' ? { status: 'success', result: body } : body);
  if (!parsed.success) throw new CodedError('invalid_request', `the delivery: ${z.prettifyError(parsed.error)}`);
  const { result } = parsed.data;
  if (parsed.data.status === 'success' && parsed.data.error)
    throw new CodedError('invalid_request', 'the delivery: a success has no error');
  const isControlled =
    typeof result === 'object' && result !== null && own(result as JsonObject, '__cg_control') !== undefined;
  if (isControlled)
    throw new CodedError('invalid_request', 'the delivery: __cg_control is for tools and for callers with a token');
  return { ...parsed.data, callId };
}

/** Errors: `call_not_found`, `call_answered`, `turn_ended`. */
async function deliver(
  { client, store }: Pick<GatewayContext, 'client' | 'store'>,
  call: CallbackCall,
  report: ToolResultReport,
): Promise<DeliveryAck> {
  const { agentTurnId } = call;
  const before = await compare(store, call, report);
  if (before) return before;
  const { ack } = await client.turn(agentTurnId).toolResult(report);
  if (ack === 'applied' || ack === 'buffered') return { ack };
  if (ack === 'unknown') throw notFound(call);
  // Another delivery, or the end of the turn, has come in between.
  const meanwhile = await compare(store, call, report);
  if (meanwhile) return meanwhile;
  throw turnEnded(call);
}

/** The answer to a delivery that repeats the result; null where the call has none. Errors: `call_not_found`, `call_answered`, `turn_ended`. */
async function compare(
  store: GatewayContext['store'],
  call: CallbackCall,
  report: ToolResultReport,
): Promise<DeliveryAck | null> {
  const turn = await store.getTurn(call.agentTurnId);
  if (turn?.agentId !== call.agentId) throw notFound(call);
  const how = await store.compareResult(call.agentTurnId, report);
  if (how === 'none') return null;
  if (how === 'same') return { ack: 'duplicate' };
  if (isTerminal(turn.status)) throw turnEnded(call);
  throw new CodedError('call_answered', `call ${call.callId} has another result: the first one that came counts`);
}

const turnEnded = ({ callId }: CallbackCall): CodedError =>
  new CodedError('turn_ended', `the turn of call ${callId} is over: nothing was written`);

const notFound = ({ callId }: CallbackCall): CodedError =>
  new CodedError('call_not_found', `call ${callId} is not in this store, or does not wait for a result`);

/**
 * The route for whoever has the token of a trigger: it wakes one agent (A9).
 *
 * Invariants
 * 1. The token alone says which agent, and no answer names it.
 * 2. Tokens that are not known to be of a trigger are looked for so often in a second and not more, whoever guesses them; those that are
 *    known do not wait for them.
 */
import { type OpenAPIHono, z } from '@hono/zod-openapi';
import type { Context, MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { wakeTokenHash } from '../../../activities/wake-tokens.ts';
import { MOST_DELIVERY_BYTES, MOST_KEY_CHARACTERS } from '../../../workflows/agent-state/triggers.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { TriggerAck } from '../../api.ts';
import type { ClientApi } from '../../client-api.ts';
import { disposition } from '../agent-schemas.ts';
import { Accounts } from '../limits.ts';
import { problemResponse } from '../problems.ts';
import { type GatewayEnv, PROBLEMS } from '../route.ts';

/** Where triggers are hit. */
export const WAKE_ROUTE = { method: 'post', path: '/v1/wake/{token}' } as const;

/** Hits of one trigger. */
const LIMITS = { requestsPerSecond: 10, burst: 100 };
/** Tokens that are not known, of all callers together. */
const UNKNOWN_LIMITS = { requestsPerSecond: 20, burst: 200 };
/** How many triggers that were hit are remembered. */
const MOST_KNOWN = 10_000;

const document = {
  ...WAKE_ROUTE,
  summary: 'Wake the agent that the token of a trigger is for.',
  description: `Needs nothing but the token in the path. The body is what the agent is told: text or JSON of at most ${MOST_DELIVERY_BYTES} bytes, or nothing. A delivery that is repeated with the same \`Idempotency-Key\`, or \`webhook-id\`, of at most ${MOST_KEY_CHARACTERS} characters counts once.`,
  security: [],
  request: {
    params: z.object({ token: z.string() }),
    headers: z.object({
      'idempotency-key': z.string().max(MOST_KEY_CHARACTERS).optional(),
      'webhook-id': z.string().max(MOST_KEY_CHARACTERS).optional(),
    }),
    body: {
      content: {
        'application/json': { schema: z.unknown().openapi('WakeDelivery', {}) },
        'text/plain': { schema: z.string() },
      },
    },
  },
  responses: {
    200: {
      description:
        'The delivery was taken: `woken` at once, `kept` for later, `noted` for it said nothing, or `duplicate`.',
      content: { 'application/json': { schema: z.object({ disposition }) } },
    },
    ...PROBLEMS,
  },
};

/** Puts the route into the app. `reachable` comes between the token and the body. */
export function addWake(
  app: OpenAPIHono<GatewayEnv>,
  client: Pick<ClientApi, 'fireTrigger'>,
  reachable: MiddlewareHandler<GatewayEnv>,
): void {
  const tokens = new TriggerTokens();
  const path = WAKE_ROUTE.path.replace('{token}', ':token');
  const notTooOften: MiddlewareHandler<GatewayEnv> = async (c, next) => {
    const { waitS, message } = tokens.request(c.req.param('token') ?? '');
    return waitS === 0 ? next() : problemResponse(new CodedError('too_many_requests', message), waitS);
  };
  const bounded = bodyLimit({ maxSize: MOST_DELIVERY_BYTES, onError: () => problemResponse(tooLarge()) });
  app.post(path, notTooOften, reachable, bounded, async (c) => {
    const token = c.req.param('token') ?? '';
    const key = c.req.header('idempotency-key') ?? c.req.header('webhook-id');
    const delivery = { text: await textOf(c), ...(key === undefined ? {} : { key }) };
    try {
      const ack: TriggerAck = await client.fireTrigger(token, delivery);
      tokens.known(token);
      return c.json(ack);
    } catch (error) {
      throw refusalOf(error, token, tokens);
    }
  });
  app.openAPIRegistry.registerPath(document);
}

/** How often tokens are used. */
class TriggerTokens {
  readonly #ofTriggers = new Accounts(LIMITS);
  readonly #others = new Accounts(UNKNOWN_LIMITS);
  /** Digests of tokens: what is remembered is none. Those first that were not used for longest. */
  readonly #known = new Set<string>();

  /** How many seconds to wait with this token, and why; 0 where it may be used. */
  request(token: string): { readonly waitS: number; readonly message: string } {
    const digest = wakeTokenHash(token);
    const isKnown = this.#known.has(digest);
    const waitS = isKnown ? this.#ofTriggers.request(digest) : this.#others.request('');
    const message = isKnown ? 'too many deliveries for one trigger' : 'too many tokens that are not known';
    return { waitS, message: `${message}; wait ${waitS} s` };
  }

  known(token: string): void {
    const digest = wakeTokenHash(token);
    this.#known.delete(digest);
    this.#known.add(digest);
    const [oldest] = this.#known;
    if (this.#known.size > MOST_KNOWN && oldest !== undefined) this.#known.delete(oldest);
  }

  unknown(token: string): void {
    this.#known.delete(wakeTokenHash(token));
  }
}

/** The error as it goes out: it names no agent. */
function refusalOf(error: unknown, token: string, tokens: TriggerTokens): unknown {
  if (!(error instanceof CodedError)) return error;
  if (error.code === 'trigger_unknown') tokens.unknown(token);
  if (error.code !== 'agent_stopped') return error;
  tokens.known(token);
  return new CodedError('agent_stopped', 'the agent of this trigger is stopped: deliver again when it is started');
}

/** What the body says; null for an empty one. Errors: `invalid_request`, `unsupported_media_type`. */
async function textOf(c: Context<GatewayEnv>): Promise<string | null> {
  const text = await c.req.text();
  if (text === '') return null;
  const [type = ''] = (c.req.header('content-type') ?? 'text/plain').toLowerCase().split(';');
  if (type.trim() === 'text/plain') return text;
  if (!/^application\/([\w.+-]+\+)?json$/.test(type.trim()))
    throw new CodedError(
      'unsupported_media_type',
      'the body must be JSON, with "Content-Type: application/json", or text, with "Content-Type: text/plain"',
    );
  try {
    return JSON.stringify(JSON.parse(text));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CodedError('invalid_request', `the body is not the JSON that its Content-Type says: ${reason}`);
  }
}

const tooLarge = (): CodedError =>
  new CodedError(
    'payload_too_large',
    `the body has more than ${MOST_DELIVERY_BYTES} bytes; say where what is large can be read`,
  );

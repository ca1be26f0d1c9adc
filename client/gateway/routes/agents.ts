/** Routes of agents: requests, lifecycle, memory, events. */
import { z } from '@hono/zod-openapi';
import { POSTURES } from '../../../workflows/agent-state/posture.ts';
import { AGENT_STATUSES } from '../../../workflows/agent-state/status.ts';
import type { AgentFilter } from '../../../workflows/contract/views.ts';
import { enqueueRequestSchema } from '../../../workflows/protocol/enqueue.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { agentSchema, agentSummarySchema } from '../agent-schemas.ts';
import { checkSeq, demandInView, logEventsOf } from '../events.ts';
import { readLast, readNumbered } from '../pages.ts';
import { type AnyRoute, route } from '../route.ts';
import {
  agentParams,
  behindId,
  enqueueAckSchema,
  flag,
  limit,
  pageOf,
  place,
  status,
  storeTime,
  turnSchema,
} from '../schemas.ts';

/** A request as it comes over HTTP: checked by the client, so that all callers read the same words. */
const enqueueBody = z.record(z.string(), z.unknown()).openapi('EnqueueRequest', {
  type: 'object',
  description: 'Either `instruction` or `instructionCardId`; all else may be left out.',
  properties: {
    instruction: { type: 'string' },
    instructionCardId: { type: 'string', format: 'uuid' },
    contextBoxId: { type: 'string', format: 'uuid' },
    outputBoxId: { type: 'string', format: 'uuid' },
    profile: { type: 'string' },
    resultFields: { type: 'object' },
    criteria: { type: 'array', items: { type: 'string' } },
    idempotencyKey: { type: 'string' },
    priority: { type: 'string', enum: ['now', 'normal', 'background'] },
    uiAction: { type: 'boolean' },
    correlationId: { type: 'string' },
    traceparent: { type: 'string' },
    metadata: { type: 'object', additionalProperties: { type: 'string' } },
    waitSeconds: { type: 'integer', minimum: 0, maximum: 60, description: 'Waits so long for the end of the turn.' },
  },
});

const bodyWait = z.int().min(0).max(60).default(0);

const enqueue = route({
  method: 'post',
  path: '/v1/agents/{agentId}/turns',
  scope: 'write',
  summary: 'Enqueue one turn of an agent; with waitSeconds, wait for its end.',
  params: agentParams,
  body: enqueueBody,
  result: turnSchema,
  also: { status: 202, description: 'The turn is in the store and will run.', result: enqueueAckSchema },
  async handle({ client }, { params: { agentId }, body, header }) {
    const { waitSeconds: wanted, ...given } = body;
    const wait = bodyWait.safeParse(wanted);
    if (!wait.success) throw new CodedError('invalid_request', 'waitSeconds must be a whole number from 0 to 60');
    const key = header('idempotency-key');
    const parsed = enqueueRequestSchema.safeParse(key === undefined ? given : { idempotencyKey: key, ...given });
    if (!parsed.success) throw new CodedError('invalid_request', z.prettifyError(parsed.error));
    const request = parsed.data;
    const { criteria, ...rest } = request;
    const turn = await client.agent(agentId).enqueue({ ...rest, ...(criteria ? { criteria } : {}) });
    if (wait.data > 0) {
      const ended = await turn.result({ timeoutMs: wait.data * 1_000 }).catch(orNull);
      if (ended) return ended;
    }
    return Response.json({ ...turn.ack, agentId }, { status: 202 });
  },
});

/** Null where the turn has not ended in time. */
const orNull = (error: unknown): null => {
  if (error instanceof CodedError && error.code === 'result_wait_timeout') return null;
  throw error;
};

const list = route({
  method: 'get',
  path: '/v1/agents',
  scope: 'read',
  summary: 'List agents by id; with count, say how many there are.',
  query: z.strictObject({
    posture: z.enum(POSTURES).optional(),
    status: z.enum(AGENT_STATUSES).optional(),
    profile: behindId.optional(),
    oneShot: z.enum(['with', 'only']).optional().openapi({
      description: 'One-shot agents whose turn has ended, left out where this is: with the others, or only they.',
    }),
    count: flag.optional(),
    after: behindId.optional(),
    limit,
  }),
  result: pageOf(agentSchema).extend({
    total: z
      .int()
      .optional()
      .openapi({ description: 'How many fit the query, on all pages; present with count=true.' }),
    readAt: storeTime,
  }),
  async handle(
    { store },
    { query: { after, limit: most = 100, count, posture, status: agentStatus, profile, oneShot } },
  ) {
    const filter: AgentFilter = {
      ...(posture === undefined ? {} : { posture }),
      ...(agentStatus === undefined ? {} : { agentStatus }),
      ...(profile === undefined ? {} : { profile }),
      ...(oneShot === undefined ? {} : { oneShot }),
    };
    const readAt = Date.now() + store.clockAheadMs();
    const total = count ? { total: await store.countAgents(filter) } : {};
    const items = await store.listAgents({ ...filter, ...(after === undefined ? {} : { after }), limit: most });
    return { items, next: items.length < most ? null : (items.at(-1)?.agentId ?? null), ...total, readAt };
  },
});

const get = route({
  method: 'get',
  path: '/v1/agents/{agentId}',
  scope: 'read',
  summary: 'Read what an agent is at.',
  params: agentParams,
  result: agentSummarySchema,
  async handle({ client }, { params: { agentId } }) {
    const agent = await client.agent(agentId).get();
    if (agent) return agent;
    throw new CodedError('agent_not_found', `agent ${agentId} has never had a request; one makes it`);
  },
});

const turns = route({
  method: 'get',
  path: '/v1/agents/{agentId}/turns',
  scope: 'read',
  summary: 'List turns of an agent, oldest first.',
  params: agentParams,
  query: z.strictObject({ status: status.optional(), after: place.optional(), last: limit, limit }),
  result: pageOf(turnSchema),
  async handle({ client }, { params: { agentId }, query: { limit: most = 100, ...filter } }) {
    const { status: wanted, after, last: end } = filter;
    const agent = client.agent(agentId);
    const ofStatus = wanted ? { status: wanted } : {};
    if (end !== undefined) return readLast(end, (last) => agent.turns({ ...ofStatus, last }));
    return readNumbered({
      limit: most,
      after,
      read: (page) => agent.turns({ ...ofStatus, ...page }),
      place: ({ acceptSeq }) => acceptSeq,
    });
  },
});

const stop = route({
  method: 'post',
  path: '/v1/agents/{agentId}/stop',
  scope: 'operate',
  summary: 'Stop an agent: its turn ends, its queue stays, and it refuses requests.',
  params: agentParams,
  body: z.strictObject({ reason: z.string().max(1_000).optional() }),
  result: z.object({ stoppedTurnId: z.string().nullable() }),
  handle({ client }, { caller, params: { agentId }, body: { reason } }) {
    return client.agent(agentId).stop(reason ?? `stopped by ${caller.name}`);
  },
});

const start = route({
  method: 'post',
  path: '/v1/agents/{agentId}/start',
  scope: 'operate',
  summary: 'Start a stopped agent; its queue goes on.',
  params: agentParams,
  body: z.strictObject({}),
  result: z.object({}),
  async handle({ client }, { params: { agentId } }) {
    await client.agent(agentId).start();
    return {};
  },
});

const replaceBox = route({
  method: 'put',
  path: '/v1/agents/{agentId}/boxes',
  scope: 'operate',
  summary: 'Make an idle agent remember exactly these cards.',
  params: agentParams,
  body: z.strictObject({
    expectedBoxId: z.string().min(1).max(128),
    cardIds: z.array(z.string().min(1).max(128)).max(10_000),
  }),
  result: z.object({ boxId: z.string() }),
  async handle({ client }, { params: { agentId }, body: { expectedBoxId, cardIds } }) {
    return { boxId: await client.agent(agentId).replaceOutputBox(expectedBoxId, cardIds) };
  },
});

const events = route({
  method: 'get',
  path: '/v1/agents/{agentId}/events',
  scope: 'read',
  summary: "Follow an agent's events.",
  params: agentParams,
  query: z.strictObject({ afterSeq: place.optional() }),
  result: 'events',
  async handle(context, { caller, params: { agentId }, query, header }) {
    await demandInView(context.store, agentId);
    const afterSeq = await checkSeq(context.store, { agentId }, header('last-event-id') ?? query.afterSeq);
    return context.stream(caller, (signal) => logEventsOf(context.client.agent(agentId).events({ afterSeq, signal })));
  },
});

/** The routes of agents. */
export const AGENT_ROUTES: readonly AnyRoute[] = [enqueue, list, get, turns, stop, start, replaceBox, events];

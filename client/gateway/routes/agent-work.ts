/** Routes of what an agent has between its turns: work items, waits, timers, triggers, and waking it. */
import { z } from '@hono/zod-openapi';
import {
  disposition,
  timerParams,
  timerSchema,
  triggerParams,
  triggerSchema,
  waitSchema,
  workItemSchema,
} from '../agent-schemas.ts';
import { type AnyRoute, route } from '../route.ts';
import { agentParams, behindId, flag, limit, pageOf } from '../schemas.ts';

const MOST = 100;

const pageQuery = z.strictObject({ open: flag.optional(), after: behindId.optional(), limit });

/** A page as the store takes it. */
const workPage = ({ open, after, limit: most = MOST }: z.output<typeof pageQuery>) => ({
  ...(open === undefined ? {} : { open }),
  ...(after === undefined ? {} : { after }),
  limit: most,
});

/** A page as it goes out. */
const paged = <T>(items: readonly T[], { limit: most = MOST }: z.output<typeof pageQuery>, id: (item: T) => string) => {
  const last = items.length < most ? undefined : items.at(-1);
  return { items, next: last === undefined ? null : id(last) };
};

const workItems = route({
  method: 'get',
  path: '/v1/agents/{agentId}/work-items',
  scope: 'read',
  summary: 'List work items of an agent, oldest first.',
  params: agentParams,
  query: pageQuery,
  result: pageOf(workItemSchema),
  async handle({ client }, { params: { agentId }, query }) {
    return paged(await client.agent(agentId).workItems(workPage(query)), query, ({ workItemId }) => workItemId);
  },
});

const waits = route({
  method: 'get',
  path: '/v1/agents/{agentId}/waits',
  scope: 'read',
  summary: 'List what an agent waits for between its turns, oldest first.',
  params: agentParams,
  query: pageQuery,
  result: pageOf(waitSchema),
  async handle({ client }, { params: { agentId }, query }) {
    return paged(await client.agent(agentId).waits(workPage(query)), query, ({ waitId }) => waitId);
  },
});

const timers = route({
  method: 'get',
  path: '/v1/agents/{agentId}/timers',
  scope: 'read',
  summary: 'List the timers of an agent that will fire, oldest first.',
  params: agentParams,
  result: z.object({ items: z.array(timerSchema) }),
  async handle({ client }, { params: { agentId } }) {
    return { items: await client.agent(agentId).timers() };
  },
});

const cancelTimer = route({
  method: 'delete',
  path: '/v1/agents/{agentId}/timers/{timerId}',
  scope: 'operate',
  summary: 'Cancel a timer; false when there is none that will fire.',
  params: timerParams,
  result: z.object({ cancelled: z.boolean() }),
  async handle({ client }, { params: { agentId, timerId } }) {
    return { cancelled: await client.agent(agentId).cancelTimer(timerId) };
  },
});

const triggers = route({
  method: 'get',
  path: '/v1/agents/{agentId}/triggers',
  scope: 'read',
  summary: 'List triggers of an agent, oldest first, without their tokens.',
  params: agentParams,
  query: pageQuery,
  result: pageOf(triggerSchema),
  async handle({ client }, { params: { agentId }, query }) {
    return paged(await client.agent(agentId).triggers.list(workPage(query)), query, ({ triggerId }) => triggerId);
  },
});

const createTrigger = route({
  method: 'post',
  path: '/v1/agents/{agentId}/triggers',
  scope: 'operate',
  summary: 'Make a trigger, and tell its token this once.',
  params: agentParams,
  body: z.strictObject({ name: z.string() }),
  status: 201,
  result: triggerSchema.extend({ token: z.string(), path: z.string() }).openapi('MadeTrigger'),
  handle({ client }, { params: { agentId }, body }) {
    return client.agent(agentId).triggers.create(body);
  },
});

const revokeTrigger = route({
  method: 'delete',
  path: '/v1/agents/{agentId}/triggers/{triggerId}',
  scope: 'operate',
  summary: 'Revoke a trigger, for good; false when there is none.',
  params: triggerParams,
  result: z.object({ revoked: z.boolean() }),
  async handle({ client }, { params: { agentId, triggerId } }) {
    return { revoked: await client.agent(agentId).triggers.revoke(triggerId) };
  },
});

const wake = route({
  method: 'post',
  path: '/v1/agents/{agentId}/wake',
  scope: 'write',
  summary: 'Wake an agent with a reason: it makes a turn of it now, or when it is free.',
  params: agentParams,
  body: z.strictObject({ reason: z.string(), key: z.string().optional() }),
  result: z.object({ agentId: z.string(), disposition }),
  handle({ client }, { params: { agentId }, body: { reason, key } }) {
    return client.agent(agentId).wake({ reason, ...(key === undefined ? {} : { key }) });
  },
});

/** The routes of what agents have between their turns. */
export const AGENT_WORK_ROUTES: readonly AnyRoute[] = [
  workItems,
  waits,
  timers,
  cancelTimer,
  triggers,
  createTrigger,
  revokeTrigger,
  wake,
];

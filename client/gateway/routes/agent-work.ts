/** Routes of what an agent has between its turns: work items, waits, timers, triggers, and waking it. */
import { z } from '@hono/zod-openapi';
import type { WorkPage } from '../../../workflows/contract/agent-work.ts';
import {
  disposition,
  timerParams,
  timerSchema,
  triggerParams,
  triggerSchema,
  waitSchema,
  workItemSchema,
} from '../agent-schemas.ts';
import { readPage } from '../pages.ts';
import { type AnyRoute, route } from '../route.ts';
import { agentParams, behindId, flag, limit, pageOf } from '../schemas.ts';

const MOST = 100;

const pageQuery = z.strictObject({ open: flag.optional(), after: behindId.optional(), limit });

/** A page of what an agent has. */
const paged = <T>(
  { open, after: from, limit: most = MOST }: z.output<typeof pageQuery>,
  read: (page: WorkPage) => Promise<readonly T[]>,
  place: (item: T) => string,
) => {
  const narrowed = open === undefined ? {} : { open };
  return readPage({
    limit: most,
    after: from,
    read: (after, limit) => read({ ...narrowed, ...(after === undefined ? {} : { after }), limit }),
    place,
  });
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
    return paged(
      query,
      (page) => client.agent(agentId).workItems(page),
      ({ workItemId }) => workItemId,
    );
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
    return paged(
      query,
      (page) => client.agent(agentId).waits(page),
      ({ waitId }) => waitId,
    );
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
    return paged(
      query,
      (page) => client.agent(agentId).triggers.list(page),
      ({ triggerId }) => triggerId,
    );
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

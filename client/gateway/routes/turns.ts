/** Routes of turns: read, follow, steer, answer, stop, break off. */
import { z } from '@hono/zod-openapi';
import { terminalOf } from '../../../workflows/chat/terminal.ts';
import type { TranscriptPage } from '../../../workflows/contract/transcript.ts';
import type { TurnView } from '../../../workflows/contract/views.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { TurnHandle } from '../../api.ts';
import { checkCursor } from '../../turn-stream.ts';

import { terminalSchema } from '../chat-schemas.ts';
import { checkSeq, logEventsOf, streamPartsOf } from '../events.ts';
import { readNumbered } from '../pages.ts';
import { type AnyRoute, type GatewayContext, route } from '../route.ts';
import {
  callParams,
  limit,
  pageOf,
  place,
  transcriptEntrySchema,
  treeSchema,
  turnParams,
  turnSchema,
  waitSeconds,
} from '../schemas.ts';

/** The agent of a turn. Errors: `turn_not_found`. */
const agentOfTurn = async ({ client }: GatewayContext, agentTurnId: string): Promise<string> =>
  (await client.turn(agentTurnId).get()).agentId;

const get = route({
  method: 'get',
  path: '/v1/turns/{agentTurnId}',
  scope: 'read',
  summary: 'Read a turn; with waitSeconds, when it has ended or the time is over.',
  params: turnParams,
  query: z.strictObject({ waitSeconds }),
  result: turnSchema.extend({
    terminal: terminalSchema
      .nullable()
      .openapi({ description: 'The one end of a turn of a chat; null while it is open, and for other turns.' }),
  }),
  async handle(context, { params: { agentTurnId }, query: { waitSeconds: wait = 0 } }) {
    const turn = context.client.turn(agentTurnId);
    const view = wait === 0 ? await turn.get() : await endWithin(turn, wait * 1_000);
    return { ...view, terminal: terminalOf(view) };
  },
});

const endWithin = (turn: TurnHandle, timeoutMs: number): Promise<TurnView> =>
  turn.result({ timeoutMs }).catch((error: unknown) => {
    if (error instanceof CodedError && error.code === 'result_wait_timeout') return turn.get();
    throw error;
  });

const events = route({
  method: 'get',
  path: '/v1/turns/{agentTurnId}/events',
  scope: 'read',
  summary: "Follow a turn's events, up to its end.",
  params: turnParams,
  query: z.strictObject({ afterSeq: place.optional() }),
  result: 'events',
  async handle(context, { caller, params: { agentTurnId }, query, header }) {
    const agentId = await agentOfTurn(context, agentTurnId);
    const afterSeq = await checkSeq(context.store, { agentId, agentTurnId }, header('last-event-id') ?? query.afterSeq);
    return context.stream(caller, (signal) =>
      logEventsOf(context.client.turn(agentTurnId).events({ afterSeq, signal })),
    );
  },
});

const stream = route({
  method: 'get',
  path: '/v1/turns/{agentTurnId}/stream',
  scope: 'read',
  summary: 'Follow a turn while its answers are written: text, calls, results, end.',
  params: turnParams,
  query: z.strictObject({ cursor: z.string().max(200).optional() }),
  result: 'events',
  async handle(context, { caller, params: { agentTurnId }, query, header }) {
    const agentId = await agentOfTurn(context, agentTurnId);
    const cursor = header('last-event-id') ?? query.cursor;
    if (cursor !== undefined) await checkCursor(context.store, { agentId, agentTurnId, cursor });
    return context.stream(caller, (signal) =>
      streamPartsOf(context.client.turn(agentTurnId).stream({ signal, ...(cursor === undefined ? {} : { cursor }) })),
    );
  },
});

const transcript = route({
  method: 'get',
  path: '/v1/turns/{agentTurnId}/transcript',
  scope: 'read',
  summary: 'What was asked, said, called, answered and delivered.',
  params: turnParams,
  query: z.strictObject({ after: place.optional(), limit }),
  result: pageOf(transcriptEntrySchema),
  async handle({ store }, { params: { agentTurnId }, query: { after, limit: most = 100 } }) {
    // So many cards are read; entries that have none come with them.
    const read = async (page: TranscriptPage) => {
      const entries = await store.readTranscript(agentTurnId, page);
      if (entries) return entries;
      throw new CodedError('turn_not_found', `there is no turn ${agentTurnId} in this store`);
    };
    return readNumbered({ limit: most, after, read, place: ({ seq }) => seq });
  },
});

const tree = route({
  method: 'get',
  path: '/v1/turns/{agentTurnId}/tree',
  scope: 'read',
  summary: 'The call tree: what the turn caused, each call and turn below what made it.',
  params: turnParams,
  result: treeSchema,
  async handle(context, { params: { agentTurnId } }) {
    return context.client.turn(agentTurnId).tree();
  },
});

const stall = route({
  method: 'get',
  path: '/v1/turns/{agentTurnId}/stall',
  scope: 'read',
  summary: 'Why the turn does not go on at the moment.',
  params: turnParams,
  query: z.strictObject({ queuedMs: place.optional() }),
  result: z.object({ stall: z.record(z.string(), z.unknown()).nullable() }),
  async handle(context, { params: { agentTurnId }, query: { queuedMs } }) {
    const turn = context.client.turn(agentTurnId);
    return { stall: await turn.stall(queuedMs === undefined ? {} : { queuedMs }) };
  },
});

const ack = (...answers: readonly [string, ...string[]]) => z.looseObject({ ack: z.enum(answers) });

/** A route that ends a turn; `done` says what somebody has done to it who gives no reason. */
const ending = (name: 'stop' | 'interrupt' | 'rollback', done: string, summary: string): AnyRoute =>
  route({
    method: 'post',
    path: `/v1/turns/{agentTurnId}/${name}`,
    scope: 'write',
    summary,
    params: turnParams,
    body: z.strictObject({ reason: z.string().max(1_000).optional() }),
    result: ack('stopped', 'canceled', 'already_ended', 'unknown'),
    async handle(context, { caller, params: { agentTurnId }, body: { reason } }) {
      return context.client.turn(agentTurnId)[name](reason ?? `${done} by ${caller.name}`);
    },
  });

const stop = ending('stop', 'stopped', 'Stop a turn, queued or running.');
const interrupt = ending(
  'interrupt',
  'interrupted',
  'End a turn so that its agent goes on with something else: messages that it has not read become the next turn.',
);
const rollback = ending(
  'rollback',
  'taken back',
  'As interrupt, and take the turn out of what its agent remembers, as if it had not been.',
);

const steer = route({
  method: 'post',
  path: '/v1/turns/{agentTurnId}/steer',
  scope: 'write',
  summary: 'A message for the running turn.',
  params: turnParams,
  body: z.strictObject({ text: z.string(), key: z.string().optional() }),
  result: ack('accepted', 'stale', 'unknown'),
  async handle(context, { params: { agentTurnId }, body, header }) {
    const key = body.key ?? header('idempotency-key');
    return context.client.turn(agentTurnId).steer(body.text, key === undefined ? {} : { key });
  },
});

const report = route({
  method: 'post',
  path: '/v1/turns/{agentTurnId}/tool-results/{callId}',
  scope: 'write',
  summary: 'Answer a suspended call.',
  params: callParams,
  body: z.record(z.string(), z.unknown()).openapi('ToolResultReport', {
    type: 'object',
    required: ['status'],
    properties: {
      status: { type: 'string', enum: ['success', 'failed', 'timeout', 'canceled', 'partial', 'running'] },
      result: {},
      toolResultCardId: { type: 'string', format: 'uuid' },
      error: { type: 'object' },
      afterExecution: { type: 'string', enum: ['continue', 'suspend', 'terminate'] },
      turnEpoch: { type: 'integer' },
    },
  }),
  result: ack('applied', 'buffered', 'duplicate', 'stale', 'unknown', 'deferred'),
  async handle(context, { params: { agentTurnId, callId }, body }) {
    const turn = context.client.turn(agentTurnId);
    // The client checks it, whatever it is.
    return turn.toolResult({ ...body, callId } as Parameters<typeof turn.toolResult>[0]);
  },
});

const answer = route({
  method: 'post',
  path: '/v1/turns/{agentTurnId}/approvals',
  scope: 'approve',
  summary: 'Answer a question about a call or a budget, as who the token names.',
  params: turnParams,
  body: z.record(z.string(), z.unknown()).openapi('ApprovalAnswer', {
    type: 'object',
    required: ['callId', 'decision'],
    properties: {
      callId: { type: 'string' },
      decision: { type: 'string', enum: ['approved', 'denied'] },
      reason: { type: 'string' },
      arguments: { type: 'object' },
      budgets: { type: 'object' },
    },
  }),
  result: ack('applied', 'duplicate', 'stale', 'unknown'),
  async handle(context, { caller, params: { agentTurnId }, body }) {
    const { by } = body;
    if (by !== undefined && by !== caller.name)
      throw new CodedError('permission_denied', `this token answers as ${caller.name}; leave "by" out`);
    const turn = context.client.turn(agentTurnId);
    return turn.answer({ ...body, by: caller.name } as Parameters<typeof turn.answer>[0]);
  },
});

const budgets = route({
  method: 'put',
  path: '/v1/turns/{agentTurnId}/budgets',
  scope: 'operate',
  summary: 'New budgets, effective before the next model call.',
  params: turnParams,
  body: z.record(z.string(), z.unknown()).openapi('BudgetChange', {
    type: 'object',
    properties: Object.fromEntries(
      ['maxSteps', 'maxToolCalls', 'maxTokens', 'maxWallTimeMs', 'maxCost'].map((name) => [
        name,
        { type: 'number' as const },
      ]),
    ),
  }),
  result: z.object({}),
  async handle(context, { params: { agentTurnId }, body }) {
    const turn = context.client.turn(agentTurnId);
    await turn.setBudgets(body as Parameters<typeof turn.setBudgets>[0]);
    return {};
  },
});

/** The routes of turns. */
export const TURN_ROUTES: readonly AnyRoute[] = [
  get,
  events,
  stream,
  transcript,
  tree,
  stall,
  stop,
  interrupt,
  rollback,
  steer,
  report,
  answer,
  budgets,
];

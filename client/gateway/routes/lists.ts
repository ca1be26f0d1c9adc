/** Routes of what is listed over all agents that a caller sees: turns, questions, the inbox, spending; and of cards and boxes. */
import { z } from '@hono/zod-openapi';
import type { ApprovalPlace } from '../../../workflows/contract/approvals.ts';
import type { TurnPlace } from '../../../workflows/contract/lists.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import { jsonSchema } from '../../../workflows/protocol/json-schema.ts';
import { SCOPES } from '../caller.ts';
import { readNumbered, readPage } from '../pages.ts';
import { type AnyRoute, route } from '../route.ts';
import {
  agentParams,
  approvalSchema,
  behindId,
  boxParams,
  callerSchema,
  cardParams,
  cardSchema,
  epochMs,
  flag,
  inboxEntrySchema,
  limit,
  pageOf,
  place,
  spendingSchema,
  statuses,
  turnSummarySchema,
} from '../schemas.ts';

const MOST = 100;

/** Where a page ends, as text: a time, then ids, none of which has a colon before its last part. */
const placeText = z
  .string()
  .regex(/^\d{1,15}:[^:]{1,128}(:.{1,128})?$/, { error: 'must be the "next" of the page before' })
  .optional();

const turnPlace = (text: string): TurnPlace => {
  const [at = '', agentTurnId = ''] = text.split(':');
  return { acceptedAt: Number(at), agentTurnId };
};

const questionPlace = (text: string): ApprovalPlace => {
  const [at = '', agentTurnId = '', ...callId] = text.split(':');
  return { createdAt: Number(at), agentTurnId, callId: callId.join(':') };
};

const textOfQuestion = ({ createdAt, agentTurnId, callId }: ApprovalPlace): string =>
  `${createdAt}:${agentTurnId}:${callId}`;

/** A page of questions, or of what else waits. */
const questions = <T extends ApprovalPlace>(
  { after: from, limit: most = MOST }: { readonly after?: string | undefined; readonly limit?: number | undefined },
  read: (page: { readonly after?: ApprovalPlace; readonly limit: number }) => Promise<readonly T[]>,
) =>
  readPage<T>({
    limit: most,
    after: from,
    read: (after, limit) => read({ ...(after === undefined ? {} : { after: questionPlace(after) }), limit }),
    place: textOfQuestion,
  });

const agentId = agentParams.shape.agentId.optional();

const whoCalls = route({
  method: 'get',
  path: '/v1/caller',
  scope: 'read',
  summary: 'Who calls, and what the token is for.',
  result: callerSchema,
  handle({ webUi }, { caller, border }) {
    const scopes = SCOPES.filter((scope) => caller.may(scope));
    const { agentPrefixes, tenant } = border;
    return { name: caller.name, scopes, agents: agentPrefixes ?? null, tenant: tenant ?? null, webUi };
  },
});

const turns = route({
  method: 'get',
  path: '/v1/turns',
  scope: 'read',
  summary: 'List turns of all agents, the newest first.',
  query: z.strictObject({
    status: statuses.optional(),
    profile: behindId.optional(),
    agentId,
    since: epochMs.optional(),
    before: placeText,
    limit,
  }),
  result: pageOf(turnSummarySchema),
  async handle({ store }, { query: { before, limit: most = MOST, ...filter } }) {
    const items = await store.findTurns({
      ...defined(filter),
      ...(before === undefined ? {} : { before: turnPlace(before) }),
      limit: most,
    });
    const last = items.length < most ? undefined : items.at(-1);
    return { items, next: last ? `${last.acceptedAt}:${last.agentTurnId}` : null };
  },
});

const approvals = route({
  method: 'get',
  path: '/v1/approvals',
  scope: 'read',
  summary: 'List questions to people, oldest first.',
  query: z.strictObject({
    rootTurnId: behindId.optional(),
    agentId,
    agentTurnId: behindId.optional(),
    callId: behindId.optional(),
    all: flag.optional(),
    after: placeText,
    limit,
  }),
  result: pageOf(approvalSchema),
  handle({ store }, { query: { after, limit: most, ...filter } }) {
    return questions({ after, limit: most }, (page) => store.listApprovals({ ...defined(filter), ...page }));
  },
});

const inbox = route({
  method: 'get',
  path: '/v1/inbox',
  scope: 'read',
  summary: 'List all that waits for somebody outside, oldest first.',
  query: z.strictObject({ agentId, after: placeText, limit }),
  result: pageOf(inboxEntrySchema),
  handle({ store }, { query: { after, limit: most, ...filter } }) {
    return questions({ after, limit: most }, (page) => store.listInbox({ ...defined(filter), ...page }));
  },
});

const spending = route({
  method: 'get',
  path: '/v1/spending',
  scope: 'read',
  summary: 'What turns spent, by agent or by profile, those that cost most first.',
  query: z.strictObject({ by: z.enum(['agent', 'profile']), since: epochMs, limit }),
  result: z.object({ items: z.array(spendingSchema) }),
  async handle({ store }, { query: { by, since, limit: most = MOST } }) {
    return { items: await store.spending({ by, since, limit: most }) };
  },
});

const writeCard = route({
  method: 'post',
  path: '/v1/cards',
  scope: 'write',
  summary: 'Write an instruction (`text`) or the output of a tool (`value`) as a card.',
  body: z
    .strictObject({ text: z.string().min(1).optional(), value: jsonSchema.optional() })
    .refine(({ text, value }) => (text === undefined) !== (value === undefined), {
      error: 'exactly one of text and value is expected',
    })
    .openapi('NewCard', { type: 'object', properties: { text: { type: 'string' }, value: {} } }),
  result: z.object({ cardId: z.string() }),
  async handle({ client }, { body: { text, value } }) {
    const cardId =
      text === undefined ? await client.writeResult(value as JsonValue) : await client.writeInstruction(text);
    return { cardId };
  },
});

const getCard = route({
  method: 'get',
  path: '/v1/cards/{cardId}',
  scope: 'read',
  summary: 'Read a card.',
  params: cardParams,
  result: cardSchema,
  async handle({ store }, { params: { cardId } }) {
    const [card] = await store.readCards([cardId]);
    if (card) return card;
    throw new CodedError('not_found', `there is no card ${cardId}`);
  },
});

const writeBox = route({
  method: 'post',
  path: '/v1/boxes',
  scope: 'write',
  summary: 'Write cards that a turn may read: a context box.',
  body: z.strictObject({ texts: z.array(z.string()).min(1).max(1_000) }),
  result: z.object({ boxId: z.string() }),
  async handle({ client }, { body: { texts } }) {
    return { boxId: await client.writeContext(texts) };
  },
});

const getBox = route({
  method: 'get',
  path: '/v1/boxes/{boxId}',
  scope: 'read',
  summary: 'Read the cards of a box in their order.',
  params: boxParams,
  query: z.strictObject({ all: flag.optional(), after: place.optional(), limit }),
  result: pageOf(z.object({ seq: z.int(), card: cardSchema })),
  async handle({ store }, { params: { boxId }, query: { all = false, after, limit: most = MOST } }) {
    if (!(await store.findBox(boxId))) throw new CodedError('not_found', `there is no box ${boxId}`);
    return readNumbered({
      limit: most,
      after,
      read: ({ after: behind = 0, limit }) => store.readBox(boxId, all, { after: behind, limit }),
      place: ({ seq }) => seq,
    });
  },
});

/** A query without what was left out. */
const defined = <T extends object>(query: T): { [K in keyof T]: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };

/** The routes of lists, cards and boxes. */
export const LIST_ROUTES: readonly AnyRoute[] = [
  whoCalls,
  turns,
  approvals,
  inbox,
  spending,
  writeCard,
  getCard,
  writeBox,
  getBox,
];

/** Routes of chats: send messages, read and follow sessions (C1, C2, C8). */
import { z } from '@hono/zod-openapi';
import { v7 } from 'uuid';
import type { Sender } from '../../../workflows/protocol/chat.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { isUserId } from '../../../workflows/protocol/ids.ts';
import type { ChatHandle } from '../../chat/api.ts';
import { checkedDelivery, checkedEnvelope } from '../../chat/envelope.ts';
import { checkSessionCursor } from '../../chat/session-stream.ts';
import type { Caller } from '../caller.ts';
import {
  chatAgentParams,
  chatMessageSchema,
  chatParams,
  chatSessionSchema,
  newMessageBody,
  sentSchema,
} from '../chat-schemas.ts';
import { demandInView, streamPartsOf } from '../events.ts';
import { readLast, readNumbered } from '../pages.ts';
import { type AnyRoute, type GatewayContext, route } from '../route.ts';
import { agentParams, behindId, limit, pageOf, place } from '../schemas.ts';

/** Names a chat. */
interface NamedChat {
  readonly agentId: string;
  readonly chatId: string;
}

/** The chat, of which a caller sees what it sees of the session's agent: a token may be for the chats of an agent, or for one. Errors: `invalid_input`. */
export const chatOf = (
  { client }: GatewayContext,
  { agentId, chatId }: NamedChat,
  options: { readonly profile?: string } = {},
): ChatHandle => client.chat(agentId, chatId, options);

/** The one whom the token names, as the sender of a message; a name that is no id of an agent tells which user it is. */
export const callerAsSender = ({ name }: Caller): Sender =>
  isUserId(name) ? { agentId: name } : { agentId: 'user', instanceId: name };

/** What is left out of an envelope that a gateway can complete (C1). */
function completed(given: Readonly<Record<string, unknown>>, caller: Caller, key: string | undefined) {
  const { idempotencyKey = key } = given;
  const { eventId = idempotencyKey ?? v7() } = given;
  return {
    type: 'chat.message',
    timestampMs: Date.now(),
    sender: callerAsSender(caller),
    traceId: eventId,
    correlationId: eventId,
    ...given,
    eventId,
    idempotencyKey: idempotencyKey ?? eventId,
  };
}

const send = route({
  method: 'post',
  path: '/v1/agents/{agentId}/messages',
  scope: 'write',
  summary: 'Send a message of a chat: it is collected, steers, interrupts or is rejected, as its policy says.',
  params: chatAgentParams,
  body: newMessageBody,
  status: 202,
  result: sentSchema,
  async handle(context, { caller, params: { agentId }, body: { policy, profile, ...given }, header }) {
    const envelope = checkedEnvelope(completed(given, caller, header('idempotency-key')));
    const delivery = checkedDelivery({ policy, profile });
    const chat = chatOf(context, { agentId, chatId: envelope.chatId }, delivery);
    const { message, session, duplicate, endedTurnId } = await chat.deliver(envelope, delivery);
    return { message, session, duplicate, endedTurnId };
  },
});

const list = route({
  method: 'get',
  path: '/v1/chats',
  scope: 'read',
  summary: 'List chat sessions by their agents: all, or those of one agent.',
  query: z.strictObject({ agentId: agentParams.shape.agentId.optional(), after: behindId.optional(), limit }),
  result: pageOf(chatSessionSchema),
  async handle({ store }, { query: { agentId, after, limit: most = 100 } }) {
    const items = await store.listSessions({
      ...(agentId === undefined ? {} : { of: agentId }),
      ...(after === undefined ? {} : { after }),
      limit: most,
    });
    return { items, next: items.length < most ? null : (items.at(-1)?.agentId ?? null) };
  },
});

const get = route({
  method: 'get',
  path: '/v1/agents/{agentId}/chats/{chatId}',
  scope: 'read',
  summary: 'Read a chat session.',
  params: chatParams,
  result: chatSessionSchema,
  async handle(context, { params }) {
    const session = await chatOf(context, params).get();
    if (session) return session;
    const { agentId, chatId } = params;
    throw new CodedError('agent_not_found', `agent ${agentId} has no chat ${chatId}; its first message begins it`);
  },
});

const messages = route({
  method: 'get',
  path: '/v1/agents/{agentId}/chats/{chatId}/messages',
  scope: 'read',
  summary: 'List the messages of a chat in their order, each with how far it is.',
  params: chatParams,
  query: z.strictObject({ after: place.optional(), last: limit, limit, agentTurnId: behindId.optional() }),
  result: pageOf(chatMessageSchema),
  async handle(context, { params, query: { limit: most = 100, after, last: end, agentTurnId } }) {
    const chat = chatOf(context, params);
    const ofTurn = agentTurnId === undefined ? {} : { agentTurnId };
    if (end !== undefined) return readLast(end, (last) => chat.messages({ ...ofTurn, last }));
    return readNumbered({
      limit: most,
      after,
      read: (page) => chat.messages({ ...ofTurn, ...page }),
      place: ({ seq }) => seq,
    });
  },
});

const stream = route({
  method: 'get',
  path: '/v1/agents/{agentId}/chats/{chatId}/stream',
  scope: 'read',
  summary: 'Follow a chat: its messages as they come, and its turns while their answers are written.',
  params: chatParams,
  query: z.strictObject({ cursor: z.string().max(300).optional() }),
  result: 'events',
  async handle(context, { caller, params, query, header }) {
    const chat = chatOf(context, params);
    const cursor = header('last-event-id') ?? query.cursor;
    await demandInView(context.store, chat.agent.id);
    await checkSessionCursor(context.store, { agentId: chat.agent.id, cursor });
    return context.stream(caller, (signal) =>
      streamPartsOf(chat.stream({ signal, ...(cursor === undefined ? {} : { cursor }) })),
    );
  },
});

/** The routes of chats and their messages. */
export const MESSAGE_ROUTES: readonly AnyRoute[] = [send, list, get, messages, stream];

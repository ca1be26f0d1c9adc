/** What the gateway takes and gives of chats: sessions, their messages, and the ends of their turns. */
import { z } from '@hono/zod-openapi';
import { FAILURE_CLASSES } from '../../workflows/chat/terminal.ts';
import { QUEUE_POLICIES } from '../../workflows/protocol/chat.ts';
import { USER_ID_PATTERN } from '../../workflows/protocol/ids.ts';
import { chatIdentity, storeTime, tenantSchema } from './schemas.ts';

/** An id that chats are named with. The handle of the chat checks it, so that all callers are told by the same code which one is wrong (C1). */
const chatName = z.string().openapi({ pattern: USER_ID_PATTERN.source });

/** The agent that is talked to, in a path. */
export const chatAgentParams = z.object({ agentId: chatName });
/** The agent that is talked to, and the chat, in a path. */
export const chatParams = chatAgentParams.extend({ chatId: chatName });

const sender = z.object({ agentId: z.string(), instanceId: z.string().optional() });

const payload = z.object({
  text: z.string(),
  attachments: z.array(z.object({ name: z.string(), text: z.string() })).optional(),
});

/** A message of a session. */
export const chatMessageSchema = z
  .object({
    eventId: z.string(),
    chatId: z.string(),
    seq: z.int().openapi({ description: 'Its place among all messages of the session, from 1.' }),
    sender,
    payload,
    policy: z.enum(QUEUE_POLICIES),
    status: z.enum(['queued', 'collected', 'steered', 'processing', 'done', 'rejected']),
    agentTurnId: z
      .string()
      .nullable()
      .openapi({ description: 'The turn that it is in; null for a message that was rejected before any turn had it.' }),
    reason: z.string().nullable(),
    traceId: z.string(),
    correlationId: z.string(),
    causationId: z.string().nullable(),
    timestampMs: z.int().openapi({ description: 'When its sender says that it was written.' }),
    acceptedAt: storeTime,
  })
  .openapi('Message');

/** A chat session. */
export const chatSessionSchema = z
  .object({
    sessionId: z.string(),
    agentId: z.string().openapi({ description: 'The agent whose turns are those of the session.' }),
    of: z.string().openapi({ description: 'The agent that was named when it was begun.' }),
    chatId: z.string(),
    profile: z.string().nullable(),
    tenant: tenantSchema,
    lastSeq: z.int(),
    createdAt: storeTime,
    updatedAt: storeTime,
  })
  .openapi('ChatSession');

/** The answer to a message. */
export const sentSchema = z
  .object({
    message: chatMessageSchema,
    session: chatSessionSchema,
    duplicate: z.boolean(),
    endedTurnId: z.string().nullable().openapi({ description: 'The turn that was ended for it.' }),
  })
  .openapi('SentMessage');

/** The one end of a chat turn. */
export const terminalSchema = z
  .object({
    turnId: z.string(),
    ...chatIdentity.shape,
    status: z.enum(['completed', 'failed', 'denied']),
    deliverable: z.record(z.string(), z.unknown()).nullable(),
    failure: z
      .object({ class: z.enum(FAILURE_CLASSES), code: z.string(), reason: z.string(), nextAction: z.string() })
      .optional(),
  })
  .openapi('Terminal');

/** A message as it comes over HTTP: completed and checked by the route, so that all callers read the same words. */
export const newMessageBody = z.record(z.string(), z.unknown()).openapi('NewMessage', {
  type: 'object',
  description: 'What is left out of the envelope, `chatId` and `payload` excepted, is completed.',
  required: ['chatId', 'payload'],
  properties: {
    chatId: { type: 'string', pattern: USER_ID_PATTERN.source },
    payload: {
      type: 'object',
      required: ['text'],
      properties: {
        text: { type: 'string' },
        attachments: {
          type: 'array',
          maxItems: 20,
          items: {
            type: 'object',
            required: ['name', 'text'],
            properties: { name: { type: 'string' }, text: { type: 'string' } },
          },
        },
      },
    },
    policy: { type: 'string', enum: [...QUEUE_POLICIES] },
    profile: { type: 'string' },
    sender: {
      type: 'object',
      required: ['agentId'],
      properties: { agentId: { type: 'string' }, instanceId: { type: 'string' } },
      description: 'The one whom the token names when left out.',
    },
    eventId: { type: 'string' },
    idempotencyKey: { type: 'string', description: 'The header `Idempotency-Key` when left out, else the `eventId`.' },
    sessionId: { type: 'string' },
    seq: { type: 'integer', minimum: 0 },
    timestampMs: { type: 'integer', minimum: 0 },
    type: { type: 'string', const: 'chat.message' },
    traceId: { type: 'string' },
    correlationId: { type: 'string' },
    causationId: { type: 'string' },
  },
});

/** What a profile says of its chats, and the messages of chats as they cross the wire (C1, C7, C8). */
import { z } from 'zod';
import { durationMs } from './duration.ts';
import { idempotencyKeySchema, userIdSchema } from './enqueue.ts';
import { utf8Bytes } from './sizes.ts';

/** What becomes of a message that comes while a turn of its session is active (C8). */
export const QUEUE_POLICIES = ['collect', 'steer', 'interrupt', 'reject', 'rollback'] as const;
/** What becomes of a message that comes while a turn of its session is active (C8). */
export type QueuePolicy = (typeof QUEUE_POLICIES)[number];

/** How the chats of a profile behave: what happens to messages meanwhile, and how much one turn may take (C7, C8). */
export const chatSchema = z.strictObject({
  /** What becomes of messages that come while a turn is active, where neither the session nor the message says otherwise. */
  queuePolicy: z.enum(QUEUE_POLICIES).default('collect'),
  /** How long the first message of a turn waits for further ones, ms. */
  debounceMs: z.int().min(0).max(2_000).default(0),
  /** How many calls a turn may start; the profile's budget counts where it is lower. */
  maxToolCallsPerTurn: z.int().positive().optional(),
  /** How long a turn may take, waiting included, ms; the profile's time limit counts where it is shorter. */
  turnTimeoutMs: durationMs.optional(),
  /** How many tokens a prompt and its answer may take together; the profile's window counts where it is smaller. */
  maxContextTokens: z.int().min(2_000).optional(),
  /** How many messages of earlier turns are remembered, requests and answers alike; without bound when absent. */
  maxRecentMessages: z.int().nonnegative().optional(),
  /** How many tokens of a tool's result are shown of an earlier turn; as many as the window allows when absent. */
  maxToolSnippetTokens: z.int().nonnegative().optional(),
});
/** How the chats of a profile behave, with the defaults filled in. */
export type ChatConfig = z.output<typeof chatSchema>;

/** What is denied before any model call (C4). */
export const inputPolicySchema = z.strictObject({
  /** The first rule that applies denies the request, with its reason. */
  deny: z
    .array(
      z.strictObject({
        /** Texts of which none may be in a request, whatever their case. */
        contains: z.array(z.string().trim().min(1).max(500)).min(1).max(100),
        /** Why, written for who has asked. */
        reason: z.string().trim().min(1).max(500),
      }),
    )
    .max(100),
});
/** What is denied before any model call (C4). */
export type InputPolicy = z.output<typeof inputPolicySchema>;

/** The most messages that one turn collects. */
export const MOST_COLLECTED = 1_000;

/** The longest text of a message with its attachments, in bytes of UTF-8 as JSON. */
export const MESSAGE_BYTES = 256 * 1024;

const id = z
  .string()
  .min(1)
  .max(256)
  .regex(/^[^\0\p{Surrogate}]*$/u, { error: 'must have neither NUL nor lone surrogates' });

/** What a message says, whatever its size. */
export const payloadFieldsSchema = z.strictObject({
  text: z.string().regex(/\S/u, { error: 'must say something' }),
  /** Texts that come with the message. */
  attachments: z
    .array(z.strictObject({ name: z.string().min(1).max(256), text: z.string() }))
    .max(20)
    .optional(),
});
/** What a message says. */
export type MessagePayload = z.output<typeof payloadFieldsSchema>;

/** The size of what a message says: bytes of UTF-8 as JSON, in which cards and rows have it. */
export const payloadBytes = (said: MessagePayload): number => utf8Bytes(JSON.stringify(said));

const payload = payloadFieldsSchema.refine((each) => payloadBytes(each) <= MESSAGE_BYTES, {
  error: `the text and its attachments must be at most ${MESSAGE_BYTES} bytes of JSON together`,
  path: ['text'],
});

/** The id of a chat: without the sign that joins it to that of the agent, so that no two chats have one session (C2). */
export const chatIdSchema = userIdSchema.regex(/^[^~]*$/, { error: 'must have no ~' });

/** Who has written a message. What it is, a person or an agent, makes no difference (C5). */
export const senderSchema = z.strictObject({
  agentId: userIdSchema,
  instanceId: id.optional(),
});
/** Who has written a message. */
export type Sender = z.output<typeof senderSchema>;

/** The envelope of a message, complete (C1). */
export const messageEnvelopeSchema = z.strictObject({
  eventId: id,
  chatId: chatIdSchema,
  /** The id of the session; that of its agent when left out. */
  sessionId: userIdSchema.optional(),
  /** The place that the sender's side gives the message; it is kept, and decides nothing. */
  seq: z.int().nonnegative().optional(),
  timestampMs: z.int().nonnegative(),
  type: z.literal('chat.message'),
  sender: senderSchema,
  idempotencyKey: idempotencyKeySchema,
  traceId: id,
  correlationId: id,
  causationId: id.optional(),
  payload,
});
/** The envelope of a message, complete and checked (C1). */
export type MessageEnvelope = z.output<typeof messageEnvelopeSchema>;
/** The envelope of a message as its sender writes it (C1). */
export type MessageEnvelopeInput = z.input<typeof messageEnvelopeSchema>;

/** Envelopes of messages: completed for who only says something, and checked (C1). */
import { v7 } from 'uuid';
import { z } from 'zod';
import type { SendMessage } from '../../workflows/contract/chat.ts';
import {
  chatIdSchema,
  type MessageEnvelope,
  type MessageEnvelopeInput,
  type MessagePayload,
  messageEnvelopeSchema,
  QUEUE_POLICIES,
  type Sender,
} from '../../workflows/protocol/chat.ts';
import { userIdSchema } from '../../workflows/protocol/enqueue.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { isUserId, sessionAgentId } from '../../workflows/protocol/ids.ts';
import type { SendOptions } from './api.ts';

/** The envelope as it is to be taken. Errors: `invalid_input`, which names each field that is missing or wrong. */
export const checkedEnvelope = (value: unknown): MessageEnvelope => checkedInput(messageEnvelopeSchema, value);

/** The envelope as it is to be taken in that chat. Errors: `invalid_input`. */
export function envelopeIn(chatId: string, value: MessageEnvelopeInput): MessageEnvelope {
  const checked = checkedEnvelope(value);
  if (checked.chatId === chatId) return checked;
  throw new CodedError('invalid_input', `chatId: is ${checked.chatId}, and this is the chat ${chatId}`);
}

const deliverySchema = z.object({ policy: z.enum(QUEUE_POLICIES).optional(), profile: userIdSchema.optional() });

/** What goes beside an envelope: the policy, and the profile of the session's turns. Errors: `invalid_input`, which names each that is wrong. */
export function checkedDelivery(value: unknown): Pick<SendMessage, 'policy' | 'profile'> {
  const { policy, profile } = checkedInput(deliverySchema, value);
  return { ...(policy === undefined ? {} : { policy }), ...(profile === undefined ? {} : { profile }) };
}

function checkedInput<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'the message'}: ${message}`);
  throw new CodedError('invalid_input', problems.join('; '));
}

const DEFAULT_SENDER = 'user';

/** The envelope of what somebody says in a chat. Errors: `invalid_input`. */
export function envelopeOf(chatId: string, said: string | MessagePayload, options: SendOptions): MessageEnvelope {
  const { sender = DEFAULT_SENDER, key, sessionId, traceId, correlationId, causationId } = options;
  const eventId = key ?? v7();
  return checkedEnvelope({
    eventId,
    chatId,
    timestampMs: Date.now(),
    type: 'chat.message',
    sender: senderFrom(sender),
    idempotencyKey: eventId,
    traceId: traceId ?? eventId,
    correlationId: correlationId ?? eventId,
    payload: typeof said === 'string' ? { text: said } : said,
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(causationId === undefined ? {} : { causationId }),
  });
}

const senderFrom = (sender: Sender | string): Sender => (typeof sender === 'string' ? { agentId: sender } : sender);

/** The id of the session's agent. Errors: `invalid_input`, for an agent or a chat whose ids are none, or too long together (C2). */
export function sessionAgent(agentId: string, chatId: string): string {
  const id = sessionAgentId(agentId, chatId);
  const wrong = !isUserId(agentId)
    ? ['agentId', agentId]
    : !chatIdSchema.safeParse(chatId).success
      ? ['chatId', chatId]
      : null;
  if (wrong)
    throw new CodedError(
      'invalid_input',
      `${wrong[0]}: must be 1 to 128 of letters, digits, ". _ -", starting with a letter or digit, and is ${JSON.stringify(wrong[1]?.slice(0, 100))}`,
    );
  if (isUserId(id)) return id;
  throw new CodedError(
    'invalid_input',
    `chatId: together with the agent's id it may have 127 characters, and has more`,
  );
}

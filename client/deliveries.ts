/** What may be said to wake an agent, by a caller or by somebody outside who has hit a trigger. */
import { z } from 'zod';
import { MOST_DELIVERY_BYTES, MOST_KEY_CHARACTERS } from '../workflows/agent-state/triggers.ts';
import type { WakeDelivery } from '../workflows/contract/agent-work.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { utf8Bytes } from '../workflows/protocol/sizes.ts';
import type { WakeInput } from './api.ts';

const keySchema = z.string().min(1).max(MOST_KEY_CHARACTERS);

const wakeSchema = z.strictObject({
  reason: z.string().refine((text) => text.trim() !== '', { error: 'must say something: the model reads it' }),
  key: keySchema.optional(),
});

const deliverySchema = z.strictObject({ text: z.string().nullable(), key: keySchema.optional() });

/** What a caller says. Errors: `invalid_request`, `payload_too_large`. */
export function wakeDelivery(input: WakeInput): WakeDelivery {
  const { reason, key } = parsed(wakeSchema, input);
  return delivery(reason, key);
}

/** What somebody outside says. Errors: `invalid_request`, `payload_too_large`. */
export function triggerDelivery(input: WakeDelivery): WakeDelivery {
  const { text, key } = parsed(deliverySchema, input);
  return delivery(text, key);
}

function parsed<T>(schema: z.ZodType<T>, input: unknown): T {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  throw new CodedError('invalid_request', z.prettifyError(result.error));
}

function delivery(text: string | null, key: string | undefined): WakeDelivery {
  const bytes = text === null ? 0 : utf8Bytes(text);
  if (bytes > MOST_DELIVERY_BYTES)
    throw new CodedError(
      'payload_too_large',
      `what wakes an agent has at most ${MOST_DELIVERY_BYTES} bytes, and this has ${bytes}; say where the rest is`,
    );
  return { text, ...(key === undefined ? {} : { key }) };
}

/** The request that makes a turn, and the answers to it. */
import { z } from 'zod';
import type { FailureCode } from './failures.ts';
import { USER_ID_PATTERN } from './ids.ts';
import { jsonSchema } from './json-schema.ts';
import { SIZES, utf8Bytes } from './sizes.ts';
import { PRIORITIES, type TurnStatus } from './turn.ts';

const userId = z
  .string()
  .regex(USER_ID_PATTERN, { error: 'must be 1 to 128 of letters, digits, ". _ ~ -", starting with a letter or digit' });

export const resultFieldsSchema = z.object({
  fields: z.array(
    z.object({
      name: z.string().min(1),
      description: z.string().default(''),
      required: z.boolean().default(true),
    }),
  ),
});
export type ResultFields = z.infer<typeof resultFieldsSchema>;

/** The same request, or message, again: it counts once. */
export const idempotencyKeySchema = z
  .string()
  .min(1)
  .max(256)
  // A store may keep another text in their place, and two keys would become one.
  .regex(/^[^\0\p{Surrogate}]*$/u, { error: 'must have neither NUL nor lone surrogates' });

const requestFields = z.strictObject({
  instruction: z
    .string()
    .min(1)
    .refine((text) => utf8Bytes(text) <= SIZES.instructionBytes, {
      error: `must be at most ${SIZES.instructionBytes} bytes; write a larger text as a card and pass instructionCardId`,
    })
    .optional(),
  instructionCardId: z.uuid().optional(),
  contextBoxId: z.uuid().optional(),
  /** What the turn remembers and adds to, instead of the agent's own box: a box of another agent is forked (T25). */
  outputBoxId: z.uuid().optional(),
  profile: userId.optional(),
  resultFields: jsonSchema.optional(),
  /** What must be true of the result; the model has it before its eyes in every step (K14). */
  criteria: z.array(z.string().trim().min(1).max(500)).max(20).readonly().optional(),
  idempotencyKey: idempotencyKeySchema.optional(),
  priority: z.enum(PRIORITIES).default('normal'),
  /** An interactive request that must not wait: accepted only when the agent is idle, else `agent_busy` (T11). */
  uiAction: z.boolean().optional(),
  correlationId: z.string().max(256).optional(),
  traceparent: z.string().max(128).optional(),
  metadata: z.record(z.string().max(128), z.string().max(1024)).optional(),
});

/** A request as it is kept with its turn: the instruction is a card by then. What a newer version added is let through. */
export const storedRequestSchema = requestFields.omit({ instruction: true }).loose();

/**
 * `instruction`: text up to 32 KiB, or `instructionCardId` of a card written before (T4).
 * `resultFields` is kept as it came: a malformed one is a warning and a degraded deliverable, never a refusal (T28).
 */
export const enqueueRequestSchema = requestFields
  .refine((request) => (request.instruction === undefined) !== (request.instructionCardId === undefined), {
    error: 'exactly one of instruction and instructionCardId is expected',
    path: ['instruction'],
  })
  .refine((request) => utf8Bytes(JSON.stringify([request.resultFields, request.metadata])) <= SIZES.requestBytes, {
    error: `resultFields and metadata together must be at most ${SIZES.requestBytes} bytes`,
    path: ['metadata'],
  });

export type EnqueueRequest = z.output<typeof enqueueRequestSchema>;
export type EnqueueInput = z.input<typeof enqueueRequestSchema>;

/** `position` counts the turns ahead of this one, the active one included. */
export interface EnqueueAck {
  readonly agentTurnId: string;
  readonly position: number;
  readonly status: TurnStatus;
  readonly duplicate: boolean;
}

export interface RefusedRequest {
  readonly kind: 'refused';
  readonly code: FailureCode;
  readonly message: string;
}

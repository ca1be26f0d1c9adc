/** The request that makes a turn, and what the caller gets back. */
import { z } from 'zod';
import type { FailureCode } from './failures.ts';
import { USER_ID_PATTERN } from './ids.ts';
import { jsonSchema } from './json-schema.ts';
import { SIZES, utf8Bytes } from './sizes.ts';
import { PRIORITIES, type TurnStatus } from './turn.ts';

/** An id that a user makes (design §7). */
export const userIdSchema = z
  .string()
  .regex(USER_ID_PATTERN, { error: 'must be 1 to 128 of letters, digits, ". _ ~ -", starting with a letter or digit' });

const resultField = z.strictObject({
  name: z.string().min(1),
  /** What the field is to say, written for the model. */
  description: z.string().default(''),
  required: z.boolean().default(true),
});

/** A list of fields in which each name stands once. */
const namedOnce = <Field extends z.ZodType<{ readonly name: string }>>(field: Field) =>
  z.array(field).superRefine((fields, context) => {
    for (const [index, { name }] of fields.entries())
      if (fields.findIndex((each) => each.name === name) < index)
        context.addIssue({ code: 'custom', path: [index, 'name'], message: `${name} is the name of a field before` });
  });

/** The fields that a request wants its turn's deliverable to have (T28). */
export const requestedFieldsSchema = z.strictObject({ fields: namedOnce(resultField) });

/** JSON Schema that zod can check values by. */
const valueSchema = z.record(z.string(), jsonSchema).superRefine((schema, context) => {
  try {
    z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    context.addIssue({ code: 'custom', message: `is no JSON Schema that values can be checked by: ${message}` });
  }
});

/**
 * The fields that a deliverable of an agent is to have where the request names none (T28). A profile may say by JSON Schema what their values
 * are.
 */
export const resultFieldsSchema = z.strictObject({
  fields: namedOnce(resultField.extend({ schema: valueSchema.optional() })),
});
/** The fields that a turn's deliverable is to have, with their defaults filled in (T28). */
export type ResultFields = z.infer<typeof resultFieldsSchema>;

/** A key by which a request or a message that is sent again is recognised and counts once (T2). */
export const idempotencyKeySchema = z
  .string()
  .min(1)
  .max(256)
  // A store may keep another text in place of these characters, and two keys would become one.
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
  /** The box that the turn remembers and adds to, instead of the agent's own; a box of another agent is forked (T25). */
  outputBoxId: z.uuid().optional(),
  profile: userIdSchema.optional(),
  /** Takes the place of the profile's fields. */
  resultFields: requestedFieldsSchema.optional(),
  /** What must be true of the result; the model is shown it in every step (K14). */
  criteria: z.array(z.string().trim().min(1).max(500)).max(20).readonly().optional(),
  idempotencyKey: idempotencyKeySchema.optional(),
  priority: z.enum(PRIORITIES).default('normal'),
  /** An interactive request that must not wait: accepted only when the agent is idle, else `agent_busy` (T11). */
  uiAction: z.boolean().optional(),
  /** The caller's own id for a chain of requests; it is written on the edges of the turn (T26). */
  correlationId: z.string().max(256).optional(),
  /** The W3C trace context of the caller (T27). */
  traceparent: z.string().max(128).optional(),
  metadata: z.record(z.string().max(128), z.string().max(1024)).optional(),
});

/** A request as it is kept with its turn: its instruction is a card, and fields that this version does not know are kept. */
export const storedRequestSchema = requestFields.omit({ instruction: true }).loose();

/**
 * A request as a caller sends it, in parts that are at most as large as `SIZES` says. The instruction is either text or, in
 * `instructionCardId`, the id of a card that was written before (T4).
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

/** A validated request with its defaults filled in. */
export type EnqueueRequest = z.output<typeof enqueueRequestSchema>;
/** A request as the caller writes it, before its defaults are filled in. */
export type EnqueueInput = z.input<typeof enqueueRequestSchema>;

/** The answer to an accepted request. */
export interface EnqueueAck {
  readonly agentTurnId: string;
  /** How many turns of the agent are ahead of this one, the active turn included. */
  readonly position: number;
  readonly status: TurnStatus;
  /** Whether the request's idempotency key had been accepted before, so that this is the answer about the turn of that time (T2). */
  readonly duplicate: boolean;
}

/** A request that made no turn; `code` says why and `message` what to do about it. */
export interface RefusedRequest {
  readonly kind: 'refused';
  readonly code: FailureCode;
  readonly message: string;
}

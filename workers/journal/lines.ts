/** The lines of a journal as they are read from a file: checked, for somebody may have edited it (C9). */
import { z } from 'zod';
import type { JournalLine, SessionLine } from '../../workflows/chat/journal.ts';
import { FAILURE_CLASSES } from '../../workflows/chat/terminal.ts';
import { TENANT_PATTERN } from '../../workflows/contract/border.ts';
import { messageEnvelopeSchema, QUEUE_POLICIES } from '../../workflows/protocol/chat.ts';
import { type Deliverable, TERMINAL_STATUSES } from '../../workflows/protocol/turn.ts';

/** The first line. */
export const sessionLineSchema: z.ZodType<SessionLine> = z.object({
  seq: z.literal(0),
  type: z.literal('session'),
  version: z.literal(1),
  storeId: z.string().min(1),
  sessionId: z.string().min(1),
  of: z.string().min(1),
  chatId: z.string().min(1),
  profile: z.string().min(1),
  tenant: z.string().regex(TENANT_PATTERN).optional(),
  at: z.int().nonnegative(),
});

const place = { seq: z.int().positive(), at: z.int().nonnegative() };
const ids = z.array(z.string());

/** A line behind the first one. */
export const journalLineSchema: z.ZodType<JournalLine> = z.discriminatedUnion('type', [
  z.object({
    ...place,
    type: z.literal('message'),
    messageSeq: z.int().positive(),
    policy: z.enum(QUEUE_POLICIES),
    placement: z.enum(['turn', 'collected', 'steered', 'rejected']),
    turnId: z.string().nullable(),
    reason: z.string().optional(),
    message: messageEnvelopeSchema,
  }),
  z.object({
    ...place,
    type: z.literal('turn'),
    turnId: z.string().min(1),
    epoch: z.int().positive(),
    traceId: z.string(),
    correlationId: z.string(),
    contextHash: z.string(),
    eventIds: ids,
  }),
  z.object({
    ...place,
    type: z.literal('terminal'),
    turnId: z.string().min(1),
    epoch: z.int().positive().nullable(),
    status: z.enum(['completed', 'failed', 'denied']),
    outcome: z.enum(TERMINAL_STATUSES),
    failure: z
      .object({ class: z.enum(FAILURE_CLASSES), code: z.string(), reason: z.string(), nextAction: z.string() })
      .optional(),
    deliverable: z.custom<Deliverable>((value) => typeof value === 'object').nullable(),
    traceId: z.string(),
    correlationId: z.string(),
    eventIds: ids,
    rejected: z.array(z.object({ eventId: z.string(), reason: z.string() })).optional(),
    rolledBack: z.literal(true).optional(),
    recovered: z.literal(true).optional(),
  }),
]);

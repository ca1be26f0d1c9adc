/**
 * The lines of the journal of a session (C9): what was said to it, which turns it had and how each of them ended, with all that is needed to
 * write the session anew where the store has lost it.
 *
 * Invariant: a line says what one event of the log says, under the number of that event, and never changes: the same log gives the same lines.
 */
import { z } from 'zod';
import { messageEnvelopeSchema, QUEUE_POLICIES } from '../protocol/chat.ts';
import { type Deliverable, TERMINAL_STATUSES } from '../protocol/turn.ts';
import { FAILURE_CLASSES } from './terminal.ts';

/** The number of the event that the line says, and when that was, epoch ms by the store's clock. */
const place = { seq: z.int().positive(), at: z.int().nonnegative() };

/** The first line: whose journal it is, and which store's log it says. */
export const sessionLineSchema = z.object({
  seq: z.literal(0),
  type: z.literal('session'),
  version: z.literal(1),
  storeId: z.string().min(1),
  sessionId: z.string().min(1),
  /** The agent that was named when the session was begun. */
  of: z.string().min(1),
  chatId: z.string().min(1),
  /** The profile of its turns. */
  profile: z.string().min(1),
  at: z.int().nonnegative(),
});
/** The first line of a journal. */
export type SessionLine = z.output<typeof sessionLineSchema>;

/** A message has come, and this is where it went. */
const messageLineSchema = z.object({
  ...place,
  type: z.literal('message'),
  /** Its place among all messages of the session, from 1. */
  messageSeq: z.int().positive(),
  policy: z.enum(QUEUE_POLICIES),
  placement: z.enum(['turn', 'collected', 'steered', 'rejected']),
  /** The turn that it went into; null where it was rejected. */
  turnId: z.string().nullable(),
  reason: z.string().optional(),
  message: messageEnvelopeSchema,
});

/** A turn has begun. */
const turnLineSchema = z.object({
  ...place,
  type: z.literal('turn'),
  turnId: z.string().min(1),
  epoch: z.int().positive(),
  contextHash: z.string(),
  /** The messages that it begins with, in their order. */
  eventIds: z.array(z.string()),
});

/** A turn has ended. */
const terminalLineSchema = z.object({
  ...place,
  type: z.literal('terminal'),
  turnId: z.string().min(1),
  /** Null for a turn that was cancelled while it waited. */
  epoch: z.int().positive().nullable(),
  status: z.enum(['completed', 'failed', 'denied']),
  /** The status of the turn itself. */
  outcome: z.enum(TERMINAL_STATUSES),
  failure: z
    .object({ class: z.enum(FAILURE_CLASSES), code: z.string(), reason: z.string(), nextAction: z.string() })
    .optional(),
  deliverable: z.custom<Deliverable>((value) => typeof value === 'object').nullable(),
  traceId: z.string(),
  correlationId: z.string(),
  /** All messages that it took, those that it was steered by too, in their order. */
  eventIds: z.array(z.string()),
  /** Messages that it was not told of before it was stopped. */
  rejected: z.array(z.object({ eventId: z.string(), reason: z.string() })).optional(),
  /** Its cards are left out of what the session remembers. */
  rolledBack: z.literal(true).optional(),
  /** It was closed by recovery. */
  recovered: z.literal(true).optional(),
});

/** A line behind the first one. */
export const journalLineSchema = z.discriminatedUnion('type', [messageLineSchema, turnLineSchema, terminalLineSchema]);
/** A line of a journal behind its first one. */
export type JournalLine = z.output<typeof journalLineSchema>;
/** The line that says how a turn has ended. */
export type TerminalLine = z.output<typeof terminalLineSchema>;

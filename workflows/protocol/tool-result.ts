/** A report: the result of a waiting call that somebody outside the turn brings, and the answers to it (T14). */
import { z } from 'zod';
import { AFTER_EXECUTION, RESULT_STATUSES } from './cards.ts';
import { jsonSchema } from './json-schema.ts';

/** The error of a reported result, written for the model (T20). */
export const toolErrorSchema = z.strictObject({
  code: z.string().min(1).max(64),
  message: z.string().min(1),
  kind: z.enum(['recoverable', 'fatal', 'provider_failure', 'timeout', 'user_interrupt']).optional(),
  retryable: z.boolean().optional(),
  detail: jsonSchema.optional(),
});

/** A report of a call's result. `status: running` is a heartbeat, which only moves the call's deadline (T16). */
export const toolResultReportSchema = z
  .strictObject({
    callId: z.string().min(1).max(128),
    /** The epoch of the lease that the sender knows; when it is absent, only a closed turn makes the report stale. */
    turnEpoch: z.int().positive().optional(),
    status: z.enum([...RESULT_STATUSES, 'running']),
    result: jsonSchema.optional(),
    /**
     * The id of a card that was written before (`writeResult`), instead of an inline `result`. While the store does not have the card, the
     * report is deferred and tried again (T18).
     */
    toolResultCardId: z.uuid().optional(),
    error: toolErrorSchema.optional(),
    /** The wish of the reporter, which the result's own wish overrides and which overrides the tool's default (T19). */
    afterExecution: z.enum(AFTER_EXECUTION).optional(),
  })
  .refine((report) => report.status !== 'success' || report.error === undefined, {
    error: 'a success has no error',
    path: ['error'],
  })
  .refine((report) => report.result === undefined || report.toolResultCardId === undefined, {
    error: 'at most one of result and toolResultCardId is expected',
    path: ['toolResultCardId'],
  });

/** A validated report of a call's result. */
export type ToolResultReport = z.output<typeof toolResultReportSchema>;

/**
 * What became of a report (T14): `buffered` came before its call waits (a result is kept, a heartbeat is not), `stale` belongs to another epoch or a closed turn, `unknown`
 * names a call that does not exist, and `deferred` is tried again until its card is there (T18).
 */
export type ReportAnswer = 'applied' | 'buffered' | 'duplicate' | 'stale' | 'unknown' | 'deferred';

/** The answer to a report, which the store gives at once, with or without a worker. */
export interface ReportAck {
  readonly ack: ReportAnswer;
  /** The agent of the turn; absent when there is no such turn. */
  readonly agentId?: string;
  /** The card that now holds the result; absent when nothing was stored. */
  readonly cardId?: string;
}

/** A result reported from outside for a suspended call, and its answers (T14). */
import { z } from 'zod';
import { AFTER_EXECUTION, RESULT_STATUSES } from './cards.ts';
import { jsonSchema } from './json-schema.ts';

export const toolErrorSchema = z.strictObject({
  code: z.string().min(1).max(64),
  message: z.string().min(1),
  kind: z.enum(['recoverable', 'fatal', 'provider_failure', 'timeout', 'user_interrupt']).optional(),
  retryable: z.boolean().optional(),
  detail: jsonSchema.optional(),
});

/** `turnEpoch` may be left out: results are addressed to the turn, and then only a closed turn is stale. */
export const toolResultReportSchema = z
  .strictObject({
    callId: z.string().min(1).max(128),
    turnEpoch: z.int().positive().optional(),
    status: z.enum([...RESULT_STATUSES, 'running']),
    result: jsonSchema.optional(),
    /** A card written before (`writeResult`), instead of an inline `result`; tried again while the store does not have it (T18). */
    toolResultCardId: z.uuid().optional(),
    error: toolErrorSchema.optional(),
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

export type ToolResultReport = z.output<typeof toolResultReportSchema>;

export type ReportAnswer = 'applied' | 'buffered' | 'duplicate' | 'stale' | 'unknown' | 'deferred';

/** The answer to a report. */
export interface ReportAck {
  readonly ack: ReportAnswer;
  /** The agent of the turn; absent when there is no such turn. */
  readonly agentId?: string;
  /** The card that now holds the result; absent when nothing was stored. */
  readonly cardId?: string;
}

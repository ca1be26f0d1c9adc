/** What the tools that change an agent's work have in common: an effect that is tried out here, and counts with the commit of the turn (A7). */
import { z } from 'zod';
import { type AgentWork, type WorkEffect, withEffect } from '../../../workflows/agent-state/effects.ts';
import { type ScheduledWorkItem, scheduled } from '../../../workflows/agent-state/work-items.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { AnswerContext, BuiltinAnswer } from './builtin-tool.ts';

/** A line of text of a work item. */
export const shortText = z.string().trim().min(1).max(1_000);
/** The id of a work item, as a tool has returned it. */
export const itemId = z.string().min(1).max(200);
/** Seconds until something: a year at most, and so many at least that an agent which wakes itself again and again costs little. */
export const secondsAhead = z
  .int()
  .min(10)
  .max(366 * 86_400);

/** What may be said of a work item when it is made or changed. */
export const itemFields = {
  plan_status: z
    .enum(['draft', 'ready', 'needs_input'])
    .optional()
    .describe('ready: it can be gone on with; needs_input: a person must say something first'),
  todo_list: z
    .array(
      z.object({ text: shortText.max(300), state: z.enum(['pending', 'in_progress', 'completed']).default('pending') }),
    )
    .max(50)
    .optional()
    .describe('replaces the list before'),
  blocked_by: z.array(itemId).max(50).optional().describe('ids of work items that must be completed first'),
  recheck_after_seconds: secondsAhead.nullable().optional().describe('when you want to come back to it by yourself'),
};

/** What the fields say, in our own words. */
export const changeOf = (fields: z.output<z.ZodObject<typeof itemFields>>) => ({
  ...(fields.plan_status === undefined ? {} : { planStatus: fields.plan_status }),
  ...(fields.todo_list === undefined ? {} : { todoList: fields.todo_list }),
  ...(fields.blocked_by === undefined ? {} : { blockedBy: fields.blocked_by }),
  ...(fields.recheck_after_seconds === undefined ? {} : { recheckAfterMs: msOf(fields.recheck_after_seconds) }),
});

/** Seconds as ms; null stays null. */
export const msOf = (value: number | null): number | null => (value === null ? null : value * 1_000);

/**
 * The answer of a tool that changes work: what `resultOf` makes of the work with the effect, or why the effect does not fit. `ends` ends the
 * turn with it.
 */
export async function changed(
  context: AnswerContext,
  effect: WorkEffect,
  resultOf: (work: AgentWork) => JsonObject,
  ends = false,
): Promise<BuiltinAnswer> {
  try {
    const { work, nowMs } = await context.work();
    const result = resultOf(withEffect(work, effect, nowMs));
    return { result, effect, ...(ends ? { afterExecution: 'terminate' as const } : {}) };
  } catch (error) {
    if (!(error instanceof CodedError) || error.code !== 'invalid_request') throw error;
    return { error: { code: 'invalid_arguments', message: error.message, kind: 'recoverable' } };
  }
}

/** The work item with that id, as the model reads it. */
export const shownItem = ({ items, waits, currentId }: AgentWork, id: string): JsonObject => {
  const item = scheduled(items, waits, currentId).find(({ workItemId }) => workItemId === id);
  return item ? itemView(item) : { work_item_id: id };
};

/** A work item as the model reads it. */
export const itemView = (item: ScheduledWorkItem): JsonObject => ({
  work_item_id: item.workItemId,
  objective: item.objective,
  state: item.state,
  scheduling_state: item.schedulingState,
  current: item.current,
  plan_status: item.planStatus,
  revision: item.revision,
  todo_list: item.todoList.map(({ text, state }) => ({ text, state })),
  blocked_by: [...item.blockedBy],
  ...(item.recheckAt === null ? {} : { recheck_at: new Date(item.recheckAt).toISOString() }),
  ...(item.resultSummary === null ? {} : { result_summary: item.resultSummary }),
});

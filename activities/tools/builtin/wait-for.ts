/** The built-in `wait_for`: the turn ends, and the agent goes on when what it waits for has come (A8). */
import { z } from 'zod';
import type { WaitKind } from '../../../workflows/agent-state/waits.ts';
import { WAIT_FOR } from '../../../workflows/protocol/builtins.ts';
import { clip } from '../../../workflows/protocol/sizes.ts';
import { isTerminal } from '../../../workflows/protocol/turn.ts';
import { workId } from '../../ids.ts';
import { type AnswerContext, answeredTool, type BuiltinAnswer } from './builtin-tool.ts';
import { changed, itemId, msOf, secondsAhead, shortText } from './work-tool.ts';

const WAKES = ['operator_input', 'task_result', 'external', 'timer', 'system'] as const;
const KINDS: Readonly<Record<(typeof WAKES)[number], WaitKind>> = {
  operator_input: 'operator',
  task_result: 'task',
  external: 'external',
  timer: 'timer',
  system: 'system',
};

const schema = z.object({
  wake: z.enum(WAKES).describe('what wakes you: a person, a delegated turn, a trigger, a time, the system'),
  resource: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('for task_result: the agent_turn_id; for external: a trigger_id, or any; for timer: a timer_id'),
  reason: shortText.describe('what you wait for and why, for people'),
  work_item_id: itemId.optional().describe('the work item that waits; if left out, the one you are at, or else you'),
  recheck_after_seconds: secondsAhead
    .optional()
    .describe('when you want to look by yourself, although nothing has come'),
  deadline_seconds: secondsAhead.optional().describe('when you are woken at the latest; a day if left out'),
});

/** `wait_for`: writes down what is waited for, and ends the turn. */
export const waitFor = answeredTool({
  name: WAIT_FOR,
  kind: 'tool',
  description:
    'Ends this turn. You get another one when what you wait for has come, or the deadline passes. What you say beside the call is the result of this turn. A delegated turn that has ended is told at once, and this turn goes on.',
  schema: schema
    .refine(({ wake, resource }) => wake !== 'task_result' || resource !== undefined, {
      error: 'task_result needs the agent_turn_id of the turn',
      path: ['resource'],
    })
    .refine(
      ({ wake, resource, recheck_after_seconds }) =>
        wake !== 'timer' || resource !== undefined || recheck_after_seconds !== undefined,
      { error: 'timer needs a timer_id in resource, or recheck_after_seconds', path: ['recheck_after_seconds'] },
    ),
  answer: async (args, context, { callId }) => {
    const kind = KINDS[args.wake];
    const answered = kind === 'task' ? await answerOfTask(args.resource ?? '', context) : null;
    if (answered) return answered;
    const waitId = workId('wait', callId);
    const { work } = await context.work();
    const effect = {
      type: 'wait',
      waitId,
      kind,
      reason: args.reason,
      workItemId: args.work_item_id ?? work.currentId,
      resource: args.resource ?? null,
      recheckAfterMs: msOf(args.recheck_after_seconds ?? null),
      deadlineMs: msOf(args.deadline_seconds ?? null),
    } as const;
    const shown = (until: number | undefined) => ({
      ...{ waiting_for: args.wake, wait_id: waitId, reason: args.reason },
      ...(until === undefined ? {} : { until: new Date(until).toISOString() }),
    });
    return changed(context, effect, ({ waits }) => shown(waits.find((each) => each.waitId === waitId)?.deadline), true);
  },
});

/** The answer where a turn need not or cannot be waited for; null where it goes on. */
async function answerOfTask(agentTurnId: string, { delegated }: AnswerContext): Promise<BuiltinAnswer | null> {
  const turn = await delegated(agentTurnId);
  if (!turn) {
    const message = `you have delegated no turn ${agentTurnId.slice(0, 100)}; delegate_async returns the agent_turn_id of its turn`;
    return { error: { code: 'invalid_arguments', message, kind: 'recoverable' } };
  }
  const { status, errorCode, deliverable } = turn;
  if (!isTerminal(status)) return null;
  const text = deliverable === null ? null : clip(JSON.stringify(deliverable), SHOWN_BYTES);
  return { result: { ended: true, status, error_code: errorCode, deliverable: text } };
}

/** Bytes of what an ended turn has delivered. */
const SHOWN_BYTES = 16 * 1024;

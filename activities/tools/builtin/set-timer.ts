/** The built-in `set_timer`: the agent is woken at a time, once or again and again (A9). */
import { z } from 'zod';
import { workId } from '../../ids.ts';
import { answeredTool } from './builtin-tool.ts';
import { changed, msOf, secondsAhead, shortText } from './work-tool.ts';

/** `set_timer`: sets a timer. */
export const setTimer = answeredTool({
  name: 'set_timer',
  kind: 'tool',
  description:
    'Wakes you with a turn of its own after so many secondsAhead, and then every so many secondsAhead if that is given. Returns its timer_id.',
  schema: z.object({
    after_seconds: secondsAhead,
    every_seconds: secondsAhead.min(60).optional(),
    reason: shortText.describe('what you want to do then'),
  }),
  answer: ({ after_seconds, every_seconds, reason }, context, { callId }) => {
    const timerId = workId('timer', callId);
    const everyMs = msOf(every_seconds ?? null);
    const effect = { type: 'set_timer', timerId, reason, afterMs: after_seconds * 1_000, everyMs } as const;
    return changed(context, effect, ({ timers }) => {
      const at = timers.find((timer) => timer.timerId === timerId)?.nextAt ?? 0;
      return { timer_id: timerId, next_at: new Date(at).toISOString() };
    });
  },
});

/** The built-in `cancel_timer`: a timer does not fire any more (A9). */
import { z } from 'zod';
import { answeredTool } from './builtin-tool.ts';
import { changed } from './work-tool.ts';

/** `cancel_timer`: cancels a timer. */
export const cancelTimerTool = answeredTool({
  name: 'cancel_timer',
  kind: 'tool',
  description: 'Cancels a timer that you have set.',
  schema: z.object({ timer_id: z.string().min(1).max(200) }),
  answer: ({ timer_id: timerId }, context) =>
    changed(context, { type: 'cancel_timer', timerId }, () => ({ timer_id: timerId, cancelled: true })),
});

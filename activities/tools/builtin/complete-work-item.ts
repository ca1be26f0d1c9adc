/** The built-in `complete_work_item`: a piece of work is done (A7). */
import { z } from 'zod';
import { answeredTool } from './builtin-tool.ts';
import { changed, itemId } from './work-tool.ts';

/** `complete_work_item`: completes a work item, with what came of it. */
export const completeWorkItem = answeredTool({
  name: 'complete_work_item',
  kind: 'tool',
  description: 'Completes an open work item. What it waited for is not waited for any more.',
  schema: z.object({ work_item_id: itemId, result_summary: z.string().max(4_000).optional() }),
  answer: ({ work_item_id: workItemId, result_summary: summary }, context) =>
    changed(context, { type: 'complete', workItemId, resultSummary: summary ?? null }, () => ({
      work_item_id: workItemId,
      state: 'completed',
    })),
});

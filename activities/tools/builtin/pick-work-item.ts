/** The built-in `pick_work_item`: the piece of work that the agent is at (A7). */
import { z } from 'zod';
import { answeredTool } from './builtin-tool.ts';
import { changed, itemId, shownItem } from './work-tool.ts';

/** `pick_work_item`: makes a work item the current one. */
export const pickWorkItem = answeredTool({
  name: 'pick_work_item',
  kind: 'tool',
  description: 'Makes an open work item the one you are at: it is gone on with before the others.',
  schema: z.object({ work_item_id: itemId }),
  answer: ({ work_item_id: workItemId }, context) =>
    changed(context, { type: 'pick', workItemId }, (work) => shownItem(work, workItemId)),
});

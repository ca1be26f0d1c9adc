/** The built-in `update_work_item`: what has changed of a piece of work (A7). */
import { z } from 'zod';
import { answeredTool } from './builtin-tool.ts';
import { changed, changeOf, itemFields, itemId, shortText, shownItem } from './work-tool.ts';

/** `update_work_item`: changes an open work item; what is left out stays. */
export const updateWorkItem = answeredTool({
  name: 'update_work_item',
  kind: 'tool',
  description: 'Changes an open work item. What is left out stays as it is.',
  schema: z.object({ work_item_id: itemId, objective: shortText.optional(), ...itemFields }),
  answer: ({ work_item_id: workItemId, objective, ...fields }, context) => {
    const change = { ...(objective === undefined ? {} : { objective }), ...changeOf(fields) };
    return changed(context, { type: 'update', workItemId, change }, (work) => shownItem(work, workItemId));
  },
});

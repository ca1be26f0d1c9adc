/** The built-in `create_work_item`: a piece of work that outlives the turn (A7). */
import { z } from 'zod';
import { workId } from '../../ids.ts';
import { answeredTool } from './builtin-tool.ts';
import { changed, changeOf, itemFields, shortText, shownItem } from './work-tool.ts';

/** `create_work_item`: writes down a piece of work. */
export const createWorkItem = answeredTool({
  name: 'create_work_item',
  kind: 'tool',
  description:
    'Writes down a piece of work that outlives this turn. While one can be gone on with, you get another turn for it after this one. Returns its work_item_id.',
  schema: z.object({ objective: shortText, ...itemFields }),
  answer: ({ objective, ...fields }, context, { callId }) => {
    const workItemId = workId('work', callId);
    const effect = { type: 'create', workItemId, change: { objective, ...changeOf(fields) } } as const;
    return changed(context, effect, (work) => shownItem(work, workItemId));
  },
});

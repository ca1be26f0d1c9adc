/** The built-in `list_work_items`: the open work of the agent (A7). */
import { z } from 'zod';
import { scheduled } from '../../../workflows/agent-state/work-items.ts';
import { answeredTool } from './builtin-tool.ts';
import { itemView } from './work-tool.ts';

/** Items that one call returns. */
const MOST_ITEMS = 20;

/** `list_work_items`: answers with the open work items, in the order in which they are gone on with. */
export const listWorkItemsTool = answeredTool({
  name: 'list_work_items',
  kind: 'tool',
  description: 'Lists your open work items, the oldest first, each with whether it can be gone on with.',
  schema: z.object({
    only: z.enum(['all', 'runnable', 'waiting', 'blocked']).default('all'),
    after: z.string().optional().describe('the work_item_id of the last one of the list before'),
  }),
  answer: async ({ only, after }, { work }) => {
    const { items, waits, currentId } = (await work()).work;
    const open = scheduled(items, waits, currentId).filter(({ state }) => state === 'open');
    const wanted = open.filter(
      ({ schedulingState }) =>
        only === 'all' || schedulingState === only || (only === 'waiting' && schedulingState.startsWith('waiting_')),
    );
    const from = after === undefined ? 0 : wanted.findIndex(({ workItemId }) => workItemId === after) + 1;
    const page = wanted.slice(from, from + MOST_ITEMS);
    return { result: { work_items: page.map(itemView), total: wanted.length } };
  },
});

/** The built-in `delegate_async`: a task for another agent that the caller does not wait for (W12, T26, T27). */
import { z } from 'zod';
import { DELEGATE_ASYNC } from '../../../workflows/protocol/builtins.ts';
import { delegatingTool } from './builtin-tool.ts';
import { maxTokens, mayDelegate, namingAllowed, onParentEnd, targetName, taskText } from './delegation.ts';

/** `delegate_async`: starts a turn of another agent and does not wait. */
export const delegateAsync = delegatingTool({
  name: DELEGATE_ASYNC,
  kind: 'agent',
  offeredTo: mayDelegate,
  description: namingAllowed(
    'Give a task to another agent and go on without waiting for it. Returns its agent and turn id at once.',
  ),
  schema: z.object({
    target_strategy: z
      .enum(['new', 'reuse', 'clone'])
      .describe(
        'new: a new agent; reuse: an existing one, with all it remembers; clone: a new one with a copy of that',
      ),
    target_ref: targetName.describe('for new: a profile; for reuse and clone: an agent id'),
    instruction: taskText.describe('what to do, complete in itself: the other agent does not see this conversation'),
    context_box_id: z.uuid().optional().describe('a box of cards it shall read as well'),
    on_parent_end: onParentEnd('task', 'continue'),
    max_tokens: maxTokens,
  }),
  delegation: ({
    target_strategy: strategy,
    target_ref: ref,
    instruction,
    context_box_id,
    on_parent_end,
    max_tokens,
  }) => ({
    target: strategy === 'new' ? { strategy, profile: ref } : { strategy, agentId: ref },
    instruction,
    onParentEnd: on_parent_end,
    ...(context_box_id === undefined ? {} : { contextBoxId: context_box_id }),
    ...(max_tokens === undefined ? {} : { maxTokens: max_tokens }),
  }),
});

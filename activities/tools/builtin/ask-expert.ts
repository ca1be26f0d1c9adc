/** The built-in `ask_expert`: a question to another agent whose answer the caller waits for (W12, T26, T27, T30). */
import { z } from 'zod';
import { ASK_EXPERT } from '../../../workflows/protocol/builtins.ts';
import { parametersOf } from '../../parameters.ts';
import { delegatingTool } from './builtin-tool.ts';
import { maxTokens, mayDelegate, namingAllowed, onParentEnd, targetName, taskText } from './delegation.ts';

const schema = z.object({
  profile: targetName.optional().describe('the profile of a new expert; or give agent_id'),
  agent_id: targetName.optional().describe('an expert that is there already'),
  question: taskText,
  include_history: z.boolean().default(false).describe('whether the expert may read this conversation'),
  timeout_seconds: z.int().positive().max(86_400).optional(),
  on_parent_end: onParentEnd('question', 'stop'),
  max_tokens: maxTokens,
});

/** Matches arguments that have this one. */
const having = (name: keyof typeof schema.shape) => ({ type: 'object', properties: { [name]: {} }, required: [name] });

/** `ask_expert`: starts a turn of another agent and waits for its end. */
export const askExpert = delegatingTool({
  name: ASK_EXPERT,
  kind: 'agent',
  offeredTo: mayDelegate,
  description: namingAllowed('Ask another agent and wait for its answer. Returns {status, deliverable}.'),
  schema: schema.refine(({ profile, agent_id }) => (profile === undefined) !== (agent_id === undefined), {
    error: 'exactly one of profile and agent_id is expected',
    path: ['profile'],
  }),
  // The refinement as JSON Schema; the model reads it in the descriptions.
  editedParameters: { ...parametersOf(schema), oneOf: [having('profile'), having('agent_id')] },
  delegation: ({
    profile = '',
    agent_id: agentId,
    question,
    include_history,
    timeout_seconds,
    on_parent_end,
    max_tokens,
  }) => ({
    target: agentId === undefined ? { strategy: 'new', profile } : { strategy: 'reuse', agentId },
    instruction: question,
    includeHistory: include_history,
    waitMs: timeout_seconds === undefined ? null : timeout_seconds * 1_000,
    onParentEnd: on_parent_end,
    ...(max_tokens === undefined ? {} : { maxTokens: max_tokens }),
  }),
});

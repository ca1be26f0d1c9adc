/** The built-in `create_trigger`: a way for something outside to wake the agent (A9). */
import { z } from 'zod';
import { workId } from '../../ids.ts';
import { newWakeToken, wakePath, wakeTokenHash } from '../../wake-tokens.ts';
import { answeredTool } from './builtin-tool.ts';
import { changed } from './work-tool.ts';

/** `create_trigger`: makes a trigger, of which the model alone is told the token. */
export const createTriggerTool = answeredTool({
  name: 'create_trigger',
  kind: 'tool',
  description:
    'Makes a secret path to which something outside can POST a text or JSON to wake you, once or many times, at the gateway of this system. Give it only to whom it is for. Returns trigger_id and path; wait for it with wait_for.',
  schema: z.object({ name: z.string().trim().min(1).max(100).describe('what it is for, in a few words') }),
  answer: ({ name }, context, { callId }) => {
    const triggerId = workId('trigger', callId);
    const token = newWakeToken();
    const effect = { type: 'create_trigger', triggerId, name, tokenHash: wakeTokenHash(token) } as const;
    return changed(context, effect, () => ({ trigger_id: triggerId, name, path: wakePath(token) }));
  },
});

/** The built-in `agent_get`: what an agent is at, for the agent itself and for the one that made it (A5, A11). */
import { z } from 'zod';
import type { AgentSummary } from '../../../workflows/contract/agent-summary.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import { answeredTool } from './builtin-tool.ts';
import { itemView } from './work-tool.ts';

/** `agent_get`: answers with the summary of the agent, or of one that it has made. */
export const agentGet = answeredTool({
  name: 'agent_get',
  kind: 'tool',
  description:
    'Tells what you are at, or an agent that you have made by delegation: work items, waits, timers, triggers, delegated turns.',
  schema: z.object({ agent_id: z.string().min(1).max(200).optional().describe('yourself, if left out') }),
  answer: async ({ agent_id: asked }, { summary }, { agentId }) => {
    const found = await summary(asked ?? agentId);
    const isOwn = found?.identity.agentId === agentId || found?.identity.parentAgentId === agentId;
    if (found && isOwn) return { result: shownSummary(found) };
    const message = `there is no agent ${(asked ?? agentId).slice(0, 100)} that you have made; delegation returns the agent_id`;
    return { error: { code: 'invalid_arguments', message, kind: 'recoverable' } };
  },
});

const shownSummary = ({ identity, agent, schedulingPosture, closure, ...rest }: AgentSummary): JsonObject => ({
  agent_id: identity.agentId,
  profile: identity.profile,
  status: agent.status,
  posture: schedulingPosture.posture,
  reason: schedulingPosture.reason,
  ...(closure === null ? {} : { closure: closure.outcome }),
  queued_turns: agent.pending,
  work_items: rest.workItems.map(itemView),
  waits: rest.activeWaits.map(({ waitId, kind, reason, workItemId, resource, deadline }) => ({
    ...{ wait_id: waitId, kind, reason, work_item_id: workItemId, resource },
    deadline: new Date(deadline).toISOString(),
  })),
  timers: rest.activeTimers.map(({ timerId, reason, nextAt }) => ({
    ...{ timer_id: timerId, reason },
    next_at: new Date(nextAt).toISOString(),
  })),
  triggers: rest.activeExternalTriggers.map(({ triggerId, name, hits }) => ({ trigger_id: triggerId, name, hits })),
  delegated_turns: rest.activeChildren.map(({ agentId, agentTurnId, status }) => ({
    ...{ agent_id: agentId, agent_turn_id: agentTurnId, status },
  })),
});

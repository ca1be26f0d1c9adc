/** The ends of turns that an agent waits for between its own (A8). */
import type { ActiveWait } from '../../../workflows/agent-state/waits.ts';
import type { Came } from '../../../workflows/contract/agent-work.ts';
import { isTerminal } from '../../../workflows/protocol/turn.ts';
import type { Reader } from '../context.ts';

/** That the turn has ended that the wait is for; null while it goes on, and for a wait for something else. One that is not there has ended. */
export async function taskEnd(
  { db }: Reader,
  agentId: string,
  { kind, resource }: Pick<ActiveWait, 'kind' | 'resource'>,
): Promise<Came | null> {
  if (kind !== 'task' || resource === null) return null;
  const task = await db
    .selectFrom('turns')
    .select(['agent_id', 'status', 'error_code', 'deliverable_card_id'])
    .where('agent_turn_id', '=', resource)
    // What others do for others is none of its business.
    .where('parent_agent_id', '=', agentId)
    .executeTakeFirst();
  if (task && !isTerminal(task.status)) return null;
  const code = task?.error_code ? `, ${task.error_code}` : '';
  const reason = task
    ? `turn ${resource} of agent ${task.agent_id} has ended: ${task.status}${code}`
    : `there is no turn ${resource} that you have delegated`;
  return { kind: 'task_result', source: resource, reason, count: 1, cardId: task?.deliverable_card_id ?? null };
}

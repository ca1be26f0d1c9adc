/** What activities do to the workflows of turns; `client/turn-workflows.ts` implements it. */
import { log } from '@temporalio/activity';
import type { Handover } from '../workflows/contract/lease.ts';
import { describeError } from './failure.ts';

export interface TurnWorkflows {
  /**
   * Starts the workflow of the turn that was leased, and tells the parents that wait for turns that have ended. Throws
   * `temporal_unreachable`, or an error of the store, after all of it has been tried.
   */
  handOver(handover: Handover): Promise<void>;
}

/** What cannot be done now the supervisor does later: it must not hold up the turn that is at work. */
export async function tryHandOver(workflows: TurnWorkflows, handover: Handover): Promise<void> {
  try {
    await workflows.handOver(handover);
  } catch (error) {
    log.warn('left to the supervisor', { agentId: handover.agentId, error: describeError(error) });
  }
}

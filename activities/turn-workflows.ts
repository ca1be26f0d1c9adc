/** What activities do to the workflows of turns. `TurnWorkflows` in client/turn-workflows.ts implements it. */
import { log } from '@temporalio/activity';
import type { Handover } from '../workflows/contract/lease.ts';
import { describeError } from './failure.ts';

/** Carries out what a transaction that ended or leased a turn has handed over. */
export interface HandoverExecutor {
  /**
   * Starts the workflow of the turn that was leased, and settles the turns that have ended with the parents that wait for them. Throws
   * `temporal_unreachable`, or an error of the store, after all of it has been tried.
   */
  handOver(handover: Handover): Promise<void>;
}

/**
 * Carries out a handover without ever failing: what cannot be done at the moment the supervisor does later, and the turn that runs this
 * must not wait for it.
 */
export async function tryHandOver(workflows: HandoverExecutor, handover: Handover): Promise<void> {
  try {
    await workflows.handOver(handover);
  } catch (error) {
    log.warn('left to the supervisor', { agentId: handover.agentId, error: describeError(error) });
  }
}

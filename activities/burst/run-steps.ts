/** The activity that performs several actions of a turn: a burst, or none where the workflow runs another kernel. */
import { type BurstInput, type BurstOutcome, firstStepOf } from '../../workflows/contract/burst.ts';
import { KERNEL_VERSION } from '../../workflows/kernel/version.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import { activityAttempt, type Holding, isFirstAttempt, leaseCheck, withHeartbeat } from '../heartbeat.ts';
import { outlastOutage } from '../store-outage.ts';
import { Burst, type BurstDeps, recordedEnd } from './burst.ts';
import { isCoded } from './failures.ts';

/**
 * Performs the action and those that follow from it, until the turn has ended, must wait, or has done enough. Errors: those of the first
 * action, as its own activity throws them; of a later one only those that another attempt may heal.
 */
export const runSteps =
  (deps: BurstDeps) =>
  (input: BurstInput): Promise<BurstOutcome> => {
    const { agentId, agentTurnId, turnEpoch } = input;
    const fence: Fence = { agentId, agentTurnId, turnEpoch, acting: activityAttempt() };
    return withHeartbeat(leaseCheck(deps.store, fence), async (holding) => {
      // Two versions may decide otherwise of the same turn; the workflow's own is the one that a replay asks.
      const isSame = input.kernel === KERNEL_VERSION;
      const outcome = isSame
        ? await new Burst(deps, input, fence, holding).run()
        : await leaveToWorkflow(deps, input, fence, holding);
      // What goes on apart does not look for what a lost attempt has done.
      const again = !isFirstAttempt() || (outcome.apart && input.again);
      return again ? { ...outcome, again: true } : outcome;
    });
  };

/** Leaves the action to the workflow, once no attempt before this one can act any more, or gives the end that one has recorded. */
async function leaveToWorkflow(
  deps: BurstDeps,
  input: BurstInput,
  fence: Fence,
  { signal }: Holding,
): Promise<BurstOutcome> {
  const { action, noticed = [] } = input;
  const apart = { items: [], untold: noticed.length, apart: true } as const;
  if (isFirstAttempt()) return apart;
  try {
    await outlastOutage(signal, () => deps.store.readLedSteps(fence, firstStepOf(action)));
    return apart;
  } catch (error) {
    if (isCoded(error, 'stale_epoch')) return recordedEnd(deps, input, fence, signal);
    throw error;
  }
}

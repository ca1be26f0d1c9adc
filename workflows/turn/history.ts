/** When a run of a turn has got so long that the turn continues as new (K22). */
import { workflowInfo } from '@temporalio/workflow';

/** Our own thresholds, well below the server's. */
const MAX_EVENTS = 2_500;
const MAX_BYTES = 2 * 1024 * 1024;

/** `maxEvents`: the profile's own threshold; left out, it is 2,500 events. */
export function historyIsLong(maxEvents = MAX_EVENTS): boolean {
  const { historyLength, historySize, continueAsNewSuggested } = workflowInfo();
  return continueAsNewSuggested || historyLength > maxEvents || historySize > MAX_BYTES;
}

/** Times that have come for agents without an open turn: the store makes a turn of each, and its workflow is started here (A8, A9, A12). */
import type { TurnWorkflows } from '../../client/turn-workflows.ts';
import type { DueWake, WorkStore } from '../../workflows/contract/agent-work.ts';
import type { StoreClock } from '../../workflows/contract/store.ts';
import { storeNow } from './check-turn.ts';
import { type Done, sideBySide } from './side-by-side.ts';

/** What waking reads and acts on. */
export interface WakingDeps {
  readonly store: WorkStore & StoreClock;
  readonly workflows: TurnWorkflows;
}

/** How much is done, and what becomes of errors. */
export interface WakingOptions {
  /** How many times are acted on. */
  readonly limit: number;
  /** Whether to go on. */
  readonly stillHolds: () => Promise<boolean>;
  readonly onError: (error: unknown) => void;
}

/** How long a time is put off that could not be acted on, so that others come to theirs. */
const PUT_OFF_MS = 10_000;

/** Acts on the times that have come, those first that have been due for longest. Throws the errors of the store where it cannot be asked. */
export async function wakeDue(deps: WakingDeps, { limit, stillHolds, onError }: WakingOptions): Promise<Done> {
  const due = await deps.store.dueWakes(limit);
  return sideBySide(due, stillHolds, async (wake) => {
    try {
      await act(deps, wake);
      return true;
    } catch (error) {
      onError(error);
      await deps.store.putOffWake(wake, storeNow(deps.store) + PUT_OFF_MS).catch(onError);
      return false;
    }
  });
}

/** Where the start of the workflow is lost, the check of its turn finds it. */
async function act({ store, workflows }: WakingDeps, wake: DueWake): Promise<void> {
  const handover = await store.fireWake(wake);
  if (handover) await workflows.handOver(handover);
}

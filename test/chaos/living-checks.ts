/** What must be true of agents that lived on between their turns: every piece of work once, every delivery once, every decision again. */
import { continuationOf } from '../../workflows/agent-state/continuation.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { Store } from '../../workflows/contract/store.ts';
import type { Problem } from './ledger.ts';
import type { Life } from './living.ts';

/** What is wrong with a life, by its events and its rows. */
export async function livingProblems(
  store: Store,
  { agentId, pieces, taken, isOver }: Life,
  events: readonly AgentEvent[],
): Promise<readonly Problem[]> {
  const problem = (check: string, detail: string): Problem => ({ check, agentId, detail });
  if (!isOver) return [];
  const items = await store.listWorkItems(agentId, { limit: 1_000 });
  const open = items.filter(({ state }) => state === 'open');
  const completions = events.flatMap((event) =>
    event.type === 'work' && event.payload.change === 'complete' && event.payload.applied
      ? [event.payload.workItemId ?? '']
      : [],
  );
  const twice = completions.filter((id, index) => completions.indexOf(id) !== index);
  const [trigger] = await store.listTriggers(agentId);
  const waits = await store.listWaits(agentId, { open: true });
  const summary = await store.agentSummary(agentId);
  return [
    ...(items.length < pieces ? [problem('work_lost', `${items.length} of ${pieces} pieces of work`)] : []),
    ...(open.length > 0 ? [problem('work_not_done', `${open.length} pieces of work are open`)] : []),
    ...(completions.length !== items.length || twice.length > 0
      ? [problem('work_done_twice', `${items.length} pieces were completed ${completions.length} times`)]
      : []),
    // One whose answer was lost has been taken all the same.
    ...((trigger?.hits ?? 0) < taken.size
      ? [problem('delivery_lost', `${taken.size} were taken, ${trigger?.hits} counted`)]
      : []),
    ...(waits.length > 0 ? [problem('wait_left', waits.map(({ waitId }) => waitId).join())] : []),
    ...(summary?.closure?.outcome === 'waiting' || summary?.closure?.outcome === 'continuable'
      ? [problem('closure_wrong', JSON.stringify(summary.closure))]
      : []),
    ...events.flatMap((event) => decidedAgain(event).map((detail) => problem('decided_differently', detail))),
  ];
}

/** A decision that was written down is the one that its facts lead to. */
function decidedAgain(event: AgentEvent): string[] {
  if (event.type !== 'continuation') return [];
  const { triggerKind, priorClosure, matchedWaitingReason, modelReentry } = event.payload;
  const trigger = { kind: triggerKind, terminal: true, contentful: true } as const;
  const plain = continuationOf(priorClosure, trigger);
  const awaited = continuationOf(priorClosure, { ...trigger, awaited: true });
  const fits = [plain, awaited].some(
    (again) =>
      again.class === event.payload.class &&
      again.matchedWaitingReason === matchedWaitingReason &&
      again.modelReentry === modelReentry,
  );
  return fits ? [] : [JSON.stringify(event.payload)];
}

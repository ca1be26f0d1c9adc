/** The results that attempts at calls bring. */
import type { CallResult, SettledAndOpened } from '../../../workflows/contract/calls.ts';
import type { InboxDelivery, InboxMark } from '../../../workflows/contract/inbox.ts';
import type { StepBegin } from '../../../workflows/contract/steps.ts';
import type { SettledCall } from '../../../workflows/kernel/calls.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import { updateRows } from '../prepared.ts';
import { leased, type WithLease } from '../schema/turn-states.ts';
import { fencedWith } from '../turns/head.ts';
import { deliver } from '../turns/tree-budgets.ts';
import { type Extras, held } from '../turns/turns.ts';
import { type CallAndResult, callAndResultOf, selectCallAndResult } from './call-cards.ts';
import { fencedCall } from './calls.ts';
import { openLocked, selectTurnAt } from './openings.ts';
import { storeResult } from './results.ts';

/** Stores the result that an attempt brings; the first result of a call wins. */
export const settleCall = (ctx: StoreContext, fence: Fence, result: CallResult): Promise<SettledCall> =>
  write(ctx, fence.agentId, async (tx) => {
    const { turn, ...found } = await fencedCall(tx, fence, result.callId);
    return settle(tx, turn, found, result);
  });

/** Stores the result of the last call of a step, and opens the step that follows from it. */
export const settleCallAndOpen = (
  ctx: StoreContext,
  fence: Fence,
  result: CallResult,
  stepIndex: number,
  mark: InboxMark,
  openWith: (settled: SettledCall, delivery: InboxDelivery) => StepBegin | null,
): Promise<SettledAndOpened> =>
  write(ctx, fence.agentId, async (tx) => {
    const { agentTurnId } = fence;
    const call = selectCallAndResult(tx, agentTurnId, result.callId);
    const [head, [row], rows] = await fencedWith(tx, fence, selectTurnAt(tx, agentTurnId, stepIndex), call);
    const turn = leased(held(tx, row, agentTurnId));
    const settled = await settle(tx, turn, callAndResultOf(rows, agentTurnId, result.callId), result);
    if (turn.opened !== null) return { settled, next: null };
    const begin = openWith(settled, await deliver(tx, turn, mark));
    return { settled, next: begin && (await openLocked(tx, { head, turn }, begin)) };
  });

/** Stores the result unless the call has one, and says of the attempt how it went. The caller holds the head row. */
async function settle(
  tx: Tx,
  turn: WithLease & Extras,
  { call, settled: known }: CallAndResult,
  { callId, attempt, content, durationMs }: CallResult,
): Promise<SettledCall> {
  const { settled } = await storeResult(tx, turn, { stepIndex: call.stepIndex, content, durationMs, known });
  const claim = { agent_turn_id: turn.agent_turn_id, call_id: callId, attempt };
  await updateRows(tx.db, 'dispatch_claims', claim, { outcome: content.status, duration_ms: durationMs });
  return settled;
}

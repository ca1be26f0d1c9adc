/**
 * The two ways a leased turn ends: it commits its own end, or it is ended over its head. Both hand over to the agent's next turn in the
 * same transaction (T6, T7, T29).
 */
import type { Ending, Handover, TurnCommit } from '../../../workflows/contract/lease.ts';
import type { SeenTurn } from '../../../workflows/contract/supervision.ts';
import { type Fence, isTerminal, type Termination } from '../../../workflows/protocol/turn.ts';
import { closeUnit } from '../cards/earlier-turns.ts';
import { type StoreContext, type Trx, write } from '../context.ts';
import type { HeadRow, TurnRow } from '../schema/rows.ts';
import { handOver } from './handover.ts';
import { holds, lockHead, staleEpoch, updateHead } from './head.ts';
import { abandoned, endOf, finishTurn } from './terminal.ts';
import { lockedTurn, type MaybeHeld, turnOf } from './turns.ts';

export async function commitTurn(ctx: StoreContext, fence: Fence, commit: TurnCommit): Promise<Ending> {
  const now = ctx.now();
  return write(ctx, fence.agentId, async (trx) => {
    const { head, turn } = await lockedTurn(trx, fence, now);
    // A second run, or a turn that was ended over its head meanwhile: what is recorded stands.
    if (isTerminal(turn.status)) {
      const handover = await handOver(ctx, trx, head, now);
      return { ended: endOf(turn), handover: withReport(handover, turn) };
    }
    if (!holds(head, fence)) throw staleEpoch(fence);
    return endTurn(ctx, trx, head, turn, commit, now);
  });
}

export async function reapTurn(ctx: StoreContext, seen: SeenTurn, termination: Termination): Promise<Handover | null> {
  const now = ctx.now();
  return write(ctx, seen.agentId, async (trx) => {
    const head = await lockHead(trx, seen.agentId, now);
    if (!holds(head, seen) || head.status !== seen.status || head.updated_at !== seen.progressAt) return null;
    return (await reap(ctx, trx, head, await turnOf(trx, seen.agentTurnId), termination, now)).handover;
  });
}

/** Ends an active turn over its head: the epoch rises first, so that whatever is left of the turn can write nothing (T5, T7). */
export async function reap(
  ctx: StoreContext,
  trx: Trx,
  head: HeadRow,
  turn: TurnRow,
  termination: Termination,
  now: number,
): Promise<Ending> {
  const turnEpoch = head.turn_epoch + 1;
  await updateHead(trx, head.agent_id, { turn_epoch: turnEpoch });
  return endTurn(ctx, trx, { ...head, turn_epoch: turnEpoch }, turn, abandoned(termination), now);
}

/** The caller holds the head row, gives it as it is now, and has checked that the turn is not terminal. */
export async function endTurn(
  ctx: StoreContext,
  trx: Trx,
  head: HeadRow,
  turn: MaybeHeld,
  commit: TurnCommit,
  now: number,
): Promise<Ending> {
  const ended = await finishTurn(trx, turn, commit, now);
  const wasActive = head.active_agent_turn_id === turn.agent_turn_id;
  // A turn that was cancelled in the queue leaves its deliverable among the cards of the open one, whose unit takes it in.
  if (wasActive || head.active_agent_turn_id === null) await closeUnit(trx, ended.outputBoxId);
  const after: HeadRow = wasActive
    ? {
        ...head,
        status: 'idle',
        active_agent_turn_id: null,
        waiting_tool_count: 0,
        resume_deadline: null,
        updated_at: now,
      }
    : head;
  const reported = turn.settlement === 'pending' ? { ...turn, settlement: 'due' as const } : turn;
  return { ended, handover: withReport(await handOver(ctx, trx, after, now), reported) };
}

const withReport = (handover: Handover, { settlement, agent_turn_id: agentTurnId }: TurnRow): Handover =>
  settlement === 'due' ? { ...handover, settlements: [agentTurnId, ...handover.settlements] } : handover;

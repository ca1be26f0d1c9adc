/**
 * The two ways a leased turn ends: it commits its own end, or it is ended over its head. Both hand over to the agent's next turn in the
 * same transaction (T6, T7, T29).
 */
import { hasFailed } from '../../../workflows/agent-state/closure.ts';
import type { ClaimedCall } from '../../../workflows/contract/calls.ts';
import type { CommittedStep, Ending, Handover, TurnCommit, TurnEnd } from '../../../workflows/contract/lease.ts';
import type { StepCommit, StepOutcomeRecord } from '../../../workflows/contract/steps.ts';
import type { SeenTurn } from '../../../workflows/contract/supervision.ts';
import type { Fence, Termination } from '../../../workflows/protocol/turn.ts';
import { applyEffects, dropEffects } from '../agents/effects.ts';
import { noteInterrupted } from '../agents/own-turns.ts';
import { start } from '../calls/calls.ts';
import { fencedTurnAt, type TurnAtStep } from '../calls/openings.ts';
import { writeStep } from '../calls/steps.ts';
import { closeUnit } from '../cards/earlier-turns.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import { updateRows } from '../prepared.ts';
import type { HeadRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { isEnded } from '../schema/turn-states.ts';
import { handOver } from './handover.ts';
import { lockHead, ofLease, refuseShutOut, updateHead } from './head.ts';
import { abandoned, type EndingTurn, endOf, finishTurn, lastTurn, RESTING, type StoredCommit } from './terminal.ts';
import { lockedTurn, turnOf } from './turns.ts';

/** The end that a turn commits itself. */
export const commitTurn = (ctx: StoreContext, fence: Fence, commit: TurnCommit): Promise<Ending> =>
  write(ctx, fence.agentId, async (tx) => {
    const { head, turn } = await lockedTurn(tx, fence);
    // A second run, or a turn that was ended over its head meanwhile: what is recorded stands.
    if (isEnded(turn)) return endingOf(turn, await endOf(tx, turn), await restingAfter(tx, head, turn));
    refuseShutOut(ofLease(head, fence), fence);
    return endTurn(tx, { head, turn }, commit);
  });

/** Commits a step, and the end of the turn where one follows from it. */
export const commitStepAndEnd = (
  ctx: StoreContext,
  fence: Fence,
  commit: StepCommit,
  endWith: (record: StepOutcomeRecord) => TurnCommit | null,
): Promise<CommittedStep> =>
  write(ctx, fence.agentId, async (tx) => {
    const { head, turn } = await fencedTurnAt(tx, fence, commit.stepIndex);
    const { record, spent } = await writeStep(tx, { head, turn }, commit);
    const end = endWith(record);
    if (!end) {
      if (spent) await updateRows(tx.db, 'turns', { agent_turn_id: fence.agentTurnId }, spent);
      return { record, ending: null, claims: spent ? await claimsOf(tx, turn, commit) : [] };
    }
    const worked = turn.worked || commit.calls.some(({ effect }) => effect !== undefined);
    const after = { ...turn, ...spent, worked, unsaved: spent ?? {} };
    // A step without calls is over with its commit, and those before it were over when it was opened.
    const stepsOpen = !spent || commit.calls.length > 0;
    const thought = spent ? { cardId: record.thoughtCardId, text: commit.thought.text } : null;
    return { record, ending: await endTurn(tx, { head, turn: { ...after, stepsOpen, thought } }, end), claims: [] };
  });

const FIRST = { attempt: 1, edited: false } as const;

/** The calls that were claimed with their step, unless what the turn waits for must be looked at first. */
const claimsOf = (tx: Tx, turn: TurnAtStep, { calls }: StepCommit): Promise<readonly ClaimedCall[]> =>
  Promise.all(
    calls.flatMap(({ claimed, content }) => (claimed && !turn.waited ? [start(tx, turn, content, FIRST)] : [])),
  );

/** The end that the supervisor gives a turn, unless the turn has moved since it was seen: then null. */
export const reapTurn = (ctx: StoreContext, seen: SeenTurn, termination: Termination): Promise<Handover | null> =>
  write(ctx, seen.agentId, async (tx) => {
    const head = await lockHead(tx, seen.agentId);
    if (!ofLease(head, seen) || head.status !== seen.status || head.updated_at !== seen.progressAt) return null;
    const turn = await turnOf(tx, seen.agentTurnId);
    return (await reap(tx, { head, turn }, termination)).handover;
  });

/** A turn that has not ended, and its agent's head row as the transaction holds it, with what the transaction has changed of both. */
interface Ended {
  readonly head: HeadRow;
  readonly turn: EndingTurn;
}

/** Ends an open turn over its head: the epoch rises first, so that whatever is left of the turn can write nothing (T5, T7). */
export async function reap(
  tx: Tx,
  { head, turn }: Ended,
  termination: Termination,
  leaving: Pick<TurnCommit, 'keepSteers' | 'rollBack'> = {},
): Promise<Ending> {
  const turnEpoch = head.turn_epoch + 1;
  await updateHead(tx, head.agent_id, { turn_epoch: turnEpoch });
  // What it has changed of its agent's work it has not committed.
  await dropEffects(tx, turn.agent_turn_id);
  const ended = { head: { ...head, turn_epoch: turnEpoch }, turn: { ...turn, worked: false } };
  return endTurn(tx, ended, { ...abandoned(termination), ...leaving });
}

/** Ends a turn and hands over to the next one. */
export async function endTurn(tx: Tx, { head, turn }: Ended, commit: StoredCommit): Promise<Ending> {
  const ended = await finishTurn(tx, turn, commit);
  const wasActive = head.active_agent_turn_id === turn.agent_turn_id;
  // A turn that was cancelled in the queue leaves its deliverable among the cards of the open one, whose unit takes it in.
  if (wasActive || head.active_agent_turn_id === null) await closeUnit(tx, ended.outputBoxId);
  const after: HeadRow = wasActive
    ? {
        ...head,
        status: 'idle',
        agent_status: RESTING,
        active_agent_turn_id: null,
        ...lastTurn(turn),
        waiting_tool_count: 0,
        resume_deadline: null,
        updated_at: tx.now,
      }
    : head;
  const worked = wasActive && turn.worked !== false ? await applyEffects(tx, after, turn) : after;
  if (hasFailed(commit.termination.status)) await noteInterrupted(tx, turn);
  const reported = turn.settlement === 'pending' ? { ...turn, settlement: 'due' as const } : turn;
  return endingOf(reported, ended, await handOver(tx, worked));
}

/** What follows when the end of a turn is told again. What the agent is at is said of its last turn alone. */
async function restingAfter(tx: Tx, head: HeadRow, { agent_turn_id: agentTurnId }: TurnRow): Promise<Handover> {
  const { resting, ...handover } = await handOver(tx, head);
  return resting && head.last_agent_turn_id === agentTurnId ? { ...handover, resting } : handover;
}

/** An end with what the agent is at from then on. */
const endingOf = (
  turn: Pick<TurnRow, 'settlement' | 'agent_turn_id'>,
  ended: TurnEnd,
  { resting, ...handover }: Handover,
): Ending => ({ ended: resting ? { ...ended, agent: resting } : ended, handover: withReport(handover, turn) });

const withReport = (
  handover: Handover,
  { settlement, agent_turn_id: agentTurnId }: Pick<TurnRow, 'settlement' | 'agent_turn_id'>,
): Handover => (settlement === 'due' ? { ...handover, settlements: [agentTurnId, ...handover.settlements] } : handover);

/**
 * Results from outside. What each means is decided in workflows/waiting; here are the facts it needs and what follows from it.
 *
 * Invariant: a call has at most one result; every answer to a report is given here, with or without a live worker (T14).
 */

import { type Border, NO_BORDER, seesAll } from '../../../workflows/contract/border.ts';
import { bringsResult, type Reported } from '../../../workflows/contract/calls.ts';
import type { ToolResultReport } from '../../../workflows/protocol/tool-result.ts';
import { onReport, type ReportDecision, type WaitingFacts } from '../../../workflows/waiting/decisions.ts';
import type { Reader, StoreContext, Tx } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import type { WaitingRow } from '../schema/rows.ts';
import { isEnded, leased, type Turn } from '../schema/turn-states.ts';
import { type Locked, writeToTurn } from '../turns/turns.ts';
import { findCall, findResult } from './call-cards.ts';
import { findDeferral, forgetDeferral, keepDeferral } from './deferrals.ts';
import { bodyOf, type FromWithin, resultContent } from './reported-results.ts';
import { storeResult } from './results.ts';
import { defaultAfterExecution } from './tool-specs.ts';
import { callPhaseOf, findWaiting, markWaiting, rescheduleCheck, syncHead } from './waiting-set.ts';

/** Takes a result that is brought from outside the turn. The answer is final and immediate (T14). */
export async function reportResult(
  ctx: StoreContext,
  agentTurnId: string,
  report: ToolResultReport,
  border: Border = NO_BORDER,
): Promise<Reported> {
  const from = seesAll(border) ? report : { ...report, within: border };
  const reported = await writeToTurn(ctx, agentTurnId, async (tx, locked) => ({
    ...(await reportTo(tx, locked, from)),
    agentId: locked.turn.agent_id,
  }));
  return reported ?? { ack: 'unknown', wake: false };
}

/** Takes a report for the turn. The caller holds the head row of the turn's agent. */
export async function reportTo(tx: Tx, locked: Locked, report: ToolResultReport & FromWithin): Promise<Reported> {
  const { head, turn } = locked;
  const { agent_turn_id: agentTurnId } = turn;
  const { callId } = report;
  const closed = isEnded(turn) || head.active_agent_turn_id !== agentTurnId;
  const call = await findCall(tx, agentTurnId, callId);
  const waiting = await findWaiting(tx, agentTurnId, callId);
  // Nothing has been started that could have a result: only an approver can answer this call.
  if (waiting?.kind === 'approval' && waiting.status !== 'dropped') return { ack: 'unknown', wake: false };
  const facts = call && (await agentFacts(tx, turn, { callId, waiting, closed }));
  const body = await bodyOf(tx, turn, report);
  const decision = onReport({ turnEpoch: turn.turn_epoch, closed }, facts, report, body !== null, tx.now);
  if (call && body && decision.effect === 'settle' && bringsResult(report)) {
    // What has not been closed is at the head, and so has its lease.
    const open = leased(turn);
    const otherwise = await defaultAfterExecution(tx, open, call.content.tool);
    const content = resultContent(call.content, otherwise, report, body);
    const { cardId } = await storeResult(tx, open, { stepIndex: call.stepIndex, content });
    await forgetDeferral(tx, agentTurnId, callId);
    if (waiting) await markWaiting(tx, waiting, { status: 'received', result_card_id: cardId });
    if (waiting) await syncHead(tx, locked);
    return { ack: decision.ack, cardId, wake: waiting !== undefined };
  }
  await carryOut(tx, locked, { report, waiting, decision });
  return { ack: decision.ack, wake: decision.effect === 'defer' };
}

/** A report, and what was decided about it. */
interface Decided {
  readonly report: ToolResultReport & FromWithin;
  readonly waiting: WaitingRow | undefined;
  readonly decision: ReportDecision;
}

/** What follows from a report that settles nothing. */
async function carryOut(tx: Tx, locked: Locked, { report, waiting, decision }: Decided): Promise<void> {
  const { head, turn } = locked;
  const { callId, status } = report;
  const noted = { callId, tool: '', status, reason: decision.ack } as const;
  switch (decision.effect) {
    case 'drop':
      return appendEvent(tx, turn, { type: 'call', payload: { ...noted, phase: 'dropped' } });
    case 'extend':
      if (waiting) await markWaiting(tx, waiting, { deadline: decision.deadline, created_at: tx.now });
      return syncHead(tx, locked, false);
    case 'defer': {
      const { reason } = decision.deferral;
      if (bringsResult(report)) await keepDeferral(tx, turn.agent_turn_id, report, decision.deferral);
      await rescheduleCheck(tx, turn.agent_turn_id, head.resume_deadline, true);
      return appendEvent(tx, turn, { type: 'call', payload: { ...noted, reason, phase: 'deferred' } });
    }
    default:
  }
}

/** The call of a report. */
interface ReportedCall {
  readonly callId: string;
  /** Its row in the waiting set; undefined when it has never waited. */
  readonly waiting: WaitingRow | undefined;
  /** Whether its turn has ended, or is not what the head points at. */
  readonly closed: boolean;
}

/**
 * What the decision about a report needs to know. A call that never waited and whose turn is over counts as dropped, whatever result it
 * has.
 */
async function agentFacts(
  reader: Reader,
  turn: Turn,
  { callId, waiting, closed }: ReportedCall,
): Promise<WaitingFacts> {
  const deferred = await findDeferral(reader, turn.agent_turn_id, callId);
  const deferral = deferred?.deferral ?? null;
  if (!waiting) {
    const settled = closed ? null : await findResult(reader, leased(turn), callId);
    return { phase: closed ? 'dropped' : settled ? 'settled' : 'open', deadline: 0, windowMs: 0, deferral };
  }
  const { deadline, created_at: since } = waiting;
  return { phase: callPhaseOf(waiting), deadline, windowMs: deadline - since, deferral };
}

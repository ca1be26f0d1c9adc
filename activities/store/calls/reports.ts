/**
 * Results from outside, and where the waiting calls of a turn stand. What each means is decided in workflows/waiting; here are the
 * facts it needs and what follows from it.
 *
 * Invariant: a call has at most one result; every answer to a report is given here, with or without a live worker (T14).
 */

import type { ReportAck, ToolResultReport } from '../../../workflows/protocol/tool-result.ts';
import { isTerminal } from '../../../workflows/protocol/turn.ts';
import { onReport, type ReportDecision, type WaitingFacts } from '../../../workflows/waiting/decisions.ts';
import type { ProfileCache, StoreContext, Trx } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import type { HeadRow, TurnRow, WaitingRow } from '../schema/rows.ts';
import { writeToTurn } from '../turns/turns.ts';
import { findCall, findResult } from './call-cards.ts';
import { findDeferral, forgetDeferral, isFinal, keepDeferral } from './deferrals.ts';
import { bodyOf, resultContent } from './reported-results.ts';
import { storeResult } from './results.ts';
import { defaultAfterExecution } from './tool-specs.ts';
import { findWaiting, markWaiting, phaseOf, rescheduleCheck, syncHead } from './waiting-set.ts';

/** The answer is final and immediate; see the rules at T14 for what each means. */
export async function reportResult(
  ctx: StoreContext,
  agentTurnId: string,
  report: ToolResultReport,
): Promise<Reported> {
  const now = ctx.now();
  const reported = await writeToTurn(ctx, agentTurnId, now, async (trx, { head, turn }) => ({
    ...(await reportTo(trx, head, turn, report, ctx.profiles, now)),
    agentId: turn.agent_id,
  }));
  return reported ?? { ack: 'unknown', wake: false };
}

/**
 * The answer, and whether the turn is to be woken. Only what is new wakes it: a report that is repeated, however often, adds nothing to its
 * history, and a wake-up that was lost is made good by the supervisor (T10).
 */
export type Reported = ReportAck & { readonly wake: boolean };

/** The caller holds the head row of the turn's agent. */
export async function reportTo(
  trx: Trx,
  head: HeadRow,
  turn: TurnRow,
  report: ToolResultReport,
  profiles: ProfileCache,
  now: number,
): Promise<Reported> {
  const agentTurnId = turn.agent_turn_id;
  const closed = isTerminal(turn.status) || head.active_agent_turn_id !== agentTurnId;
  const call = await findCall(trx, agentTurnId, report.callId);
  const waiting = await findWaiting(trx, agentTurnId, report.callId);
  // Nothing has been started that could have a result: only an approver can answer this call.
  if (waiting?.kind === 'approval' && waiting.status !== 'dropped') return { ack: 'unknown', wake: false };
  const facts = call && (await factsOf(trx, turn, report.callId, waiting, closed));
  const body = await bodyOf(trx, report);
  const decision = onReport({ turnEpoch: turn.turn_epoch, closed }, facts, report, body !== null, now);
  if (call && body && decision.effect === 'settle' && isFinal(report)) {
    const otherwise = await defaultAfterExecution(trx, turn, call.content.tool, profiles);
    const content = resultContent(call.content, otherwise, report, body);
    const { cardId } = await storeResult(trx, turn, call.stepIndex, content, now);
    await forgetDeferral(trx, agentTurnId, report.callId);
    if (waiting) await markWaiting(trx, waiting, { status: 'received', result_card_id: cardId });
    if (waiting) await syncHead(trx, head, agentTurnId, now);
    return { ack: decision.ack, cardId, wake: waiting !== undefined };
  }
  await carryOut(trx, head, turn, waiting, report, decision, now);
  return { ack: decision.ack, wake: decision.effect === 'defer' };
}

async function carryOut(
  trx: Trx,
  head: HeadRow,
  turn: TurnRow,
  waiting: WaitingRow | undefined,
  report: ToolResultReport,
  decision: ReportDecision,
  now: number,
): Promise<void> {
  const { callId, status } = report;
  const noted = { callId, tool: '', status, reason: decision.ack } as const;
  switch (decision.effect) {
    case 'drop':
      return appendEvent(
        trx,
        turn.agent_id,
        turn.agent_turn_id,
        { type: 'call', payload: { ...noted, phase: 'dropped' } },
        now,
      );
    case 'extend':
      if (waiting) await markWaiting(trx, waiting, { deadline: decision.deadline, created_at: now });
      return syncHead(trx, head, turn.agent_turn_id, now, false);
    case 'defer': {
      const { reason } = decision.deferral;
      if (isFinal(report)) await keepDeferral(trx, turn.agent_turn_id, report, decision.deferral, now);
      await rescheduleCheck(trx, turn.agent_turn_id, head.resume_deadline, now, true);
      const payload = { ...noted, reason, phase: 'deferred' } as const;
      return appendEvent(trx, turn.agent_id, turn.agent_turn_id, { type: 'call', payload }, now);
    }
    default:
  }
}

/** A call that never waited and whose turn is over counts as dropped, whatever result its tool or the turn's end gave it. */
async function factsOf(
  trx: Trx,
  turn: TurnRow,
  callId: string,
  waiting: WaitingRow | undefined,
  closed: boolean,
): Promise<WaitingFacts> {
  const deferred = await findDeferral(trx, turn.agent_turn_id, callId);
  const deferral = deferred?.deferral ?? null;
  if (!waiting) {
    const settled = closed ? null : await findResult(trx, turn, callId);
    return { phase: closed ? 'dropped' : settled ? 'settled' : 'open', deadline: 0, windowMs: 0, deferral };
  }
  const { deadline, created_at: since } = waiting;
  return { phase: phaseOf(waiting), deadline, windowMs: deadline - since, deferral };
}

/** Where the waiting calls of a turn stand, and what the clock makes of them (T17, T18). */

import type { RecordedAnswer } from '../../../workflows/contract/approvals.ts';
import type { WaitingState } from '../../../workflows/contract/calls.ts';
import type { InboxItem, InboxMark } from '../../../workflows/contract/inbox.ts';
import type { SettledCall } from '../../../workflows/kernel/calls.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { DEFERRAL_TRIES, deferredAgain, onResolve } from '../../../workflows/waiting/decisions.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import type { ApprovalRow, WaitingRow } from '../schema/rows.ts';
import type { WithLease } from '../schema/turn-states.ts';
import { findItem, markItem } from '../turns/inbox.ts';
import { profileByHash } from '../turns/profiles.ts';
import { deliver } from '../turns/tree-budgets.ts';
import { fencedTurn } from '../turns/turns.ts';
import { answerKey, approversOnly, findApproval } from './approval-rows.ts';
import { resolveApproval } from './approvals.ts';
import { callOf, findResult } from './call-cards.ts';
import { findDeferral, forgetDeferral, keepDeferral } from './deferrals.ts';
import { findCounted } from './recounting.ts';
import { bodyOf, failure, resultContent, timedOut } from './reported-results.ts';
import { storeResult } from './results.ts';
import { defaultAfterExecution } from './tool-specs.ts';
import { callPhaseOf, markWaiting, syncHead } from './waiting-set.ts';

type Waiting = WaitingState['waiting'][number];

/** What has become of one call; `moved` when the waiting set is another one by it. */
type Resolved = { readonly moved: boolean } & (
  | { readonly settled: SettledCall }
  | { readonly answer: RecordedAnswer }
  | { readonly waiting: Waiting }
);

/** Applies what has come, tries pending reports again, and gives overdue calls their timeout result, once (T17, T18). */
export const resolveWaiting = (
  ctx: StoreContext,
  fence: Fence,
  callIds: readonly string[],
  mark: InboxMark = {},
): Promise<WaitingState<RecordedAnswer>> =>
  write(ctx, fence.agentId, async (tx) => {
    const locked = await fencedTurn(tx, fence);
    const { turn } = locked;
    const settled: SettledCall[] = [];
    const waiting: Waiting[] = [];
    const answers: InboxItem<RecordedAnswer>[] = [];
    let moved = false;
    for (const callId of callIds) {
      const row = await findCounted(tx, locked, callId);
      const question = row && row.kind !== 'approval' ? undefined : await openQuestion(tx, turn, callId);
      const resolved = question ? await resolveQuestion(tx, turn, question) : await resolveCall(tx, turn, callId, row);
      if ('settled' in resolved) settled.push(resolved.settled);
      else if ('answer' in resolved) answers.push(await delivered(tx, fence, resolved.answer));
      else waiting.push(resolved.waiting);
      moved ||= resolved.moved;
    }
    if (moved) await syncHead(tx, locked);
    return { settled, waiting, ...(await deliver(tx, turn, mark, answers)) };
  });

/** The answer as an item of the turn's inbox, which has got it by this. */
async function delivered(tx: Tx, { agentTurnId }: Fence, answer: RecordedAnswer): Promise<InboxItem<RecordedAnswer>> {
  const key = answerKey({ agent_turn_id: agentTurnId, call_id: answer.callId });
  const seq = (await findItem(tx, key))?.seq ?? 0;
  await markItem(tx, key, { status: 'consumed' });
  return { kind: 'answer', seq, answer };
}

/** The question about a call, unless the call has its result by now: then the answer has been carried out. */
async function openQuestion(tx: Tx, turn: WithLease, callId: string): Promise<ApprovalRow | undefined> {
  const question = await findApproval(tx, turn.agent_turn_id, callId);
  if (!question || question.status === 'waiting') return question;
  return (await findResult(tx, turn, callId)) ? undefined : question;
}

/** What has become of a question, by people or by the clock. */
async function resolveQuestion(tx: Tx, turn: WithLease, question: ApprovalRow): Promise<Resolved> {
  const { profile } = await profileByHash(tx, turn.profile_hash);
  const resolution = await resolveApproval(tx, turn, question, profile);
  if ('answer' in resolution) return { answer: resolution.answer, moved: true };
  const { waitUntil: deadline, approvers } = resolution;
  const { call_id: callId, tool_name: tool } = question;
  // With another deadline, it was escalated.
  const waiting = { callId, tool, deadline, leftMs: deadline - tx.now, ...approversOnly(approvers) };
  return { waiting, moved: deadline !== question.deadline };
}

/** What has become of a call, by its report or by the clock. */
async function resolveCall(tx: Tx, turn: WithLease, callId: string, row: WaitingRow | undefined): Promise<Resolved> {
  const progress = row ? await progressOf(tx, turn, row) : null;
  if (row && progress?.wakeAt) {
    const { deadline, tool_name: tool } = row;
    const early = progress.wakeAt < deadline ? { wakeInMs: progress.wakeAt - tx.now } : {};
    return { waiting: { callId, tool, deadline, leftMs: deadline - tx.now, ...early }, moved: false };
  }
  return { settled: await applied(tx, turn, callId, { row, result: progress?.result ?? null }), moved: true };
}

/** When a call is to be looked at again, or its result. */
type Progress =
  | { readonly wakeAt: number; readonly result?: undefined }
  | { readonly result: ToolResultContent; readonly wakeAt?: undefined };

/** What the clock makes of a row; null when its result is there already. */
async function progressOf(tx: Tx, turn: WithLease, row: WaitingRow): Promise<Progress | null> {
  const deferred = await findDeferral(tx, row.agent_turn_id, row.call_id);
  const facts = { phase: callPhaseOf(row), deadline: row.deadline, windowMs: 0, deferral: deferred?.deferral ?? null };
  const resolution = onResolve(facts, tx.now);
  if (resolution === 'settled') return null;
  if (resolution !== 'time_out' && resolution !== 'retry') return resolution;
  const { content } = await callOf(tx, turn.agent_turn_id, row.call_id);
  const otherwise = await defaultAfterExecution(tx, turn, content.tool);
  if (resolution === 'time_out' || !deferred) return { result: timedOut(content, otherwise) };
  const { report, deferral } = deferred;
  const body = await bodyOf(tx, turn, report);
  if (body) return { result: resultContent(content, otherwise, report, body) };
  const again = deferredAgain(deferral, row.deadline, tx.now);
  if (again) {
    await keepDeferral(tx, row.agent_turn_id, report, again);
    return { wakeAt: Math.min(row.deadline, again.nextRetryAt) };
  }
  const message = `card ${report.toolResultCardId} was reported as the result of ${content.tool} and is not in the store after ${DEFERRAL_TRIES} tries`;
  return { result: failure(content, otherwise, { code: 'card_not_found', message }) };
}

/** A call that has come to its end. */
interface Applying {
  /** The row of the call in the waiting set; undefined for one that has never waited. */
  readonly row: WaitingRow | undefined;
  /** What the clock, or a report that was kept, makes its result; null when it has one, or must get one all the same. */
  readonly result: ToolResultContent | null;
}

/** The turn acts on the end of a call; a call that neither waits nor has a result has timed out. */
async function applied(tx: Tx, turn: WithLease, callId: string, { row, result }: Applying): Promise<SettledCall> {
  const { stepIndex, content: call } = await callOf(tx, turn.agent_turn_id, callId);
  const missing = async () => timedOut(call, await defaultAfterExecution(tx, turn, call.tool));
  const settled =
    (await findResult(tx, turn, callId)) ??
    (await storeResult(tx, turn, { stepIndex, content: result ?? (await missing()) })).settled;
  await forgetDeferral(tx, turn.agent_turn_id, callId);
  if (row) await markWaiting(tx, row, { status: settled.status === 'timeout' && result ? 'expired' : 'applied' });
  return settled;
}

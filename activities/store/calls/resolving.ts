/** Where the waiting calls of a turn stand, and what the clock makes of them (T17, T18). */
import type { RecordedAnswer } from '../../../workflows/contract/approvals.ts';
import type { WaitingState } from '../../../workflows/contract/calls.ts';
import type { SettledCall } from '../../../workflows/kernel/state.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { DEFERRAL_TRIES, deferredAgain, onResolve } from '../../../workflows/waiting/decisions.ts';
import { type ProfileCache, type StoreContext, type Trx, write } from '../context.ts';
import type { ApprovalRow, TurnRow, WaitingRow } from '../schema/rows.ts';
import { fenced } from '../turns/head.ts';
import { profileByHash } from '../turns/profiles.ts';
import { standingOf } from '../turns/tree-budgets.ts';
import { turnOf } from '../turns/turns.ts';
import { findApproval } from './approval-rows.ts';
import { resolveApproval } from './approvals.ts';
import { callOf, findResult } from './call-cards.ts';
import { findDeferral, forgetDeferral, keepDeferral } from './deferrals.ts';
import { bodyOf, failure, resultContent, timedOut } from './reported-results.ts';
import { storeResult } from './results.ts';
import { defaultAfterExecution } from './tool-specs.ts';
import { findWaiting, markWaiting, phaseOf, syncHead } from './waiting-set.ts';

/** A received row is applied, a pending report tried again, an overdue row gets its timeout result, once (T17, T18). */
export async function resolveWaiting(
  ctx: StoreContext,
  fence: Fence,
  callIds: readonly string[],
): Promise<WaitingState<RecordedAnswer>> {
  const now = ctx.now();
  return write(ctx, fence.agentId, async (trx) => {
    const head = await fenced(trx, fence, now);
    const turn = await turnOf(trx, fence.agentTurnId);
    const settled: SettledCall[] = [];
    const waiting: WaitingState['waiting'][number][] = [];
    const answers: RecordedAnswer[] = [];
    let escalated = false;
    for (const callId of callIds) {
      const row = await findWaiting(trx, fence.agentTurnId, callId);
      const question = row && row.kind !== 'approval' ? undefined : await openQuestion(trx, turn, callId);
      if (question) {
        const { profile } = await profileByHash(trx, turn.profile_hash ?? '', ctx.profiles);
        const resolution = await resolveApproval(trx, turn, question, profile, now);
        escalated ||= 'waitUntil' in resolution && resolution.waitUntil !== question.deadline;
        if ('answer' in resolution) answers.push(resolution.answer);
        else
          waiting.push({
            callId,
            tool: question.tool_name,
            deadline: resolution.waitUntil,
            leftMs: resolution.waitUntil - now,
          });
        continue;
      }
      const progress = row ? await progressOf(trx, turn, row, ctx.profiles, now) : null;
      if (row && progress?.wakeAt) {
        const early = progress.wakeAt < row.deadline ? { wakeInMs: progress.wakeAt - now } : {};
        waiting.push({ callId, tool: row.tool_name, deadline: row.deadline, leftMs: row.deadline - now, ...early });
      } else settled.push(await applied(trx, turn, callId, row, progress?.result ?? null, ctx.profiles, now));
    }
    if (settled.length > 0 || answers.length > 0 || escalated) await syncHead(trx, head, fence.agentTurnId, now);
    const standing = await standingOf(trx, turn);
    return { settled, waiting, ...(answers.length > 0 ? { answers } : {}), ...standing };
  });
}

/** Unless its call has its result by now: then the answer has been carried out. */
async function openQuestion(trx: Trx, turn: TurnRow, callId: string): Promise<ApprovalRow | undefined> {
  const question = await findApproval(trx, turn.agent_turn_id, callId);
  if (!question || question.status === 'waiting') return question;
  return (await findResult(trx, turn, callId)) ? undefined : question;
}

type Progress =
  | { readonly wakeAt: number; readonly result?: undefined }
  | { readonly result: ToolResultContent; readonly wakeAt?: undefined };

/** What the clock makes of a row; null when its result is there already. */
async function progressOf(
  trx: Trx,
  turn: TurnRow,
  row: WaitingRow,
  profiles: ProfileCache,
  nowMs: number,
): Promise<Progress | null> {
  const deferred = await findDeferral(trx, row.agent_turn_id, row.call_id);
  const facts = { phase: phaseOf(row), deadline: row.deadline, windowMs: 0, deferral: deferred?.deferral ?? null };
  const resolution = onResolve(facts, nowMs);
  if (resolution === 'settled') return null;
  if (resolution !== 'time_out' && resolution !== 'retry') return resolution;
  const { content } = await callOf(trx, turn.agent_turn_id, row.call_id);
  const otherwise = await defaultAfterExecution(trx, turn, content.tool, profiles);
  if (resolution === 'time_out' || !deferred) return { result: timedOut(content, otherwise) };
  const { report, deferral } = deferred;
  const body = await bodyOf(trx, report);
  if (body) return { result: resultContent(content, otherwise, report, body) };
  const again = deferredAgain(deferral, row.deadline, nowMs);
  if (again) {
    await keepDeferral(trx, row.agent_turn_id, report, again, nowMs);
    return { wakeAt: Math.min(row.deadline, again.nextRetryAt) };
  }
  const message = `card ${report.toolResultCardId} was reported as the result of ${content.tool} and is not in the store after ${DEFERRAL_TRIES} tries`;
  return { result: failure(content.callId, content.tool, otherwise, 'card_not_found', message) };
}

async function applied(
  trx: Trx,
  turn: TurnRow,
  callId: string,
  row: WaitingRow | undefined,
  ended: ToolResultContent | null,
  profiles: ProfileCache,
  now: number,
): Promise<SettledCall> {
  const { stepIndex, content } = await callOf(trx, turn.agent_turn_id, callId);
  const missing = async () => timedOut(content, await defaultAfterExecution(trx, turn, content.tool, profiles));
  const settled =
    (await findResult(trx, turn, callId)) ??
    (await storeResult(trx, turn, stepIndex, ended ?? (await missing()), now)).settled;
  await forgetDeferral(trx, turn.agent_turn_id, callId);
  if (row) await markWaiting(trx, row, { status: settled.status === 'timeout' && ended ? 'expired' : 'applied' });
  return settled;
}

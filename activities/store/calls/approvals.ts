/**
 * Questions to people, and their answers (K7, K9).
 *
 * Invariants
 * 1. A question has at most one answer: it moves from `waiting` once, under the head row of its agent.
 * 2. While it waits it is also a row of the waiting set, so that the turn is suspended and its deadline is kept (T13).
 * 3. That row stays, as `received`, until the turn has acted on the answer: a turn whose wake-up was lost is found by it.
 */

import type {
  ApprovalAck,
  ApprovalAnswer,
  ApprovalRequest,
  EditedCall,
  RecordedAnswer,
} from '../../../workflows/contract/approvals.ts';
import type { Suspension } from '../../../workflows/contract/suspension.ts';
import { shortfall, withBudgets } from '../../../workflows/kernel/budgets.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { ApprovalPolicy } from '../../../workflows/protocol/governance.ts';
import { approvalPolicySchema } from '../../../workflows/protocol/governance.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { BudgetChange, Profile, ProfileSnapshot } from '../../../workflows/protocol/profile.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { canonicalDigest } from '../../canonical.ts';
import { type Reader, type StoreContext, type Tx, write } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import { decoded, encoded } from '../schema/json.ts';
import type { ApprovalRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { isEnded, leased, type WithLease } from '../schema/turn-states.ts';
import { profileByHash } from '../turns/profiles.ts';
import { addBudgets, setBudgetsOf } from '../turns/set-budgets.ts';
import { refuseUnfunded, writeForBudgets } from '../turns/tree-budgets.ts';
import { fencedTurn, type Locked, turnOf } from '../turns/turns.ts';
import { refuseForbidden, refuseMisshapen } from './approval-edits.ts';
import {
  approversOf,
  approversOnly,
  changeApproval,
  closeApproval,
  findApproval,
  proposedArguments,
} from './approval-rows.ts';
import { findCounted } from './recounting.ts';
import { findWaiting, markWaiting, startWaiting, syncHead } from './waiting-set.ts';

/**
 * Asks people; a question that was asked before is left as it is. Returns the deadlines, which is at once for a question that has its
 * answer.
 */
export const askApprovals = (
  ctx: StoreContext,
  fence: Fence,
  requests: readonly ApprovalRequest[],
): Promise<readonly Suspension[]> =>
  write(ctx, fence.agentId, async (tx) => {
    const locked = await fencedTurn(tx, fence);
    const { turn } = locked;
    const { profile } = await profileByHash(tx, turn.profile_hash);
    const policy = profile.governance?.approvals ?? approvalPolicySchema.parse({});
    const rootTurnId = await rootOf(tx, turn);
    const asked: Suspension[] = [];
    for (const request of requests) {
      const { callId } = request;
      const present = await askedBefore(tx, locked, callId);
      const deadline = present?.deadline ?? tx.now + policy.deadlineMs;
      if (!present) await ask(tx, locked, { request, rootTurnId, deadline, policy });
      // Budgets may have been set while the turn came to ask.
      const answered =
        !present && request.kind === 'budget' && (await answerByBudgets(tx, turn, setBudgetsOf(turn) ?? {}));
      if (answered) await syncHead(tx, locked);
      const until = answered || (present && present.status !== 'waiting') ? tx.now : deadline;
      const approvers = present ? approversOf(present) : policy.approvers;
      asked.push({ callId, deadline: until, leftMs: until - tx.now, ...approversOnly(approvers) });
    }
    return asked;
  });

/** The question where it was asked before, with the deadline that counts. */
async function askedBefore(tx: Tx, locked: Locked<WithLease>, callId: string): Promise<ApprovalRow | undefined> {
  const present = await findApproval(tx, locked.turn.agent_turn_id, callId);
  const waiting = present?.status === 'waiting' ? await findCounted(tx, locked, callId) : undefined;
  return present && { ...present, deadline: waiting?.deadline ?? present.deadline };
}

/** A question that is to be asked. */
interface Asking {
  readonly request: ApprovalRequest;
  /** The turn that the whole delegation tree began with. */
  readonly rootTurnId: string;
  readonly deadline: number;
  /** Who may answer, and what follows when nobody does. */
  readonly policy: ApprovalPolicy;
}

/** What webhooks tell a question as. */
const TOPIC_OF = { call: 'approval.asked', budget: 'budget.asked' } as const;

/** Writes the question, and lets the turn wait for the answer. */
async function ask(tx: Tx, locked: Locked<WithLease>, asking: Asking): Promise<void> {
  const { turn } = locked;
  const { request, rootTurnId, deadline, policy } = asking;
  const { callId, kind, tool, reason, budget } = request;
  const behind = tx.db
    .selectFrom('box_cards')
    .select('seq')
    .where('box_id', '=', turn.output_box_id)
    .orderBy('seq', 'desc')
    .limit(1);
  await tx.db
    .insertInto('approvals')
    .values({
      agent_turn_id: turn.agent_turn_id,
      call_id: callId,
      agent_id: turn.agent_id,
      root_turn_id: rootTurnId,
      kind,
      tool_name: tool,
      reason,
      approvers: encoded(policy.approvers),
      escalate_to: policy.onUnanswered === 'escalate' ? encoded(policy.escalateTo) : null,
      escalated_at: null,
      deadline,
      status: 'waiting',
      answered_by: null,
      comment: null,
      arguments: null,
      budget: budget ? encoded(budget) : null,
      behind_seq: kind === 'budget' ? behind : null,
      // How long may be waited is counted from here, so by the clock.
      created_at: tx.now,
      answered_at: null,
    })
    .execute();
  const call = { stepIndex: turn.step_count, content: { callId, tool, arguments: {} } };
  await startWaiting(tx, locked, call, { kind: 'approval', deadline });
  const payload = { callId, tool, phase: 'asked', reason, deadline } as const;
  appendEvent(tx, turn, { type: 'approval', payload }, { topic: TOPIC_OF[kind] });
}

/** The turn the delegation tree started with. */
async function rootOf(reader: Reader, turn: TurnRow): Promise<string> {
  let root = turn;
  while (root.parent_agent_turn_id !== null) root = await turnOf(reader, root.parent_agent_turn_id);
  return root.agent_turn_id;
}

/**
 * Answers a question, once. Errors: `approval_refused` for somebody who may not answer, for arguments that do not fit, for a budget without
 * new budgets; `budget_refused` for budgets of a delegated turn that nobody can pay for.
 */
export async function answerApproval(
  ctx: StoreContext,
  agentTurnId: string,
  answer: ApprovalAnswer,
): Promise<ApprovalAck> {
  const answered = await writeForBudgets<ApprovalAck>(ctx, agentTurnId, answer.budgets, async (tx, locked) => {
    const { turn } = locked;
    const agentId = turn.agent_id;
    const row = await findApproval(tx, agentTurnId, answer.callId);
    if (!row) return { ack: 'unknown' };
    if (row.status === 'dropped' || (row.status === 'waiting' && isEnded(turn))) return { ack: 'stale', agentId };
    if (row.status !== 'waiting') return { ack: 'duplicate', agentId, recorded: recordedAnswer(row, row.status) };
    const snapshot = await profileByHash(tx, leased(turn).profile_hash);
    refuseUnfit(tx, row, answer, { set: setBudgetsOf(turn), snapshot });
    if (answer.budgets) await refuseUnfunded(tx, turn, answer.budgets);
    const edited = await changedArguments(tx, row, answer);
    if (edited) refuseForbidden(row.tool_name, edited, snapshot);
    await record(tx, locked, row, { ...answer, edited });
    return { ack: 'applied', agentId };
  });
  return answered ?? { ack: 'unknown' };
}

/** Writes down the answer, and what it means for the turn. */
async function record(
  tx: Tx,
  locked: Locked,
  row: ApprovalRow,
  answer: ApprovalAnswer & { readonly edited: JsonObject | null },
): Promise<void> {
  const { turn } = locked;
  const { decision, by = null, reason = null, budgets, edited } = answer;
  // Kept like all others, and before the answer, so that the turn knows them when it acts on it.
  if (budgets) await addBudgets(tx, turn, budgets);
  await closeApproval(tx, row, {
    status: decision,
    answered_by: by,
    comment: reason,
    arguments: edited ? encoded(edited) : null,
    answered_at: tx.at,
  });
  const payload = { callId: row.call_id, tool: row.tool_name, phase: decision, ...(by === null ? {} : { by }) };
  appendEvent(tx, turn, { type: 'approval', payload });
  await syncHead(tx, locked);
}

/** The arguments that the answer puts in place of the proposed ones; null where they say what is to be run anyway, as it was shown. */
async function changedArguments(reader: Reader, row: ApprovalRow, answer: ApprovalAnswer): Promise<JsonObject | null> {
  if (!answer.arguments) return null;
  const edited = canonicalDigest(answer.arguments);
  const { parsed, written } = (await proposedArguments(reader, row)) ?? { parsed: {}, written: {} };
  return [parsed, written].some((proposed) => canonicalDigest(proposed) === edited) ? null : answer.arguments;
}

/**
 * Budgets that were set answer the questions whose budget they lift; returns whether there were any. The caller holds the head row and
 * brings it in line afterwards.
 */
export async function answerByBudgets(tx: Tx, turn: TurnRow, budgets: BudgetChange): Promise<boolean> {
  const open = await tx.db
    .selectFrom('approvals')
    .selectAll()
    .where('agent_turn_id', '=', turn.agent_turn_id)
    .where('kind', '=', 'budget')
    .where('status', '=', 'waiting')
    .execute();
  const lifted = open.filter((row) => shortfallOf(tx, row, budgets) === null);
  for (const row of lifted) {
    await closeApproval(tx, row, { status: 'approved', answered_at: tx.at });
    const payload = { callId: row.call_id, tool: '', phase: 'approved', reason: 'the budget was raised' } as const;
    appendEvent(tx, turn, { type: 'approval', payload });
  }
  return lifted.length > 0;
}

/** What an answer is held against. */
interface Asked {
  /** The budgets that operators set so far; null when they set none. */
  readonly set: BudgetChange | null;
  readonly snapshot: ProfileSnapshot;
}

/** Refuses an answer that does not fit its question. Errors: `approval_refused`. */
function refuseUnfit(tx: Tx, row: ApprovalRow, answer: ApprovalAnswer, { set, snapshot }: Asked): void {
  const refuse = (message: string): never => {
    throw new CodedError('approval_refused', message);
  };
  const approvers = approversOf(row);
  if (approvers.length > 0 && !approvers.includes(answer.by ?? ''))
    refuse(`${answer.by ?? 'an answer without a name'} may not answer this; ask ${approvers.join(' or ')}`);
  if (row.kind === 'budget') {
    if (answer.arguments) refuse('a budget has no arguments; pass budgets');
    if (answer.decision === 'approved' && !answer.budgets) refuse('an approval to go on needs new budgets');
    const missing = answer.budgets ? shortfallOf(tx, row, withBudgets(set ?? {}, answer.budgets)) : null;
    if (missing !== null) refuse(`these budgets do not let the turn go on: ${missing}`);
    return;
  }
  if (answer.budgets) refuse('a call has no budgets; pass arguments, or nothing');
  if (!answer.arguments) return;
  refuseMisshapen(row.tool_name, answer.arguments, snapshot);
}

/** What the budgets lack to lift the one that is asked about; null when they lift it, as far as can be known. */
const shortfallOf = ({ now }: Tx, { budget, created_at }: ApprovalRow, budgets: BudgetChange): string | null =>
  budget === null ? null : shortfall(decoded(budget), budgets, Math.max(0, now - created_at));

/** What a question has come to: it waits on, or has its answer. */
export type ApprovalResolution =
  | { readonly waitUntil: number; readonly approvers: readonly string[] }
  | { readonly answer: RecordedAnswer };

/** What the clock and people made of a question. The caller holds the head row and brings it in line afterwards. */
export async function resolveApproval(
  tx: Tx,
  turn: TurnRow,
  row: ApprovalRow,
  profile: Profile,
): Promise<ApprovalResolution> {
  if (row.status !== 'waiting') return { answer: answerOf(row, profile) };
  if (row.deadline > tx.now) return { waitUntil: row.deadline, approvers: approversOf(row) };
  const { call_id: callId, tool_name: tool, escalate_to, escalated_at } = row;
  if (escalate_to !== null && escalated_at === null) {
    const deadline = tx.now + (await windowOf(tx, row));
    await changeApproval(tx, row, { escalated_at: tx.at, deadline });
    await markWaiting(tx, row, { deadline, created_at: tx.now });
    const payload = { callId, tool, phase: 'escalated', deadline } as const;
    appendEvent(tx, turn, { type: 'approval', payload }, { topic: TOPIC_OF[row.kind] });
    return { waitUntil: deadline, approvers: approversOf({ ...row, escalated_at: tx.at }) };
  }
  await closeApproval(tx, row, { status: 'unanswered', answered_at: tx.at });
  appendEvent(tx, turn, { type: 'approval', payload: { callId, tool, phase: 'unanswered' } });
  return { answer: { callId, decision: 'unanswered' } };
}

/** How long a question that waits may do so, ms. */
async function windowOf(tx: Tx, { agent_turn_id, call_id }: ApprovalRow): Promise<number> {
  const waiting = await findWaiting(tx, agent_turn_id, call_id);
  return waiting ? waiting.deadline - waiting.created_at : 0;
}

/** The answer of a question that waits no more. */
function answerOf(row: ApprovalRow, profile: Profile): RecordedAnswer {
  const { call_id: callId, status, answered_by: by, comment: reason } = row;
  const decision = status === 'approved' || status === 'denied' ? status : 'unanswered';
  const edited = editedCall(row, profile);
  return {
    callId,
    decision,
    ...(by === null ? {} : { by }),
    ...(reason === null ? {} : { reason }),
    ...(edited ? { edited } : {}),
  };
}

/** What is needed to judge edited arguments; null where the arguments stand as proposed, and where no rule judges them. */
function editedCall({ arguments: edited, tool_name: tool }: ApprovalRow, { governance }: Profile): EditedCall | null {
  if (edited === null || !governance) return null;
  return { tool, arguments: decoded(edited), governance };
}

/** What a question had come to before. */
const recordedAnswer = (
  { answered_by: by, arguments: edited }: ApprovalRow,
  status: NonNullable<ApprovalAck['recorded']>['status'],
): NonNullable<ApprovalAck['recorded']> => ({ status, by, arguments: edited && decoded(edited) });

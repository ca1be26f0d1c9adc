/**
 * Questions to people, and their answers (K7, K9).
 *
 * Invariants
 * 1. A question has at most one answer: it moves from `waiting` once, under the head row of its agent.
 * 2. While it waits it is also a row of the waiting set, so that the turn is suspended and its deadline is kept (T13).
 * 3. That row stays, as `received`, until the turn has acted on the answer: a turn whose wake-up was lost is found by it.
 */
import type { z } from 'zod';
import type {
  ApprovalAck,
  ApprovalAnswer,
  ApprovalRequest,
  EditedCall,
  RecordedAnswer,
} from '../../../workflows/contract/approvals.ts';
import type { Suspension } from '../../../workflows/contract/suspension.ts';
import { type BudgetAsk, shortfall, withBudgets } from '../../../workflows/kernel/budgets.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { approvalPolicySchema } from '../../../workflows/protocol/governance.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { BudgetChange, Profile, ProfileSnapshot } from '../../../workflows/protocol/profile.ts';
import { type Fence, isTerminal } from '../../../workflows/protocol/turn.ts';
import { canonicalDigest } from '../../canonical.ts';
import { type StoreContext, type Trx, write } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import type { ApprovalRow, HeadRow, TurnRow } from '../schema/rows.ts';
import { fenced } from '../turns/head.ts';
import { profileByHash } from '../turns/profiles.ts';
import { addBudgets, setBudgetsOf } from '../turns/set-budgets.ts';
import { refuseUnfunded, writeForBudgets } from '../turns/tree-budgets.ts';
import { turnOf } from '../turns/turns.ts';
import { refuseForbidden, refuseMisshapen } from './approval-edits.ts';
import { approversOf, changeApproval, closeApproval, findApproval, proposedArguments } from './approval-rows.ts';
import { markWaiting, startWaiting, syncHead } from './waiting-set.ts';
/** Asks; a question that was asked before is left as it is. Returns the deadlines: at once for one that has its answer. */
export async function askApprovals(
  ctx: StoreContext,
  fence: Fence,
  requests: readonly ApprovalRequest[],
): Promise<readonly Suspension[]> {
  const now = ctx.now();
  return write(ctx, fence.agentId, async (trx) => {
    const head = await fenced(trx, fence, now);
    const turn = await turnOf(trx, fence.agentTurnId);
    const { profile } = await profileByHash(trx, turn.profile_hash ?? '', ctx.profiles);
    const policy = profile.governance?.approvals ?? approvalPolicySchema.parse({});
    const rootTurnId = await rootOf(trx, turn);
    const asked: Suspension[] = [];
    for (const request of requests) {
      const { callId } = request;
      const present = await findApproval(trx, fence.agentTurnId, callId);
      const deadline = present?.deadline ?? now + policy.deadlineMs;
      if (!present) await ask(trx, head, turn, { request, rootTurnId, deadline, policy }, now);
      // Budgets may have been set while the turn came to ask.
      const answered =
        !present && request.kind === 'budget' && (await answerByBudgets(trx, turn, setBudgetsOf(turn) ?? {}, now));
      if (answered) await syncHead(trx, head, fence.agentTurnId, now);
      const until = answered || (present && present.status !== 'waiting') ? now : deadline;
      asked.push({ callId, deadline: until, leftMs: until - now });
    }
    return asked;
  });
}

interface Asking {
  readonly request: ApprovalRequest;
  readonly rootTurnId: string;
  readonly deadline: number;
  readonly policy: z.output<typeof approvalPolicySchema>;
}

async function ask(
  trx: Trx,
  head: HeadRow,
  turn: TurnRow,
  { request, rootTurnId, deadline, policy }: Asking,
  now: number,
): Promise<void> {
  const { agent_turn_id: agentTurnId, agent_id: agentId, step_count: stepIndex } = turn;
  const { callId, kind, tool, reason, budget } = request;
  await trx
    .insertInto('approvals')
    .values({
      agent_turn_id: agentTurnId,
      call_id: callId,
      agent_id: agentId,
      root_turn_id: rootTurnId,
      kind,
      tool_name: tool,
      reason,
      approvers: JSON.stringify(policy.approvers),
      escalate_to: policy.onUnanswered === 'escalate' ? JSON.stringify(policy.escalateTo) : null,
      escalated_at: null,
      deadline,
      status: 'waiting',
      answered_by: null,
      comment: null,
      arguments: null,
      budgets: null,
      budget: budget ? JSON.stringify(budget) : null,
      created_at: now,
      answered_at: null,
    })
    .execute();
  const content = { callId, tool, arguments: {} };
  await startWaiting(trx, head, { stepIndex, content }, 'approval', deadline, now);
  appendEvent(
    trx,
    agentId,
    agentTurnId,
    { type: 'approval', payload: { callId, tool, phase: 'asked', reason, deadline } },
    now,
  );
}

/** The turn the delegation tree started with. */
async function rootOf(trx: Trx, turn: TurnRow): Promise<string> {
  let root = turn;
  while (root.parent_agent_turn_id !== null) root = await turnOf(trx, root.parent_agent_turn_id);
  return root.agent_turn_id;
}

/**
 * Errors: `approval_refused` for somebody who may not answer, for arguments that do not fit, for a budget without new budgets;
 * `budget_refused` for budgets of a delegated turn that nobody can pay for.
 */
export async function answerApproval(
  ctx: StoreContext,
  agentTurnId: string,
  answer: ApprovalAnswer,
): Promise<ApprovalAck> {
  const now = ctx.now();
  const { budgets: raised } = answer;
  const answered = await writeForBudgets<ApprovalAck>(ctx, agentTurnId, raised, now, async (trx, { head, turn }) => {
    const row = await findApproval(trx, agentTurnId, answer.callId);
    if (!row) return { ack: 'unknown' };
    const agentId = turn.agent_id;
    if (row.status === 'dropped' || (row.status === 'waiting' && isTerminal(turn.status)))
      return { ack: 'stale', agentId };
    if (row.status !== 'waiting') return { ack: 'duplicate', agentId };
    const snapshot = await profileByHash(trx, turn.profile_hash ?? '', ctx.profiles);
    refuseUnfit(row, answer, setBudgetsOf(turn), snapshot.tools, now);
    if (answer.budgets) await refuseUnfunded(ctx, trx, turn, answer.budgets);
    const { decision, by = null, reason = null, budgets } = answer;
    const edited = await changedArguments(trx, row, answer);
    if (edited) refuseForbidden(row.tool_name, edited, snapshot);
    await closeApproval(trx, row, {
      status: decision,
      answered_by: by,
      comment: reason,
      arguments: edited ? JSON.stringify(edited) : null,
      budgets: budgets ? JSON.stringify(budgets) : null,
      answered_at: now,
    });
    // Kept like all others: budgets that are set later are added to these.
    if (budgets) await addBudgets(trx, turn, budgets);
    const payload = { callId: row.call_id, tool: row.tool_name, phase: decision, ...(by === null ? {} : { by }) };
    appendEvent(trx, agentId, agentTurnId, { type: 'approval', payload }, now);
    await syncHead(trx, head, agentTurnId, now);
    return { ack: 'applied', agentId };
  });
  return answered ?? { ack: 'unknown' };
}

/** Null where they say what is to be run anyway, as it was shown. */
async function changedArguments(trx: Trx, row: ApprovalRow, answer: ApprovalAnswer): Promise<JsonObject | null> {
  if (!answer.arguments) return null;
  const edited = canonicalDigest(answer.arguments);
  const { parsed, written } = (await proposedArguments(trx, row)) ?? { parsed: {}, written: {} };
  return [parsed, written].some((proposed) => canonicalDigest(proposed) === edited) ? null : answer.arguments;
}

/**
 * Budgets that were set answer the questions whose budget they lift; returns whether there were any. The caller holds the head row and
 * brings it in line afterwards.
 */
export async function answerByBudgets(trx: Trx, turn: TurnRow, budgets: BudgetChange, now: number): Promise<boolean> {
  const { agent_turn_id: agentTurnId, agent_id: agentId } = turn;
  const open = await trx
    .selectFrom('approvals')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('kind', '=', 'budget')
    .where('status', '=', 'waiting')
    .execute();
  const lifted = open.filter((row) => shortfallOf(row, budgets, now) === null);
  for (const row of lifted) {
    await closeApproval(trx, row, { status: 'approved', budgets: JSON.stringify(budgets), answered_at: now });
    const payload = { callId: row.call_id, tool: '', phase: 'approved', reason: 'the budget was raised' } as const;
    appendEvent(trx, agentId, agentTurnId, { type: 'approval', payload }, now);
  }
  return lifted.length > 0;
}

function refuseUnfit(
  row: ApprovalRow,
  answer: ApprovalAnswer,
  set: BudgetChange | null,
  tools: ProfileSnapshot['tools'],
  now: number,
): void {
  const refuse = (message: string): never => {
    throw new CodedError('approval_refused', message);
  };
  const approvers = approversOf(row);
  if (approvers.length > 0 && !approvers.includes(answer.by ?? ''))
    refuse(`${answer.by ?? 'an answer without a name'} may not answer this; ask ${approvers.join(' or ')}`);
  if (row.kind === 'budget') {
    if (answer.arguments) refuse('a budget has no arguments; pass budgets');
    if (answer.decision === 'approved' && !answer.budgets) refuse('an approval to go on needs new budgets');
    const missing = answer.budgets ? shortfallOf(row, withBudgets(set ?? {}, answer.budgets), now) : null;
    if (missing !== null) refuse(`these budgets do not let the turn go on: ${missing}`);
    return;
  }
  if (answer.budgets) refuse('a call has no budgets; pass arguments, or nothing');
  if (!answer.arguments) return;
  refuseMisshapen(row.tool_name, answer.arguments, tools);
}

/** Null when the budgets lift the budget that is asked about, as far as can be known. */
const shortfallOf = ({ budget, created_at }: ApprovalRow, budgets: BudgetChange, now: number): string | null =>
  budget === null ? null : shortfall(JSON.parse(budget) as BudgetAsk, budgets, now - created_at);

export type ApprovalResolution = { readonly waitUntil: number } | { readonly answer: RecordedAnswer };

/** What the clock and people made of a question. The caller holds the head row and brings it in line afterwards. */
export async function resolveApproval(
  trx: Trx,
  turn: TurnRow,
  row: ApprovalRow,
  profile: Profile,
  nowMs: number,
): Promise<ApprovalResolution> {
  if (row.status !== 'waiting') return { answer: answerOf(row, turn, profile) };
  if (row.deadline > nowMs) return { waitUntil: row.deadline };
  const { agent_turn_id: agentTurnId, agent_id: agentId } = turn;
  const { call_id: callId, tool_name: tool, escalate_to, escalated_at } = row;
  if (escalate_to !== null && escalated_at === null) {
    const deadline = nowMs + (row.deadline - row.created_at);
    await changeApproval(trx, row, { escalated_at: nowMs, deadline });
    await markWaiting(trx, row, { deadline });
    const payload = { callId, tool, phase: 'escalated', deadline } as const;
    appendEvent(trx, agentId, agentTurnId, { type: 'approval', payload }, nowMs);
    return { waitUntil: deadline };
  }
  await closeApproval(trx, row, { status: 'unanswered', answered_at: nowMs });
  const payload = { callId, tool, phase: 'unanswered' } as const;
  appendEvent(trx, agentId, agentTurnId, { type: 'approval', payload }, nowMs);
  return { answer: { callId, decision: 'unanswered' } };
}

function answerOf(row: ApprovalRow, turn: TurnRow, profile: Profile): RecordedAnswer {
  const { call_id: callId, status, answered_by: by, comment: reason } = row;
  const decision = status === 'approved' || status === 'denied' ? status : 'unanswered';
  const edited = editedCall(row, profile);
  return {
    callId,
    decision,
    ...(by === null ? {} : { by }),
    ...(reason === null ? {} : { reason }),
    ...(edited ? { edited } : {}),
    // What was set since the answer counts more than the answer.
    ...(row.budgets === null
      ? {}
      : { budgets: withBudgets(JSON.parse(row.budgets) as BudgetChange, setBudgetsOf(turn) ?? {}) }),
  };
}

/** Null where the arguments stand as proposed, and where no rule judges them. */
function editedCall({ arguments: edited, tool_name: tool }: ApprovalRow, { governance }: Profile): EditedCall | null {
  if (edited === null || !governance) return null;
  return { tool, arguments: JSON.parse(edited) as JsonObject, governance };
}

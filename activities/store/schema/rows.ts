/** The tables as Kysely sees them; JSON is text, times are epoch ms, so that both backends read the same. */

import { type Generated, type RawBuilder, sql } from 'kysely';
import type { ApprovalStatus } from '../../../workflows/contract/approvals.ts';
import type { ParentEndPolicy } from '../../../workflows/contract/delegation.ts';
import type { CardType } from '../../../workflows/protocol/cards.ts';
import type { ReportAnswer } from '../../../workflows/protocol/tool-result.ts';
import type { AgentLifecycle, HeadStatus, TurnStatus } from '../../../workflows/protocol/turn.ts';

export interface CardRow {
  card_id: string;
  type: CardType;
  content: string;
  author: string;
  agent_turn_id: string | null;
  step_index: number | null;
  call_id: string | null;
  token_count: number;
  bytes: number;
  created_at: number;
}

export interface BoxRow {
  box_id: string;
  kind: 'output' | 'context';
  owner_agent_id: string | null;
  parent_ids: string;
  last_seq: number;
  created_at: number;
}

/** Why a card of a box is not rendered: its step was taken back, or a summary stands for it. */
export type HiddenReason = 'rolled_back' | 'summarised';

export interface BoxCardRow {
  box_id: string;
  seq: number;
  card_id: string;
  hidden_reason: HiddenReason | null;
}

/** Cards of a box that are in view together: one earlier turn, or the oldest ones together (K15). */
export interface BoxUnitRow {
  box_id: string;
  from_seq: number;
  to_seq: number;
  /** Of all its cards rendered whole, with what the wire adds to each. */
  tokens: number;
  /** A JSON list: the tokens of each result that can be rendered with less. */
  results: string;
}

export interface AgentRow {
  agent_id: string;
  profile: string | null;
  lifecycle: Generated<AgentLifecycle>;
  /** The agent that made it by delegation. */
  parent_agent_id: Generated<string | null>;
  created_at: number;
}

export interface ProfileRow {
  hash: string;
  name: string;
  snapshot: string;
  created_at: number;
}

/** Which version of a profile the next turn gets. */
export interface ProfileHeadRow {
  name: string;
  hash: string;
  /** Of the app that set it. */
  revision: number;
  updated_at: number;
}

export interface HeadRow {
  agent_id: string;
  status: HeadStatus;
  turn_epoch: number;
  active_agent_turn_id: string | null;
  output_box_id: string | null;
  waiting_tool_count: number;
  resume_deadline: number | null;
  accept_seq: number;
  event_seq: number;
  updated_at: number;
}

/** Where the report to a waiting call stands (T30): not ended yet, ended and to be told, then the answer. */
export type SettlementState = 'pending' | 'due' | ReportAnswer;

export interface TurnRow {
  agent_turn_id: string;
  agent_id: string;
  accept_seq: number;
  lane: number;
  turn_epoch: number | null;
  status: TurnStatus;
  reason: string | null;
  error_code: string | null;
  request: string;
  request_digest: string;
  idempotency_key: string | null;
  instruction_card_id: string;
  context_box_id: string | null;
  output_box_id: string | null;
  instruction_seq: number | null;
  earlier: string | null;
  profile_name: string | null;
  profile_hash: string | null;
  worker_target: string | null;
  deliverable_card_id: string | null;
  depth: number;
  trace_id: string | null;
  correlation_id: string | null;
  parent_agent_id: string | null;
  parent_agent_turn_id: string | null;
  parent_step_index: number | null;
  parent_call_id: string | null;
  settlement: SettlementState | null;
  /** Budgets an operator set while it ran (K9). */
  budgets: string | null;
  /**
   * The most tokens it was ever given to spend with all that it delegates; of a delegated turn, what its caller's budget holds for it while it
   * has not ended (K20). Null until a turn from outside is leased.
   */
  given_tokens: number | null;
  /** The same in money; null where there is no limit. */
  given_cost: number | null;
  /** What becomes of a delegated turn when its parent's turn ends without success (T30). */
  on_parent_end: ParentEndPolicy | null;
  /** When the supervisor checks the turn; null when it need not. */
  check_at: number | null;
  /** The pause before the next check, ms. */
  check_every: number | null;
  /** When the supervisor woke the turn for what it has not read since. */
  woken_at: number | null;
  /** Since when its target has been without workers, as far as the supervisor knows. */
  no_workers_since: number | null;
  /** When workers of its target were found again. */
  workers_since: number | null;
  /** When the whole turn's time is up. */
  ends_by: number | null;
  usage: string;
  cost: number | null;
  engine: string | null;
  step_count: number;
  accepted_at: number;
  leased_at: number | null;
  started_at: number | null;
  ended_at: number | null;
}

export interface StepRow {
  agent_turn_id: string;
  step_index: number;
  status: 'started' | 'executing' | 'completed' | 'failed';
  model: string | null;
  llm_usage: string | null;
  llm_response_cost: number | null;
  latency_ms: number | null;
  first_token_ms: number | null;
  finish_reason: string | null;
  tool_call_ids: string;
  outcome: string | null;
  started_at: number;
  ended_at: number | null;
}

export interface WaitingRow {
  agent_turn_id: string;
  call_id: string;
  step_index: number;
  /** `join`: waits for a delegated turn; `approval`: for a person. */
  kind: 'tool' | 'join' | 'approval';
  tool_name: string;
  deadline: number;
  status: 'waiting' | 'received' | 'applied' | 'expired' | 'dropped';
  result_card_id: string | null;
  created_at: number;
}

/** A question to people; `call_id` is the gated call's, or names the budget that is used up (K7, K9). */
export interface ApprovalRow {
  agent_turn_id: string;
  call_id: string;
  agent_id: string;
  root_turn_id: string;
  kind: 'call' | 'budget';
  tool_name: string;
  reason: string;
  approvers: string;
  /** Null when an unanswered question is a refusal at once. */
  escalate_to: string | null;
  escalated_at: number | null;
  deadline: number;
  status: ApprovalStatus;
  answered_by: string | null;
  comment: string | null;
  /** What the approver put in place of the call's arguments. */
  arguments: string | null;
  budgets: string | null;
  /** What is used up; null for a call, and in rows of an earlier version. */
  budget: string | null;
  created_at: number;
  answered_at: number | null;
}

/** A report that waits for the card it names (T18). */
export interface DeferredReportRow {
  agent_turn_id: string;
  call_id: string;
  report: string;
  defer_reason: 'card_not_found';
  retry_count: number;
  next_retry_at: number;
  created_at: number;
}

export interface ClaimRow {
  agent_turn_id: string;
  call_id: string;
  attempt: number;
  started_at: number;
  outcome: string | null;
  duration_ms: number | null;
}

export interface EdgeRow {
  edge_key: string;
  primitive: 'enqueue' | 'tool_call' | 'report' | 'join';
  phase: 'request' | 'response';
  kind: string | null;
  source_agent_id: string | null;
  source_agent_turn_id: string | null;
  source_step_index: number | null;
  target_agent_id: string | null;
  target_agent_turn_id: string | null;
  call_id: string | null;
  call_index: number | null;
  correlation_id: string | null;
  depth: number;
  trace_id: string | null;
  metadata: string;
  created_at: number;
}

/** A message for a running turn; `requeued` ones became turns of their own (T22). */
export interface SteerRow {
  steer_id: string;
  agent_turn_id: string;
  seq: number;
  card_id: string;
  status: 'pending' | 'consumed' | 'requeued';
  step_index: number | null;
  created_at: number;
}

export interface EventRow {
  id: Generated<number>;
  agent_id: string;
  seq: number;
  agent_turn_id: string | null;
  subject: string;
  type: string;
  payload: string;
  /** The foreign message that was dropped; null for all other events. */
  message_id: string | null;
  created_at: number;
}

/** A lease of a service that one process at a time may run; `since`: without a longer break. */
export interface ServiceLeaseRow {
  service: string;
  holder: string;
  expires_at: number;
  since: number;
  listed_until: number | null;
}

/**
 * A constant that is written into the statement. Where an index is partial on that column, SQLite would plan a statement with a parameter
 * anew each time.
 */
export const constant = <T extends string>(value: T): RawBuilder<T> => sql.lit(value);

export interface Tables {
  cards: CardRow;
  boxes: BoxRow;
  box_cards: BoxCardRow;
  box_units: BoxUnitRow;
  agents: AgentRow;
  profiles: ProfileRow;
  profile_heads: ProfileHeadRow;
  agent_state_head: HeadRow;
  turns: TurnRow;
  agent_steps: StepRow;
  turn_waiting: WaitingRow;
  approvals: ApprovalRow;
  deferred_reports: DeferredReportRow;
  dispatch_claims: ClaimRow;
  execution_edges: EdgeRow;
  steers: SteerRow;
  events: EventRow;
  svc_leases: ServiceLeaseRow;
}

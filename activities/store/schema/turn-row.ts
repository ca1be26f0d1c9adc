/** The table of turns as Kysely sees it. */

import type { ChatIdentity } from '../../../workflows/chat/terminal.ts';
import type { Came } from '../../../workflows/contract/agent-work.ts';
import type { ParentEndPolicy } from '../../../workflows/contract/delegation.ts';
import type { ContextUnit } from '../../../workflows/kernel/context.ts';
import type { EnqueueRequest } from '../../../workflows/protocol/enqueue.ts';
import type { BudgetChange } from '../../../workflows/protocol/profile.ts';
import type { ReportAnswer } from '../../../workflows/protocol/tool-result.ts';
import type { EngineUsage, TurnStatus, Usage } from '../../../workflows/protocol/turn.ts';
import type { Json } from './json.ts';

/**
 * Where the settlement of a waiting call stands (T30): the turn has not ended, it has ended and its parent is to be told, then the answer.
 */
export type SettlementState = 'pending' | 'due' | ReportAnswer;

/** A request as it is kept with its turn: the instruction is a card by then. */
export type StoredRequest = Omit<EnqueueRequest, 'instruction'> & {
  /** What has come for the agent and made this turn; absent for a request, a delegation and a steer. */
  readonly came?: readonly Came[];
  /** How the chat is known whose messages made this turn; absent for all other turns (C2). */
  readonly chat?: Omit<ChatIdentity, 'correlationId'>;
};

/** A turn. What its status says of the columns that can be null is in schema/turn-states.ts. */
export interface TurnRow {
  agent_turn_id: string;
  agent_id: string;
  /** The tenant of its agent. */
  tenant: string | null;
  /** Its place among all that the agent ever accepted. */
  accept_seq: number;
  lane: number;
  /** The epoch of its lease; null before. */
  turn_epoch: number | null;
  status: TurnStatus;
  /** Why it ended as it did; null when the status says all there is. */
  reason: string | null;
  /** Null while it is open, and when it succeeded. */
  error_code: string | null;
  request: Json<StoredRequest>;
  /** By which a repetition of the request is known; empty for a turn that another turn made. */
  request_digest: string;
  idempotency_key: string | null;
  instruction_card_id: string;
  /** The chat whose messages made it; null for all other turns (C2). */
  chat_id: string | null;
  /** When it may be leased at the earliest: until then it collects messages; null where it need not wait (C8). */
  not_before: number | null;
  /** The box that came with the request; null without one. */
  context_box_id: string | null;
  /** Null while it is queued. */
  output_box_id: string | null;
  /** The place of the instruction in the output box; null while it is queued. */
  instruction_seq: number | null;
  /** Cards of turns before this one, as units; null while it is queued. */
  earlier: Json<readonly ContextUnit[]> | null;
  /** Budgets that operators set (K9); null when they set none. */
  budgets: Json<BudgetChange> | null;
  /**
   * The most tokens it was ever given to spend with all that it delegates; of a delegated turn, what its caller's budget holds for it while
   * it has not ended (K20). Null until a turn from outside is leased.
   */
  given_tokens: number | null;
  /** What it was given in money; null where there is no limit. */
  given_cost: number | null;
  /** The one that its request names, or else that of its agent. */
  profile_name: string;
  /** The version of the profile; null while it is queued, and for a turn that could not be leased because the profile is not known. */
  profile_hash: string | null;
  /** Null where `profile_hash` is. */
  worker_target: string | null;
  /** Null until it has ended. */
  deliverable_card_id: string | null;
  /** How many delegations lead to it from a request from outside. */
  depth: number;
  trace_id: string | null;
  correlation_id: string | null;
  /** The agent whose turn made this one; null for a request from outside. */
  parent_agent_id: string | null;
  /** The turn that made this one; null for a request from outside. */
  parent_agent_turn_id: string | null;
  /** The step that delegated it; null where no call did. */
  parent_step_index: number | null;
  /** The call that delegated it; null for a request from outside, and for a steer that became a turn. */
  parent_call_id: string | null;
  /** Null where no call waits for its end. */
  settlement: SettlementState | null;
  /** What becomes of a delegated turn when its parent's turn ends without success (T30); null for others. */
  on_parent_end: ParentEndPolicy | null;
  /** When the supervisor checks the turn; null when it need not. */
  check_at: number | null;
  /** The pause before the next check, ms; null before the first one is planned. */
  check_every: number | null;
  /** When the supervisor woke the turn for what it has not read since; null when it has not. */
  woken_at: number | null;
  /** Since when its target has been without workers, as far as the supervisor knows; null while it has workers. */
  no_workers_since: number | null;
  /** When workers of its target were found again; null when they were never missing. */
  workers_since: number | null;
  /** When the whole turn's time is up; null when it is unbounded. */
  ends_by: number | null;
  usage: Json<Usage>;
  /** Null as soon as the cost of one of its model calls is not known. */
  cost: number | null;
  /** Null unless its workflow committed the end itself. */
  engine: Json<EngineUsage> | null;
  /** Steps that are committed. */
  step_count: number;
  accepted_at: number;
  /** Null while it is queued. */
  leased_at: number | null;
  /** Null until its first step is opened. */
  started_at: number | null;
  /** Null until it has ended. */
  ended_at: number | null;
}

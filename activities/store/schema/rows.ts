/**
 * The tables as Kysely sees them. JSON is text and times are epoch ms by the store's clock, so that both backends read the same. A column
 * that can be null says when it is. The table of turns is in schema/turn-row.ts.
 */
import { type Generated, type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { ClosureDecision } from '../../../workflows/agent-state/closure.ts';
import type { AgentStatus } from '../../../workflows/agent-state/status.ts';
import type { ApprovalStatus } from '../../../workflows/contract/approvals.ts';
import type { BetweenSteps } from '../../../workflows/contract/between-steps.ts';
import type { ResultReport } from '../../../workflows/contract/calls.ts';
import type { InboxDelivery } from '../../../workflows/contract/inbox.ts';
import type { ProviderOutage, StepOutcomeRecord } from '../../../workflows/contract/steps.ts';
import type { BudgetAsk } from '../../../workflows/kernel/budgets.ts';
import type { CardContents, CardType } from '../../../workflows/protocol/cards.ts';
import type { JsonObject, JsonValue } from '../../../workflows/protocol/json.ts';
import type { ProfileSnapshot } from '../../../workflows/protocol/profile.ts';
import type { ActivityAttempt, AgentLifecycle, HeadStatus, Usage } from '../../../workflows/protocol/turn.ts';
import type { Acting } from '../turns/attempts.ts';
import type {
  TimerRow,
  TriggerDeliveryRow,
  TriggerRow,
  WaitRow,
  WakeRow,
  WorkEffectRow,
  WorkItemRow,
} from './agent-rows.ts';
import type { ChatMessageRow, ChatSessionRow } from './chat-rows.ts';
import { decoded, type Json } from './json.ts';
import type { ChunkRow, EdgeRow, EventRow, WebhookCursorRow, WebhookRow } from './log-rows.ts';
import type { TurnRow } from './turn-row.ts';

/** A card: written once, never changed. */
export interface CardRow {
  card_id: string;
  type: CardType;
  content: Json<CardContents[CardType]>;
  author: string;
  /** The turn that wrote the card; null for input. */
  agent_turn_id: string | null;
  /** The step that wrote the card; null for what no step wrote. */
  step_index: number | null;
  /** The call that a `tool.call` or `tool.result` is of; null for other cards. */
  call_id: string | null;
  /** The agent that a card without a turn was written for; null for other cards. */
  agent_id: string | null;
  /** The tenant of whoever wrote a card that is of no turn and no agent; null for other cards, and for the operators. */
  tenant: string | null;
  /** Tokens of what is shown of the card. */
  token_count: number;
  bytes: number;
  created_at: number;
}

/** The content of a card whose type the query, or its caller, has seen to. */
export const contentOf = <T extends CardType>({ content }: Pick<CardRow, 'content'>, _type: T): CardContents[T] =>
  decoded(content) as CardContents[T];

/** A box: an ordered list of cards. */
export interface BoxRow {
  box_id: string;
  kind: 'output' | 'context';
  /** The one agent whose turns write to the box; null for a context box, which nobody writes to. */
  owner_agent_id: string | null;
  /** The agent of whose memory a context box is a copy; null for other boxes. */
  agent_id: string | null;
  /** The tenant of whoever wrote the texts of a context box; null for other boxes, and for the operators. */
  tenant: string | null;
  /** The box that this one was copied from, or took the place of. */
  parent_ids: Json<readonly string[]>;
  created_at: number;
}

/** Why a card of a box is not rendered: its step was taken back, or a summary stands for it. */
export type HiddenReason = 'rolled_back' | 'summarised';

/** A card's place in a box. */
export interface BoxCardRow {
  box_id: string;
  seq: number;
  card_id: string;
  /** Null while the card is in view. */
  hidden_reason: HiddenReason | null;
  /** The turn that took it out of view; null while it is in view. */
  hidden_by: string | null;
}

/** Cards of a box that are in view together: one earlier turn, or the oldest ones together (K15). */
export interface BoxUnitRow {
  box_id: string;
  from_seq: number;
  to_seq: number;
  /** Tokens of all its cards rendered whole, with what the wire adds to each. */
  tokens: number;
  /** The tokens of each result that can be rendered with less. */
  results: Json<readonly number[]>;
}

/** An agent on the roster. */
export interface AgentRow {
  agent_id: string;
  /** The profile of its turns where a request names none: that of its first one, and never another. */
  profile: string;
  lifecycle: Generated<AgentLifecycle>;
  /** The agent that made it by delegation; null for one that a request from outside made. */
  parent_agent_id: Generated<string | null>;
  /** Whose agent it is; null for one of the operators. An agent keeps its tenant, and what it makes has the same. */
  tenant: string | null;
  /** The agent that a request from outside made, and that has made this one, itself or through others; itself where it is that one. */
  root_agent_id: string;
  created_at: number;
}

/** A version of a profile, by the hash of its content. */
export interface ProfileRow {
  hash: string;
  name: string;
  snapshot: Json<ProfileSnapshot>;
  created_at: number;
}

/** Which version of a profile the next turn gets. */
export interface ProfileHeadRow {
  name: string;
  hash: string;
  /** The revision of the app that set this version. */
  revision: number;
  updated_at: number;
}

/** The lease of an agent, and the lock under which everything of it is written. */
export interface HeadRow {
  agent_id: string;
  /** How far the open turn is; `idle` without one. */
  status: HeadStatus;
  /** What the agent does (A1). */
  agent_status: AgentStatus;
  turn_epoch: number;
  /** The open turn; null while the agent is idle. */
  active_agent_turn_id: string | null;
  /** The attempts that have written for the open turn; null when none has. */
  acting: Json<Acting> | null;
  /** What the agent remembers; null before its first turn. */
  output_box_id: string | null;
  waiting_tool_count: number;
  /** The nearest deadline of the waiting set; null when nothing waits. */
  resume_deadline: number | null;
  /** Whether the agent ever had work items, waits, timers or triggers: 1, or 0 for one of which nothing of the kind is read. */
  has_work: number;
  /** The work item that the agent has picked; null for none. */
  current_work_item_id: string | null;
  /** How much has come for the agent and made no turn yet, and the bytes of what others have sent of it. */
  came: number;
  came_bytes: number;
  /** What the agent's last turn left it with; null where nothing but the end of that turn decides it. */
  closure: Json<ClosureDecision> | null;
  /** Turns that the agent has made by itself since something came from outside (A10). */
  autonomous_turns: number;
  /** The turn that was open last; null for an agent that has had none. */
  last_agent_turn_id: string | null;
  /** 1 for a one-shot agent whose turn has ended and that has nothing else, 0 for all others. */
  one_shot_ended: number;
  /** Tokens of its ended turns. */
  total_input: number;
  total_output: number;
  total_cached: number;
  /** 1 as soon as some of them were counted by the runtime. */
  total_estimated: number;
  /** What its ended turns cost; null as soon as the cost of one is not known. */
  total_cost: number | null;
  /** The place of the turn that was accepted last. */
  accept_seq: number;
  /** The place of the event that was written last. */
  event_seq: number;
  /** When the agent was written last, by a clock that may have been ahead. */
  updated_at: number;
  /** The last time that was written down with an event or a turn; it never falls. */
  recorded_at: number;
}

/** What a step has brought, as it is kept. */
export type RecordedStep = Omit<StepOutcomeRecord, keyof InboxDelivery> & {
  /** What the turn's inbox delivered with the commit; absent where no burst asked for the step: then the inbox is read anew each time. */
  readonly delivered?: InboxDelivery;
};

/** An outage of the provider, as its step has it: with when the attempt was scheduled that was failed last. */
export type RecordedOutage = ProviderOutage & { readonly attempt: number };

/** A step. What comes with the model's answer is null until it is committed. */
export interface StepRow {
  agent_turn_id: string;
  step_index: number;
  status: 'started' | 'executing' | 'completed' | 'failed';
  model: string | null;
  llm_usage: Json<Usage> | null;
  /** Null also where the price is not known. */
  llm_response_cost: number | null;
  latency_ms: number | null;
  /** Null also where nothing was streamed. */
  first_token_ms: number | null;
  finish_reason: string | null;
  tool_call_ids: Json<readonly string[]>;
  /** How many attempts have opened it. */
  openings: number;
  /** What led to it from the step before, where a burst opened it and not the workflow; null otherwise. */
  led_by: Json<readonly BetweenSteps[]> | null;
  outcome: Json<RecordedStep> | null;
  /** Null while the provider has not failed its model call, and from the commit on. */
  outage: Json<RecordedOutage> | null;
  started_at: number;
  /** Null until the step is over: committed without calls, followed by another, or given up. */
  ended_at: number | null;
}

/** A call, or a question, that a turn waits for or has waited for. */
export interface WaitingRow {
  agent_turn_id: string;
  call_id: string;
  step_index: number;
  /** `join`: waits for a delegated turn; `approval`: for a person. */
  kind: 'tool' | 'join' | 'approval';
  tool_name: string;
  deadline: number;
  /** `received`: what it waited for has come, and the turn has not acted on it. */
  status: 'waiting' | 'received' | 'applied' | 'expired' | 'dropped';
  /** Null until a report has brought the result. */
  result_card_id: string | null;
  /** When it began to wait, or was last told to wait on (T16). */
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
  approvers: Json<readonly string[]>;
  /** Who is asked next; null when an unanswered question is a refusal at once. */
  escalate_to: Json<readonly string[]> | null;
  /** Null while it has not been escalated. */
  escalated_at: number | null;
  deadline: number;
  status: ApprovalStatus;
  answered_by: string | null;
  comment: string | null;
  /** What the approver put in place of the call's arguments; null when they stand. */
  arguments: Json<JsonObject> | null;
  /** The budget that is used up; null for a call. */
  budget: Json<BudgetAsk> | null;
  /** The last card of the turn's output box when it was asked about its budget; null for a call, which has a card. */
  behind_seq: number | null;
  created_at: number;
  /** Null while it waits. */
  answered_at: number | null;
}

/** A report that waits for the card it names (T18). */
export interface DeferredReportRow {
  agent_turn_id: string;
  call_id: string;
  report: Json<ResultReport>;
  defer_reason: 'card_not_found';
  retry_count: number;
  next_retry_at: number;
  created_at: number;
}

/** An attempt that may start a call (W10). */
export interface ClaimRow {
  agent_turn_id: string;
  call_id: string;
  attempt: number;
  /** The attempt at the activity that made it; null for one that was made with the step. */
  made_by: Json<ActivityAttempt> | null;
  started_at: number;
  /** The status of the result that this attempt brought; null while it has brought none. */
  outcome: string | null;
  /** Null where `outcome` is. */
  duration_ms: number | null;
  /** How far the attempt said last that it is; null when it said nothing. */
  progress: Json<JsonValue> | null;
}

/** An item of a running turn's inbox. */
export interface InboxRow {
  agent_turn_id: string;
  kind: 'steer' | 'budgets' | 'answer';
  /** What the item says: the card of a steer, the call of an answer. Empty for budgets, which the turn's row has. */
  ref: string;
  /** Its place among all items of the turn, from 1. */
  seq: number;
  /** A steer that became a turn of its own is `requeued`, one whose turn was stopped `dropped` (T22). */
  status: 'pending' | 'consumed' | 'requeued' | 'dropped';
  /** The step that showed a steer to the model; null while none has, and for other items. */
  step_index: number | null;
  created_at: number;
}

/** Which schema the store has, and the id that it was given with it. */
export interface VersionRow {
  version: number;
  store_id: string;
}

/** A lease of a service that one process at a time may run. */
export interface ServiceLeaseRow {
  service: string;
  holder: string;
  expires_at: number;
  /** Since when somebody has held the lease without a longer break. */
  since: number;
  /** Null until the supervisor has listed closed workflows. */
  listed_until: number | null;
}

/**
 * A constant that is written into the statement. Where an index is partial on that column, SQLite would plan a statement with a parameter
 * anew each time.
 */
export const constant = <T extends string>(value: T): RawBuilder<T> => sql.lit(value);

/** Whether the column has one of these constants, of which there are few. */
export const isAmong = (column: string, constants: readonly string[]): RawBuilder<boolean> =>
  constants.length === 0 ? sql`1 = 0` : sql`${sql.ref(column)} in (${sql.join(constants.map(constant))})`;

/** All tables by name. */
export interface Tables {
  cards: CardRow;
  boxes: BoxRow;
  box_cards: BoxCardRow;
  box_units: BoxUnitRow;
  agents: AgentRow;
  profiles: ProfileRow;
  profile_heads: ProfileHeadRow;
  agent_state_head: HeadRow;
  work_items: WorkItemRow;
  waits: WaitRow;
  timers: TimerRow;
  triggers: TriggerRow;
  trigger_deliveries: TriggerDeliveryRow;
  wakes: WakeRow;
  work_effects: WorkEffectRow;
  turns: TurnRow;
  agent_steps: StepRow;
  turn_waiting: WaitingRow;
  approvals: ApprovalRow;
  deferred_reports: DeferredReportRow;
  dispatch_claims: ClaimRow;
  execution_edges: EdgeRow;
  turn_inbox: InboxRow;
  events: EventRow;
  chunks: ChunkRow;
  webhooks: WebhookRow;
  webhook_cursors: WebhookCursorRow;
  schema_version: VersionRow;
  svc_leases: ServiceLeaseRow;
  chat_sessions: ChatSessionRow;
  chat_messages: ChatMessageRow;
}

/** The database, or an open transaction of it. */
export type Db = Kysely<Tables>;

/** An open transaction. */
export type Trx = Transaction<Tables>;

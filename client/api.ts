/** What a client can do with one agent and with one turn, whatever way it reaches the system. The whole is `ClientApi`. */

import type { z } from 'zod';
import type { ActiveTimer } from '../workflows/agent-state/timers.ts';
import type { ScheduledWorkItem } from '../workflows/agent-state/work-items.ts';
import type { AgentSummary } from '../workflows/contract/agent-summary.ts';
import type { TriggerView, WaitView, WakeAck, WakeDisposition, WorkPage } from '../workflows/contract/agent-work.ts';
import type { ApprovalAck, approvalAnswerSchema } from '../workflows/contract/approvals.ts';
import type { TurnNode } from '../workflows/contract/call-tree.ts';
import type { SteerAck, StopAck } from '../workflows/contract/control.ts';
import type { AgentEvent } from '../workflows/contract/events.ts';
import type { TranscriptEntry } from '../workflows/contract/transcript.ts';
import type { AgentFilter, TurnFilter, TurnView } from '../workflows/contract/views.ts';
import type { EnqueueAck, EnqueueInput } from '../workflows/protocol/enqueue.ts';
import type { Fields } from '../workflows/protocol/output.ts';
import type { BudgetChange } from '../workflows/protocol/profile.ts';
import type { ReportAck, toolResultReportSchema } from '../workflows/protocol/tool-result.ts';
import type { Stall } from './stalls.ts';
import type { StreamPart } from './stream-parts.ts';

/** What a caller writes to answer a call that waits for a result from outside (T14). */
export type ToolResultInput = z.input<typeof toolResultReportSchema>;

/** What a caller writes to answer a question about a call or a budget (K7, K9). */
export type AnswerInput = z.input<typeof approvalAnswerSchema>;

/** What is said of an agent besides its id. */
export interface AgentOptions {
  /** The profile of requests that name none. */
  readonly profile?: string;
}

/** Which agents are looked for. */
export type AgentQuery = AgentFilter;

/** The answer to somebody who has hit a trigger. */
export interface TriggerAck {
  readonly disposition: WakeDisposition;
}

/** What is said to wake an agent. */
export interface WakeInput {
  /** What the model is told. */
  readonly reason: string;
  /** A caller that got no answer says it again with the same key, and it counts once. */
  readonly key?: string;
}

/** A trigger that was just made. */
export interface MadeTrigger extends TriggerView {
  /** Whoever has it wakes the agent. It is told this once, and kept nowhere. */
  readonly token: string;
  /** Where it is used, at a gateway. */
  readonly path: string;
}

/** The triggers of one agent (A9). */
export interface AgentTriggers {
  /** Lists triggers, the oldest first, revoked ones too unless `open`. */
  list(page?: WorkPage): Promise<readonly TriggerView[]>;
  /** Makes a trigger, and tells its token. Errors: `agent_not_found`; `invalid_request`, also when the agent has too many. */
  create(input: { readonly name: string }): Promise<MadeTrigger>;
  /** Revokes a trigger, for good. Idempotent; false when the agent has no such trigger. */
  revoke(triggerId: string): Promise<boolean>;
}

/** A request for one turn of a new agent, whose profile is named beside it. */
export type RunInput = Omit<EnqueueInput, 'profile'>;

/** Which events are read. */
export interface EventsOptions {
  /** The `seq` of the event that was handled last; left out, all events come. */
  readonly afterSeq?: number;
  /** Ends the iteration without an error. */
  readonly signal?: AbortSignal;
}

/** From where on a stream is followed. */
export interface StreamOptions {
  /** The `cursor` of the part that was handled last; left out, the stream comes from its beginning. */
  readonly cursor?: string;
  /** Ends the iteration without an error. */
  readonly signal?: AbortSignal;
}

/** One agent, whether it has had a request or not; `Output` is what its turns deliver. */
export interface AgentHandle<Output extends object = Fields> {
  readonly id: string;
  /**
   * Queues one turn. With an idempotency key, the same call gives the same turn, however often (T2).
   * Errors: `invalid_request` (also for an agent that is merely named like a profile), `profile_not_found`, `idempotency_conflict`,
   * `inbox_full`, `agent_stopped`, `agent_busy`, `temporal_unreachable`.
   */
  enqueue(input: EnqueueInput): Promise<TurnHandle<Output>>;
  /** Refuses requests from now on and ends the active turn; queued turns stay. Repeating it changes nothing (T10). */
  stop(reason?: string): Promise<{ readonly stoppedTurnId: string | null }>;
  /** Accepts requests again, and runs the queued turns. */
  start(): Promise<void>;
  /**
   * Makes the agent remember exactly these cards, in a new output box, if `expectedBoxId` (see `get()`) is still its output box; returns
   * the id of the new box (T25). Errors: `agent_busy` while a turn is open, `box_unavailable`.
   */
  replaceOutputBox(expectedBoxId: string, cardIds: readonly string[]): Promise<string>;
  /** What the agent is at, with all that shows it (A5); null when the store has never had a request for it. */
  get(): Promise<AgentSummary | null>;
  /**
   * Wakes the agent: it makes a turn of the reason now, or when it is free. Errors: `agent_not_found`, `agent_stopped`, `invalid_request` for
   * a reason that says nothing, `payload_too_large` (64 KiB), `temporal_unreachable`.
   */
  wake(input: WakeInput): Promise<WakeAck>;
  /** Its work items, the oldest first, completed ones too unless `open`; none for an agent that is not there. */
  workItems(page?: WorkPage): Promise<readonly ScheduledWorkItem[]>;
  /** What it waits for between its turns, the oldest first, waits that have ended too unless `open`. */
  waits(page?: WorkPage): Promise<readonly WaitView[]>;
  /** Its timers that will fire, the oldest first. */
  timers(): Promise<readonly ActiveTimer[]>;
  /** Cancels a timer; false when the agent has no such timer that will fire. */
  cancelTimer(timerId: string): Promise<boolean>;
  /** The ways in which something outside can wake it. */
  readonly triggers: AgentTriggers;
  /** Its turns, oldest first, at most `limit` (100); the `acceptSeq` of a page's last turn is the next page's `after`. */
  turns(filter?: TurnFilter): Promise<readonly TurnView<Output>[]>;
  /** The agent's events from `afterSeq` on, each once, in order, for as long as the reader wants them. */
  events(options?: EventsOptions): AsyncGenerator<AgentEvent, void>;
}

/** How long the end of a turn is waited for. */
export interface ResultOptions {
  /** How long to wait; for ever when left out. */
  readonly timeoutMs?: number;
}

/** When waiting counts as a stall. */
export interface StallOptions {
  /** How long a task of the turn may wait before its workers are asked about, ms; three seconds when left out. */
  readonly queuedMs?: number;
}

/** What is said with a steer besides its text. */
export interface SteerOptions {
  /** A caller that got no answer sends the message again with the same key, and it counts once. */
  readonly key?: string;
}

/** One turn, whether it is queued, open, ended or unknown; `Output` is what it delivers. */
export interface TurnHandle<Output extends object = Fields> {
  readonly id: string;
  /** The answer to the request; undefined for a handle that was made from an id. */
  readonly ack: EnqueueAck | undefined;
  /** The turn as it stands. Errors: `turn_not_found`. */
  get(): Promise<TurnView<Output>>;
  /** The ended turn, with its deliverable, however it ended. Errors: `turn_not_found`, `result_wait_timeout` (the turn goes on). */
  result(options?: ResultOptions): Promise<TurnView<Output>>;
  /**
   * Why the turn does not go on at the moment, asked of the store and the Temporal server; null for one that goes on, is queued, waits for
   * a result or a person, has ended, or is unknown. Errors: `temporal_unreachable`.
   */
  stall(options?: StallOptions): Promise<Stall | null>;
  /**
   * What was asked, said, called, answered and delivered so far, in the order of the conversation, as people read it: also what the model does
   * not see any more. Errors: `turn_not_found`.
   */
  transcript(): AsyncGenerator<TranscriptEntry, void>;
  /**
   * What the turn caused: its calls, and the turns that they or it made, with theirs. Of a tree of more than 10,000 edges the nearest turns; those
   * that are left out are `not_read`, and their own tree has what is below them. Errors: `turn_not_found`.
   */
  tree(): Promise<TurnNode>;
  /** The turn's events from `afterSeq` on, each once, in order, up to and with its `task` event. Errors: `turn_not_found`. */
  events(options?: EventsOptions): AsyncGenerator<AgentEvent, void>;
  /**
   * The turn as it happens: its answers while they are written, its calls, their progress and results, and its end, each part once; from the
   * part behind `cursor` on (W16). Errors: `turn_not_found`, `invalid_request` for a cursor that is not of this turn.
   */
  stream(options?: StreamOptions): AsyncGenerator<StreamPart, void>;
  /** Ends the turn, queued or running. The ACK is final, and the `task` event of the turn is written by then (T8, T21). */
  stop(reason?: string): Promise<StopAck>;
  /**
   * Ends the turn so that its agent goes on with something else: messages that it has not read become the next turn (C8). The ACK is final.
   */
  interrupt(reason?: string): Promise<StopAck>;
  /** As `interrupt`, and takes the turn out of what its agent remembers, as if it had not been (C8). */
  rollback(reason?: string): Promise<StopAck>;
  /**
   * A message for the running turn: shown to the model before its next call, or run as the next turn if this one ends first (T22).
   * Errors: `invalid_request`, `inbox_full` (too many that it has not read), `idempotency_conflict`.
   */
  steer(text: string, options?: SteerOptions): Promise<SteerAck>;
  /** Answers a suspended call. The ACK is final; a repeated one is `duplicate` and changes nothing (T14). Errors: `invalid_request`. */
  toolResult(report: ToolResultInput): Promise<ReportAck>;
  /**
   * Answers a question of this turn: a call that needs approval, or a budget that is used up. The ACK is final (K7, K9).
   * Errors: `invalid_request`, `approval_refused` (not an approver, or arguments that do not fit the schema or the rules),
   * `budget_refused`.
   */
  answer(answer: AnswerInput): Promise<ApprovalAck>;
  /**
   * New budgets, effective before the next model call; those left out stay (K9). Errors: `invalid_request`, `turn_not_found`, `turn_ended`,
   * `budget_refused` where a delegated turn would get more than the turn it works for has left.
   */
  setBudgets(budgets: BudgetChange): Promise<void>;
}

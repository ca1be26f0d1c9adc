/** The tables of what an agent has between its turns, as Kysely sees them. Times are epoch ms by the store's clock. */
import type { TriggerKind } from '../../../workflows/agent-state/continuation.ts';
import type { WorkEffect } from '../../../workflows/agent-state/effects.ts';
import type { WaitKind, WaitStatus } from '../../../workflows/agent-state/waits.ts';
import type { PlanStatus, Todo } from '../../../workflows/agent-state/work-items.ts';
import type { Json } from './json.ts';

/** A piece of work (A7). */
export interface WorkItemRow {
  work_item_id: string;
  agent_id: string;
  revision: number;
  objective: string;
  state: 'open' | 'completed';
  plan_status: PlanStatus;
  todo_list: Json<readonly Todo[]>;
  /** Ids of work items of the same agent. */
  blocked_by: Json<readonly string[]>;
  /** Null when the agent need not come back to it by itself. */
  recheck_at: number | null;
  /** When the supervisor is to act on it: `recheck_at`, and null while its agent is stopped. */
  due_at: number | null;
  /** When `due_at` was counted: by a clock that was ahead when that is still to come. */
  set_at: number;
  result_summary: string | null;
  /** The revision at which the agent last went on with it by itself; 0 when it has not (A10). */
  continued_revision: number;
  created_at: number;
  updated_at: number;
}

/** What an agent waits for, or has waited for (A8). */
export interface WaitRow {
  wait_id: string;
  agent_id: string;
  /** Null when the agent itself waits. */
  work_item_id: string | null;
  kind: WaitKind;
  resource: string | null;
  reason: string;
  status: WaitStatus;
  recheck_at: number | null;
  deadline: number;
  /** When the supervisor is to act on it; null once it has ended, and while its agent is stopped. */
  due_at: number | null;
  /** When `due_at` was counted: by a clock that was ahead when that is still to come. */
  set_at: number;
  /** The turn that began to wait. */
  agent_turn_id: string;
  created_at: number;
  /** Null while it is active. */
  ended_at: number | null;
  /** What ended it; null while it is active. */
  ended_by: string | null;
}

/** What a call of an open turn changes, until its turn commits (A7). */
export interface WorkEffectRow {
  agent_turn_id: string;
  call_id: string;
  step_index: number;
  /** The place of the call in its step. */
  call_index: number;
  effect: Json<WorkEffect>;
}

/** When an agent is to be woken (A9). */
export interface TimerRow {
  timer_id: string;
  agent_id: string;
  reason: string;
  /** When it fires next; null once it has fired for the last time, and when it was cancelled. */
  next_at: number | null;
  /** Null for one that fires once. */
  every_ms: number | null;
  /** When the supervisor is to fire it: `next_at`, and null while its agent is stopped. */
  due_at: number | null;
  /** When `due_at` was counted: by a clock that was ahead when that is still to come. */
  set_at: number;
  /** How often it has fired. */
  fired: number;
  cancelled_at: number | null;
  created_at: number;
}

/** A way for something outside to wake an agent (A9). */
export interface TriggerRow {
  trigger_id: string;
  agent_id: string;
  name: string;
  /** SHA-256 of its token, in hex; the token itself is not kept. */
  token_hash: string;
  /** How often it was hit, repeated deliveries not counted. */
  hits: number;
  last_hit_at: number | null;
  revoked_at: number | null;
  created_at: number;
}

/** Something that has come for an agent and makes a turn of its own (A4). */
export interface WakeRow {
  agent_id: string;
  /** Its place among all that has come for the agent. */
  place: number;
  kind: TriggerKind;
  source: string;
  reason: string;
  count: number;
  /** What it has brought; null for nothing. */
  card_id: string | null;
  /** Bytes of what it has brought. */
  bytes: number;
  /** 1 for the deadline or the recheck of a wait or of a work item. */
  due: number;
  /** The turn that tells it; null while none does. */
  taken_by: string | null;
  created_at: number;
}

/** A hit that its sender may repeat, so that it counts once. */
export interface TriggerDeliveryRow {
  trigger_id: string;
  delivery_key: string;
  created_at: number;
}

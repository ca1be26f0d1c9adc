/**
 * Signals and queries, importable by clients. Bodies come from anywhere (our client, the Temporal CLI, another SDK), so every one is
 * `unknown` until a guard has seen it; handlers never throw.
 */
import { defineQuery, defineSignal } from '@temporalio/workflow';
import type { Lease } from '../contract/lease.ts';
import { isDeeperThan } from '../protocol/json.ts';
import type { TurnStatus } from '../protocol/turn.ts';

/** A foreign client's request, as its `EnqueueInput`: the acceptor and a running turn of the agent take it. */
export const enqueueSignal = defineSignal<[unknown]>('enqueue');

/** A wake-up names a call whose result the store already holds, or nothing; a body with a status is an inline result. */
export const toolResultSignal = defineSignal<[unknown]>('tool_result');

/** An operator has set new budgets; what they are, the store says (K9). */
export const budgetsSignal = defineSignal<[unknown]>('budgets');

/** Ends the turn. Our clients end it in the store first, so that this only lets go of what still runs (T21). */
export const stopSignal = defineSignal<[unknown]>('stop');

/** A live look at a turn; the store answers the same without a worker. */
export interface TurnSnapshot {
  readonly agentTurnId: string;
  readonly status: TurnStatus;
  readonly stepIndex: number;
  readonly waiting: readonly { readonly callId: string; readonly tool: string; readonly deadline: number }[];
}
export const turnStateQuery = defineQuery<TurnSnapshot>('turn_state');

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A report without a status has nothing to store: it can only wake the turn. What is no report at all is refused by name. */
export const isResultWakeUp = (body: unknown): boolean =>
  body === undefined || body === null || (isRecord(body) && body.status === undefined);

export function isLease(value: unknown): value is Lease {
  if (!isRecord(value) || !isRecord(value.kernel) || !Array.isArray(value.earlier)) return false;
  if (!isRecord(value.kernel.budgets) || !isRecord(value.kernel.context)) return false;
  const texts = [value.agentId, value.agentTurnId, value.outputBoxId, value.profileName, value.title];
  return texts.every((text) => typeof text === 'string') && typeof value.turnEpoch === 'number';
}

const MAX_DEPTH = 200;

/** A body nested so deep that it cannot be passed on would fail every workflow task: a text takes its place, and is refused by name. */
export const shallow = (body: unknown): unknown =>
  isDeeperThan(body, MAX_DEPTH) ? `a body nested more than ${MAX_DEPTH} deep` : body;

/**
 * The signals and queries of our workflows, importable by clients.
 *
 * Invariant: a body comes from anywhere (our client, the Temporal CLI, another SDK), so it is `unknown` until a guard has seen it, and a
 * handler never throws.
 */
import { defineQuery, defineSignal } from '@temporalio/workflow';
import type { Lease } from '../contract/lease.ts';
import { isDeeperThan } from '../protocol/json.ts';
import type { TurnStatus } from '../protocol/turn.ts';

/** A request of a foreign client, written as an `EnqueueInput`. The acceptor takes it, and so does a running turn of the agent. */
export const enqueueSignal = defineSignal<[unknown]>('enqueue');

/** Wakes a turn: the store holds something for it, and says what. The body may name a call, for whoever reads the history. */
export const wakeSignal = defineSignal<[unknown]>('wake');

/** A result that a foreign client reports inline, to a turn that waits for it (T14). */
export const toolResultSignal = defineSignal<[unknown]>('tool_result');

/** Ends a turn. Our clients end it in the store first, so that the signal only cancels what still runs (T21). */
export const stopSignal = defineSignal<[unknown]>('stop');

/** A live view of a turn, as its workflow answers it. The store answers the same questions without a worker. */
export interface TurnSnapshot {
  readonly agentTurnId: string;
  readonly status: TurnStatus;
  readonly stepIndex: number;
  readonly waiting: readonly { readonly callId: string; readonly tool: string; readonly deadline: number }[];
}
/** Asks a turn's workflow for its snapshot. */
export const turnStateQuery = defineQuery<TurnSnapshot>('turn_state');

/** Whether a value is an object with named fields, and neither null nor an array. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether a value has the shape of a lease, as far as a turn must be sure of it before its first activity. */
export function isLease(value: unknown): value is Lease {
  if (!isRecord(value) || !isRecord(value.kernel) || !Array.isArray(value.earlier)) return false;
  if (!isRecord(value.kernel.budgets) || !isRecord(value.kernel.context)) return false;
  if (!isRecord(value.timeouts) || typeof value.timeouts.heartbeatMs !== 'number') return false;
  const texts = [value.agentId, value.agentTurnId, value.outputBoxId, value.profileName, value.title];
  return texts.every((text) => typeof text === 'string') && typeof value.turnEpoch === 'number';
}

/** A body nested deeper cannot be passed on as the input of an activity. */
const MAX_DEPTH = 200;

/**
 * The body, or a text that says why not where it is nested too deeply. Such a body would fail every task of the workflow; the text is
 * refused by name like any malformed body.
 */
export const shallow = (body: unknown): unknown =>
  isDeeperThan(body, MAX_DEPTH) ? `a body nested more than ${MAX_DEPTH} deep` : body;

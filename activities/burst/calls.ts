/** The calls of one step within a burst: side by side, each as in an activity of its own. */
import { ApplicationFailure } from '@temporalio/common';
import type PQueue from 'p-queue';
import type { RunToolInput, RunToolOutcome } from '../../workflows/contract/activities.ts';
import type { CallAttempt, CallResult, CallStore, ClaimedCall } from '../../workflows/contract/calls.ts';
import type { Suspension } from '../../workflows/contract/suspension.ts';
import type { ExecuteToolsAction } from '../../workflows/kernel/actions.ts';
import type { SettledCall } from '../../workflows/kernel/calls.ts';
import { isDelegation } from '../../workflows/protocol/builtins.ts';
import { inLanes } from '../../workflows/turn/lanes.ts';
import { type Holding, type Moment, moment } from '../heartbeat.ts';
import { outlastOutage } from '../store-outage.ts';
import { performCall, type ToolDeps } from '../tools/run-tool.ts';

/** What performing calls needs. */
export interface CallDeps extends ToolDeps {
  /** Of all bursts of the process: so many tools run at once. */
  readonly slots: PQueue;
  /** Whether this worker is on its way to stop; never when absent. */
  readonly isStopping?: (() => boolean) | undefined;
  readonly store: ToolDeps['store'] & Pick<CallStore, 'refuseCalls'>;
}

/** What became of the calls. */
export interface PerformedCalls {
  readonly settled: readonly SettledCall[];
  readonly waiting: readonly (Suspension & { readonly tool: string })[];
}

/** Whether the calls are left to activities of their own: people are asked, turns are delegated, or a tool wants it so. */
export const runsApart = ({ app }: Pick<CallDeps, 'app'>, { calls, ask = [] }: ExecuteToolsAction): boolean =>
  ask.length > 0 || calls.some(({ tool }) => isDelegation(tool) || app.tools.get(tool)?.spec.placement === 'own');

/** What a burst knows of the calls of a step, and does with what they bring. */
export interface StepOfBurst {
  /** How many calls run at once. */
  readonly atOnce: number;
  /** The claims that were made with the step, by the ids of their calls, and when the store had been asked for the lease. */
  readonly claims: ReadonlyMap<string, ClaimedCall>;
  readonly claimedAt: Moment;
  /** Stores the result of the last call, and what follows from it with all results of the step, which `all` gives in their order. */
  readonly settleLast: (
    result: CallResult,
    all: (settled: SettledCall) => readonly SettledCall[],
  ) => Promise<SettledCall>;
}

/**
 * Performs and refuses the calls of an action. After an error, or when the worker is to stop, no further call is begun; the error
 * is thrown once those that have begun are over, and another attempt goes on with the rest.
 */
export async function performCalls(
  deps: CallDeps,
  input: Omit<RunToolInput, 'callId' | 'tool'>,
  { calls, refuse = [] }: ExecuteToolsAction,
  holding: Holding,
  { atOnce, claims, claimedAt, settleLast }: StepOfBurst,
): Promise<PerformedCalls> {
  const { store, slots } = deps;
  const { profileHash: _, again: __, ...fence } = input;
  const refused =
    refuse.length === 0 ? [] : await outlastOutage(holding.signal, () => store.refuseCalls(fence, refuse));
  const outcomes = new Map<number, RunToolOutcome>();
  const settledOf = (all: ReadonlyMap<number, RunToolOutcome>): readonly SettledCall[] => {
    const ofCalls = calls.flatMap((_, index) => {
      const outcome = all.get(index);
      return outcome?.kind === 'settled' ? [outcome.settled] : [];
    });
    return [...ofCalls, ...refused];
  };
  let started = 0;
  const perform = async ({ callId, tool }: (typeof calls)[number], index: number): Promise<void> => {
    const settleWith = (result: CallResult) => {
      if (settledOf(outcomes).length < calls.length - 1 + refused.length) return store.settleCall(fence, result);
      return settleLast(result, (settled) => settledOf(new Map([...outcomes, [index, { kind: 'settled', settled }]])));
    };
    const claim = claims.get(callId);
    const askedAt = claim ? claimedAt : moment();
    const holdAs = (attempt: CallAttempt) => {
      started += 1;
      return holding.asking(() => store.checkLease(fence, attempt), askedAt);
    };
    outcomes.set(index, await performCall(deps, { ...input, callId, tool }, { claim, holdAs, settleWith }));
  };
  let failed: { readonly error: unknown } | undefined;
  const begin = async (call: (typeof calls)[number], index: number): Promise<void> => {
    if (failed) throw failed.error;
    // An attempt that starts nothing at all would only come again.
    if (started > 0 && deps.isStopping?.()) throw stopping();
    await perform(call, index);
  };
  await inLanes(calls, atOnce, async (call, index) => {
    try {
      await inSlot(slots, holding.signal, () => begin(call, index));
    } catch (error) {
      failed ??= { error };
    }
  });
  if (failed) throw failed.error;
  const waiting = calls.flatMap(({ callId, tool }, index) => {
    const outcome = outcomes.get(index);
    return outcome?.kind === 'suspended' ? [{ callId, tool, deadline: outcome.deadline, leftMs: outcome.leftMs }] : [];
  });
  return { settled: settledOf(outcomes), waiting };
}

/** The error of an attempt that leaves the calls it has not begun to another one. */
const stopping = (): ApplicationFailure =>
  ApplicationFailure.retryable(
    'the worker is to stop: another one goes on with the calls that have not begun',
    'worker_lost',
  );

/** Runs it once a slot is free. Throws the reason of `signal` where that fires first; what has begun is waited for in any case. */
async function inSlot<T>(slots: PQueue, signal: AbortSignal, run: () => Promise<T>): Promise<T> {
  let begun: { readonly outcome: Promise<T> } | undefined;
  const begin = () => {
    begun = { outcome: run() };
    return begun.outcome;
  };
  try {
    return await slots.add(begin, { signal });
  } catch (error) {
    if (begun) return begun.outcome;
    throw error;
  }
}

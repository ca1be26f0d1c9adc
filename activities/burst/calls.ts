/** The calls of one step within a burst: side by side, each as in an activity of its own. */
import { Context } from '@temporalio/activity';
import type { RunToolOutcome } from '../../workflows/contract/activities.ts';
import type { CallResult, CallStore, ClaimedCall } from '../../workflows/contract/calls.ts';
import type { Suspension } from '../../workflows/contract/suspension.ts';
import type { ExecuteToolsAction } from '../../workflows/kernel/actions.ts';
import type { SettledCall } from '../../workflows/kernel/calls.ts';
import { isDelegation } from '../../workflows/protocol/builtins.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import type { Holding, Moment } from '../heartbeat.ts';
import { outlastOutage } from '../store-outage.ts';
import { performCall, type ToolDeps } from '../tools/run-tool.ts';

/** What performing calls needs. */
export interface CallDeps extends ToolDeps {
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
  /** The claims that were made with the step, by the ids of their calls, and when the store had been asked for the lease. */
  readonly claims: ReadonlyMap<string, ClaimedCall>;
  readonly claimedAt: Moment;
  /** Stores the result of the last call, and what follows from it with all results of the step, which `all` gives in their order. */
  readonly settleLast: (
    result: CallResult,
    all: (settled: SettledCall) => readonly SettledCall[],
  ) => Promise<SettledCall>;
}

/** Performs and refuses the calls of an action. The first error is thrown once all of them are over. */
export async function performCalls(
  deps: CallDeps,
  input: Fence & { readonly profileHash: string },
  { calls, refuse = [] }: ExecuteToolsAction,
  holding: Holding,
  { claims, claimedAt, settleLast }: StepOfBurst,
): Promise<PerformedCalls> {
  const { attempt } = Context.current().info;
  const { store } = deps;
  const { profileHash, ...fence } = input;
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
  const perform = async ({ callId, tool }: (typeof calls)[number], index: number): Promise<void> => {
    const settleWith = (result: CallResult) => {
      if (settledOf(outcomes).length < calls.length - 1 + refused.length) return store.settleCall(fence, result);
      return settleLast(result, (settled) => settledOf(new Map([...outcomes, [index, { kind: 'settled', settled }]])));
    };
    const claim = claims.get(callId);
    const check = () => store.checkLease(fence, { callId, attempt });
    const own = holding.asking(check, claim && claimedAt);
    outcomes.set(index, await performCall(deps, { ...input, callId, tool }, own, { claim, settleWith }));
  };
  const failed = (await Promise.allSettled(calls.map(perform))).find((ran) => ran.status === 'rejected');
  if (failed) throw failed.reason;
  const waiting = calls.flatMap(({ callId, tool }, index) => {
    const outcome = outcomes.get(index);
    return outcome?.kind === 'suspended' ? [{ callId, tool, deadline: outcome.deadline, leftMs: outcome.leftMs }] : [];
  });
  return { settled: settledOf(outcomes), waiting };
}

/** The calls of one step within a burst: side by side, each as in an activity of its own. */
import { Context } from '@temporalio/activity';
import type { CallStore } from '../../workflows/contract/calls.ts';
import type { Suspension } from '../../workflows/contract/suspension.ts';
import type { ExecuteToolsAction } from '../../workflows/kernel/actions.ts';
import type { SettledCall } from '../../workflows/kernel/calls.ts';
import { isDelegation } from '../../workflows/protocol/builtins.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import type { Holding } from '../heartbeat.ts';
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

/** Performs and refuses the calls of an action. The first error is thrown once all of them are over. */
export async function performCalls(
  deps: CallDeps,
  fence: Fence,
  profileHash: string,
  { calls, refuse = [] }: ExecuteToolsAction,
  holding: Holding,
): Promise<PerformedCalls> {
  const { attempt } = Context.current().info;
  const { store } = deps;
  const refused =
    refuse.length === 0 ? [] : await outlastOutage(holding.signal, () => store.refuseCalls(fence, refuse));
  const ran = await Promise.allSettled(
    calls.map(({ callId, tool }) => {
      const own = holding.asking(() => store.checkLease(fence, { callId, attempt }));
      return performCall(deps, { ...fence, profileHash, callId, tool }, own);
    }),
  );
  const failed = ran.find((outcome) => outcome.status === 'rejected');
  if (failed) throw failed.reason;
  const settled: SettledCall[] = [];
  const waiting: (Suspension & { readonly tool: string })[] = [];
  for (const [index, outcome] of ran.entries()) {
    if (outcome.status === 'rejected') continue;
    const { callId = '', tool = '' } = calls[index] ?? {};
    if (outcome.value.kind === 'settled') settled.push(outcome.value.settled);
    else waiting.push({ callId, tool, deadline: outcome.value.deadline, leftMs: outcome.value.leftMs });
  }
  return { settled: [...settled, ...refused], waiting };
}

/** A burst, as the workflow sees it: one activity, and all that happened in it told to the kernel again (K22). */
import type { BurstAction, BurstItem, BurstOutcome } from '../contract/burst.ts';
import type { TurnEnd } from '../contract/lease.ts';
import type { KernelAction } from '../kernel/actions.ts';
import { KERNEL_VERSION } from '../kernel/version.ts';
import { whole } from './burst-items.ts';
import { answered } from './model.ts';
import type { TurnParts } from './parts.ts';
import { shortState } from './short-state.ts';

/** What follows from a burst. */
export interface AfterBurst {
  /** What the kernel asks for next; the action that the burst began with, when nothing has happened. */
  readonly next: KernelAction;
  /** Calls of the next action that wait; absent when none does. */
  readonly suspended?: BurstOutcome['suspended'];
  /** The next action is to be performed by activities of its own. */
  readonly apart: boolean;
  /** An attempt at the burst was lost, which may have gone further. */
  readonly again: boolean;
  /** Present when the turn has ended. */
  readonly end?: TurnEnd;
}

/** Runs a burst from the action on; `again`: an attempt that was lost may have gone further. Errors: the cancellation of the turn, and what its first action fails with. */
export function runBurst(turn: TurnParts, action: BurstAction, again = false): Promise<BurstOutcome> {
  const { fence, kernel, inbox, meter, lease } = turn;
  const { state, ...carried } = kernel.carry();
  const { runSteps } = meter.burst(`from step ${action.stepIndex}`);
  return runSteps({
    ...fence,
    ...inbox.mark,
    ...carried,
    state: shortState(state),
    kernel: KERNEL_VERSION,
    profileHash: lease.profileHash,
    action,
    nowMs: Date.now(),
    engine: meter.usageAfterBurst,
    ...(typeof lease.burst === 'object' ? { limits: lease.burst } : {}),
    ...(lease.parallelCalls === undefined ? {} : { parallelCalls: lease.parallelCalls }),
    ...(lease.privateTitles ? { privateTitles: true } : {}),
    ...(again ? { again: true } : {}),
  });
}

/** Tells the kernel what happened in a burst. A kernel that cannot follow throws: it is not the one that the burst has run. */
export function afterBurst(turn: TurnParts, action: BurstAction, outcome: BurstOutcome): AfterBurst {
  const { items, untold, suspended, apart = false, again = false, end } = outcome;
  let next: KernelAction = action;
  for (const item of whole(items)) next = told(turn, item) ?? next;
  turn.kernel.keepNoticed(untold);
  // An attempt that found the turn ended knows no more than that.
  if (end && items.length > 0 && next.type !== 'done')
    throw new TypeError(`the burst has ended the turn, and the kernel of the workflow asks for ${next.type}`);
  return { next, apart, again, ...(suspended ? { suspended } : {}), ...(end ? { end } : {}) };
}

/** Shows what happened, and tells the kernel; null when nothing follows from it at once. */
function told(turn: TurnParts, item: BurstItem): KernelAction | null {
  const { kernel, inbox, display } = turn;
  switch (item.kind) {
    case 'step':
      return kernel.feed(answered(turn, item.record, item.nowMs));
    case 'inbox':
      inbox.noteRead(item.delivery);
      kernel.take(item.delivery, item.nowMs);
      return null;
    case 'event':
      if (item.event.type === 'tool_results')
        for (const { callId, status } of item.event.settled) display.call(callId, status, null);
      return kernel.feed(item.event);
  }
}

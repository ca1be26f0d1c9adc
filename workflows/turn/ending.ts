/** The end of a turn: the commit, which is made even when the turn was stopped (T6, T7). */

import { ApplicationFailure, CancellationScope, CancelledFailure } from '@temporalio/workflow';
import { storeActivities } from '../contract/activities.ts';
import type { TurnCommit, TurnEnd } from '../contract/lease.ts';
import type { DoneAction } from '../kernel/actions.ts';
import { leaseLost } from './outcomes.ts';
import type { TurnParts } from './parts.ts';

/** What may have told of the notices before; empty when nothing can have. */
type NoticedBefore = Pick<TurnCommit, 'noticedWith'>;

/** Errors: `protocol_violation` when the lease is over; then nothing was written. */
export async function commitEnd(turn: TurnParts, action: DoneAction, more: NoticedBefore = {}): Promise<TurnEnd> {
  try {
    return await CancellationScope.nonCancellable(() => commit(turn, action, more));
  } catch (error) {
    throw leaseLost(error) ?? error;
  }
}

/**
 * Closes the workflow as its turn has ended, so that Temporal's list shows the one like the other: a turn that delivered something completes
 * it, one that was cancelled cancels it, and any other fails it by its code and its reason. Errors: these failures.
 */
export function closeAs(end: TurnEnd): TurnEnd {
  const { status, errorCode, reason } = end;
  if (status === 'success' || status === 'partial') return end;
  const message = reason ?? status;
  if (CancellationScope.current().consideredCancelled) throw new CancelledFailure(message, [end]);
  throw ApplicationFailure.nonRetryable(message, errorCode ?? status, end);
}

async function commit(
  turn: TurnParts,
  { termination, deliverable, hide }: DoneAction,
  more: NoticedBefore,
): Promise<TurnEnd> {
  const { fence, kernel, inbox, meter, lease } = turn;
  // What came while nothing waited for it is answered too, be it by an event that says why it was dropped (T14).
  await inbox.acceptResults();
  const end = await storeActivities.commitTurn({
    ...fence,
    termination,
    deliverable,
    engine: meter.usage,
    ...(hide ? { hide } : {}),
    ...kernel.takeNoticed(),
    ...more,
    ...(lease.privateTitles ? { privateTitles: true } : {}),
  });
  return finished(turn, end);
}

/** Shows the end that is recorded, and answers what came after it. */
export async function finished({ display, status, inbox }: TurnParts, end: TurnEnd): Promise<TurnEnd> {
  display.end(end);
  status.showEnd(end.status);
  while (!inbox.isSettled) await inbox.settle();
  return end;
}

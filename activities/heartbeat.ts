/**
 * One attempt of an activity, seen from the process that runs it.
 *
 * Invariants
 * 1. An attempt heartbeats by a timer of its own and by nothing else, so that silence means a lost worker and not a slow model or tool (T23),
 *    and an attempt of less than a second costs the server no write.
 * 2. A process may stand still at any place (frozen, starved, its machine asleep) and go on when others have gone on without it; no
 *    cancellation reaches it meanwhile, and only its clock says so. An attempt therefore asks for its lease again before an effect that
 *    comes late, and after a heartbeat that came too late (T5, W10).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Context, type Info } from '@temporalio/activity';
import type { LeaseStore } from '../workflows/contract/lease.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import type { ActivityAttempt, Fence } from '../workflows/protocol/turn.ts';
import { longer, outlastOutage } from './store-outage.ts';

/** After how long a silence the server gives an attempt to another worker, where the attempt itself does not know the figure. */
const HEARTBEAT_TIMEOUT_MS = 20_000;
/** The longest time for which a lease that was seen to hold is taken to hold. */
const LONGEST_FRESH_MS = 5_000;
/** The longest pause between two heartbeats: a stop reaches an attempt with the next one (T21). */
const LONGEST_BEAT_MS = 1_000;

/** After how long a silence the server gives the attempt to another worker. */
const silenceOf = ({ info }: Context): number => info.heartbeatTimeoutMs ?? HEARTBEAT_TIMEOUT_MS;

/** How long a lease that was seen to hold is taken to hold: much less than the silence after which another worker may have the attempt. */
const freshOf = (context: Context): number => Math.min(LONGEST_FRESH_MS, silenceOf(context) / 4);

/** The pause between two heartbeats. */
const beatOf = (context: Context): number => Math.min(LONGEST_BEAT_MS, silenceOf(context) / 4);

/** Whether the activity was never tried before. A reset of the activity begins to count again, and leaves when it was scheduled first. */
export const isFirstAttempt = (): boolean => isFirst(Context.current().info);

const isFirst = ({ attempt, scheduledTimestampMs, currentAttemptScheduledTimestampMs }: Info): boolean =>
  attempt === 1 && currentAttemptScheduledTimestampMs === scheduledTimestampMs;

/** The attempt that runs. */
export function activityAttempt(): ActivityAttempt {
  const { info } = Context.current();
  const { workflowExecution, activityId, attempt, currentAttemptScheduledTimestampMs: scheduledAt } = info;
  const isReset = attempt === 1 && !isFirst(info);
  return {
    run: workflowExecution?.runId ?? '',
    // Ids that a workflow does not choose are numbers, in the order in which it schedules.
    activity: Number.parseInt(activityId, 10) || 0,
    attempt,
    ...(isReset ? { afterReset: true } : {}),
    scheduledAt,
  };
}

/** What an attempt knows of its own right to go on. */
export interface Holding {
  /** Fires when the activity is cancelled, when its worker shuts down, and when its lease is found to be over. */
  readonly signal: AbortSignal;
  /**
   * Resolves when the lease was seen to hold a moment ago; to be awaited right before what cannot be taken back. The store is asked only
   * when its last answer is not fresh. Throws `stale_epoch` when the lease is over, `call_overtaken` when the time of the attempt is over. While the store
   * is so slow that none of its answers is fresh it is asked again and again, with pauses.
   */
  confirm(): Promise<void>;
  /**
   * The same hold for a part of the work that begins now, and of which the store is asked in a way of its own: it asks the store first, or else
   * the store was asked then.
   */
  asking(checkLease: LeaseCheck, then?: Moment): Holding;
}

/** A time by both clocks, in ms: the monotonic one stands still while the machine sleeps, the other one can be set back. */
export type Moment = Readonly<Record<'monotonic' | 'wall', number>>;

/** The time. */
export const moment = (): Moment => ({ monotonic: performance.now(), wall: Date.now() });

/** Asks the store whether the attempt may go on; throws `stale_epoch` when it may not. */
export type LeaseCheck = () => Promise<void>;

/** The check of a turn's lease alone, and of a burst's attempt at it, for what is not one of several attempts at the same call. */
export const leaseCheck = (store: Pick<LeaseStore, 'checkLease'>, fence: Fence): LeaseCheck => {
  const { agentId, agentTurnId, turnEpoch, acting } = fence;
  return () => store.checkLease({ agentId, agentTurnId, turnEpoch, ...(acting === undefined ? {} : { acting }) });
};

/** Runs `body` with heartbeats. Its first act must be to ask the store under its lease, for the lease counts as seen from the start. */
export async function withHeartbeat<T>(checkLease: LeaseCheck, body: (holding: Holding) => Promise<T>): Promise<T> {
  const context = Context.current();
  const lease = new LeaseWatch(context, checkLease);
  const timer = setInterval(() => {
    context.heartbeat();
    lease.beat();
  }, beatOf(context));
  try {
    return await body(lease);
  } finally {
    clearInterval(timer);
  }
}

const isOver = (error: unknown): boolean =>
  error instanceof CodedError && (error.code === 'stale_epoch' || error.code === 'call_overtaken');

function msSince(then: Moment): number {
  const now = moment();
  return Math.max(now.monotonic - then.monotonic, now.wall - then.wall);
}

class LeaseWatch implements Holding {
  readonly signal: AbortSignal;
  readonly #context: Context;
  readonly #checkLease: LeaseCheck;
  readonly #lost = new AbortController();
  readonly #startedAt: Moment;
  #beatAt = moment();
  #seenAt: Moment;

  /** `whole` is the hold of which this one is a part; absent for that of an attempt. */
  constructor(context: Context, checkLease: LeaseCheck, whole?: LeaseWatch, seenAt?: Moment) {
    this.#context = context;
    this.#checkLease = checkLease;
    this.#startedAt = whole ? whole.#startedAt : this.#beatAt;
    this.#seenAt = seenAt ?? this.#beatAt;
    this.signal = AbortSignal.any([whole?.signal ?? context.cancellationSignal, this.#lost.signal]);
  }

  asking(checkLease: LeaseCheck, then?: Moment): Holding {
    return new LeaseWatch(this.#context, checkLease, this, then);
  }

  async confirm(): Promise<void> {
    this.signal.throwIfAborted();
    // The answer of the store may itself have come late, and then the store is asked again.
    for (let pauseMs = 0; msSince(this.#seenAt) > freshOf(this.#context); pauseMs = longer(pauseMs)) {
      if (pauseMs > 0) {
        this.#context.log.warn('the store tells too late whether the lease holds: asking again', { pauseMs });
        await sleep(pauseMs, undefined, { signal: this.signal }).catch(() => this.signal.throwIfAborted());
      }
      await this.#check();
      this.signal.throwIfAborted();
    }
    const { startToCloseTimeoutMs, activityId } = this.#context.info;
    if (msSince(this.#startedAt) < startToCloseTimeoutMs) return;
    throw new CodedError(
      'call_overtaken',
      `the time of this attempt of activity ${activityId} is over: nothing was begun`,
    );
  }

  beat(): void {
    const silentFor = msSince(this.#beatAt);
    this.#beatAt = moment();
    if (silentFor <= silenceOf(this.#context)) return;
    this.#check().catch((error: unknown) => {
      // An error that says nothing of the lease does not stop the work: the fence decides when its result is written.
      if (isOver(error)) this.#lost.abort(error);
    });
  }

  async #check(): Promise<void> {
    const askedAt = moment();
    await outlastOutage(this.signal, this.#checkLease);
    this.#seenAt = askedAt;
  }
}

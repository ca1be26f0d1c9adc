/**
 * One attempt of an activity, seen from the process that runs it. It heartbeats by a timer of its own, so that silence means a lost worker
 * and not a slow model or tool (T23); what ends before the first beat costs the server no write.
 *
 * A process may stand still at any place (frozen, starved, its machine asleep) and come back when others have gone on without it; no
 * cancellation reaches it meanwhile. Only its clock tells it so: it asks for its lease again before an effect that comes late, and after a
 * heartbeat that came too late (T5, W10).
 */
import { Context } from '@temporalio/activity';
import type { LeaseStore } from '../workflows/contract/lease.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import type { Fence } from '../workflows/protocol/turn.ts';
import { outlastOutage } from './store-outage.ts';

const HEARTBEAT_EVERY_MS = 5_000;
/** Where the server says nothing of it: after such a silence it gives the attempt to another worker. */
const HEARTBEAT_TIMEOUT_MS = 20_000;
/** A lease that was seen to hold longer ago may be over by now. */
const CERTAIN_FOR_MS = 5_000;

export interface Holding {
  /** Fires when the activity is cancelled, when its worker shuts down, and when its lease is found to be over. */
  readonly signal: AbortSignal;
  /**
   * Resolves when the lease was seen to hold a moment ago; to be awaited right before what cannot be taken back. Asks the store only when
   * the last look is not fresh. Errors: `stale_epoch`, also when the time of the attempt is over.
   */
  confirm(): Promise<void>;
}

type LeaseCheck = () => Promise<void>;

/** Of the lease alone, for what is not one of several attempts at the same call. */
export const leaseCheck =
  (store: Pick<LeaseStore, 'checkLease'>, { agentId, agentTurnId, turnEpoch }: Fence): LeaseCheck =>
  () =>
    store.checkLease({ agentId, agentTurnId, turnEpoch });

/**
 * Runs `body`, whose first act is to ask the store under its lease: from when that question is sent, the lease is known. `checkLease`
 * throws `stale_epoch` when this attempt may not go on.
 */
export async function withHeartbeat<T>(checkLease: LeaseCheck, body: (holding: Holding) => Promise<T>): Promise<T> {
  const context = Context.current();
  const lease = new LeaseWatch(context, checkLease);
  const timer = setInterval(() => {
    context.heartbeat();
    lease.beat();
  }, HEARTBEAT_EVERY_MS);
  try {
    return await body(lease);
  } finally {
    clearInterval(timer);
  }
}

const isOver = (error: unknown): boolean =>
  error instanceof CodedError && (error.code === 'stale_epoch' || error.code === 'call_overtaken');

/** Both clocks: the monotonic one stands still while the machine sleeps, the other one can be set back. In ms. */
const clocks = () => ({ monotonic: performance.now(), wall: Date.now() });

function msSince(then: ReturnType<typeof clocks>): number {
  const now = clocks();
  return Math.max(now.monotonic - then.monotonic, now.wall - then.wall);
}

class LeaseWatch implements Holding {
  readonly signal: AbortSignal;
  readonly #context: Context;
  readonly #checkLease: LeaseCheck;
  readonly #lost = new AbortController();
  readonly #startedAt = clocks();
  #beatAt = this.#startedAt;
  #seenAt = this.#startedAt;

  constructor(context: Context, checkLease: LeaseCheck) {
    this.#context = context;
    this.#checkLease = checkLease;
    this.signal = AbortSignal.any([context.cancellationSignal, this.#lost.signal]);
  }

  async confirm(): Promise<void> {
    this.signal.throwIfAborted();
    // The answer itself may have come late.
    while (msSince(this.#seenAt) > CERTAIN_FOR_MS) {
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
    this.#beatAt = clocks();
    if (silentFor <= (this.#context.info.heartbeatTimeoutMs ?? HEARTBEAT_TIMEOUT_MS)) return;
    this.#check().catch((error: unknown) => {
      // What says nothing of the lease leaves the work alone: the fence decides when it is written down.
      if (isOver(error)) this.#lost.abort(error);
    });
  }

  async #check(): Promise<void> {
    const askedAt = clocks();
    await outlastOutage(this.signal, this.#checkLease);
    this.#seenAt = askedAt;
  }
}

/**
 * The ids of messages that foreign clients sent by signal.
 *
 * Invariant: the n-th message of a workflow has the same id whenever it is handled. A workflow that is reset receives the signals after the
 * reset point again, in the same order, so that each keeps its id and counts once (T2).
 */
import { workflowInfo } from '@temporalio/workflow';

/** Gives each message of this workflow its id. */
export class MessageIds {
  #taken: number;

  /** `taken` is how many ids the runs before this one have given out. */
  constructor(taken = 0) {
    this.#taken = taken;
  }

  /** How many ids this run and those before it have given out. */
  get taken(): number {
    return this.#taken;
  }

  /** The id of the next message. The id of the first run is part of it, so that a new workflow of the same id begins anew. */
  next(): string {
    this.#taken += 1;
    return `${workflowInfo().firstExecutionRunId}/${this.#taken}`;
  }
}

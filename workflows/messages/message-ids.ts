/**
 * Ids of messages that foreign clients sent by signal: the n-th of this workflow. A workflow that is reset takes the signals after the
 * reset point again, in the same order, so that each keeps its id and counts once (T2).
 */
import { workflowInfo } from '@temporalio/workflow';

export class MessageIds {
  #taken: number;

  /** `taken`: how many the runs before have given out. */
  constructor(taken = 0) {
    this.#taken = taken;
  }

  get taken(): number {
    return this.#taken;
  }

  next(): string {
    this.#taken += 1;
    return `${workflowInfo().firstExecutionRunId}/${this.#taken}`;
  }
}

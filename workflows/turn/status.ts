/** The status of a turn as Temporal's list shows it. Each change costs an event of the history, so it is shown only where it says something new. */
import { workflowInfo } from '@temporalio/workflow';
import { TURN_STATUS } from '../messages/search-attributes.ts';
import type { TurnStatus } from '../protocol/turn.ts';
import type { Meter } from './meter.ts';

/** The status that is shown, and what shows another. */
export class ShownStatus {
  #status: TurnStatus;
  readonly #meter: Meter;

  constructor(status: TurnStatus, meter: Meter) {
    this.#status = status;
    this.#meter = meter;
  }

  get current(): TurnStatus {
    return this.#status;
  }

  show(status: TurnStatus): void {
    if (status === this.#status) return;
    this.#status = status;
    this.#meter.showStatus(status);
  }

  /** A turn that succeeds and has shown no status says all by the status of its workflow: the upsert is saved. */
  showEnd(status: TurnStatus): void {
    const isShown = workflowInfo().typedSearchAttributes.get(TURN_STATUS) !== undefined;
    if (status === 'success' && !isShown) this.#status = status;
    else this.show(status);
  }
}

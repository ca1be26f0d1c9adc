/**
 * One timer for the nearest deadline, never cancelled: when it fires too early, the waiter re-checks and arms it again. A deadline
 * that moves later therefore costs no history event.
 */
import { CancellationScope, condition, sleep } from '@temporalio/workflow';
import type { Until } from '../contract/suspension.ts';

/** When a wait that the store told of is over by the clock of the workflow: that of the server, whatever the store's shows. */
export const hereUntil = ({ leftMs }: Pick<Until, 'leftMs'>): number => Date.now() + leftMs;

/** The one timer of a turn. */
export class Alarm {
  #firesAt = Number.POSITIVE_INFINITY;

  /** Waits until `ready` holds or the clock passes `deadline` (epoch ms). */
  async waitUntil(deadline: number, ready: () => boolean, summary: string): Promise<void> {
    while (!ready() && Date.now() < deadline) {
      this.#arm(deadline, summary);
      const firesAt = this.#firesAt;
      await condition(() => ready() || Date.now() >= firesAt);
    }
  }

  #arm(deadline: number, summary: string): void {
    if (this.#firesAt <= deadline && this.#firesAt > Date.now()) return;
    this.#firesAt = deadline;
    // Outside the cancellable scope: a stopped turn closes with the timer open, which costs nothing.
    void CancellationScope.nonCancellable(() => sleep(deadline - Date.now(), { summary })).catch(() => {});
  }
}

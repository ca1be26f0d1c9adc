/**
 * The waits of a turn: for results from outside, for answers of people, for an operator (T13, T17, T18, K7, K9).
 *
 * Invariant: a wait ends by what the store says. A signal, the timer and a long history only make the turn ask it.
 */
import type { Suspension } from '../contract/suspension.ts';
import type { AwaitAction } from '../kernel/actions.ts';
import type { ApprovalDecision, KernelEvent } from '../kernel/events.ts';
import { waitingCalls } from '../kernel/phase.ts';
import { Alarm, hereUntil } from './alarm.ts';
import type { WaitingLine } from './details.ts';
import type { TurnParts } from './parts.ts';

/** Until when the kernel lets a call wait, by the clock of the workflow. */
export const waitHere = ({ callId, leftMs }: Suspension) => ({ callId, deadline: hereUntil({ leftMs }) });

/** Waits until the store says that something has come of the waiting calls. */
export class TurnWaits {
  readonly #turn: TurnParts;
  readonly #historyIsLong: () => boolean;
  readonly #alarm = new Alarm();
  /** When the store is to be asked next, epoch ms. */
  #resolveAt = 0;

  /** `historyIsLong`: the turn is to continue as new, also in the middle of a wait. */
  constructor(turn: TurnParts, historyIsLong: () => boolean) {
    this.#turn = turn;
    this.#historyIsLong = historyIsLong;
  }

  /** The event that ends the wait; null when the history got long first. */
  wait(action: AwaitAction): Promise<KernelEvent | null> {
    if (action.wait === 'operator') return this.#askOperator(action);
    const callIds = waitingCalls(this.#turn.kernel.state).map(({ callId }) => callId);
    return this.#untilResolved(callIds, action.deadline);
  }

  /** The same wait in the next run, which asks the store when this one would have: a report may be tried again long before a deadline (T18). */
  resumed<T extends { readonly type: string }>(action: T): T {
    return action.type === 'await' ? { ...action, deadline: this.#resolveAt } : action;
  }

  /** Shows what the turn waits for, in the details of its workflow and as its status. */
  show(waiting: readonly WaitingLine[]): void {
    this.#turn.display.waitFor(waiting);
    this.#turn.status.show(waiting.length > 0 ? 'suspended' : 'running');
  }

  /** A budget is used up and an operator may extend it (K9). */
  async #askOperator(action: Extract<AwaitAction, { wait: 'operator' }>): Promise<KernelEvent | null> {
    const { fence, kernel, meter, display } = this.#turn;
    const { askId, code, used, limit } = action;
    // The question itself says so.
    kernel.dropNotices('budget_hit');
    const reason = `${code}: ${used} of ${limit} used`;
    const requests = [{ callId: askId, kind: 'budget', tool: '', reason, budget: { code, used, limit } }] as const;
    const [asked] = await meter.store.askApprovals({ ...fence, requests });
    const deadline = hereUntil(asked ?? { leftMs: 0 });
    const shown = asked?.deadline ?? deadline;
    display.asked(askId, { kind: 'budget', reason });
    this.show([{ ...asked, callId: askId, tool: '', deadline: shown }]);
    return this.#untilResolved([askId], deadline);
  }

  async #untilResolved(callIds: readonly string[], firstDeadline: number): Promise<KernelEvent | null> {
    const { fence, inbox, kernel, meter, display } = this.#turn;
    let deadline = firstDeadline;
    for (;;) {
      // Signals of names that nobody handles fill the history too.
      const ready = () => inbox.woken || this.#historyIsLong();
      await this.#alarm.waitUntil(deadline, ready, 'resume_deadline');
      inbox.woken = false;
      inbox.unread = false;
      await inbox.acceptResults();
      const delivery = await meter.store.resolveWaiting({ ...fence, callIds, ...inbox.mark });
      const { settled, waiting } = delivery;
      for (const call of settled) display.call(call.callId, call.status, null);
      this.show(waiting);
      inbox.noteRead(delivery);
      const answers = kernel.take(delivery, Date.now());
      if (answers.length > 0) return this.#answered(answers, settled.length > 0);
      if (settled.length > 0)
        return { type: 'tool_results', nowMs: Date.now(), settled, suspended: waiting.map(waitHere) };
      deadline = Math.min(...waiting.map(({ leftMs, wakeInMs = leftMs }) => hereUntil({ leftMs: wakeInMs })));
      this.#resolveAt = deadline;
      if (this.#historyIsLong()) return null;
    }
  }

  /** Results that came with the answers stay in the store until the answers have been acted on; they are found by the next wait, which is woken. */
  #answered(answers: readonly ApprovalDecision[], moreWaits: boolean): KernelEvent {
    this.#turn.inbox.woken ||= moreWaits;
    return { type: 'approval', nowMs: Date.now(), answers };
  }
}

/**
 * The kernel of one turn as its driver uses it, in the workflow and in a burst alike: it holds the state, takes events, and collects what the
 * store is to be told of.
 */
import type { InboxDelivery } from '../contract/inbox.ts';
import { isNotice, type Notice, noticeText } from '../contract/notices.ts';
import type { KernelAction, Observation } from '../kernel/actions.ts';
import type { ApprovalDecision, KernelEvent } from '../kernel/events.ts';
import { lifecycleOf } from '../kernel/phase.ts';
import type { KernelState } from '../kernel/state.ts';
import { step } from '../kernel/step.ts';

/** Where it is told what the kernel observes. */
export interface KernelOutlet {
  readonly observed: (observation: Observation) => void;
  /** A notice, in words, and the step after which it came. */
  readonly notice: (stepIndex: number, text: string) => void;
}

/** A kernel between two events. */
export interface KernelMoment {
  readonly state: KernelState;
  readonly noticed: readonly Notice[];
}

/** The kernel's state, and the one way to change it. */
export class TurnKernel {
  #state: KernelState;
  /** Notices that the store is told of with the next step, or with the end of the turn. */
  #noticed: readonly Notice[];
  readonly #outlet: KernelOutlet;

  constructor({ state, noticed }: KernelMoment, outlet: KernelOutlet) {
    this.#state = state;
    this.#noticed = noticed;
    this.#outlet = outlet;
  }

  get state(): KernelState {
    return this.#state;
  }

  /** The kernel's answer to an event of the turn. Errors: `TypeError` when it has none, which is a bug of ours. */
  feed(event: KernelEvent): KernelAction {
    const [action] = this.#step(event);
    if (action) return action;
    throw new TypeError(`the kernel had no answer to ${event.type} while ${lifecycleOf(this.#state)}`);
  }

  /** Tells the kernel what came for the turn, from which nothing follows at once; the answers to its questions are given back. */
  take({ items = [], delegated }: InboxDelivery, nowMs: number): readonly ApprovalDecision[] {
    if (delegated) this.#step({ type: 'delegated', nowMs, delegated });
    for (const item of items)
      if (item.kind === 'budgets') this.#step({ type: 'budgets', nowMs, budgets: item.budgets });
    return items.flatMap((item) => (item.kind === 'answer' ? item.answer : []));
  }

  /** The notices since they were last taken; the store is told of each once. */
  takeNoticed(): { readonly noticed?: readonly Notice[] } {
    const noticed = this.#noticed;
    this.#noticed = [];
    return noticed.length > 0 ? { noticed } : {};
  }

  /** The notices that the store has not been told of are the last `count`: a burst has told it of the others. */
  keepNoticed(count: number): void {
    this.#noticed = this.#noticed.slice(this.#noticed.length - count);
  }

  /** Where the kernel stands. */
  get moment(): KernelMoment {
    return { state: this.#state, noticed: this.#noticed };
  }

  /** For notices that the store learns of in another way. */
  dropNotices(type: Notice['type']): void {
    this.#noticed = this.#noticed.filter((notice) => notice.type !== type);
  }

  /** For the next run; `noticed` is absent when there are no notices. */
  carry(): { readonly state: KernelState; readonly noticed?: readonly Notice[] } {
    return { state: this.#state, ...(this.#noticed.length > 0 ? { noticed: this.#noticed } : {}) };
  }

  #step(event: KernelEvent): readonly KernelAction[] {
    const { stepIndex } = this.#state;
    const { state, actions, observations } = step(this.#state, event);
    this.#state = state;
    for (const observation of observations) this.#outlet.observed(observation);
    const noticed = observations.filter(isNotice);
    for (const notice of noticed) this.#outlet.notice(stepIndex, noticeText(notice));
    this.#noticed = [...this.#noticed, ...noticed];
    return actions;
  }
}

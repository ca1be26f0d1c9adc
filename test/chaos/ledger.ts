/** What a run did and what it was promised: the faults with their times, the acked turns, and the promises seen broken on the way. */
import type { FailureCode } from '../../workflows/protocol/failures.ts';
import type { HostileKind } from './hostile.ts';

/** What an operator can do to a turn's workflow, and the codes with which the turn may end by it. A turn that is reset goes on. */
export const OUTSIDE = {
  terminate: ['terminated'],
  cancel: ['terminated'],
  delete: ['worker_lost', 'terminated'],
  reset: [],
} as const satisfies Record<string, readonly FailureCode[]>;
export type OutsideFault = keyof typeof OUTSIDE;

/** How a turn with a hostile answer of this kind ends, if nobody ends it: so and in no other way. */
export const HOSTILE_ENDINGS: Readonly<Record<HostileKind, string>> = {
  numbers: 'success',
  one_number: 'success',
  no_numbers: 'success',
  // Cut short, asked to go on three times, and then its answer is not whole.
  endless: 'partial/answer_truncated',
  // What came leaves no room to go on with it.
  overlong: 'failed/context_overflow',
  parts: 'success',
  halves: 'success',
  deep: 'success',
  crowd: 'success',
  usage: 'success',
  junk: 'success',
  refused: 'failed/provider_refusal',
};

/** How a request ends whose box is not there. */
export const POISONED_ENDING = 'failed/box_unavailable';

export interface Fault {
  /** Ms since the run began. */
  readonly atMs: number;
  readonly kind: string;
  readonly detail: string;
}

export interface Acked {
  readonly agentTurnId: string;
  readonly agentId: string;
}

/** A request that the Temporal server took from a foreign client. */
export interface ForeignRequest extends Acked {
  readonly instruction: string;
  /** The turn whose workflow was given it; null when the agent's acceptor was. */
  readonly through: string | null;
}

export interface Problem {
  readonly check: string;
  readonly agentId?: string;
  readonly agentTurnId?: string;
  readonly detail: string;
}

/** Counts of turns that a tool of this name made. */
export const MADE_BY = 'turns made by ';

export class Ledger {
  readonly startedAt = Date.now();
  readonly faults: Fault[] = [];
  readonly problems: Problem[] = [];
  readonly acked = new Map<string, Acked>();
  readonly foreign: ForeignRequest[] = [];
  readonly steers: { readonly agentId: string; readonly text: string }[] = [];
  readonly stopReasons = new Set<string>();
  /** Calls answered from outside before they waited, so perhaps without an effect. */
  readonly answeredEarly = new Set<string>();
  /** Calls that a person refused. */
  readonly denied = new Set<string>();
  /** Turns ended for no progress because tasks of theirs were lost with killed and frozen workers. */
  readonly lostTasks = new Set<string>();
  readonly counts = new Map<string, number>();
  readonly #hits = new Map<string, Set<OutsideFault>>();
  readonly #echo: (line: string) => void;

  constructor(echo: (line: string) => void) {
    this.#echo = echo;
  }

  fault(kind: string, detail: string): void {
    const fault = { atMs: Date.now() - this.startedAt, kind, detail };
    this.faults.push(fault);
    this.#echo(`${(fault.atMs / 1_000).toFixed(1).padStart(7)} s  ${kind}: ${detail}`);
  }

  problem(problem: Problem): void {
    this.problems.push(problem);
    this.#echo(`PROBLEM ${JSON.stringify(problem)}`);
  }

  count(what: string, by = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + by);
  }

  hitTurn(agentTurnId: string, kind: OutsideFault): void {
    this.#hits.set(agentTurnId, (this.#hits.get(agentTurnId) ?? new Set()).add(kind));
  }

  hitsOf(agentTurnId: string): readonly OutsideFault[] {
    return [...(this.#hits.get(agentTurnId) ?? [])];
  }
}

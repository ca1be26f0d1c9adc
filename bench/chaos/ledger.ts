/** What a run did and what it was promised: the faults with their times, the acked turns, and the promises seen broken on the way. */

/** Faults that end a turn, or may, when they hit it or its agent. */
export const OUTSIDE = ['terminate', 'cancel', 'reset', 'delete'] as const;
export type OutsideFault = (typeof OUTSIDE)[number];

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
  readonly steers: { readonly agentId: string; readonly text: string }[] = [];
  readonly stopReasons = new Set<string>();
  /** Calls answered from outside before they waited, so perhaps without an effect. */
  readonly answeredEarly = new Set<string>();
  /** Calls that a person refused. */
  readonly denied = new Set<string>();
  readonly counts = new Map<string, number>();
  readonly #turnFaults = new Set<string>();
  readonly #agentFaults = new Map<string, number[]>();
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

  hitTurn(agentTurnId: string): void {
    this.#turnFaults.add(agentTurnId);
  }

  hitAgent(agentId: string): void {
    this.#agentFaults.set(agentId, [...(this.#agentFaults.get(agentId) ?? []), Date.now()]);
  }

  wasHit(agentTurnId: string): boolean {
    return this.#turnFaults.has(agentTurnId);
  }

  agentWasHit(agentId: string, from: number, to: number): boolean {
    return (this.#agentFaults.get(agentId) ?? []).some((at) => at >= from && at <= to);
  }
}

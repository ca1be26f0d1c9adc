/**
 * The gate: what becomes of the calls a model proposed (K5, K6, K9, K12). Pure.
 *
 * Invariants
 * 1. Every proposed call that is not settled already is run, refused or put before a person, exactly once.
 * 2. Where `onDenied` is not `report`, one denied call keeps its siblings from running, and none of them takes a slot or counts as started.
 * 3. Never more calls are started than the budget of calls has left.
 */
import { own } from '../protocol/json.ts';
import type { ApprovalAsk, Observation, RefusedCall } from './actions.ts';
import { callsLeft } from './budgets.ts';
import type { BatchVerdict, ProposedCall } from './calls.ts';
import { afterProposals, FUSE_STOPS, repeatedCalls, signatureOf } from './fuse.ts';
import { type Judged, judge, NO_FACTS, type RateWindows, type Verdict } from './governance.ts';
import type { KernelState } from './state.ts';

/** The calls of one message, sorted by what becomes of them. */
export interface Gated {
  readonly run: readonly ProposedCall[];
  readonly refuse: readonly RefusedCall[];
  readonly ask: readonly ApprovalAsk[];
  /** What follows for the whole step once the refusals are stored; null when the step goes on as usual. */
  readonly verdict: BatchVerdict | null;
  /** The counts of the state as the proposed calls leave them. */
  readonly change: Pick<KernelState, 'rateWindows' | 'streaks' | 'toolCalls' | 'callsRefused'>;
  readonly observations: readonly Observation[];
}

/** Judges the calls in the order of the message: the slots and the budget that are left go to the first. */
export function gate(state: KernelState, calls: readonly ProposedCall[], nowMs: number): Gated {
  const streaks = afterProposals(state.streaks, calls);
  const batch = new Batch(state, nowMs);
  for (const call of calls) {
    const times = own(streaks, signatureOf(call) ?? '') ?? 0;
    if (call.settled === undefined) batch.place(call, times);
  }
  const repeating = repeatedCalls(streaks).map((call): Observation => ({ type: 'repeating', ...call }));
  const gated = batch.gated(streaks);
  return { ...gated, observations: [...gated.observations, ...repeating] };
}

/** The calls of one message while they are judged one after the other. */
class Batch {
  readonly #state: KernelState;
  readonly #nowMs: number;
  readonly #run: ProposedCall[] = [];
  readonly #refuse: RefusedCall[] = [];
  readonly #ask: ApprovalAsk[] = [];
  readonly #observations: Observation[] = [];
  #windows: RateWindows;
  #left: number;
  #callsRefused: boolean;
  #verdict: BatchVerdict | null = null;

  constructor(state: KernelState, nowMs: number) {
    this.#state = state;
    this.#nowMs = nowMs;
    this.#windows = state.rateWindows;
    this.#left = callsLeft(state);
    this.#callsRefused = state.callsRefused;
  }

  /** `times`: in how many steps in a row the call was proposed, this one included. */
  place(call: ProposedCall, times: number): void {
    const { callId, tool } = call;
    if (times >= FUSE_STOPS) {
      const message = `the same call was proposed ${times} times in a row and is not run again; try another way or report`;
      this.#refuse.push({ callId, tool, code: 'repeated_call', message });
      return;
    }
    const { verdict, windows } = this.#judge(call);
    if (verdict.decision !== 'allow') this.#observe(call, verdict);
    if (verdict.decision === 'deny' || verdict.decision === 'rate_limited') this.#deny(call, verdict);
    else if (this.#takeCall(call)) {
      if (verdict.decision === 'ask') this.#ask.push({ callId, tool, reason: verdict.reason });
      else this.#run.push(call);
      this.#windows = windows;
    }
  }

  #judge({ tool, facts = NO_FACTS }: ProposedCall): Judged {
    const { governance } = this.#state.config;
    if (!governance) return { verdict: { decision: 'allow' }, windows: this.#windows };
    return judge(governance, this.#windows, tool, facts, this.#nowMs);
  }

  /** Takes one of the calls that the budget has left; where none is left the call is refused. */
  #takeCall({ callId, tool }: ProposedCall): boolean {
    if (this.#left === 0) {
      this.#callsRefused = true;
      const message = `the budget of ${this.#state.budgets.maxToolCalls} tool calls is used up`;
      this.#refuse.push({ callId, tool, code: 'budget_tool_calls', message });
      return false;
    }
    this.#left -= 1;
    return true;
  }

  gated(streaks: KernelState['streaks']): Gated {
    const observations = this.#observations;
    const { rateWindows, toolCalls } = this.#state;
    const held = { streaks, callsRefused: this.#callsRefused };
    const verdict = this.#verdict;
    if (verdict) {
      const change = { ...held, rateWindows, toolCalls };
      return { run: [], refuse: this.#noneRuns(verdict), ask: [], verdict, change, observations };
    }
    const started = this.#run.length + this.#ask.length;
    const change = { ...held, rateWindows: this.#windows, toolCalls: toolCalls + started };
    return { run: this.#run, refuse: this.#refuse, ask: this.#ask, verdict, change, observations };
  }

  /** The first denied call decides the verdict, so that the reason names what came first. */
  #deny({ callId, tool }: ProposedCall, verdict: Exclude<Verdict, { decision: 'allow' }>): void {
    const { reason } = verdict;
    const code = verdict.decision === 'rate_limited' ? 'rate_limited' : 'governance_denied';
    this.#refuse.push({ callId, tool, code, message: `${tool} was not run: ${reason}` });
    const { onDenied = 'report' } = this.#state.config.governance ?? {};
    if (onDenied !== 'report') this.#verdict ??= { outcome: onDenied, reason: `${tool} was denied: ${reason}` };
  }

  /** All refusals, with one for each call that would have run or been put before a person. */
  #noneRuns({ reason }: BatchVerdict): readonly RefusedCall[] {
    const siblings = [...this.#run, ...this.#ask].map(
      ({ callId, tool }): RefusedCall => ({ callId, tool, code: 'not_run', message: `${tool} was not run: ${reason}` }),
    );
    return [...this.#refuse, ...siblings];
  }

  #observe({ callId, tool }: ProposedCall, verdict: Exclude<Verdict, { decision: 'allow' }>): void {
    const { decision, stage, reason } = verdict;
    this.#observations.push({ type: 'tool_gated', callId, tool, decision, stage, reason });
  }
}

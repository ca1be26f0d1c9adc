/** What only a whole random walk can show: sums, pairs of calls and results, budgets. checked-step.ts checks the invariants of each step. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { KernelAction } from '../../../workflows/kernel/actions.ts';
import type { Delegated } from '../../../workflows/kernel/budgets.ts';
import type { SettledCall } from '../../../workflows/kernel/calls.ts';
import type { KernelEvent } from '../../../workflows/kernel/events.ts';
import type { BoxExtent } from '../../../workflows/kernel/handles.ts';
import type { StepOutcome } from '../../../workflows/kernel/outcome.ts';
import { lifecycleOf } from '../../../workflows/kernel/phase.ts';
import { initialState, type KernelConfig, type KernelState } from '../../../workflows/kernel/state.ts';
import { step } from '../../../workflows/kernel/step.ts';
import type { Budgets } from '../../../workflows/protocol/profile.ts';
import { addUsage, NO_USAGE, type Usage } from '../../../workflows/protocol/turn.ts';
import { checkedStep } from './checked-step.ts';
import { configs, type Die, dice, Walk } from './walk.ts';

interface Visit {
  readonly event: KernelEvent;
  readonly outcome: StepOutcome;
}

/** How many events a walk goes on for after the turn has ended, to see that they change nothing. */
const AFTER_DONE = 3;

function walk(config: KernelConfig, rolls: readonly Die[], by: typeof step): Visit[] {
  const way = new Walk();
  const visits: Visit[] = [];
  let state: KernelState = initialState(config);
  let ended = 0;
  for (const roll of rolls) {
    const event = way.event(state, roll);
    const outcome = by(state, event);
    state = outcome.state;
    visits.push({ event, outcome });
    if (state.phase.kind === 'done') ended += 1;
    if (ended > AFTER_DONE) break;
  }
  return visits;
}

/** The accounts of a walk, kept by its events alone: what those that applied add up to. */
class Books {
  usage: Usage = NO_USAGE;
  delegated: Delegated = { tokens: 0, cost: 0, open: false };
  cost = 0;
  modelCalls = 0;
  reports = 0;
  budgets: Budgets;
  /** The roles of the cards in view, by place. */
  cards = new Map<number, string>();
  /** The place of the last card before the model call that is under way. */
  checkpoint = 0;
  started = 0;
  /** For each call id the place of the message that made the call, and that of its result. */
  calls = new Map<string, { readonly thought: number; readonly result?: number }>();
  #thought = 0;

  constructor({ budgets }: KernelConfig) {
    this.budgets = budgets;
  }

  keep({ event, outcome }: Visit): void {
    if (outcome.observations.some((observation) => observation.type === 'event_ignored')) return;
    this.#cards(event);
    if (event.type === 'llm_response') {
      this.usage = addUsage(this.usage, event.usage);
      this.cost += event.cost ?? 0;
    }
    if (event.type === 'summarized') {
      this.usage = addUsage(this.usage, event.usage);
      this.cost += event.cost ?? 0;
    }
    if (event.type === 'delegated') this.delegated = event.delegated;
    if (event.type === 'budgets') this.budgets = { ...this.budgets, ...event.budgets } as Budgets;
    if (outcome.observations.some((observation) => observation.type === 'rolled_back')) {
      for (const [seq, role] of this.cards) if (seq > this.checkpoint && role !== 'user') this.cards.delete(seq);
    }
    for (const action of outcome.actions) this.#action(action, event);
    // The kernel must take out of its view exactly what it asked the store to hide.
    if (event.type === 'summarized') for (const seq of this.#departing) this.cards.delete(seq);
    const [action] = outcome.actions;
    if (action?.type === 'summarize') this.#depart(action.hide);
  }

  #departing: readonly number[] = [];

  #depart(hide: readonly BoxExtent[]): void {
    const inside = (seq: number) => hide.some(({ fromSeq, toSeq }) => fromSeq <= seq && seq <= toSeq);
    this.#departing = [...this.cards.keys()].filter(inside);
  }

  #cards(event: KernelEvent): void {
    if (event.type === 'start') this.cards.set(event.instruction[0], 'user');
    if (event.type === 'tool_results') for (const settled of event.settled) this.#result(settled);
    if (event.type !== 'llm_response') return;
    for (const [seq, role] of event.handles) {
      this.cards.set(seq, role);
      if (role === 'assistant') this.#thought = seq;
    }
    for (const { callId, settled } of event.calls) {
      this.calls.set(callId, { thought: this.#thought });
      if (settled) this.#result(settled);
    }
  }

  #result({ callId, seq }: SettledCall): void {
    this.cards.set(seq, 'tool');
    this.calls.set(callId, { thought: this.#thought, result: seq });
  }

  /** The id of a call whose message is in view without its result, or the other way round; null when there is none. */
  unpaired({ handles }: KernelState): string | null {
    const inView = new Set(handles.map(([seq]) => seq));
    for (const [callId, { thought, result }] of this.calls)
      if (inView.has(thought) !== (result !== undefined && inView.has(result))) return callId;
    return null;
  }

  #asked = new Set<string>();

  #action(action: KernelAction, event: KernelEvent): void {
    if (action.type === 'await' && action.wait === 'operator') {
      if (this.#asked.has(action.askId)) throw new Error(`${action.askId} is asked twice`);
      this.#asked.add(action.askId);
    }
    if (action.type === 'execute_tools' && event.type === 'llm_response')
      this.started += action.calls.length + (action.ask?.length ?? 0);
    if (action.type === 'execute_tools' && event.type === 'approval') this.started -= action.refuse?.length ?? 0;
    if (action.type !== 'call_llm') return;
    this.modelCalls += 1;
    this.checkpoint = Math.max(0, ...this.cards.keys());
    const again = event.type === 'llm_failed' || (event.type === 'summarized' && this.reports > 0);
    if (action.note?.kind === 'final_report') this.reports = again ? 1 : this.reports + 1;
    else if (this.#spent()) throw new Error('the model is called with a budget used up');
    if (this.reports > 1) throw new Error('a second report is asked for');
  }

  /** How the kernel's sums differ from the accounts; null when they do not. Compared as text, because 200,000 calls of `expect` take minutes. */
  difference({ usage, delegated, toolCalls, handles, stepIndex, budgets }: KernelState): string | null {
    const kernel = [usage, delegated, toolCalls, handles.map(([seq]) => seq), stepIndex, budgets];
    const seqs = [...this.cards.keys()].sort((a, b) => a - b);
    const books = [this.usage, this.delegated, this.started, seqs, this.modelCalls, this.budgets];
    const [is, should] = [JSON.stringify(kernel), JSON.stringify(books)];
    return is === should ? null : `the kernel has ${is}, the books have ${should}`;
  }

  /** Whether a budget is used up, so that nothing but the one final report is allowed. */
  #spent(): boolean {
    const { maxSteps, maxTokens, maxCost = Number.POSITIVE_INFINITY } = this.budgets;
    const { tokens: held, cost } = this.delegated;
    const tokens = this.usage.input + this.usage.output + held;
    const isUnknown = cost === null && maxCost !== Number.POSITIVE_INFINITY;
    return this.modelCalls > maxSteps || tokens >= maxTokens || isUnknown || this.cost + (cost ?? 0) >= maxCost;
  }
}

/** How many walks have every invariant checked at each step, and how many only the accounts. */
const CHECKED_RUNS = 2_000;
const RUNS = 20_000;

describe('a random walk over all events', () => {
  const seen = {
    steps: 0,
    ignored: 0,
    lifecycles: new Set<string>(),
    phases: new Set<string>(),
    actions: new Set<string>(),
    ends: new Set<string>(),
    observations: new Set<string>(),
  };

  const note = ({ outcome: { state, actions, observations } }: Visit) => {
    seen.steps += 1;
    seen.lifecycles.add(lifecycleOf(state));
    seen.phases.add(state.phase.kind);
    for (const { type } of observations) {
      seen.observations.add(type);
      if (type === 'event_ignored') seen.ignored += 1;
    }
    for (const action of actions) {
      seen.actions.add(action.type);
      if (action.type === 'done')
        seen.ends
          .add(`${action.termination.status} ${action.deliverable.from}`)
          .add(action.termination.errorCode ?? '-');
    }
  };

  test.each([
    ['with every invariant checked at each step', checkedStep, CHECKED_RUNS],
    ['with the books alone', step, RUNS],
  ])(
    'keeps exact sums, calls with their results, and budgets that are overrun by one call at most, %s (K1, K9, K13, K15, K22)',
    (_, by, numRuns) => {
      fc.assert(
        fc.property(configs, dice, (config, rolls) => {
          const books = new Books(config);
          for (const visit of walk(config, rolls, by)) {
            note(visit);
            books.keep(visit);
            const difference = books.difference(visit.outcome.state);
            if (difference !== null) throw new Error(difference);
            const asks = visit.outcome.actions.some(({ type }) => type === 'call_llm');
            const unpaired = asks ? books.unpaired(visit.outcome.state) : null;
            if (unpaired !== null) throw new Error(`call ${unpaired} and its result are not in view together`);
          }
        }),
        { numRuns },
      );
    },
    120_000,
  );

  test('saw enough to mean something: every lifecycle, phase, action and way to end', () => {
    expect(seen.steps).toBeGreaterThanOrEqual(200_000);
    expect(seen.ignored).toBeGreaterThan(1_000);
    expect(seen.ignored).toBeLessThan(seen.steps / 2);
    expect([...seen.lifecycles].sort()).toEqual(['done', 'ready', 'running', 'suspended']);
    expect([...seen.phases].sort()).toEqual(['acting', 'asking', 'done', 'ready', 'reasoning', 'shortening']);
    expect([...seen.actions].sort()).toEqual(['await', 'call_llm', 'done', 'execute_tools', 'summarize']);
    expect([...seen.observations].sort()).toEqual([
      'approval_answered',
      'budget_hit',
      'budgets_changed',
      'event_ignored',
      'overflow',
      'reminded',
      'repeating',
      'rolled_back',
      'shortened',
      'tool_gated',
      'truncated',
    ]);
    expect([...seen.ends]).toEqual(
      expect.arrayContaining([
        'success thought',
        'success submit_result',
        'success tool_result',
        'failed tool_result',
        'timeout tool_result',
        'failed fallback',
        'partial thought',
        'partial submit_result',
        'max_steps_reached',
        'budget_tokens',
        'budget_tool_calls',
        'budget_wall_time',
        'budget_cost',
        'no_progress',
        'policy_denied',
        'context_overflow',
      ]),
    );
  });
});

/** The invariants themselves are checked at each step by checked-step.ts; here is what only a whole walk can show. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { KernelAction, StepOutcome } from '../../../workflows/kernel/actions.ts';
import type { KernelEvent } from '../../../workflows/kernel/events.ts';
import { initialState, type KernelConfig, type KernelState } from '../../../workflows/kernel/state.ts';
import { addUsage, NO_USAGE, type Usage } from '../../../workflows/protocol/turn.ts';
import { checkedStep } from './checked-step.ts';
import { configs, type Die, dice, Walk } from './walk.ts';

interface Visit {
  readonly event: KernelEvent;
  readonly outcome: StepOutcome;
}

/** A walk goes on for a few events after its end: that is enough to see them absorbed. */
const AFTER_DONE = 3;

function walk(config: KernelConfig, rolls: readonly Die[]): Visit[] {
  const way = new Walk();
  const visits: Visit[] = [];
  let state: KernelState = initialState(config);
  let ended = 0;
  for (const roll of rolls) {
    const event = way.event(state, roll);
    const outcome = checkedStep(state, event);
    state = outcome.state;
    visits.push({ event, outcome });
    if (state.lifecycle === 'done') ended += 1;
    if (ended > AFTER_DONE) break;
  }
  return visits;
}

/** What the events that applied add up to, counted without the kernel. */
interface Books {
  usage: Usage;
  calls: number;
  cards: number;
  modelCalls: number;
  reports: number;
}

function keepBooks(books: Books, event: KernelEvent): void {
  if (event.type === 'start') books.cards += 1;
  if (event.type === 'tool_results') books.cards += event.settled.length;
  if (event.type !== 'llm_response') return;
  const settled = event.calls.filter((call) => call.settled);
  books.usage = addUsage(books.usage, event.usage);
  books.calls += event.calls.length;
  books.cards += event.handles.length + settled.length;
}

function checkAction(books: Books, { budgets }: KernelConfig, action: KernelAction): void {
  if (action.type !== 'call_llm') return;
  const tokens = books.usage.input + books.usage.output;
  const spent = books.modelCalls >= budgets.maxSteps || tokens >= budgets.maxTokens;
  // A budget that is used up allows nothing but the one report.
  expect(action.note?.kind === 'final_report').toBe(spent);
  books.modelCalls += 1;
  if (spent) books.reports += 1;
  expect(books.reports).toBeLessThanOrEqual(1);
  expect(books.modelCalls).toBeLessThanOrEqual(budgets.maxSteps + 1);
  expect(action.stepIndex).toBe(books.modelCalls);
}

const RUNS = 2_500;

describe('a random walk over all events', () => {
  const seen = {
    steps: 0,
    ignored: 0,
    lifecycles: new Set<string>(),
    actions: new Set<string>(),
    ends: new Set<string>(),
  };

  const note = ({ outcome: { state, actions } }: Visit) => {
    seen.steps += 1;
    if (actions.length === 0) seen.ignored += 1;
    seen.lifecycles.add(state.lifecycle);
    for (const action of actions) {
      seen.actions.add(action.type);
      if (action.type === 'done') seen.ends.add(`${action.termination.status} ${action.deliverable.from}`);
    }
  };

  test('keeps the invariants, exact sums, and budgets that are overrun by one call at most (K1, K9, K22)', () => {
    fc.assert(
      fc.property(configs, dice, (config, rolls) => {
        const books: Books = { usage: NO_USAGE, calls: 0, cards: 0, modelCalls: 0, reports: 0 };
        for (const visit of walk(config, rolls)) {
          const { state, actions } = visit.outcome;
          note(visit);
          if (actions.length > 0) keepBooks(books, visit.event);
          for (const action of actions) checkAction(books, config, action);
          const { usage, toolCalls, handles, stepIndex } = state;
          const { calls, cards, modelCalls } = books;
          expect({ usage, toolCalls, cards: handles.length, stepIndex }).toEqual({
            usage: books.usage,
            toolCalls: calls,
            cards,
            stepIndex: modelCalls,
          });
        }
      }),
      { numRuns: RUNS },
    );
  });

  test('saw enough to mean something: every lifecycle, action and way to end', () => {
    expect(seen.steps).toBeGreaterThanOrEqual(20_000);
    expect(seen.ignored).toBeGreaterThan(1_000);
    expect(seen.ignored).toBeLessThan(seen.steps / 2);
    expect([...seen.lifecycles].sort()).toEqual(['done', 'ready', 'running', 'suspended']);
    expect([...seen.actions].sort()).toEqual(['await', 'call_llm', 'done', 'execute_tools']);
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
      ]),
    );
  });
});

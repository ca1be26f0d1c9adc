/** For a turn of a given size: a state in which each kind of event may come, and the event. The kernel itself makes the states. */

import type { ContextUnit } from '../../workflows/kernel/context.ts';
import type { KernelEvent, LlmResponseEvent } from '../../workflows/kernel/events.ts';
import type { Handle } from '../../workflows/kernel/handles.ts';
import { openCalls } from '../../workflows/kernel/phase.ts';
import { estimatedTokens } from '../../workflows/kernel/pressure.ts';
import { initialState, type KernelState } from '../../workflows/kernel/state.ts';
import { step } from '../../workflows/kernel/step.ts';
import { governanceSchema } from '../../workflows/protocol/governance.ts';

export interface Case {
  /** A name that begins with the kind of the event. */
  readonly name: string;
  readonly state: KernelState;
  readonly event: KernelEvent;
}

const BOX = 'output';
const THOUGHT_TOKENS = 50;
const RESULT_TOKENS = 100;
const PLENTY = 1_000_000_000;

const governance = governanceSchema.parse({
  rules: [
    { tool: 'delete_*', action: 'deny' },
    { tool: 'book', action: 'ask' },
  ],
  constraints: [{ tool: 'search', path: 'city', maxLength: 50 }],
  rateLimits: [{ tool: 'book', max: 10, windowMs: 60_000 }],
});

/** Writes the events of a turn and feeds them to the kernel; each card gets the next place of the output box. */
class Script {
  state: KernelState = initialState({
    budgets: { maxSteps: PLENTY, maxToolCalls: PLENTY, maxTokens: PLENTY * 1_000, onExhausted: 'finish' },
    context: { windowTokens: PLENTY, answerTokens: 0, fixedTokens: 0 },
    governance,
    mustEndWith: [],
    submitResult: true,
  });
  #seq = 0;

  feed(event: KernelEvent): void {
    this.state = step(this.state, event).state;
  }

  card(role: Handle[1], tokens: number): Handle {
    this.#seq += 1;
    return [this.#seq, role, tokens];
  }

  response(...tools: readonly string[]): LlmResponseEvent {
    const { stepIndex } = this.state;
    return {
      type: 'llm_response',
      nowMs: stepIndex,
      stepIndex,
      handles: [this.card('assistant', THOUGHT_TOKENS)],
      thoughtCardId: `thought-${stepIndex}`,
      hasText: tools.length === 0,
      refused: false,
      calls: tools.map((tool) => {
        const callId = `${tool}-${stepIndex}`;
        return { callId, tool, digest: callId, facts: { values: { city: 'Rome' }, oversized: [] } };
      }),
      usage: { input: 1_000, output: THOUGHT_TOKENS, cached: 0 },
      cost: 0.01,
    };
  }

  results(...waiting: readonly string[]): KernelEvent {
    const open = openCalls(this.state);
    const waits = open.filter((call) => waiting.includes(call.tool));
    const settled = open.filter((call) => !waits.includes(call)).map(({ callId }) => this.#settled(callId));
    const suspended = waits.map(({ callId }) => ({ callId, deadline: PLENTY }));
    return { type: 'tool_results', nowMs: this.state.stepIndex, settled, suspended };
  }

  #settled(callId: string) {
    const [seq, , tokens] = this.card('tool', RESULT_TOKENS);
    return { callId, status: 'success', afterExecution: 'continue', seq, tokens } as const;
  }
}

/** A turn with this many cards in view, half of them thoughts and half results: each step makes one call. */
function longTurn(handles: number): Script {
  const script = new Script();
  script.feed(start(script, []));
  while (script.state.handles.length < handles) {
    script.feed(script.response('search'));
    script.feed(script.results());
  }
  return script;
}

const start = (script: Script, earlier: readonly ContextUnit[]): KernelEvent => ({
  type: 'start',
  nowMs: 0,
  outputBoxId: BOX,
  earlier,
  instruction: script.card('user', 30),
});

/** The same state with a window of which the cards in view fill this share. */
function filled(state: KernelState, share: number): KernelState {
  const windowTokens = Math.floor(estimatedTokens(state) / share);
  return { ...state, config: { ...state.config, context: { windowTokens, answerTokens: 0, fixedTokens: 0 } } };
}

export function casesOf(handles: number): readonly Case[] {
  const script = longTurn(handles);
  const thinking = script.state;
  const { stepIndex } = thinking;
  const answer = script.response();
  const calls = script.response('search', 'book');
  script.feed(calls);
  const acting = script.state;
  const oneWaits = script.results('book');
  script.feed(oneWaits);
  const suspended = script.state;
  const answers = [{ callId: `book-${stepIndex}`, decision: 'approved' }] as const;
  const last = script.results();
  const failed = { type: 'llm_failed', nowMs: 0, stepIndex, message: 'it failed' } as const;
  return [
    started(handles),
    { name: 'llm_response, two calls', state: thinking, event: calls },
    { name: 'llm_response, an answer', state: thinking, event: answer },
    { name: 'llm_failed', state: thinking, event: { ...failed, code: 'provider_error' } },
    { name: 'timeout: rolled back', state: thinking, event: { type: 'timeout', nowMs: 0, stepIndex, message: 'late' } },
    { name: 'tool_results, one waits', state: acting, event: oneWaits },
    { name: 'tool_results, all there', state: suspended, event: last },
    { name: 'approval', state: suspended, event: { type: 'approval', nowMs: 0, answers } },
    { name: 'budgets', state: thinking, event: { type: 'budgets', nowMs: 0, budgets: { maxSteps: PLENTY } } },
    {
      name: 'delegated',
      state: thinking,
      event: { type: 'delegated', nowMs: 0, delegated: { tokens: 10, cost: 0, open: false } },
    },
    { name: 'stop', state: suspended, event: { type: 'stop', nowMs: 0, code: 'stopped', reason: 'enough' } },
    { name: 'any event that does not apply', state: thinking, event: last },
    ...shortened(thinking, suspended, last),
  ];
}

/** The start of a turn with this many cards of earlier turns, ten to a turn. */
function started(handles: number): Case {
  const earlier = Array.from({ length: Math.ceil(handles / 10) }, (_, index): ContextUnit => {
    const fromSeq = index * 10 + 1;
    return { boxId: BOX, fromSeq, toSeq: fromSeq + 9, tokens: [800, 700, 600, 500] };
  });
  const script = new Script();
  return { name: 'start', state: script.state, event: start(script, earlier) };
}

/** The cases in which the window has no room for the prompt. */
function shortened(thinking: KernelState, suspended: KernelState, last: KernelEvent): readonly Case[] {
  const { stepIndex } = thinking;
  const full = filled(suspended, 0.97);
  const shortening = step(full, last).state;
  if (shortening.phase.kind !== 'shortening') throw new Error('a window that is full must lead to a summary');
  const usage = { input: 1_000, output: 500, cached: 0 };
  const summary: Handle = [(shortening.handles.at(-1)?.[0] ?? 0) + 1, 'summary', 500];
  return [
    { name: 'tool_results, results shrink', state: filled(suspended, 0.92), event: last },
    { name: 'tool_results, a summary is due', state: full, event: last },
    {
      name: 'summarized',
      state: shortening,
      event: { type: 'summarized', nowMs: 0, stepIndex: stepIndex + 1, summary, usage, cost: 0 },
    },
    {
      name: 'llm_failed, the prompt was too long',
      state: { ...filled(thinking, 0.9), context: { ...thinking.context, estimate: estimatedTokens(thinking) } },
      event: { type: 'llm_failed', nowMs: 0, stepIndex, code: 'context_overflow', message: 'too long' },
    },
  ];
}

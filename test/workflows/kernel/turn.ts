/** A turn driven by hand: events whose cards have new places go in, the one action comes out. */
import type { z } from 'zod';
import type { KernelAction, Observation } from '../../../workflows/kernel/actions.ts';
import type { SettledCall } from '../../../workflows/kernel/calls.ts';
import type { ContextUnit } from '../../../workflows/kernel/context.ts';
import type { ApprovalDecision, KernelEvent, LlmResponseEvent } from '../../../workflows/kernel/events.ts';
import type { BoxExtent } from '../../../workflows/kernel/handles.ts';
import type { StepOutcome } from '../../../workflows/kernel/outcome.ts';
import { estimatedTokens, pressureOf } from '../../../workflows/kernel/pressure.ts';
import { initialState, type KernelConfig, type KernelState } from '../../../workflows/kernel/state.ts';
import type { FailureCode } from '../../../workflows/protocol/failures.ts';
import { type GovernancePolicy, governanceSchema } from '../../../workflows/protocol/governance.ts';
import { type Budgets, budgetsSchema } from '../../../workflows/protocol/profile.ts';
import { checkedStep } from './checked-step.ts';

export const OUTPUT_BOX = 'output';
export const NOW = 1_000;

export const governance = (policy: z.input<typeof governanceSchema>): GovernancePolicy =>
  governanceSchema.parse(policy);

/** How full the window is: 1 for a prompt that fills all it may. */
export const pressure = (state: KernelState): number => pressureOf(state, estimatedTokens(state));

/** A part of a config. Budgets that it leaves out are those of a profile that names none. */
export type ConfigPart = Partial<Omit<KernelConfig, 'budgets'>> & { readonly budgets?: Partial<Budgets> };

export const config = ({ budgets, ...more }: ConfigPart = {}): KernelConfig => ({
  budgets: { ...budgetsSchema.parse({}), ...budgets },
  context: { windowTokens: 1_000_000, answerTokens: 1_000, fixedTokens: 0 },
  mustEndWith: [],
  submitResult: true,
  ...more,
});

/** The result of one call, as far as a test cares; the rest is that of a success. */
export type Outcome = Partial<Omit<SettledCall, 'callId'>>;

export class Turn {
  state: KernelState;
  readonly observations: Observation[] = [];
  readonly actions: KernelAction[] = [];
  #seq = 0;

  constructor(more: ConfigPart = {}) {
    this.state = initialState(config(more));
  }

  /** The next free place in the output box. */
  seq(): number {
    this.#seq += 1;
    return this.#seq;
  }

  feed(event: KernelEvent): KernelAction | undefined {
    return this.#take(checkedStep(this.state, event));
  }

  start(extents: readonly (BoxExtent & { readonly tokens?: ContextUnit['tokens'] })[] = []): KernelAction | undefined {
    const earlier = extents.map((unit): ContextUnit => ({ tokens: [0, 0, 0, 0], ...unit }));
    for (const extent of earlier) if (extent.boxId === OUTPUT_BOX) this.#seq = extent.toSeq;
    return this.feed({
      type: 'start',
      nowMs: NOW,
      outputBoxId: OUTPUT_BOX,
      earlier,
      instruction: [this.seq(), 'user', 7],
    });
  }

  /** The model answers; without `more` its message is empty. */
  respond(more: Partial<Omit<LlmResponseEvent, 'type' | 'nowMs'>> = {}): KernelAction | undefined {
    const { stepIndex } = this.state;
    return this.feed({
      type: 'llm_response',
      nowMs: NOW,
      stepIndex,
      handles: [[this.seq(), 'assistant', 5]],
      thoughtCardId: `thought-${stepIndex}`,
      hasText: false,
      refused: false,
      calls: [],
      usage: { input: 10, output: 2, cached: 0 },
      ...more,
    });
  }

  say(): KernelAction | undefined {
    return this.respond({ hasText: true });
  }

  /** The model calls these tools; the id of a call is the name of its tool with the index of the step. */
  call(...tools: readonly string[]): KernelAction | undefined {
    return this.respond({ calls: tools.map((tool) => ({ callId: this.idOf(tool), tool })) });
  }

  idOf(tool: string): string {
    return `${tool}-${this.state.stepIndex}`;
  }

  settled(tool: string, outcome: Outcome = {}): SettledCall {
    const common = { status: 'success', afterExecution: 'continue', tokens: 3 } as const;
    return { callId: this.idOf(tool), ...common, seq: this.seq(), ...outcome };
  }

  /** The results of tools that this step called, and the deadlines of those that wait, by name of the tool. */
  results(
    settled: Readonly<Record<string, Outcome>>,
    suspended: Readonly<Record<string, number>> = {},
  ): KernelAction | undefined {
    return this.feed({
      type: 'tool_results',
      nowMs: NOW,
      settled: Object.entries(settled).map(([tool, outcome]) => this.settled(tool, outcome)),
      suspended: Object.entries(suspended).map(([tool, deadline]) => ({ callId: this.idOf(tool), deadline })),
    });
  }

  approve(...answers: readonly ApprovalDecision[]): KernelAction | undefined {
    return this.feed({ type: 'approval', nowMs: NOW, answers });
  }

  fail(code: FailureCode, message = 'it failed'): KernelAction | undefined {
    return this.feed({ type: 'llm_failed', nowMs: NOW, stepIndex: this.state.stepIndex, code, message });
  }

  stop(reason = 'enough'): KernelAction | undefined {
    return this.feed({ type: 'stop', nowMs: NOW, code: 'stopped', reason });
  }

  #take({ state, actions, observations }: StepOutcome): KernelAction | undefined {
    this.state = state;
    this.actions.push(...actions);
    this.observations.push(...observations);
    return actions[0];
  }
}

/** Turns at rest in each phase, and in both ways of acting: at work and suspended. */
export const turnIn = {
  ready: (): Turn => new Turn(),
  thinking: (): Turn => {
    const turn = new Turn();
    turn.start();
    return turn;
  },
  /** The turn waits for a summary that makes room for the next model call. */
  shortening: (): Turn => {
    const turn = new Turn({ context: { windowTokens: 4_000, answerTokens: 200, fixedTokens: 100 } });
    turn.start([{ boxId: OUTPUT_BOX, fromSeq: 1, toSeq: 9, tokens: [3_900, 3_900, 3_900, 3_900] }]);
    return turn;
  },
  acting: (): Turn => {
    const turn = turnIn.thinking();
    turn.call('a', 'b');
    return turn;
  },
  suspended: (): Turn => {
    const turn = turnIn.acting();
    turn.results({ a: {} }, { b: 5_000 });
    return turn;
  },
  /** The turn waits for the approval of its call of `gated`. */
  gated: (): Turn => {
    const turn = new Turn({ governance: governance({ rules: [{ tool: 'gated', action: 'ask' }] }) });
    turn.start();
    turn.call('a', 'gated');
    turn.results({ a: {} }, { gated: 5_000 });
    return turn;
  },
  done: (): Turn => {
    const turn = turnIn.thinking();
    turn.say();
    return turn;
  },
} as const;

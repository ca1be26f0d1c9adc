/**
 * Random walks: a list of dice becomes a list of events. Most of them are legal where they fall; some are late, foreign, doubled or broken.
 * The walk is drawn as dice and not as events, so that a failing one shrinks to a short one.
 */
import fc from 'fast-check';
import { isRunning, type SettledCall } from '../../../workflows/kernel/calls.ts';
import type { KernelEvent, LlmResponseEvent } from '../../../workflows/kernel/events.ts';
import { lifecycleOf, openCalls, openQuestion, waitingCalls } from '../../../workflows/kernel/phase.ts';
import type { KernelConfig, KernelState } from '../../../workflows/kernel/state.ts';
import { type GovernancePolicy, governanceSchema } from '../../../workflows/protocol/governance.ts';
import { NOW, OUTPUT_BOX } from './turn.ts';

/** Plain objects with the prototype of objects, as JSON.parse makes them. */
const record = <T>(parts: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> =>
  fc.record<T>(parts, { noNullPrototype: true }) as fc.Arbitrary<T>;

/** The name of a tool that is also a name every object knows. */
const LIMITED = '__proto__';

const TOOLS = ['a', 'b', 'a', 'b', 'gated', 'gated', 'denied', LIMITED, 'publish', 'publish', 'submit_result'] as const;

const callDie = record({
  tool: fc.constantFrom(...TOOLS),
  /** What becomes of the call: settled at once, run to a result, or left to the outside. */
  fate: fc.constantFrom('at_once', 'result', 'result', 'wait'),
  status: fc.constantFrom('success', 'success', 'failed', 'timeout', 'canceled', 'partial'),
  terminate: fc.boolean(),
  kind: fc.constantFrom(undefined, undefined, undefined, undefined, 'fatal', 'timeout', 'user_interrupt'),
  /** The digest of the arguments; `new` stands for one that no other call has. */
  digest: fc.constantFrom('x', 'y', 'new', 'new'),
  /** What a person decides about the call. */
  answer: fc.constantFrom('approved', 'approved', 'denied', 'unanswered'),
  tokens: fc.constantFrom(2, 40, 300, 1_500),
  roll: fc.nat(9),
});
type CallDie = typeof callDie extends fc.Arbitrary<infer T> ? T : never;

const die = record({
  /** The kind of event; `advance` is what the turn waits for, `again` the event before. */
  kind: fc.oneof(
    { weight: 24, arbitrary: fc.constant('advance' as const) },
    {
      weight: 8,
      arbitrary: fc.constantFrom('start', 'llm_response', 'tool_results', 'approval', 'budgets', 'delegated', 'again'),
    },
    { weight: 1, arbitrary: fc.constantFrom('llm_failed', 'overflow', 'timeout', 'summarized', 'stop') },
  ),
  flaw: fc.oneof(
    { weight: 8, arbitrary: fc.constant('none' as const) },
    { weight: 1, arbitrary: fc.constantFrom('foreign', 'doubled', 'missing', 'other_step') },
  ),
  calls: fc.oneof(
    { weight: 1, arbitrary: fc.constant<CallDie[]>([]) },
    { weight: 12, arbitrary: fc.array(callDie, { minLength: 1, maxLength: 4 }) },
  ),
  hasText: fc.boolean(),
  thoughtTokens: fc.constantFrom(5, 5, 60, 300),
  refused: fc.nat(60).map((roll) => roll === 33),
  usage: record({ input: fc.nat(400), output: fc.nat(100), cached: fc.nat(100) }),
  cost: fc.constantFrom(0, 0.25, 0.5, 0.5, 1),
  truncated: fc.nat(9).map((roll) => roll === 3),
  budgets: record({ maxSteps: fc.integer({ min: 1, max: 60 }), maxTokens: fc.integer({ min: 1, max: 40_000 }) }),
  delegated: record({ tokens: fc.nat(4_000), cost: fc.constantFrom(0, 0.1, 3, null), open: fc.boolean() }),
  deadline: fc.integer({ min: NOW, max: NOW * 100 }),
});
export type Die = typeof die extends fc.Arbitrary<infer T> ? T : never;

export const dice = fc.array(die, { minLength: 10, maxLength: 60 });

const policy = (onDenied: GovernancePolicy['onDenied'], max: number): GovernancePolicy =>
  governanceSchema.parse({
    rules: [{ tool: 'gated', action: 'ask' }],
    veto: ['denied'],
    rateLimits: [{ tool: LIMITED, max, windowMs: 1_000 }],
    onDenied,
  });

export const configs: fc.Arbitrary<KernelConfig> = record({
  budgets: record({
    maxSteps: fc.integer({ min: 1, max: 40 }),
    maxToolCalls: fc.integer({ min: 1, max: 80 }),
    maxTokens: fc.integer({ min: 1, max: 20_000 }),
    maxWallTimeMs: fc.constantFrom(1_000, 60_000, 60_000),
    maxCost: fc.constantFrom(2, 20, 20),
    onExhausted: fc.constantFrom('finish', 'ask'),
  }),
  governance: fc
    .tuple(fc.constantFrom('report', 'report', 'rollback', 'end'), fc.integer({ min: 1, max: 3 }))
    .map((parts) => policy(...parts)),
  rollbackOn: fc.constantFrom<NonNullable<KernelConfig['rollbackOn']>>([], ['timeout'], ['governance_denied']),
  context: fc.constantFrom(
    { windowTokens: 1_000_000, answerTokens: 0, fixedTokens: 0 },
    { windowTokens: 4_000, answerTokens: 200, fixedTokens: 300 },
    { windowTokens: 10_000, answerTokens: 500, fixedTokens: 300 },
    // This window is so small that what must stay does not always fit.
    { windowTokens: 900, answerTokens: 200, fixedTokens: 300 },
  ),
  mustEndWith: fc.subarray(['publish', 'submit_result']),
  submitResult: fc.boolean(),
});

export class Walk {
  #seq = 0;
  #nowMs = NOW;
  #last: KernelEvent | undefined;

  event(state: KernelState, roll: Die): KernelEvent {
    const event = this.#choose(state, roll);
    this.#last = event;
    return event;
  }

  #choose(state: KernelState, roll: Die): KernelEvent {
    this.#nowMs += roll.usage.input;
    const kind = roll.kind === 'advance' ? awaited(state) : roll.kind;
    const stepIndex = state.stepIndex + (roll.flaw === 'other_step' ? 1 : 0);
    switch (kind) {
      case 'start':
        return this.#start();
      case 'llm_response':
        return this.#response(stepIndex, roll);
      case 'tool_results':
        return this.#results(state, roll);
      case 'llm_failed':
        return { type: 'llm_failed', nowMs: this.#nowMs, stepIndex, code: 'provider_error', message: 'm' };
      case 'overflow':
        return { type: 'llm_failed', nowMs: this.#nowMs, stepIndex, code: 'context_overflow', message: 'm' };
      case 'summarized':
        return {
          type: 'summarized',
          nowMs: this.#nowMs,
          stepIndex: stepIndex + 1,
          summary: [this.#next(), 'summary', 200],
          usage: roll.usage,
          cost: roll.cost,
        };
      case 'timeout':
        return { type: 'timeout', nowMs: this.#nowMs, stepIndex, message: 'm' };
      case 'approval':
        return this.#answers(state, roll);
      case 'budgets':
        return { type: 'budgets', nowMs: this.#nowMs, budgets: roll.budgets };
      case 'delegated':
        return { type: 'delegated', nowMs: this.#nowMs, delegated: roll.delegated };
      case 'stop':
        return { type: 'stop', nowMs: this.#nowMs, code: 'stopped', reason: 'r' };
      case 'again':
        return this.#last ?? this.#start();
    }
  }

  #start(): KernelEvent {
    const toSeq = this.#seq;
    const earlier = toSeq > 0 ? [{ boxId: OUTPUT_BOX, fromSeq: 1, toSeq, tokens: [900, 700, 500, 300] as const }] : [];
    const instruction = [this.#next(), 'user', 7] as const;
    return { type: 'start', nowMs: this.#nowMs, outputBoxId: OUTPUT_BOX, earlier, instruction };
  }

  #response(
    stepIndex: number,
    { calls, hasText, thoughtTokens, refused, truncated, usage, cost }: Die,
  ): LlmResponseEvent {
    return {
      type: 'llm_response',
      nowMs: this.#nowMs,
      stepIndex,
      handles: [[this.#next(), 'assistant', thoughtTokens]],
      thoughtCardId: `thought-${stepIndex}`,
      hasText,
      refused,
      usage,
      cost,
      ...(truncated ? { truncated: 'provider' } : {}),
      calls: calls.map((call, index) => {
        const callId = `${stepIndex}.${index}`;
        const { tool, fate } = call;
        const digest = call.digest === 'new' ? callId : call.digest;
        const proposed = { callId, tool, digest };
        return fate === 'at_once' ? { ...proposed, settled: this.#settled(callId, call) } : proposed;
      }),
    };
  }

  /** The outcomes of the open calls, but for the flaw, in an order that is not that of the calls. */
  #results(state: KernelState, { calls, flaw, deadline }: Die): KernelEvent {
    const unsettled = openCalls(state);
    const running = unsettled.filter(isRunning);
    const open = (running.length > 0 ? running : unsettled).map((call) => call.callId);
    const asked = new Set(unsettled.filter((call) => call.gated).map((call) => call.callId));
    if (flaw === 'missing') open.pop();
    if (flaw === 'foreign') open.push('9.9');
    const ids = [...open].sort((a, b) => ((calls[0]?.roll ?? 0) > 4 ? b.localeCompare(a) : a.localeCompare(b)));
    const waits = (index: number): boolean =>
      asked.has(ids[index] ?? '') || calls[index % Math.max(1, calls.length)]?.fate === 'wait';
    const settled = ids.flatMap((callId, index) =>
      waits(index) ? [] : [this.#settled(callId, calls[index % Math.max(1, calls.length)])],
    );
    const suspended = ids.filter((_, index) => waits(index)).map((callId) => ({ callId, deadline }));
    const [first] = settled;
    return {
      type: 'tool_results',
      nowMs: this.#nowMs,
      settled: flaw === 'doubled' && first ? [...settled, first] : settled,
      suspended,
    };
  }

  #answers(state: KernelState, { calls, flaw }: Die): KernelEvent {
    const question = openQuestion(state);
    const ids = question ? [question.askId] : gatedCalls(state);
    if (flaw === 'missing') ids.pop();
    if (flaw === 'foreign') ids.push('9.9');
    const answers = ids.map((callId, index) => {
      const decision = calls[index % Math.max(1, calls.length)]?.answer ?? 'denied';
      return { callId, decision };
    });
    const [first] = answers;
    return {
      type: 'approval',
      nowMs: this.#nowMs,
      answers: flaw === 'doubled' && first ? [...answers, first] : answers,
    };
  }

  #settled(callId: string, call: CallDie | undefined): SettledCall {
    const { status = 'success', terminate = false, kind, tokens = 2, roll = 1 } = call ?? {};
    return {
      callId,
      status,
      afterExecution: terminate && roll === 5 ? 'terminate' : 'continue',
      ...(status === 'success' || roll > 7 ? {} : { errorCode: 'tool_failed', ...(kind ? { errorKind: kind } : {}) }),
      seq: this.#next(),
      tokens,
    };
  }

  #next(): number {
    this.#seq += 1;
    return this.#seq;
  }
}

/** The ids of the calls that wait for approval. */
const gatedCalls = (state: KernelState): string[] =>
  waitingCalls(state)
    .filter((call) => call.gated)
    .map((call) => call.callId);

function awaited(state: KernelState): KernelEvent['type'] {
  switch (state.phase.kind) {
    case 'ready':
      return 'start';
    case 'reasoning':
      return 'llm_response';
    case 'shortening':
      return 'summarized';
    case 'asking':
      return 'approval';
    default:
      return lifecycleOf(state) === 'suspended' && gatedCalls(state).length > 0 ? 'approval' : 'tool_results';
  }
}

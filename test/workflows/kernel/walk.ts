/**
 * Random walks: a list of dice becomes a list of events, most of them legal where they fall, some late, foreign, doubled or broken.
 * Dice rather than events, so that a failing walk shrinks to a short one.
 */
import fc from 'fast-check';
import type { KernelEvent, LlmResponseEvent } from '../../../workflows/kernel/events.ts';
import type { KernelConfig, KernelState, SettledCall } from '../../../workflows/kernel/state.ts';
import { NOW, OUTPUT_BOX } from './turn.ts';

/** Plain objects, as they come out of JSON. */
const record = <T>(parts: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> =>
  fc.record<T>(parts, { noNullPrototype: true }) as fc.Arbitrary<T>;

const TOOLS = ['a', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'publish', 'publish', 'submit_result'] as const;

const callDie = record({
  tool: fc.constantFrom(...TOOLS),
  /** What becomes of the call: settled at once, run to a result, or left to the outside. */
  fate: fc.constantFrom('at_once', 'result', 'result', 'wait'),
  status: fc.constantFrom('success', 'success', 'failed', 'timeout', 'canceled', 'partial'),
  terminate: fc.boolean(),
  roll: fc.nat(9),
});
type CallDie = typeof callDie extends fc.Arbitrary<infer T> ? T : never;

const die = record({
  /** Mostly what the turn waits for; else an event of any type. */
  kind: fc.oneof(
    { weight: 24, arbitrary: fc.constant('advance' as const) },
    { weight: 8, arbitrary: fc.constantFrom('start', 'llm_response', 'tool_results', 'again') },
    { weight: 1, arbitrary: fc.constantFrom('llm_failed', 'stop') },
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
  refused: fc.nat(60).map((roll) => roll === 33),
  usage: record({ input: fc.nat(400), output: fc.nat(100), cached: fc.nat(100) }),
  deadline: fc.integer({ min: NOW, max: NOW * 100 }),
});
export type Die = typeof die extends fc.Arbitrary<infer T> ? T : never;

export const dice = fc.array(die, { minLength: 10, maxLength: 60 });

export const configs: fc.Arbitrary<KernelConfig> = record({
  budgets: record({ maxSteps: fc.integer({ min: 1, max: 40 }), maxTokens: fc.integer({ min: 1, max: 20_000 }) }),
  mustEndWith: fc.subarray(['publish', 'submit_result']),
  submitResult: fc.boolean(),
});

export class Walk {
  #seq = 0;
  #last: KernelEvent | undefined;

  event(state: KernelState, roll: Die): KernelEvent {
    const event = this.#choose(state, roll);
    this.#last = event;
    return event;
  }

  #choose(state: KernelState, roll: Die): KernelEvent {
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
        return { type: 'llm_failed', nowMs: NOW, stepIndex, code: 'provider_error', message: 'm' };
      case 'stop':
        return { type: 'stop', nowMs: NOW, code: 'stopped', reason: 'r' };
      case 'again':
        return this.#last ?? this.#start();
    }
  }

  #start(): KernelEvent {
    const toSeq = this.#seq;
    const memory = toSeq > 0 ? [{ boxId: OUTPUT_BOX, fromSeq: 1, toSeq }] : [];
    const instruction = [this.#next(), 'user', 7] as const;
    return { type: 'start', nowMs: NOW, outputBoxId: OUTPUT_BOX, memory, instruction };
  }

  #response(stepIndex: number, { calls, hasText, refused, usage }: Die): LlmResponseEvent {
    return {
      type: 'llm_response',
      nowMs: NOW,
      stepIndex,
      handles: [[this.#next(), 'assistant', 5]],
      thoughtCardId: `thought-${stepIndex}`,
      hasText,
      refused,
      usage,
      calls: calls.map((call, index) => {
        const callId = `${stepIndex}.${index}`;
        const { tool, fate } = call;
        return fate === 'at_once' ? { callId, tool, settled: this.#settled(callId, call) } : { callId, tool };
      }),
    };
  }

  /** Covers the open calls, the flaw aside; results come in an order of their own. */
  #results(state: KernelState, { calls, flaw, deadline }: Die): KernelEvent {
    const open = state.outstanding.filter((call) => call.settled === null).map((call) => call.callId);
    if (flaw === 'missing') open.pop();
    if (flaw === 'foreign') open.push('9.9');
    const ids = [...open].sort((a, b) => ((calls[0]?.roll ?? 0) > 4 ? b.localeCompare(a) : a.localeCompare(b)));
    const waits = (index: number): boolean => calls[index % Math.max(1, calls.length)]?.fate === 'wait';
    const settled = ids.flatMap((callId, index) =>
      waits(index) ? [] : [this.#settled(callId, calls[index % Math.max(1, calls.length)])],
    );
    const suspended = ids.filter((_, index) => waits(index)).map((callId) => ({ callId, deadline }));
    const [first] = settled;
    return {
      type: 'tool_results',
      nowMs: NOW,
      settled: flaw === 'doubled' && first ? [...settled, first] : settled,
      suspended,
    };
  }

  #settled(callId: string, call: CallDie | undefined): SettledCall {
    const { status = 'success', terminate = false, roll = 1 } = call ?? {};
    return {
      callId,
      status,
      afterExecution: terminate && roll === 5 ? 'terminate' : 'continue',
      ...(status === 'success' || roll > 7 ? {} : { errorCode: 'tool_failed' }),
      seq: this.#next(),
      tokens: 2,
    };
  }

  #next(): number {
    this.#seq += 1;
    return this.#seq;
  }
}

function awaited({ lifecycle, phase }: KernelState): KernelEvent['type'] {
  if (lifecycle === 'ready') return 'start';
  return lifecycle === 'running' && phase === 'reason' ? 'llm_response' : 'tool_results';
}

import { describe, expect, test } from '@jest/globals';
import type { KernelEvent } from '../../../workflows/kernel/events.ts';
import { LEGAL, mismatch } from '../../../workflows/kernel/legality.ts';
import { lifecycleOf, openCalls, waitingCalls } from '../../../workflows/kernel/phase.ts';
import { NO_USAGE } from '../../../workflows/protocol/turn.ts';
import { NOW, type Turn, turnIn } from './turn.ts';

type Type = KernelEvent['type'];
type Place = keyof typeof turnIn;

const TYPES: readonly Type[] = [
  'start',
  'llm_response',
  'llm_failed',
  'summarized',
  'timeout',
  'tool_results',
  'approval',
  'budgets',
  'delegated',
  'stop',
];

/** The event of this type that fits the turn best. */
function eventFor(turn: Turn, type: Type): KernelEvent {
  const { stepIndex } = turn.state;
  const common = { nowMs: NOW } as const;
  switch (type) {
    case 'start':
      return { ...common, type, outputBoxId: 'output', earlier: [], instruction: [1, 'user', 1] };
    case 'llm_response': {
      const usage = { input: 1, output: 1, cached: 0 };
      const thought = { handles: [[90, 'assistant', 1]], thoughtCardId: 't', hasText: true, refused: false } as const;
      return { ...common, type, stepIndex, ...thought, calls: [], usage };
    }
    case 'llm_failed':
      return { ...common, type, stepIndex, code: 'provider_error', message: 'm' };
    case 'tool_results': {
      const settled = openCalls(turn.state).map(({ callId }, index) => ({
        callId,
        status: 'success' as const,
        afterExecution: 'continue' as const,
        seq: 91 + index,
        tokens: 1,
      }));
      return { ...common, type, settled, suspended: [] };
    }
    case 'summarized':
      return { ...common, type, stepIndex: stepIndex + 1, summary: [99, 'summary', 5], usage: NO_USAGE, cost: 0 };
    case 'timeout':
      return { ...common, type, stepIndex, message: 'm' };
    case 'approval': {
      const asked = waitingCalls(turn.state).filter((call) => call.gated);
      const answers = (asked.length > 0 ? asked : [{ callId: 'b-1' }]).map(({ callId }) => ({
        callId,
        decision: 'approved' as const,
      }));
      return { ...common, type, answers };
    }
    case 'budgets':
      return { ...common, type, budgets: { maxSteps: 60 } };
    case 'delegated':
      return { ...common, type, delegated: { tokens: 1, cost: 0, open: true } };
    case 'stop':
      return { ...common, type, code: 'stopped', reason: 'r' };
  }
}

/** For each place of a turn and each type of event `ok`, or why the event changes nothing (K1). */
const TABLE: Readonly<Record<Place, Readonly<Record<Type, string>>>> = {
  ready: {
    start: 'ok',
    llm_response: 'not legal while ready',
    llm_failed: 'not legal while ready',
    timeout: 'not legal while ready',
    tool_results: 'not legal while ready',
    approval: 'not legal while ready',
    budgets: 'not legal while ready',
    delegated: 'not legal while ready',
    stop: 'ok',
    summarized: 'not legal while ready',
  },
  thinking: {
    start: 'not legal while running',
    llm_response: 'ok',
    llm_failed: 'ok',
    timeout: 'ok',
    tool_results: 'no tool call is open',
    approval: 'not legal while running',
    budgets: 'ok',
    delegated: 'ok',
    stop: 'ok',
    summarized: 'no summary is being made',
  },
  shortening: {
    start: 'not legal while running',
    llm_response: 'no model call is open',
    llm_failed: 'no model call is open',
    timeout: 'no model call is open',
    tool_results: 'no tool call is open',
    approval: 'not legal while running',
    budgets: 'ok',
    delegated: 'ok',
    stop: 'ok',
    summarized: 'ok',
  },
  acting: {
    start: 'not legal while running',
    llm_response: 'no model call is open',
    llm_failed: 'no model call is open',
    timeout: 'no model call is open',
    tool_results: 'ok',
    approval: 'not legal while running',
    budgets: 'ok',
    delegated: 'ok',
    stop: 'ok',
    summarized: 'no summary is being made',
  },
  suspended: {
    start: 'not legal while suspended',
    llm_response: 'not legal while suspended',
    llm_failed: 'not legal while suspended',
    timeout: 'not legal while suspended',
    tool_results: 'ok',
    approval: 'nobody is asked about b-1, or it came twice',
    budgets: 'ok',
    delegated: 'ok',
    stop: 'ok',
    summarized: 'not legal while suspended',
  },
  gated: {
    start: 'not legal while suspended',
    llm_response: 'not legal while suspended',
    llm_failed: 'not legal while suspended',
    timeout: 'not legal while suspended',
    tool_results: 'ok',
    approval: 'ok',
    budgets: 'ok',
    delegated: 'ok',
    stop: 'ok',
    summarized: 'not legal while suspended',
  },
  done: {
    start: 'not legal while done',
    llm_response: 'not legal while done',
    llm_failed: 'not legal while done',
    timeout: 'not legal while done',
    tool_results: 'not legal while done',
    approval: 'not legal while done',
    budgets: 'not legal while done',
    delegated: 'not legal while done',
    stop: 'not legal while done',
    summarized: 'not legal while done',
  },
};

const cells = Object.entries(TABLE).flatMap(([place, row]) =>
  TYPES.map((type) => ({ place: place as Place, type, verdict: row[type] })),
);

describe('an event', () => {
  test.each(cells.filter(({ verdict }) => verdict === 'ok'))('$type applies while $place (K1)', ({ place, type }) => {
    const turn = turnIn[place]();
    const before = turn.state;
    const action = turn.feed(eventFor(turn, type));
    // Budgets, and what is used of them, yield no action: they count only before the next model call.
    expect(action === undefined).toBe(type === 'budgets' || type === 'delegated');
    expect(turn.state).not.toBe(before);
  });

  test.each(cells.filter(({ verdict }) => verdict !== 'ok'))(
    '$type changes nothing while $place: $verdict (K1)',
    ({ place, type, verdict }) => {
      const turn = turnIn[place]();
      const before = turn.state;
      const event = eventFor(turn, type);
      expect(turn.feed(event)).toBeUndefined();
      expect(turn.state).toBe(before);
      const lifecycle = lifecycleOf(before);
      expect(turn.observations.at(-1)).toEqual({ type: 'event_ignored', event: type, lifecycle, reason: verdict });
    },
  );

  test('of a type the kernel does not know is ignored in every lifecycle (K1)', () => {
    const stranger = { type: 'steer', nowMs: NOW } as unknown as KernelEvent;
    for (const turn of Object.values(turnIn).map((make) => make())) {
      expect(turn.feed(stranger)).toBeUndefined();
      expect(turn.observations.at(-1)).toMatchObject({ type: 'event_ignored', event: 'steer' });
    }
  });
});

describe('the table', () => {
  test('has a verdict for each event in each lifecycle, and lets only done absorb everything (K1)', () => {
    expect(Object.keys(LEGAL).sort()).toEqual(['done', 'ready', 'running', 'suspended']);
    for (const row of Object.values(LEGAL)) expect(Object.keys(row).sort()).toEqual([...TYPES].sort());
    const absorbing = Object.entries(LEGAL).filter(([, row]) => !Object.values(row).includes(true));
    expect(absorbing.map(([lifecycle]) => lifecycle)).toEqual(['done']);
  });
});

describe('an event that is legal but foreign', () => {
  test.each(['llm_response', 'llm_failed'] as const)('%s of an earlier or later step is named (K1)', (type) => {
    const turn = turnIn.acting();
    turn.results({ a: {}, b: {} });
    for (const stepIndex of [1, 3]) {
      const event = { ...eventFor(turn, type), stepIndex } as KernelEvent;
      expect(mismatch(turn.state, event)).toBe(`step ${stepIndex} is not the open step 2`);
      expect(turn.feed(event)).toBeUndefined();
    }
  });

  test('summarized that came before changes nothing, though another summary is waited for (K1)', () => {
    const turn = turnIn.shortening();
    const again = eventFor(turn, 'summarized');
    turn.state = { ...turn.state, context: { ...turn.state.context, summary: [99, 'summary', 5] } };
    expect(mismatch(turn.state, again)).toBe('summary 99 is not a new one');
    expect(turn.feed(again)).toBeUndefined();
  });

  const settled = (callId: string) =>
    ({ callId, status: 'success', afterExecution: 'continue', seq: 90, tokens: 1 }) as const;
  const waits = (callId: string) => ({ callId, deadline: 9 });
  const notOpen = (callId: string) => `call ${callId} is not open, or came twice`;
  test.each([
    ['of a call nobody made', [settled('a-1'), settled('b-1'), settled('z-1')], [], notOpen('z-1')],
    ['settling one call twice', [settled('a-1'), settled('a-1'), settled('b-1')], [], notOpen('a-1')],
    ['settling and suspending one call', [settled('a-1'), settled('b-1')], [waits('b-1')], notOpen('b-1')],
    ['suspending one call twice', [settled('a-1')], [waits('b-1'), waits('b-1')], notOpen('b-1')],
    ['leaving a call out', [settled('a-1')], [], 'calls without outcome: b-1'],
    ['with nothing in it', [], [], 'calls without outcome: a-1, b-1'],
  ])('tool_results %s changes nothing (K1)', (_, settledCalls, suspended, reason) => {
    const turn = turnIn.acting();
    const event: KernelEvent = { type: 'tool_results', nowMs: NOW, settled: settledCalls, suspended };
    expect(mismatch(turn.state, event)).toBe(reason);
    expect(turn.feed(event)).toBeUndefined();
  });

  test('tool_results of a call that was settled before the turn suspended changes nothing (T14)', () => {
    const turn = turnIn.suspended();
    const again: KernelEvent = {
      type: 'tool_results',
      nowMs: NOW,
      settled: [settled('a-1'), settled('b-1')],
      suspended: [],
    };
    expect(mismatch(turn.state, again)).toBe(notOpen('a-1'));
    expect(turn.feed(again)).toBeUndefined();
  });

  test('tool_results of a call that was settled while it was proposed changes nothing (W9)', () => {
    const turn = turnIn.thinking();
    const refused = { ...settled('a-1'), status: 'failed', errorCode: 'invalid_arguments' } as const;
    turn.respond({
      calls: [
        { callId: 'a-1', tool: 'a', settled: refused },
        { callId: 'b-1', tool: 'b' },
      ],
    });
    const event: KernelEvent = {
      type: 'tool_results',
      nowMs: NOW,
      settled: [settled('a-1'), settled('b-1')],
      suspended: [],
    };
    expect(mismatch(turn.state, event)).toBe(notOpen('a-1'));
  });
});

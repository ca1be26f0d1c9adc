/**
 * What a burst reports, in the short form in which it crosses into the history: what is as usual is left out, and a call is named by its place
 * in the step before. A step and its results take some 450 bytes so, and 750 otherwise. Pure.
 *
 * Invariant: the kernel and the Web UI's page make of the items that come out what they make of those that went in.
 */
import type { BurstItem, ShortItem } from '../contract/burst.ts';
import type { StepOutcomeRecord } from '../contract/steps.ts';
import type { ProposedCall, SettledCall } from '../kernel/calls.ts';
import type { JsonValue } from '../protocol/json.ts';
import type { Usage } from '../protocol/turn.ts';

/** What most steps have in common. */
const USUAL_STEP = {
  noteSeq: null,
  noteTokens: 0,
  steers: [],
  hasText: false,
  refused: false,
  calls: [],
  cost: null,
} as const satisfies Partial<StepOutcomeRecord>;

/** What most model calls have in common. */
const USUAL_USAGE = { cached: 0 } as const satisfies Partial<Usage>;

/** What most results have in common. */
const USUAL_RESULT = { status: 'success', afterExecution: 'continue' } as const satisfies Partial<SettledCall>;

type Shown = NonNullable<StepOutcomeRecord['shown']>;
type ShortStep = Omit<StepOutcomeRecord, 'shown'> & {
  /** The text, then the arguments of the step's calls in their order. */
  readonly shown?: readonly string[];
};
type ShortResult = SettledCall & { readonly call?: number };
type ResultsItem = Extract<BurstItem, { kind: 'event' }>;

/** The items as they cross. */
export function short(items: readonly BurstItem[]): readonly ShortItem[] {
  let calls: readonly ProposedCall[] = [];
  return items.map((item) => {
    if (item.kind === 'step') {
      calls = item.record.calls;
      return { kind: 'step', nowMs: item.nowMs, record: shortStep(item.record, item.nowMs) };
    }
    if (item.kind === 'inbox' || item.event.type !== 'tool_results') return { ...item };
    const { type, nowMs } = item.event;
    return {
      kind: 'event',
      event: { type, nowMs, settled: item.event.settled.map((call) => shortResult(call, calls)) },
    };
  });
}

function shortStep({ answeredAt, shown, usage, ...record }: StepOutcomeRecord, nowMs: number): object {
  const texts = shown ? [shown.text, ...record.calls.map(({ callId }) => shown.calls[callId] ?? '')] : [];
  return {
    ...without(record, USUAL_STEP),
    usage: without(usage, USUAL_USAGE),
    ...(answeredAt === undefined || answeredAt === nowMs ? {} : { answeredAt }),
    ...(texts.some((text) => text !== '') ? { shown: texts } : {}),
  };
}

function shortResult(result: SettledCall, calls: readonly ProposedCall[]): object {
  const { callId, ...rest } = without(result, USUAL_RESULT);
  const call = calls.findIndex((proposed) => proposed.callId === callId);
  return call < 0 ? { callId, ...rest } : { call, ...rest };
}

/** The items as they were reported. */
export function whole(items: readonly ShortItem[]): readonly BurstItem[] {
  let calls: readonly ProposedCall[] = [];
  return items.map((item) => {
    if (item.kind === 'step') {
      const { nowMs, record } = item as unknown as { readonly nowMs: number; readonly record: ShortStep };
      const step = wholeStep(record, nowMs);
      calls = step.calls;
      return { kind: 'step', nowMs, record: step };
    }
    const event = item.kind === 'event' ? (item as unknown as ResultsItem).event : null;
    if (event?.type !== 'tool_results') return item as unknown as BurstItem;
    const settled = event.settled.map((result: ShortResult) => wholeResult(result, calls));
    return { kind: 'event', event: { ...event, settled, suspended: [] } };
  });
}

function wholeStep({ shown, ...record }: ShortStep, nowMs: number): StepOutcomeRecord {
  const step = { ...USUAL_STEP, answeredAt: nowMs, ...record, usage: { ...USUAL_USAGE, ...record.usage } };
  return shown ? { ...step, shown: wholeShown(shown, step.calls) } : step;
}

function wholeShown([text = '', ...args]: readonly string[], calls: readonly ProposedCall[]): Shown {
  const told = calls.flatMap(({ callId }, index): [string, string][] => (args[index] ? [[callId, args[index]]] : []));
  return { text, calls: Object.fromEntries(told) };
}

const wholeResult = ({ call, ...result }: ShortResult, calls: readonly ProposedCall[]): SettledCall => ({
  ...USUAL_RESULT,
  ...result,
  callId: call === undefined ? result.callId : (calls[call]?.callId ?? ''),
});

/** The members whose value is another one than the usual. */
const without = (members: object, usual: Readonly<Record<string, JsonValue>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(members).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(usual[name])),
  );

/**
 * What a burst reports, in the short form in which it crosses into the history: what is as usual is left out. A step and its results take some
 * 550 bytes so, and 750 otherwise. Pure.
 *
 * Invariant: the kernel and the Web UI's page make of `whole(short(item))` what they make of `item`.
 */
import type { BurstItem, ShortItem } from '../contract/burst.ts';
import type { StepOutcomeRecord } from '../contract/steps.ts';
import type { SettledCall } from '../kernel/calls.ts';
import type { JsonValue } from '../protocol/json.ts';

/** What most steps have in common. */
const USUAL_STEP = {
  noteSeq: null,
  noteTokens: 0,
  steers: [],
  hasText: false,
  refused: false,
  calls: [],
} as const satisfies Partial<StepOutcomeRecord>;

/** What most results have in common. */
const USUAL_RESULT = { status: 'success', afterExecution: 'continue' } as const satisfies Partial<SettledCall>;

/** The item as it crosses. */
export function short(item: BurstItem): ShortItem {
  switch (item.kind) {
    case 'inbox':
      return { ...item };
    case 'step': {
      const { answeredAt, shown, ...record } = item.record;
      const told = shown && (shown.text !== '' || Object.keys(shown.calls).length > 0) ? { shown } : {};
      const own = answeredAt === undefined || answeredAt === item.nowMs ? {} : { answeredAt };
      return { kind: 'step', nowMs: item.nowMs, record: { ...without(record, USUAL_STEP), ...own, ...told } };
    }
    case 'event': {
      const { event } = item;
      if (event.type !== 'tool_results') return { ...item };
      const settled = event.settled.map((call) => without(call, USUAL_RESULT));
      return { kind: 'event', event: { type: event.type, nowMs: event.nowMs, settled } };
    }
  }
}

/** The item as it was reported. */
export function whole(item: ShortItem): BurstItem {
  if (item.kind === 'step') {
    const { nowMs, record } = item as Extract<BurstItem, { kind: 'step' }>;
    return { kind: 'step', nowMs, record: { ...USUAL_STEP, answeredAt: nowMs, ...record } };
  }
  const event = item.kind === 'event' ? (item as Extract<BurstItem, { kind: 'event' }>).event : null;
  if (event?.type !== 'tool_results') return item as unknown as BurstItem;
  const settled = event.settled.map((call) => ({ ...USUAL_RESULT, ...call }));
  return { kind: 'event', event: { ...event, settled, suspended: [] } };
}

/** The members whose value is another one than the usual. */
const without = (members: object, usual: Readonly<Record<string, JsonValue>>): object =>
  Object.fromEntries(
    Object.entries(members).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(usual[name])),
  );

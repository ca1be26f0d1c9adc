/**
 * The waiting set of one turn as a reducer: the same decisions the store makes row by row, on plain data. What the model will see is
 * `transcript`, which depends on which results won, never on the order in which they came (T15).
 *
 * Invariant: a call has at most one result, and once it has one nothing changes it (T14).
 */
import type { ResultStatus } from '../../../workflows/protocol/cards.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import type { ReportAnswer, ToolResultReport } from '../../../workflows/protocol/tool-result.ts';
import { onReport, onResolve, type WaitingFacts } from '../../../workflows/waiting/decisions.ts';

export interface WaitingCall extends WaitingFacts {
  readonly callId: string;
  readonly outcome: { readonly status: ResultStatus; readonly body: JsonValue } | null;
}

export interface WaitingSet {
  readonly turnEpoch: number;
  readonly closed: boolean;
  /** The calls in the order in which the model made them. */
  readonly calls: readonly WaitingCall[];
}

export type WaitingEvent =
  | { readonly type: 'suspend'; readonly callId: string; readonly nowMs: number; readonly windowMs: number }
  | { readonly type: 'report'; readonly report: ToolResultReport; readonly nowMs: number }
  | { readonly type: 'resolve'; readonly nowMs: number }
  | { readonly type: 'close' };

export const waitingSet = (turnEpoch: number, callIds: readonly string[]): WaitingSet => ({
  turnEpoch,
  closed: false,
  calls: callIds.map((callId) => ({ callId, phase: 'open', deadline: 0, windowMs: 0, deferral: null, outcome: null })),
});

/** The set after the event; `ack` is how a report is acknowledged, null for every other event. */
export function reduce(
  set: WaitingSet,
  event: WaitingEvent,
): { readonly set: WaitingSet; readonly ack: ReportAnswer | null } {
  switch (event.type) {
    case 'suspend':
      return { set: changed(set, event.callId, (call) => suspended(call, event.nowMs, event.windowMs)), ack: null };
    case 'report':
      return reported(set, event.report, event.nowMs);
    case 'resolve':
      return { set: { ...set, calls: set.calls.map((call) => resolved(call, event.nowMs)) }, ack: null };
    case 'close':
      return { set: { ...set, closed: true, calls: set.calls.map(dropped) }, ack: null };
  }
}

/** What the model will see: the results in the order of the calls, null where a call has none yet. */
export const transcript = (set: WaitingSet): readonly WaitingCall['outcome'][] => set.calls.map((call) => call.outcome);

const changed = (set: WaitingSet, callId: string, change: (call: WaitingCall) => WaitingCall): WaitingSet => ({
  ...set,
  calls: set.calls.map((call) => (call.callId === callId ? change(call) : call)),
});

const suspended = (call: WaitingCall, nowMs: number, windowMs: number): WaitingCall =>
  call.phase === 'open' ? { ...call, phase: 'waiting', deadline: nowMs + windowMs, windowMs } : call;

function reported(set: WaitingSet, report: ToolResultReport, nowMs: number): ReturnType<typeof reduce> {
  const call = set.calls.find(({ callId }) => callId === report.callId) ?? null;
  const decision = onReport(set, call, report, true, nowMs);
  const next = changed(set, report.callId, (found) => {
    if (decision.effect === 'extend') return { ...found, deadline: decision.deadline };
    if (decision.effect !== 'settle' || report.status === 'running') return found;
    return { ...found, phase: 'settled', outcome: { status: report.status, body: report.result ?? null } };
  });
  return { set: next, ack: decision.ack };
}

const resolved = (call: WaitingCall, nowMs: number): WaitingCall =>
  onResolve(call, nowMs) === 'time_out'
    ? { ...call, phase: 'settled', outcome: { status: 'timeout', body: null } }
    : call;

const dropped = (call: WaitingCall): WaitingCall =>
  call.phase === 'settled' ? call : { ...call, phase: 'dropped', outcome: { status: 'canceled', body: null } };

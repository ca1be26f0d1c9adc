/** Whether something that comes for an agent makes a turn, and how it relates to what the agent was waiting for (A4). */
import type { ClosureOutcome, WaitingReason } from './closure.ts';
import type { ActiveWait, WaitKind } from './waits.ts';

/** What may come for an agent. */
export const TRIGGER_KINDS = [
  'operator_input',
  'task_result',
  'external_event',
  'timer_fire',
  'internal_followup',
  'system_tick',
] as const;
/** What has come for an agent. */
export type TriggerKind = (typeof TRIGGER_KINDS)[number];

/** Something that has come for an agent. */
export interface Trigger {
  readonly kind: TriggerKind;
  /** Of a `task_result`: whether the delegated turn has ended. True for all others. */
  readonly terminal: boolean;
  /** Of an `external_event` and a `system_tick`: whether it says anything. True for all others. */
  readonly contentful: boolean;
  /** Present when one of the agent's waits is for this very thing, or when it is the time of the wait itself, whatever else is waited for. */
  readonly awaited?: true;
}

/**
 * `resume_expected_wait`: it is what was waited for. `resume_override`: it is more urgent than that. `local_continuation`: nothing was
 * waited for. `liveness_only`: it makes no turn.
 */
export type ContinuationClass = 'resume_expected_wait' | 'resume_override' | 'local_continuation' | 'liveness_only';

/** What was decided about something that came. */
export interface ContinuationResolution {
  readonly triggerKind: TriggerKind;
  readonly class: ContinuationClass;
  /** Whether it makes a turn. */
  readonly modelReentry: boolean;
  /** Whether it is of the kind that was waited for. */
  readonly matchedWaitingReason: boolean;
  readonly priorClosure: { readonly outcome: ClosureOutcome; readonly waitingReason?: WaitingReason };
}

/** What each kind of trigger can end the wait for; what is not here ends none. */
const MATCHES: Readonly<Partial<Record<TriggerKind, WaitingReason>>> = {
  operator_input: 'awaiting_operator_input',
  task_result: 'awaiting_task_result',
  external_event: 'awaiting_external_change',
  system_tick: 'awaiting_external_change',
  timer_fire: 'awaiting_timer',
};

/** What takes an agent out of a wait for something else. */
const OVERRIDES: ReadonlySet<TriggerKind> = new Set(['operator_input', 'task_result']);

/** Decides about something that has come for an agent whose last turn left it with this closure. */
export function continuationOf(
  prior: ContinuationResolution['priorClosure'],
  { kind, terminal, contentful, awaited }: Trigger,
): ContinuationResolution {
  const { outcome, waitingReason } = prior;
  const isWaiting = outcome === 'waiting';
  const matchedWaitingReason =
    isWaiting && (awaited === true || (waitingReason !== undefined && MATCHES[kind] === waitingReason));
  const saysSomething = kind === 'task_result' ? terminal : contentful;
  const continuationClass = classOf({ kind, isWaiting, matched: matchedWaitingReason, saysSomething });
  return {
    triggerKind: kind,
    class: continuationClass,
    modelReentry: continuationClass !== 'liveness_only',
    matchedWaitingReason,
    priorClosure: { outcome, ...(waitingReason === undefined ? {} : { waitingReason }) },
  };
}

interface Case {
  readonly kind: TriggerKind;
  readonly isWaiting: boolean;
  readonly matched: boolean;
  readonly saysSomething: boolean;
}

function classOf({ kind, isWaiting, matched, saysSomething }: Case): ContinuationClass {
  if (!saysSomething) return 'liveness_only';
  if (!isWaiting) return 'local_continuation';
  if (matched) return 'resume_expected_wait';
  return OVERRIDES.has(kind) ? 'resume_override' : 'liveness_only';
}

/** What ends which waits; what is not here ends none. */
const ENDS: Readonly<Partial<Record<TriggerKind, WaitKind>>> = {
  operator_input: 'operator',
  task_result: 'task',
  external_event: 'external',
  timer_fire: 'timer',
  system_tick: 'system',
};

/** Whether the wait is over by something of that kind from that source. A person ends every wait for one; a time only its own. */
export function endsWait(
  { waitId, kind: waitedFor, resource }: Pick<ActiveWait, 'waitId' | 'kind' | 'resource'>,
  kind: TriggerKind,
  source: string,
): boolean {
  if (ENDS[kind] !== waitedFor) return false;
  if (waitedFor === 'operator') return true;
  if (waitedFor === 'timer' && resource === null) return source === waitId;
  return resource === null || resource === source;
}

/**
 * What a turn is doing, as one union: each phase has what it needs and nothing else (K1).
 *
 * Invariants
 * 1. Between two events `acting` has at least one call that is not settled, and each call id once.
 * 2. Whether a turn is suspended follows from its phase: an operator is asked, or every call that is not settled waits for the outside.
 */
import type { Termination } from '../protocol/turn.ts';
import type { BudgetQuestion } from './budgets.ts';
import {
  type BatchVerdict,
  isFinished,
  isRunning,
  isWaiting,
  type OutstandingCall,
  type WaitingCall,
} from './calls.ts';
import type { Departure } from './departure.ts';
import type { CallExtra, ModelCall } from './model-call.ts';

/** What a turn is doing. */
export type Phase =
  /** The turn has not begun. */
  | { readonly kind: 'ready' }
  /** The model is being called; `call` is kept to be made again where its prompt was too long (K11). */
  | { readonly kind: 'reasoning'; readonly call: ModelCall }
  /** The calls of a step run or wait; `verdict` is what follows for the whole step where policy denied one of them (K6), else null. */
  | { readonly kind: 'acting'; readonly calls: readonly OutstandingCall[]; readonly verdict: BatchVerdict | null }
  /** A summary is being made of what departs; then comes the model call that it makes room for (K15). */
  | { readonly kind: 'shortening'; readonly departure: Departure; readonly call: ModelCall }
  /** An operator is asked for a larger budget; `extra` is what the model call carries that is made if there is one (K9). */
  | { readonly kind: 'asking'; readonly question: BudgetQuestion; readonly extra: CallExtra }
  /** The turn has ended; nothing changes any more. */
  | { readonly kind: 'done'; readonly termination: Termination };

/** The part of the state that says what the turn is doing. */
export interface PhaseState {
  readonly phase: Phase;
}

/** The phase before the turn begins. */
export const NOT_STARTED: PhaseState = { phase: { kind: 'ready' } };

/** Whether a turn has begun, works, waits for the outside, or has ended; a suspended turn holds no worker. */
export type Lifecycle = 'ready' | 'running' | 'suspended' | 'done';

/** The lifecycle that follows from the phase. */
export function lifecycleOf({ phase }: PhaseState): Lifecycle {
  switch (phase.kind) {
    case 'ready':
    case 'done':
      return phase.kind;
    case 'asking':
      return 'suspended';
    case 'acting':
      return phase.calls.some(isRunning) ? 'running' : 'suspended';
    default:
      return 'running';
  }
}

/** The phase, of the kind that the table of legal events has made sure of; a TypeError where it has not, which is a bug of the kernel. */
export function phaseOf<K extends Phase['kind']>({ phase }: PhaseState, kind: K): Extract<Phase, { kind: K }> {
  const isExpected = (candidate: Phase): candidate is Extract<Phase, { kind: K }> => candidate.kind === kind;
  if (isExpected(phase)) return phase;
  throw new TypeError(`expected the turn to be ${kind}, and it is ${phase.kind}`);
}

const callsOf = ({ phase }: PhaseState): readonly OutstandingCall[] => (phase.kind === 'acting' ? phase.calls : []);

/** The calls of the step under way that have no result yet; empty while there is no such step. */
export const openCalls = (state: PhaseState): readonly Exclude<OutstandingCall, { kind: 'settled' }>[] =>
  callsOf(state).filter((call) => !isFinished(call));

/** The calls that wait for a report from outside, or for a person. */
export const waitingCalls = (state: PhaseState): readonly WaitingCall[] => callsOf(state).filter(isWaiting);

/** The question that an operator is asked; null while nobody is. */
export const openQuestion = ({ phase }: PhaseState): BudgetQuestion | null =>
  phase.kind === 'asking' ? phase.question : null;

/** How the turn ends when the final report that is under way, or waits for a summary, has come (K9); null while there is none. */
export const endingOf = ({ phase }: PhaseState): Termination | null =>
  phase.kind === 'reasoning' || phase.kind === 'shortening' ? phase.call.ending : null;

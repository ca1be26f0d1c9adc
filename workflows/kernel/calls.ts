/**
 * The calls of one step, from what the model proposed to what came of them. Pure: acting.ts decides what follows from it.
 *
 * Invariant: a call is running, waits for the outside until a deadline, or is settled; each of the three has what belongs to it and no more.
 */
import type { AfterExecution, ResultStatus, ToolError } from '../protocol/cards.ts';
import type { ArgumentFacts } from './governance.ts';

/** What kind of error a call ended with; the kinds that take a step back are a matter of the profile (K13). */
export type ErrorKind = NonNullable<ToolError['kind']> | 'governance_denied';

/** What names a call in actions and results. */
export interface CallName {
  readonly callId: string;
  readonly tool: string;
}

/** A call as the model wrote it, with what the kernel must know of its arguments. */
export interface ProposedCall extends CallName {
  /** The digest of the canonical arguments, by which a repeated call is known (K4, K12). A call without one never counts as repeated. */
  readonly digest?: string;
  /** The name of the skill that this call puts to use; present only when the profile has that skill (K8). */
  readonly skill?: string;
  /** The arguments that governance rules look at; absent when no rule looks at any. */
  readonly facts?: ArgumentFacts;
  /** The result of a call that was settled while it was proposed: invalid arguments, or an accepted `submit_result`. */
  readonly settled?: SettledCall;
}

/** The result of a call, as far as the kernel must know it: its text stays in the card at `seq`. */
export interface SettledCall {
  readonly callId: string;
  readonly status: ResultStatus;
  /** What the turn does next, by the result, the report or the tool (T19). */
  readonly afterExecution: AfterExecution;
  readonly errorCode?: string;
  /** Absent when there is no error, or one that the model may recover from. */
  readonly errorKind?: ErrorKind;
  /** The place of the result's card in the output box. */
  readonly seq: number;
  readonly tokens: number;
}

/** A call that an activity is working on, be it only to ask for its approval. */
export interface RunningCall extends CallName {
  readonly kind: 'running';
  /** Whether the call may run only with an approval that it does not have yet. */
  readonly gated: boolean;
}

/** A call that waits for a report from outside, or for a person. */
export interface WaitingCall extends CallName {
  readonly kind: 'waiting';
  readonly gated: boolean;
  /** Epoch ms by the clock of the workflow. */
  readonly deadline: number;
}

/** A call that has its result. */
export interface FinishedCall extends CallName {
  readonly kind: 'settled';
  readonly result: SettledCall;
}

/** A call of the step that is under way. */
export type OutstandingCall = RunningCall | WaitingCall | FinishedCall;

/** What a denied call does to its whole step where the policy says so (K6): the step is taken back, or the turn ends. */
export interface BatchVerdict {
  readonly outcome: 'rollback' | 'end';
  readonly reason: string;
}

/** Whether the call has its result. */
export const isFinished = (call: OutstandingCall): call is FinishedCall => call.kind === 'settled';
/** Whether the call waits for the outside. */
export const isWaiting = (call: OutstandingCall): call is WaitingCall => call.kind === 'waiting';
/** Whether the call has been asked to run and has neither its result nor a wait. */
export const isRunning = (call: OutstandingCall): call is RunningCall => call.kind === 'running';

/** The calls of a step that begins; those in `gated` are only asked about. */
export const proposed = (calls: readonly ProposedCall[], gated: ReadonlySet<string>): readonly OutstandingCall[] =>
  calls.map(({ callId, tool, settled }) =>
    settled
      ? { kind: 'settled', callId, tool, result: settled }
      : { kind: 'running', callId, tool, gated: gated.has(callId) },
  );

/** The same calls once some have been settled, and others wait until a deadline. */
export function withOutcomes(
  calls: readonly OutstandingCall[],
  settled: readonly SettledCall[],
  suspended: readonly { readonly callId: string; readonly deadline: number }[],
): readonly OutstandingCall[] {
  const results = new Map(settled.map((result) => [result.callId, result]));
  const deadlines = new Map(suspended.map(({ callId, deadline }) => [callId, deadline]));
  return calls.map((call) => {
    if (call.kind === 'settled') return call;
    const { callId, tool, gated } = call;
    const result = results.get(callId);
    if (result) return { kind: 'settled', callId, tool, result };
    const deadline = deadlines.get(callId);
    return deadline === undefined ? call : { kind: 'waiting', callId, tool, gated, deadline };
  });
}

/** The same calls once a person has decided about some: those run, or get the result of a refusal. */
export const withDecisions = (
  calls: readonly OutstandingCall[],
  decided: ReadonlySet<string>,
): readonly OutstandingCall[] =>
  calls.map((call) =>
    decided.has(call.callId) ? { kind: 'running', callId: call.callId, tool: call.tool, gated: false } : call,
  );

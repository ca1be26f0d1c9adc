/** The one end of a chat turn, as who has asked is told it: completed, failed or denied, with what to do next (C4, C6). Pure. */
import { FAILURES, type FailureCode, isFailureCode } from '../protocol/failures.ts';
import { type Deliverable, isTerminal, type TerminalStatus, type TurnStatus } from '../protocol/turn.ts';

/** The classes of failures (C6). */
export const FAILURE_CLASSES = [
  'invalid_input',
  'policy_denied',
  'tool_runtime_error',
  'timeout',
  'provider_error',
  /** The turn ended without a report of its own, and was closed by its agent, by somebody outside or by recovery. */
  'report_missing',
  'auth_error',
  'context_build_error',
] as const;
/** The class of a failure (C6). */
export type FailureClass = (typeof FAILURE_CLASSES)[number];

/** The codes with which a turn ends. */
export type TurnFailureCode = {
  [C in FailureCode]: (typeof FAILURES)[C]['scope'] extends 'turn' ? C : never;
}[FailureCode];

/** The class of each code with which a turn ends. */
export const CLASS_OF: Readonly<Record<TurnFailureCode, FailureClass>> = {
  max_steps_reached: 'timeout',
  budget_tokens: 'timeout',
  budget_wall_time: 'timeout',
  budget_tool_calls: 'timeout',
  budget_cost: 'timeout',
  no_progress: 'timeout',
  stopped: 'report_missing',
  canceled: 'report_missing',
  dispatch_timeout: 'timeout',
  turn_timeout: 'timeout',
  provider_error: 'provider_error',
  provider_auth: 'auth_error',
  provider_refusal: 'policy_denied',
  context_overflow: 'context_build_error',
  answer_truncated: 'timeout',
  policy_denied: 'policy_denied',
  milestone_exceeded: 'timeout',
  recursion_depth_exceeded: 'tool_runtime_error',
  delegation_cycle: 'tool_runtime_error',
  profile_not_found: 'invalid_input',
  invalid_request: 'invalid_input',
  context_build_error: 'context_build_error',
  box_unavailable: 'context_build_error',
  terminated: 'report_missing',
  worker_lost: 'report_missing',
  report_missing: 'report_missing',
  protocol_violation: 'report_missing',
  internal_error: 'report_missing',
};

/** What to do after a failure of the class, where its code says nothing better. */
export const NEXT_ACTION_OF: Readonly<Record<FailureClass, string>> = {
  invalid_input: 'Correct what the reason names, then send the message again.',
  policy_denied: 'Ask for what the policy allows, or have the policy changed.',
  tool_runtime_error: 'Read what the tool said, then ask for another way.',
  timeout: 'Ask for less at once, or raise the limit that the reason names.',
  provider_error: 'Check the status of the model provider, then send the message again.',
  report_missing: 'Send the message again: the turn was closed before it could answer.',
  auth_error: 'Give the worker valid credentials of the provider, then send the message again.',
  context_build_error: 'Shorten the message, or begin another chat.',
};

/** Codes after which a person who chats can do something better than what is said of their class. */
const NEXT_ACTIONS: Partial<Readonly<Record<TurnFailureCode, string>>> = {
  stopped: 'Send the next message: the turn was stopped on purpose.',
  canceled: 'Send the message again if it still matters: it was cancelled before its turn began.',
  answer_truncated: 'Ask it to go on from where the answer ends, or for less at once.',
  provider_refusal: 'Say it in other words: the model or its content filter refused.',
  profile_not_found: 'Start a worker whose app defines the profile, then send the message again.',
};

/** The class of a code; that of a tool's own code, with which a terminating tool ends a turn, is `tool_runtime_error`. */
export const failureClassOf = (code: string): FailureClass =>
  Object.hasOwn(CLASS_OF, code) ? CLASS_OF[code as TurnFailureCode] : 'tool_runtime_error';

/** A hint that a person can act on, for each code; total. */
export function nextActionOf(code: string): string {
  if (!Object.hasOwn(CLASS_OF, code)) return NEXT_ACTION_OF[failureClassOf(code)];
  return NEXT_ACTIONS[code as TurnFailureCode] ?? `${NEXT_ACTION_OF[failureClassOf(code)]}${cureOf(code)}`;
}

/** The classes whose codes differ in what can be done: there what the catalogue says to those who operate the system is said too. */
const DIFFERING: readonly FailureClass[] = ['timeout', 'tool_runtime_error', 'context_build_error'];

const cureOf = (code: string): string =>
  isFailureCode(code) && DIFFERING.includes(failureClassOf(code)) ? ` ${FAILURES[code].cure}` : '';

/** What is known of a turn that has ended. */
export interface EndedChatTurn {
  readonly agentTurnId: string;
  readonly status: TurnStatus;
  readonly errorCode: string | null;
  readonly reason: string | null;
  readonly deliverable: Deliverable | null;
  readonly chat: ChatIdentity | null;
}

/** How a chat turn is known to the outside (C2). */
export interface ChatIdentity {
  readonly sessionId: string;
  readonly chatId: string;
  readonly traceId: string;
  readonly correlationId: string;
}

/** The terminal of a chat turn (C4). */
export interface ChatTerminal extends ChatIdentity {
  readonly turnId: string;
  readonly status: 'completed' | 'failed' | 'denied';
  /** What the turn has delivered; of one that failed, what could be saved of it. */
  readonly deliverable: Deliverable | null;
  /** Present unless the turn has completed. */
  readonly failure?: {
    readonly class: FailureClass;
    readonly code: string;
    /** Why, written for people. */
    readonly reason: string;
    /** What a person can do about it. */
    readonly nextAction: string;
  };
}

/** The code of a turn that has ended without success; a row that somebody wrote by hand may have none. */
const codeOf = (status: TerminalStatus, errorCode: string | null): string =>
  errorCode ?? (status === 'timeout' ? 'turn_timeout' : 'internal_error');

/** How a chat turn is said to have ended (C4). */
export function chatStatusOf(status: TerminalStatus, errorCode: string | null): ChatTerminal['status'] {
  if (status === 'success') return 'completed';
  return failureClassOf(codeOf(status, errorCode)) === 'policy_denied' ? 'denied' : 'failed';
}

/** The terminal of a chat turn that has ended; null for one that is open, or is no turn of a chat. */
export function terminalOf(turn: EndedChatTurn): ChatTerminal | null {
  const { agentTurnId, status, deliverable, chat } = turn;
  if (chat === null || !isTerminal(status)) return null;
  const said = { turnId: agentTurnId, ...chat, deliverable, status: chatStatusOf(status, turn.errorCode) };
  if (status === 'success') return said;
  const code = codeOf(status, turn.errorCode);
  const reason = turn.reason ?? (isFailureCode(code) ? FAILURES[code].message : `the turn ended as ${status}`);
  return { ...said, failure: { class: failureClassOf(code), code, reason, nextAction: nextActionOf(code) } };
}

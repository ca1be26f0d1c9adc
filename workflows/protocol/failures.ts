/**
 * The one failure catalogue: every code that a caller, an operator or a model can meet, with what it means and the cure.
 *
 * Invariants
 * 1. A code is never removed or given another meaning; a test keeps docs/errors.md and this table equal.
 * 2. `retryable` says whether the same request may succeed later without a change by the caller.
 */

/** What the catalogue says of one code. */
export interface FailureEntry {
  /**
   * Who meets the code: `turn` is how a turn ends, `tool` is what a model reads in a tool's result, `request` is what a caller gets back,
   * and `process` is what keeps a process or an activity from working.
   */
  readonly scope: 'turn' | 'tool' | 'request' | 'process';
  readonly retryable: boolean;
  /** What has happened, as a sentence for people. */
  readonly message: string;
  /** What a person or a model that meets the code can do about it. */
  readonly cure: string;
}

const entry = (scope: FailureEntry['scope'], retryable: boolean, message: string, cure: string): FailureEntry => ({
  scope,
  retryable,
  message,
  cure,
});

/** The catalogue: each code with its entry. */
export const FAILURES = {
  // With these codes a turn ends without success (T8).
  max_steps_reached: entry(
    'turn',
    false,
    'The step budget is used up.',
    'Raise budgets.maxSteps or narrow the request.',
  ),
  budget_tokens: entry('turn', false, 'The token budget is used up.', 'Raise budgets.maxTokens or narrow the request.'),
  budget_wall_time: entry('turn', false, 'The wall-time budget is used up.', 'Raise budgets.maxWallTimeMs.'),
  budget_tool_calls: entry('turn', false, 'The tool-call budget is used up.', 'Raise budgets.maxToolCalls.'),
  budget_cost: entry('turn', false, 'The cost budget is used up.', 'Raise budgets.maxCost.'),
  no_progress: entry(
    'turn',
    false,
    'The turn repeated itself without progress.',
    'Change the instruction or the tools.',
  ),
  stopped: entry('turn', false, 'The turn was stopped.', 'Enqueue the request again to run it anew.'),
  canceled: entry('turn', false, 'The queued turn was cancelled before it ran.', 'Enqueue the request again.'),
  dispatch_timeout: entry('turn', true, 'No worker started the turn in time.', 'Start a worker for the target.'),
  turn_timeout: entry(
    'turn',
    true,
    'The turn made no progress in time.',
    'Look at its last step; raise the limit if it was healthy.',
  ),
  provider_error: entry('turn', true, 'The model provider failed.', 'Check the provider status, then enqueue again.'),
  provider_auth: entry(
    'turn',
    false,
    'The model provider refused the credentials.',
    'Set a valid OPENAI_API_KEY for the worker.',
  ),
  provider_refusal: entry('turn', false, 'The model or its content filter refused.', 'Rephrase the request.'),
  context_overflow: entry(
    'turn',
    false,
    'The context does not fit the model window.',
    'Shorten the input or use a larger window.',
  ),
  answer_truncated: entry('turn', false, 'The answer may not be whole.', 'Raise model.maxTokens, or ask for less.'),
  policy_denied: entry('turn', false, 'A policy ended the turn.', 'Ask for what the policy allows, or change it.'),
  milestone_exceeded: entry(
    'turn',
    false,
    'A milestone was not reached in its attempts.',
    'Review the criteria or the attempts allowed.',
  ),
  recursion_depth_exceeded: entry('turn', false, 'Delegation is nested too deeply.', 'Flatten the delegation.'),
  delegation_cycle: entry('turn', false, 'The delegation would wait for itself.', 'Delegate to another agent.'),
  profile_not_found: entry(
    'turn',
    false,
    'No such agent profile is registered.',
    'Name an agent that the app of a running worker defines.',
  ),
  invalid_request: entry('turn', false, 'The request is malformed.', 'Correct the named field.'),
  context_build_error: entry(
    'turn',
    false,
    'The model request could not be built.',
    'Check the tool schemas and the instructions template.',
  ),
  box_unavailable: entry('turn', false, 'A card box is missing or expired.', 'Pass an existing box id.'),
  terminated: entry('turn', true, 'The turn was closed from outside.', 'Enqueue the request again.'),
  worker_lost: entry('turn', true, 'The turn was lost with its worker or server.', 'Enqueue the request again.'),
  report_missing: entry(
    'turn',
    true,
    'The turn was found open after a restart and closed without a report.',
    'Enqueue the request again.',
  ),
  protocol_violation: entry('turn', false, 'The turn had no matching lease.', 'Start turns through enqueue only.'),
  internal_error: entry(
    'turn',
    false,
    'The runtime failed.',
    'Report it with the turn id and what the log of the worker says of it.',
  ),

  // These codes a model reads in the result of a tool (T17, T20, W9, W10).
  invalid_arguments: entry(
    'tool',
    false,
    'The arguments do not match the tool schema.',
    'Correct the arguments and call again.',
  ),
  arguments_truncated: entry('tool', false, 'A limit cut the arguments short.', 'Call again with less at once.'),
  governance_denied: entry('tool', false, 'A policy forbids the call.', 'Do it another way, or ask for approval.'),
  rate_limited: entry('tool', true, 'The tool was called too often.', 'Wait as long as the message says.'),
  approval_denied: entry('tool', false, 'A person denied the call.', 'Read the reason; do it another way.'),
  approval_unanswered: entry('tool', true, 'Nobody approved the call in time.', 'Go on without it, or ask again.'),
  repeated_call: entry('tool', false, 'The same call was made too often.', 'Call something else, or report.'),
  not_run: entry(
    'tool',
    true,
    'The call was not run because of another one.',
    'Read the message; call it again if needed.',
  ),
  unknown_tool: entry('tool', false, 'No such tool is offered.', 'Call one of the offered tools.'),
  tool_failed: entry('tool', false, 'The tool failed.', 'Read the message; try other arguments or another way.'),
  tool_timeout: entry('tool', true, 'The tool did not answer in time.', 'Go on without it or call it again.'),
  outcome_unknown: entry(
    'tool',
    false,
    'The worker was lost while the tool ran; whether it took effect is unknown.',
    'Check before calling it again.',
  ),
  invalid_result: entry(
    'tool',
    false,
    'The tool returned a malformed result.',
    'Report a valid status with a result or an error.',
  ),
  delegation_denied: entry(
    'tool',
    false,
    'The delegation policy does not allow this target.',
    'Name a profile or agent that the policy allows.',
  ),
  unauthorized_box: entry(
    'tool',
    false,
    "The box is not the caller's to hand on.",
    'Pass a box of this turn, or leave it out.',
  ),
  callbacks_not_configured: entry(
    'tool',
    false,
    'This installation takes no callbacks.',
    'Set AGENTTURN_SIGNING_KEY for workers and gateways alike, and AGENTTURN_GATEWAY_URL for workers.',
  ),
  card_not_found: entry(
    'tool',
    true,
    'The card that was reported as the result is not in the store.',
    'Write the card first, then report its id.',
  ),
  result_too_large: entry('tool', false, 'The tool result is too large.', 'Ask for a smaller part.'),
  submit_result_not_alone: entry(
    'tool',
    false,
    'submit_result must be the only call of its step.',
    'Call it alone once the others are done.',
  ),
  missing_result_fields: entry(
    'tool',
    false,
    'Required result fields are missing or doubled.',
    'Call submit_result with each required field once.',
  ),

  inbox_not_empty: entry('tool', true, 'A message for this turn has not been read yet.', 'Read it, then submit again.'),

  // These codes a caller gets back.
  agent_stopped: entry('request', true, 'The agent is stopped.', 'Start the agent again.'),
  approval_refused: entry(
    'request',
    false,
    'The answer to a question cannot be accepted.',
    'Read the message; answer as one of the approvers, with arguments that fit the schema and the rules.',
  ),
  budget_refused: entry(
    'request',
    false,
    'A delegated turn cannot get more than the turn it works for has left.',
    'Raise the budget of the turn that the message names first.',
  ),
  invalid_input: entry('request', false, 'A chat message is malformed.', 'Correct the field that the message names.'),
  agent_busy: entry('request', true, 'The agent is at work.', 'Retry when it is idle, or enqueue without uiAction.'),
  inbox_full: entry('request', true, 'Too much waits for the agent.', 'Retry later.'),
  idempotency_conflict: entry(
    'request',
    false,
    'The idempotency key was used with another request.',
    'Use a new key for a new request.',
  ),
  agent_not_found: entry('request', false, 'No such agent.', 'Name an agent that exists, or make a new one.'),
  turn_not_found: entry('request', false, 'No such turn.', 'Check the turn id (agentturn turns ls).'),
  turn_ended: entry('request', false, 'The turn is over.', 'Enqueue the request again to run it anew.'),
  call_not_found: entry(
    'request',
    false,
    'No such call waits for a result.',
    'Deliver to the URL that the tool of this very call has made.',
  ),
  call_answered: entry('request', false, 'The call has another result.', 'Nothing to do: the first result counts.'),
  callback_unknown: entry(
    'request',
    false,
    'The callback is none of this gateway.',
    'Use the whole URL as the tool made it, at a gateway with the same AGENTTURN_SIGNING_KEY.',
  ),
  trigger_unknown: entry(
    'request',
    false,
    'No trigger has this token.',
    'Use the whole path as it was made, or have another trigger made if this one was revoked.',
  ),
  payload_too_large: entry('request', false, 'A value is larger than allowed.', 'Write it as a card and pass its id.'),
  unauthenticated: entry(
    'request',
    false,
    'The request names nobody that is known.',
    'Send "Authorization: Bearer TOKEN" with a token of this gateway.',
  ),
  permission_denied: entry(
    'request',
    false,
    'The token is not for this.',
    'Use a token with the scope that the message names.',
  ),
  not_found: entry('request', false, 'There is nothing under this path.', 'Compare the path with /openapi.json.'),
  method_not_allowed: entry(
    'request',
    false,
    'This path does not take this method.',
    'Use a method that the Allow header names.',
  ),
  unsupported_media_type: entry(
    'request',
    false,
    'The body has a type that this path does not take.',
    'Send JSON, with "Content-Type: application/json"; a trigger takes text too.',
  ),
  too_many_requests: entry(
    'request',
    true,
    'The token asks too much at once.',
    'Wait as long as the Retry-After header says.',
  ),
  result_wait_timeout: entry('request', true, 'The turn has not ended yet.', 'Wait longer; the turn goes on.'),

  // These codes say what keeps a process or an activity from working.
  invalid_config: entry('process', false, 'A setting is invalid.', 'Correct the named variable or option.'),
  app_not_loaded: entry(
    'process',
    false,
    'The app module could not be loaded.',
    'Correct what the message names; an app module has defineApp(...) as its default export.',
  ),
  file_exists: entry(
    'process',
    false,
    'A file that would be written is there already.',
    'Name another folder, or move the file away.',
  ),
  temporal_unreachable: entry(
    'process',
    true,
    'The Temporal server does not answer.',
    'Start the server (agentturn dev), or correct TEMPORAL_ADDRESS.',
  ),
  namespace_not_found: entry(
    'process',
    false,
    'The Temporal server has no such namespace.',
    'Correct --namespace or TEMPORAL_NAMESPACE, or make it (agentturn doctor --fix).',
  ),
  temporal_unavailable: entry(
    'process',
    false,
    'No Temporal server could be found or started.',
    'Install the Temporal CLI or set TEMPORAL_ADDRESS.',
  ),
  temporal_start_failed: entry(
    'process',
    false,
    'The Temporal dev server did not start.',
    'Read its last lines; move the data folder aside if it is damaged.',
  ),
  temporal_not_ready: entry(
    'process',
    false,
    'The Temporal namespace lacks what agents need.',
    'Register the search attributes with the command in the message.',
  ),
  gateway_unreachable: entry(
    'process',
    true,
    'The gateway does not answer.',
    'Check the URL of the gateway and that it runs.',
  ),
  port_in_use: entry(
    'process',
    true,
    'The port is taken by another process.',
    'Stop that process or choose another port.',
  ),
  store_unavailable: entry(
    'process',
    true,
    'The store does not answer.',
    'Check AGENTTURN_STORE and that the database is up.',
  ),
  store_corrupt: entry(
    'process',
    false,
    'The store file is damaged or not a database.',
    'Restore a backup or move the file aside.',
  ),
  store_mismatch: entry(
    'process',
    false,
    'The Temporal namespace belongs to another store.',
    'Name the server of this store, another namespace, or the store that the message names.',
  ),
  store_locked: entry(
    'process',
    true,
    'The store is locked by another process.',
    'Stop the process that holds it, then retry.',
  ),
  journal_unavailable: entry('process', true, 'A session journal cannot be written.', 'Make its folder writable.'),
  journal_corrupt: entry('process', true, 'A session journal cannot be read.', 'Run agentturn rebuild --journal.'),
  stale_epoch: entry(
    'process',
    false,
    'The lease of this turn is over; nothing was written.',
    'Nothing to do: a newer turn has taken over.',
  ),
  agent_not_served: entry(
    'process',
    true,
    'The app of this worker does not define the agent of the turn.',
    'Give one of the apps a workerTarget of its own, or run a worker whose app defines the agent.',
  ),
  call_overtaken: entry(
    'process',
    true,
    'The call has its result, or another attempt at it runs; nothing was done.',
    'Nothing to do: the next attempt finds it.',
  ),
  step_closed: entry(
    'process',
    false,
    'The turn has given this step up and gone on; nothing was written.',
    'Nothing to do: the answer came too late.',
  ),
} as const satisfies Record<string, FailureEntry>;

/** A code of the catalogue. */
export type FailureCode = keyof typeof FAILURES;

/** Whether a value is a code of the catalogue. */
export const isFailureCode = (code: unknown): code is FailureCode =>
  typeof code === 'string' && Object.hasOwn(FAILURES, code);

/** What an error may be made with, besides its code and its message. */
export interface CodedErrorOptions {
  readonly cause?: unknown;
  /** What to do about this very error, where something better can be said than what the catalogue says. */
  readonly cure?: string;
}

/** An error with a code of the catalogue. Its message says what was expected and what came. */
export class CodedError extends Error {
  readonly code: FailureCode;
  /** What to do about it; a program that it ends prints this with the rest. */
  readonly cure: string;

  constructor(code: FailureCode, message: string, { cure, ...options }: CodedErrorOptions = {}) {
    super(message, options);
    this.name = 'CodedError';
    this.code = code;
    this.cure = cure ?? FAILURES[code].cure;
  }
}

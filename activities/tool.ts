/** A tool as an activity runs it: what bounds its run, the validator of its arguments, its function. */
import type { JsonObject, JsonValue } from '../workflows/protocol/json.ts';
import type { ToolSpec } from '../workflows/protocol/profile.ts';

/** Writes to the worker's log, with the ids of the call on every line. Never what may be in a prompt: a log is not made for that. */
export interface ToolLogger {
  debug(message: string, attributes?: Readonly<Record<string, unknown>>): void;
  info(message: string, attributes?: Readonly<Record<string, unknown>>): void;
  warn(message: string, attributes?: Readonly<Record<string, unknown>>): void;
  error(message: string, attributes?: Readonly<Record<string, unknown>>): void;
}

/** What the function of a tool is told about its call. */
export interface ToolContext {
  readonly agentId: string;
  readonly agentTurnId: string;
  /** Rises with every turn of the agent: what the tool changes can refuse a writer with a smaller one (a fencing token). */
  readonly turnEpoch: number;
  readonly callId: string;
  /** The same in every attempt of this call: hand it to whatever the tool changes. */
  readonly idempotencyKey: string;
  /** Number of this attempt to run the call: it rises with each, from 1, and a number may be left out. A worker that is lost is followed by another attempt. */
  readonly attempt: number;
  /** Number of this execution within the attempt, from 1: one that failed is followed by another where the tool has a `retry`. */
  readonly execution: number;
  /** W3C trace context of the request, to be passed on to whatever the tool calls; null when the request came without one. */
  readonly traceparent: string | null;
  /** The id that the caller gave a chain of requests; null when the request came without one (T26). */
  readonly correlationId: string | null;
  /** What the caller sent along with the request; empty when nothing was sent, and for a turn that another agent delegated. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Lines of the worker's log that name `agentId`, `agentTurnId`, `callId` and `tool`. */
  readonly logger: ToolLogger;
  /**
   * Says how far the tool is: a short text or a small value of JSON, shown with the turn and in its events. It never throws and may be called as
   * often as one likes: the latest value is written about once a second, more rarely in long work; beyond `SIZES.progressBytes` a text is
   * cut and another value left out.
   */
  progress(value: JsonValue): void;
  /**
   * The URL at which whoever has it delivers the result of this call, once, by `POST`, for as long as the call waits: for a service that has no token
   * of the gateway. The same in every attempt. The body is a report, `{"status":"success","result":…}`, or with `body: 'result'` the result
   * itself, for a service that sends what it likes. Errors: `callbacks_not_configured`.
   */
  callbackUrl(options?: { readonly body?: 'report' | 'result' }): string;
  /**
   * Aborted when the turn is stopped or was given to another worker, the tool's timeout passed, the worker shuts down, or what the tool
   * left behind failed. It says nothing any more when the call has its result.
   */
  readonly signal: AbortSignal;
}

/** What an activity needs in order to run a call, be the tool one of the app or built in. */
export interface RunnableTool {
  readonly spec: Pick<ToolSpec, 'afterExecution' | 'timeoutMs' | 'sideEffects' | 'retry'>;
  /**
   * The arguments as the function takes them, with defaults and transforms. Called when the call is proposed, and once more for arguments that
   * an approver wrote. Throws a ZodError when the arguments do not match.
   */
  readonly parse: (args: JsonObject) => JsonObject;
  /**
   * Runs the tool with arguments that `parse` returned. What it returns is the result, once it went through JSON; what it throws becomes a
   * failed result.
   */
  readonly execute: (args: JsonObject, context: ToolContext) => Promise<unknown>;
}

/** A tool of the app, as `defineTool` makes it. */
export interface Tool extends RunnableTool {
  readonly spec: ToolSpec;
  /** File and line of its definition; undefined where Node does not tell. */
  readonly definedAt: string | undefined;
}

/** How long one execution of a tool may take that says nothing else, in ms. */
export const DEFAULT_TOOL_TIMEOUT_MS = 60_000;

/** Whether a start that was lost may be followed by another one (W10). A tool that this worker does not know is not repeated. */
export const isRepeatable = (tool: RunnableTool | undefined): boolean =>
  tool !== undefined && tool.spec.sideEffects !== 'unsafe';

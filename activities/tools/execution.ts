/**
 * The executions of a tool within one attempt at its call.
 *
 * Invariants
 * 1. Whatever an execution does becomes a result for the model, unless the attempt has ended (T20).
 * 2. Right before each execution the lease is confirmed, and nothing else comes before the first line of the tool (W10).
 * 3. Executions that follow one that failed are covered by the same claim: only a tool that may run twice has more than one.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { log } from '@temporalio/activity';
import { z } from 'zod';
import type { ClaimOutcome } from '../../workflows/contract/calls.ts';
import type { ToolError, ToolResultContent } from '../../workflows/protocol/cards.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';
import { depthProblem } from '../../workflows/protocol/json-schema.ts';
import type { RetryPolicy } from '../../workflows/protocol/profile.ts';
import { describeError, loggedError } from '../failure.ts';
import type { Holding } from '../heartbeat.ts';
import { throughJson } from '../serialisable.ts';
import type { RunnableTool, ToolContext } from '../tool.ts';
import { ToolRun } from './tool-faults.ts';

/** What a run yields, without the names of its call. */
type Body = Pick<ToolResultContent, 'status' | 'result' | 'error'>;

/**
 * Runs the tool, again where its `retry` says so, and returns the result of the last execution. Throws only when there is no result to speak of,
 * because the attempt has ended.
 */
export async function execute(
  tool: RunnableTool | undefined,
  name: string,
  claim: Extract<ClaimOutcome, { kind: 'go' }>,
  context: Omit<ToolContext, 'signal' | 'execution'>,
  holding: Holding,
): Promise<Body> {
  if (!tool)
    return failed({ code: 'unknown_tool', message: `this worker's app has no tool ${name}`, kind: 'recoverable' });
  const args = claim.edited ? reparsed(tool, claim.call.arguments) : claim.call.arguments;
  if (args instanceof Error)
    return failed({ code: 'invalid_arguments', message: `as edited: ${args.message}`, kind: 'recoverable' });
  const { attempts = 1, ...backoff } = tool.spec.retry ?? {};
  for (let execution = 1; ; execution += 1) {
    // Nothing but the first line of the tool comes after this: what is claimed may be over by now (W10).
    await holding.confirm();
    const body = await executeOnce(tool, name, args, { ...context, execution }, holding.signal);
    if (execution >= attempts || !mayPass(body)) return body;
    await pause(pauseMs(execution, backoff), holding.signal);
  }
}

/** Whether the next execution may do better: a result that is no JSON comes again. */
const mayPass = ({ error }: Body): boolean => error !== undefined && error.kind !== 'fatal';

/** How long to wait after so many executions: twice as long each time, up to the longest pause. */
const pauseMs = (executions: number, { initialMs = 0, maxMs = 0 }: Partial<RetryPolicy>): number =>
  Math.min(initialMs * 2 ** (executions - 1), maxMs);

/** Waits. Throws the reason of `ended` when that fires. */
async function pause(ms: number, ended: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal: ended });
  } catch {
    throw ended.reason;
  }
}

/** Runs the tool once. Throws the reason of `ended` when the attempt has ended, and nothing else. */
async function executeOnce(
  tool: RunnableTool,
  name: string,
  args: JsonObject,
  context: Omit<ToolContext, 'signal'>,
  ended: AbortSignal,
): Promise<Body> {
  const { timeoutMs } = tool.spec;
  const run = new ToolRun(name, context.callId);
  try {
    const value = await run.wait((signal) => tool.execute(args, { ...context, signal }), ended, timeoutMs);
    return succeeded(name, value);
  } catch (error) {
    // The turn is ending, or this worker is: there is no result to speak of. A tool that finished all the same keeps its own.
    if (ended.aborted) throw ended.reason;
    if (run.timedOut) return timedOut(name, timeoutMs);
    const { agentId, agentTurnId, callId, execution } = context;
    log.warn(`tool ${name} failed`, { agentId, agentTurnId, callId, execution, error: loggedError(error) });
    return failed({ code: codeOf(error), message: describeError(error), kind: 'recoverable' });
  }
}

/** What a tool got from its context and did not catch keeps its code: no other call does better. */
const codeOf = (error: unknown): string =>
  error instanceof CodedError && error.code === 'callbacks_not_configured' ? error.code : 'tool_failed';

/**
 * Arguments that an approver wrote, as the tool takes them: its own schema has not seen them yet (K7). An Error says what is wrong with them.
 */
function reparsed(tool: RunnableTool, args: JsonObject): JsonObject | Error {
  try {
    return tool.parse(args);
  } catch (error) {
    return new Error(error instanceof z.ZodError ? z.prettifyError(error) : describeError(error));
  }
}

/** The result as JSON; a failed result when the tool returned something else, or what is nested too deep to be kept. */
function succeeded(name: string, value: unknown): Body {
  const invalid = (what: string) =>
    failed({ code: 'invalid_result', message: `the result of ${name} ${what}`, kind: 'fatal' });
  try {
    const result = throughJson(value);
    const problem = depthProblem(result);
    return problem === null ? { status: 'success', result } : invalid(problem);
  } catch (error) {
    return invalid(`is not JSON: ${describeError(error)}`);
  }
}

const timedOut = (name: string, timeoutMs: number): Body => ({
  status: 'timeout',
  error: {
    code: 'tool_timeout',
    message: `${name} took longer than ${timeoutMs} ms`,
    kind: 'timeout',
    retryable: true,
  },
});

const failed = (error: ToolError): Body => ({ status: 'failed', error });

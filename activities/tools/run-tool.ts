/**
 * The tool activity: it claims the call, runs the tool and stores the result (W10).
 *
 * Invariants
 * 1. Whatever a tool does becomes a result for the model: the activity fails only when the store is away, the lease is over, or the
 *    attempt is (T20).
 * 2. Once the lease is confirmed, nothing else comes before the first line of the tool.
 */
import { ApplicationFailure, Context, log } from '@temporalio/activity';
import type { LogMetadata } from '@temporalio/common';
import type { RunToolInput, RunToolOutcome } from '../../workflows/contract/activities.ts';
import type { CallAttempt, CallResult, ClaimedCall, ClaimOutcome } from '../../workflows/contract/calls.ts';
import type { SettledCall } from '../../workflows/kernel/calls.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { JsonValue } from '../../workflows/protocol/json.ts';
import { DEFAULT_SUSPEND_TIMEOUT_MS } from '../../workflows/protocol/sizes.ts';
import { MAX_WAIT_MS } from '../../workflows/protocol/time.ts';
import { effectiveAfterExecution, suspendTimeoutOf } from '../../workflows/waiting/after-execution.ts';
import type { App } from '../app/app.ts';
import { activityAttempt, type Holding, isFirstAttempt, withHeartbeat } from '../heartbeat.ts';
import { outlastOutage } from '../store-outage.ts';
import { isRepeatable, type ToolContext, type ToolLogger } from '../tool.ts';
import type { HandoverExecutor } from '../turn-workflows.ts';
import { type DelegatingStore, runDelegation } from './builtin/delegation.ts';
import { builtinTool, runnableTool } from './builtin/registry.ts';
import { execute } from './execution.ts';
import { ProgressReporter } from './progress-reporter.ts';

/** What the tool activity needs. */
export interface ToolDeps {
  readonly store: DelegatingStore;
  readonly app: App;
  readonly workflows: HandoverExecutor;
  /** Where the result of a call can be delivered; absent where nothing takes callbacks. */
  readonly callbackUrl?: ((call: CallIds) => string) | undefined;
}

/** The ids of a call that are the same in every attempt. */
type CallIds = Pick<ToolContext, 'agentId' | 'agentTurnId' | 'callId'>;

/**
 * Returns the result of the call, or until when the call waits for a result from outside. Throws `stale_epoch` when the lease is over and
 * `call_overtaken` when the call went on without this attempt (T5).
 */
export const runTool =
  (deps: ToolDeps) =>
  (input: RunToolInput): Promise<RunToolOutcome> => {
    const { agentId, agentTurnId, turnEpoch } = input;
    let claimed: CallAttempt | undefined;
    const mayGoOn = () => deps.store.checkLease({ agentId, agentTurnId, turnEpoch }, claimed);
    return withHeartbeat(mayGoOn, (holding) => {
      const holdAs = (attempt: CallAttempt) => {
        claimed = attempt;
        return holding;
      };
      return performCall(deps, input, { holdAs });
    });
  };

/** What a call has from the activity that it is part of. */
export interface CallPart {
  /** The claim that was made with its step; absent where it is yet to be claimed. */
  readonly claim?: ClaimedCall | undefined;
  /** The hold for an attempt at the call, which is claimed by then. */
  readonly holdAs: (attempt: CallAttempt) => Holding;
  /** Stores the result, where more may be stored with it; the store's `settleCall` when absent. */
  readonly settleWith?: (result: CallResult) => Promise<SettledCall>;
}

/** Performs the call within an activity that heartbeats. Errors: as those of `runTool`. */
export async function performCall(
  { store, app, workflows, callbackUrl }: ToolDeps,
  input: RunToolInput,
  part: CallPart,
): Promise<RunToolOutcome> {
  const { agentId, agentTurnId, turnEpoch, acting, callId, tool: name } = input;
  const fence = { agentId, agentTurnId, turnEpoch, ...(acting === undefined ? {} : { acting }) };
  const claimed = { callId, first: isFirstAttempt() && !input.again, by: activityAttempt() };
  const builtin = builtinTool(name);
  if (builtin && 'delegation' in builtin) return runDelegation({ store, workflows }, builtin, fence, claimed);
  const tool = runnableTool(app.tools, name);
  const claim = part.claim ?? (await store.claimCall(fence, { ...claimed, repeatable: isRepeatable(tool) }));
  if (claim.kind !== 'go') return claim;
  const { attempt, traceparent, correlationId, metadata } = claim;
  const holding = part.holdAs({ callId, attempt });
  const { signal } = holding;
  const request = { traceparent, correlationId, metadata };
  const logger = loggerOf(Context.current().log, { agentId, agentTurnId, callId, tool: name });
  const reporter = new ProgressReporter((value) => store.noteProgress(fence, { callId, attempt }, value), logger);
  const ids = { agentId, agentTurnId, turnEpoch, callId, idempotencyKey: callId, attempt };
  const callback = callbackOf(callbackUrl, { agentId, agentTurnId, callId });
  const progress = (value: JsonValue) => reporter.report(value);
  const context = { ...ids, ...request, logger, progress, callbackUrl: callback };
  const startedAt = performance.now();
  const body = await execute(tool, name, claim, context, holding).finally(() => reporter.close());
  const durationMs = Math.round(performance.now() - startedAt);
  const effective = effectiveAfterExecution(body.result, undefined, tool?.spec.afterExecution ?? 'continue');
  if (effective === 'suspend' && body.status === 'success') {
    const wantedMs = suspendTimeoutOf(body.result) ?? claim.suspendTimeoutMs ?? DEFAULT_SUSPEND_TIMEOUT_MS;
    if (wantedMs > MAX_WAIT_MS) log.warn(`${name} wants to wait ${wantedMs} ms: a year is the most`, { callId });
    const waitMs = Math.min(wantedMs, MAX_WAIT_MS);
    return answered(await outlastOutage(signal, () => store.suspendCall(fence, callId, waitMs)));
  }
  const afterExecution = effective === 'terminate' ? 'terminate' : 'continue';
  const content = { callId, tool: name, afterExecution, ...body } as const;
  const result = { callId, attempt, content, durationMs };
  const { settleWith = () => store.settleCall(fence, result) } = part;
  return { kind: 'settled', settled: await outlastOutage(signal, () => settleWith(result)) };
}

/**
 * Writes to the log of the activity, also from code that has left its async context. What the runtime says of a line stands above what the tool
 * says.
 */
function loggerOf(log: Context['log'], ids: LogMetadata): ToolLogger {
  const at = (level: keyof ToolLogger) => (message: string, attributes?: LogMetadata) =>
    log[level](message, { ...attributes, ...ids });
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** What `callbackUrl` of a tool's context does. */
const callbackOf =
  (urlOf: ToolDeps['callbackUrl'], call: CallIds): ToolContext['callbackUrl'] =>
  ({ body = 'report' } = {}) => {
    if (urlOf) return body === 'report' ? urlOf(call) : `${urlOf(call)}?body=${body}`;
    throw new CodedError(
      'callbacks_not_configured',
      'callbackUrl() needs AGENTTURN_SIGNING_KEY and AGENTTURN_GATEWAY_URL where this worker runs, or callbacks: { gatewayUrl, signingKeys } of startWorker',
    );
  };

/** How the store took a call that is to wait. */
function answered(outcome: ClaimOutcome): RunToolOutcome {
  if (outcome.kind !== 'go') return outcome;
  throw ApplicationFailure.nonRetryable('a suspended call cannot be started', 'protocol_violation');
}

/** What happens after a call, and how long it may wait, where its result says so in a `__cg_control` block (T13, T19). Pure. */
import { AFTER_EXECUTION, type AfterExecution } from '../protocol/cards.ts';
import { type JsonObject, type JsonValue, own } from '../protocol/json.ts';

/** What the turn does after a call: what the result says, else what the report says, else what the tool does by default (T19). */
export function effectiveAfterExecution(
  result: JsonValue | undefined,
  reported: AfterExecution | undefined,
  toolDefault: AfterExecution,
): AfterExecution {
  return controlOf(result) ?? reported ?? toolDefault;
}

/** What the result says; undefined when it says nothing, or nothing that is known. */
function controlOf(result: JsonValue | undefined): AfterExecution | undefined {
  const control = member(result, '__cg_control');
  const value = member(control, 'after_execution');
  return AFTER_EXECUTION.find((known) => known === value);
}

/**
 * How long this one call may wait, ms: `__cg_control.suspend_timeout_ms` of what its tool returned, which counts before what tool and profile
 * say (T13). Undefined when the result says nothing. The caller cuts it to the longest time that anything waits.
 */
export function suspendTimeoutOf(result: JsonValue | undefined): number | undefined {
  const value = member(member(result, '__cg_control'), 'suspend_timeout_ms');
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;
}

const member = (value: JsonValue | undefined, key: string): JsonValue | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? own(value as JsonObject, key) : undefined;

/** What happens after a call: the result's own word, then the report's, then the tool's default (T19). */
import { AFTER_EXECUTION, type AfterExecution } from '../protocol/cards.ts';
import { type JsonObject, type JsonValue, own } from '../protocol/json.ts';

export function effectiveAfterExecution(
  result: JsonValue | undefined,
  reported: AfterExecution | undefined,
  toolDefault: AfterExecution,
): AfterExecution {
  return controlOf(result) ?? reported ?? toolDefault;
}

/** A malformed control block counts as none. */
function controlOf(result: JsonValue | undefined): AfterExecution | undefined {
  const control = member(result, '__cg_control');
  const value = member(control, 'after_execution');
  return AFTER_EXECUTION.find((known) => known === value);
}

/**
 * How long this very call may wait, ms: `__cg_control.suspend_timeout_ms` of what its tool returned, before tool and profile (T13). As it
 * says, which may be longer than anything waits.
 */
export function suspendTimeoutOf(result: JsonValue | undefined): number | undefined {
  const value = member(member(result, '__cg_control'), 'suspend_timeout_ms');
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;
}

const member = (value: JsonValue | undefined, key: string): JsonValue | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? own(value as JsonObject, key) : undefined;

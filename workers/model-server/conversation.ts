/**
 * What OpenAI checks in a conversation beyond its types: calls and their answers pair up, nothing is empty, the tool choice is offered.
 *
 * Invariants
 * 1. A conversation that passes here is one that a provider accepts.
 * 2. One rule is stricter than OpenAI's: an empty text is refused here because other servers of the same wire refuse it. A tool's answer
 *    may be empty, as a tool may have nothing to say.
 */
import {
  type ChatMessage,
  type ChatRequest,
  forcedTool,
  invalidRequest,
  type ToolCallMessage,
  textOf,
  toolNames,
  type WireError,
} from './chat-request.ts';

/** Why a provider would refuse a request whose types are right; undefined when it would not. */
export function checkConversation(request: ChatRequest): WireError | undefined {
  return checkOptions(request) ?? checkTools(request) ?? checkMessages(request.messages);
}

function checkOptions(request: ChatRequest): WireError | undefined {
  if (request.stream_options && !request.stream) {
    const message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
    return invalidRequest(message, 'stream_options');
  }
  if (request.tools) return undefined;
  for (const param of ['tool_choice', 'parallel_tool_calls'] as const) {
    if (request[param] !== undefined) {
      return invalidRequest(
        `Invalid value for '${param}': '${param}' is only allowed when 'tools' are specified.`,
        param,
      );
    }
  }
  return undefined;
}

function checkTools(request: ChatRequest): WireError | undefined {
  const seen = new Set<string>();
  for (const [index, { function: offered }] of (request.tools ?? []).entries()) {
    if (seen.has(offered.name)) {
      const param = `tools[${index}].function.name`;
      return invalidRequest(`Invalid '${param}': tool names must be unique, '${offered.name}' is doubled.`, param);
    }
    seen.add(offered.name);
  }
  const forced = forcedTool(request);
  if (forced === undefined || toolNames(request).has(forced)) return undefined;
  const missing = `no function named '${forced}' was specified in the 'tools' parameter.`;
  return invalidRequest(`Invalid value for 'tool_choice': ${missing}`, 'tool_choice');
}

function checkMessages(messages: readonly ChatMessage[]): WireError | undefined {
  let unanswered = new Set<string>();
  for (const [index, message] of messages.entries()) {
    if (message.role === 'tool') {
      if (!unanswered.delete(message.tool_call_id)) return orphanAnswer(messages, index, message.tool_call_id);
      continue;
    }
    if (unanswered.size > 0) return missingAnswers(unanswered);
    const refusal = checkEmpty(message, index) ?? checkCallIds(message, index);
    if (refusal) return refusal;
    unanswered = new Set(callsOf(message).map((call) => call.id));
  }
  return unanswered.size > 0 ? missingAnswers(unanswered) : undefined;
}

const callsOf = (message: ChatMessage): readonly ToolCallMessage[] =>
  message.role === 'assistant' ? (message.tool_calls ?? []) : [];

function missingAnswers(ids: ReadonlySet<string>): WireError {
  const message =
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
    `The following tool_call_ids did not have response messages: ${[...ids].join(', ')}`;
  return invalidRequest(message, 'messages');
}

function orphanAnswer(messages: readonly ChatMessage[], index: number, id: string): WireError {
  const param = `messages[${index}].tool_call_id`;
  const caller = messages.slice(0, index).findLast((message) => message.role !== 'tool');
  if (caller && callsOf(caller).some((call) => call.id === id)) {
    return invalidRequest(`Invalid '${param}': '${id}' is answered twice.`, param);
  }
  const message =
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'. " +
    `No call '${id}' precedes this answer.`;
  return invalidRequest(message, param);
}

function checkEmpty(message: ChatMessage, index: number): WireError | undefined {
  const hasParts = Array.isArray(message.content) && message.content.some((item) => item.type !== 'text');
  if (hasParts || textOf(message) !== '') return undefined;
  if (message.role === 'assistant' && (message.tool_calls || message.refusal)) return undefined;
  const param = `messages[${index}].content`;
  return invalidRequest(`Invalid value for '${param}': expected a non-empty text, got an empty one.`, param);
}

function checkCallIds(message: ChatMessage, index: number): WireError | undefined {
  const ids = callsOf(message).map((call) => call.id);
  const doubled = ids.findIndex((id, at) => ids.indexOf(id) !== at);
  if (doubled === -1) return undefined;
  const param = `messages[${index}].tool_calls[${doubled}].id`;
  return invalidRequest(`Invalid '${param}': duplicate tool_call id '${ids[doubled]}'.`, param);
}

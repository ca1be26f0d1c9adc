/**
 * The request side of the Chat Completions wire: schema, types, and a refusal in OpenAI's words for a body that does not fit. Unknown
 * fields pass, as a provider's own options do.
 */
import { z } from 'zod';

/** What the name of a function may look like on the wire. */
export const FUNCTION_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const ROLES = ['system', 'developer', 'user', 'assistant', 'tool'] as const;

const functionName = z.string().regex(FUNCTION_NAME);
const part = z.looseObject({ type: z.string(), text: z.string().optional() });
const content = z.union([z.string(), z.array(part).min(1)]);
const toolCall = z.looseObject({
  id: z.string().min(1),
  type: z.literal('function'),
  function: z.looseObject({ name: functionName, arguments: z.string() }),
});
const instruction = { content, name: z.string().optional() };

const message = z.discriminatedUnion('role', [
  z.looseObject({ role: z.literal('system'), ...instruction }),
  z.looseObject({ role: z.literal('developer'), ...instruction }),
  z.looseObject({ role: z.literal('user'), ...instruction }),
  z.looseObject({
    role: z.literal('assistant'),
    content: content.nullish(),
    refusal: z.string().nullish(),
    tool_calls: z.array(toolCall).min(1).optional(),
  }),
  z.looseObject({ role: z.literal('tool'), content, tool_call_id: z.string().min(1) }),
]);

const tool = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({
    name: functionName,
    description: z.string().optional(),
    parameters: z.looseObject({ type: z.literal('object') }).optional(),
  }),
});

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: z.string() }) }),
]);

const chatRequestSchema = z.looseObject({
  model: z.string().min(1),
  messages: z.array(message).min(1),
  tools: z.array(tool).min(1).max(128).optional(),
  tool_choice: toolChoice.optional(),
  parallel_tool_calls: z.boolean().optional(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
});

/** A request whose fields have the right types; `checkConversation` checks whether its messages make sense. */
export type ChatRequest = z.output<typeof chatRequestSchema>;
/** One message of a request. */
export type ChatMessage = ChatRequest['messages'][number];
/** One tool that a request offers. */
export type ChatTool = NonNullable<ChatRequest['tools']>[number];
/** One call in an assistant's message. */
export type ToolCallMessage = z.output<typeof toolCall>;

/** OpenAI's error object; on the wire it travels as `{ error }`. */
export interface WireError {
  readonly message: string;
  readonly type: string;
  /** The path of the field that is wrong; null when the error is about no field. */
  readonly param: string | null;
  readonly code: string | null;
}

/** The error of a request that the client must change; `param` is the path of the field that is wrong. */
export function invalidRequest(message: string, param: string | null, code: string | null = null): WireError {
  return { message, type: 'invalid_request_error', param, code };
}

/** A request, or why its body is none. */
export type ParsedRequest =
  | { readonly ok: true; readonly request: ChatRequest }
  | { readonly ok: false; readonly error: WireError };

/** Reads a body that was parsed as JSON; never throws. */
export function parseChatRequest(body: unknown): ParsedRequest {
  const parsed = chatRequestSchema.safeParse(body);
  if (parsed.success) return { ok: true, request: parsed.data };
  const [issue] = parsed.error.issues;
  return { ok: false, error: issue ? refusalOf(issue, body) : invalidRequest('Invalid request.', null) };
}

function refusalOf(issue: z.core.$ZodIssue, body: unknown): WireError {
  const param = paramOf(issue.path);
  const value = valueAt(body, issue.path);
  if (value === undefined) {
    return invalidRequest(`Missing required parameter: '${param}'.`, param, 'missing_required_parameter');
  }
  if (issue.code === 'too_small' && Array.isArray(value)) {
    const expected = 'Expected an array with minimum length 1, but got an empty array instead.';
    return invalidRequest(`Invalid '${param}': empty array. ${expected}`, param, 'empty_array');
  }
  if (issue.code === 'invalid_format') {
    const expected = `Expected a string that matches the pattern '${FUNCTION_NAME.source}'.`;
    return invalidRequest(`Invalid '${param}': string does not match pattern. ${expected}`, param, 'invalid_value');
  }
  if (issue.path.at(-1) === 'role') {
    const supported = ROLES.map((role) => `'${role}'`).join(', ');
    const message = `Invalid value: '${String(value)}'. Supported values are: ${supported}.`;
    return invalidRequest(message, param, 'invalid_value');
  }
  const got = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;
  return invalidRequest(`Invalid value for '${param}': ${issue.message}, but got ${got}.`, param, 'invalid_type');
}

function paramOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    return text === '' ? String(key) : `${text}.${String(key)}`;
  }, '');
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((value, key) => {
    return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
  }, body);
}

/** The text of a message; parts that are not text (images, audio) have none. */
export function textOf(message: ChatMessage): string {
  const { content } = message;
  if (typeof content === 'string') return content;
  return (content ?? []).map((item) => item.text ?? '').join('');
}

/** The names of the tools that a request offers. */
export function toolNames(request: ChatRequest): ReadonlySet<string> {
  return new Set((request.tools ?? []).map((offered) => offered.function.name));
}

/** The one tool that `tool_choice` forces; undefined when it leaves a choice. */
export function forcedTool(request: ChatRequest): string | undefined {
  const choice = request.tool_choice;
  return typeof choice === 'object' ? choice.function.name : undefined;
}

/** What a note that a runtime puts between the messages looks like: a user message that opens with a tag or a bracketed label. */
const SYSTEM_NOTE = /^\s*(?:<[a-z][\w-]*>|\[(?:system|note|summary|state)\b|system note\b)/i;

/** The index of the newest message written by a person (or a calling agent); -1 when there is none. */
export function lastUserIndex(messages: readonly ChatMessage[]): number {
  return messages.findLastIndex((message) => message.role === 'user' && !SYSTEM_NOTE.test(textOf(message)));
}

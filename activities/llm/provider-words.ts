/**
 * How providers say what their errors mean, a row each: a new provider is a new row. The status alone says most; here is what it does not.
 *
 * Sources: the provider's own reference of errors, and for servers their code; where none documents it, what it was seen to send.
 */

/** What an error says, as far as the client of the wire could read it. */
export interface SaidError {
  /** Undefined for one in the middle of a stream. */
  readonly status: number | undefined;
  readonly code: unknown;
  readonly type: unknown;
  readonly message: string;
}

interface Row {
  readonly provider: string;
  /** 400, or none in the middle of a stream, when left out. */
  readonly status?: readonly (number | undefined)[];
  /** The `code` or the `type` of the error. */
  readonly named?: string;
  readonly says?: RegExp;
}

/** The prompt is longer than the model takes. */
const TOO_LONG: readonly Row[] = [
  // platform.openai.com/docs/guides/error-codes, console.groq.com/docs/errors
  { provider: 'OpenAI, Groq, Azure', named: 'context_length_exceeded' },
  // vllm: entrypoints/openai/serving_engine.py; api-docs.deepseek.com says the same
  { provider: 'vLLM, DeepSeek, Together', says: /maximum context length is \d+ tokens/i },
  // docs.mistral.ai, code 3051
  { provider: 'Mistral', says: /too large for model with \d+ maximum context length/i },
  // docs.anthropic.com/en/api/errors, by its compatible endpoint
  { provider: 'Anthropic', says: /prompt is too long: \d+ tokens/i },
  // ai.google.dev/gemini-api/docs/openai
  { provider: 'Google', says: /input token count.{0,40} exceeds the maximum number of tokens/i },
  // llama.cpp: tools/server/server.cpp
  { provider: 'llama.cpp', status: [400, 500, undefined], named: 'exceed_context_size_error' },
  // docs.aws.amazon.com/bedrock, by a proxy
  { provider: 'Bedrock', says: /input is too long for requested model/i },
  { provider: 'others', says: /context length|too many tokens/i },
  // A gateway in front of a provider: the body of the request, which is the prompt, is too large.
  { provider: 'gateways', status: [413] },
];

/** The prompt is refused for what it says: nobody can mend that outside of the turn. */
const REFUSED: readonly Row[] = [
  // learn.microsoft.com/azure/ai-services/openai/concepts/content-filter
  { provider: 'Azure', named: 'content_filter' },
  { provider: 'Azure, by a gateway', says: /content management policy/i },
  // platform.openai.com/docs/guides/error-codes
  { provider: 'OpenAI, OpenRouter', status: [400, 403, undefined], named: 'content_policy_violation' },
  { provider: 'OpenAI', named: 'moderation_blocked' },
  // its reasoning models, by code invalid_prompt; seen in openai/codex#7250
  { provider: 'OpenAI', says: /prompt was flagged as potentially violating/i },
  // a code in words, and a text in place of the error; seen in UKGovernmentBEIS/inspect_ai#2267
  { provider: 'xAI', status: [400, 403], says: /content violates usage guidelines/i },
  // openrouter.ai/docs/api/reference/errors-and-debugging: 403 is not its word for a key. A firewall's page says "Request blocked." alone.
  { provider: 'OpenRouter', status: [403], says: /requires moderation|was flagged|request blocked: /i },
  // docs.anthropic.com/en/api/errors
  { provider: 'Anthropic', says: /blocked by content filtering policy/i },
  // api-docs.deepseek.com
  { provider: 'DeepSeek', says: /content exists risk/i },
  // help.aliyun.com/model-studio/error-code
  { provider: 'Qwen', named: 'data_inspection_failed' },
];

/** The status of a prompt that is too long or refused where its row says none. */
const USUAL: readonly (number | undefined)[] = [400, undefined];

/** Whether the error says that the prompt is refused for what it says. */
export const saysRefused = (error: SaidError): boolean => REFUSED.some((row) => isSaid(row, error));

/** Whether the error says that the prompt is longer than the model takes. */
export const saysTooLong = (error: SaidError): boolean => TOO_LONG.some((row) => isSaid(row, error));

function isSaid({ status = USUAL, named, says }: Row, error: SaidError): boolean {
  if (!status.includes(error.status)) return false;
  if (named !== undefined) return error.code === named || error.type === named;
  // In the middle of a stream only a name is certain.
  return says === undefined || (error.status !== undefined && says.test(error.message));
}

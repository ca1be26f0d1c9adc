/** What a model call used, in tokens: as the provider counted it, where that can be believed, else as our own tokenizer counts (W17). */
import type { Usage } from '../../workflows/protocol/turn.ts';
import { countTokens } from '../tokens.ts';
import type { ModelReply, ModelRequest } from './model.ts';

/** No window holds as many tokens: a greater number is no count. */
const MOST_TOKENS = 20_000_000;

const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= MOST_TOKENS;

/**
 * The usage that a provider reported; null unless it is a count: whole numbers, an input that is not empty, no more of it cached than there
 * is.
 */
export function countedUsage(reported: unknown): Usage | null {
  if (typeof reported !== 'object' || reported === null) return null;
  const { prompt_tokens: input, completion_tokens: output, prompt_tokens_details: details } = reported as WireUsage;
  const cached = details?.cached_tokens ?? 0;
  if (!isCount(input) || !isCount(output) || !isCount(cached)) return null;
  return input === 0 || cached > input ? null : { input, output, cached };
}

/** The members of a usage that are read, of whatever type they come. */
interface WireUsage {
  readonly prompt_tokens?: unknown;
  readonly completion_tokens?: unknown;
  readonly prompt_tokens_details?: { readonly cached_tokens?: unknown } | null;
}

/** Tokens of a prompt by our own tokenizer. */
export const promptTokens = ({ messages, tools = [] }: Pick<ModelRequest, 'messages' | 'tools'>): number =>
  countTokens(JSON.stringify(messages)) + (tools.length > 0 ? countTokens(JSON.stringify(tools)) : 0);

/** The usage by our own tokenizer, over what was sent and what came; it says that it is an estimate. */
export function estimatedUsage(
  request: Pick<ModelRequest, 'messages' | 'tools'>,
  { text, refusal, calls }: Pick<ModelReply, 'text' | 'refusal' | 'calls'>,
): Usage {
  const said = [text, refusal, ...calls.flatMap((call) => [call.name, call.arguments])];
  return {
    input: promptTokens(request),
    output: said.reduce((sum, part) => sum + countTokens(part), 0),
    cached: 0,
    estimated: true,
  };
}

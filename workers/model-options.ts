/** Whether a model is named at all: without one, a worker would send requests and prompts to OpenAI, and be refused there. */
import type { ModelOptions } from '../activities/llm/openai.ts';
import { CodedError } from '../workflows/protocol/failures.ts';

/** Whether the options name an endpoint: a key, a URL, or both. An empty text is none. */
export const isConfigured = ({ apiKey, baseUrl }: ModelOptions): boolean => Boolean(apiKey) || Boolean(baseUrl);

/** Throws `invalid_config` unless the options name an endpoint; `cure` says how it is named here. */
export function requireModel(options: ModelOptions, cure: string): void {
  if (!isConfigured(options)) throw new CodedError('invalid_config', `a worker needs a model: ${cure}`);
}

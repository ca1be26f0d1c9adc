/** Whether a model is named at all: without one, a worker would send requests and prompts to OpenAI, and be refused there. */
import type { ModelOptions } from '../activities/llm/openai.ts';
import { commandLine } from '../client/command-line.ts';
import { CodedError } from '../workflows/protocol/failures.ts';

/** Whether the options name an endpoint: a key, a URL, or both. An empty text is none. */
export const isConfigured = ({ apiKey, baseUrl }: ModelOptions): boolean => Boolean(apiKey) || Boolean(baseUrl);

const OPENAI_URL = 'https://api.openai.com/v1';

/** A configured model as a phrase for people, the same for all processes that use it. */
export const modelName = ({ defaultModel, baseUrl }: ModelOptions): string =>
  `${defaultModel} at ${baseUrl ?? OPENAI_URL}`;

/** Throws `invalid_config` unless the options name an endpoint; `how` says how it is named here. */
export function requireModel(options: ModelOptions, how: string): void {
  if (isConfigured(options)) return;
  throw new CodedError('invalid_config', `a worker needs a model: ${how}`, {
    cure:
      `Name an endpoint. To try without one: "${commandLine('dev')}" prints the OPENAI_BASE_URL of its offline model, and startScriptedModel of ` +
      'agentturn/testing answers as it is told.',
  });
}

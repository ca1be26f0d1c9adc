/**
 * How providers say why the model stopped, a row each: a new word is one more in its row. A part never counts as a whole, and neither does an
 * answer that ends with a word that no row has (K11).
 */

/**
 * `whole`: the model was done. `cut`: a limit ended it. `filtered`: what it said was refused. `failed`: the provider broke off, and another call may
 * succeed. `unknown`: no word that is known.
 */
export type Finish = 'whole' | 'cut' | 'filtered' | 'failed' | 'unknown';

/** Sources: the provider's reference of its API; for servers their code. */
const WORDS: readonly (readonly [Finish, RegExp])[] = [
  // OpenAI and all who follow it
  ['whole', /^(stop|tool_calls|function_call)$/i],
  // Anthropic and Bedrock; Text Generation Inference; Together; Cohere; MLX; gateways; Baidu
  ['whole', /^(end_turn|tool_use|stop_sequence|eos_token|eos|complete|tool_call|end|normal)$/i],
  // OpenAI; Anthropic and Cohere; Mistral; OpenAI's Responses; a context that is full at Anthropic and Bedrock
  ['cut', /^(length|max_tokens|model_length|max_output_tokens|model_context_window_exceeded)$/i],
  // OpenAI and Azure; Anthropic; Zhipu; Bedrock; Cohere
  ['filtered', /^(content_filter(ed)?|refusal|sensitive|guardrail_intervened|error_toxic)$/i],
  // Google
  ['filtered', /^(image_)?(safety|recitation|blocklist|prohibited_content|spii|language)$/i],
  // OpenRouter and Mistral; vLLM and SGLang; DeepSeek; Zhipu; Cohere
  ['failed', /^(error|abort|insufficient_system_resource|network_error|error_limit)$/i],
];

/** What the provider's word means for the answer. Google says more before it, as `function_call_filter: MALFORMED_FUNCTION_CALL`. */
export function finishOf(said: string): Finish {
  const word = said.slice(said.lastIndexOf(' ') + 1);
  return WORDS.find(([, words]) => words.test(word))?.[0] ?? 'unknown';
}

/** What the provider says as it may be kept: `other` for what is not printable, empty where it says nothing, as some do by the word null. */
export function finishWord(reason: unknown): string {
  if (typeof reason !== 'string' || reason === 'null') return '';
  return /^[\x20-\x7e]{0,80}$/.test(reason) ? reason : 'other';
}

/** One model call over the OpenAI Chat Completions wire, streamed; and what the provider's errors mean (W14). */
import OpenAI, { APIConnectionError, APIError, APIUserAbortError, OpenAIError } from 'openai';
import type { ChatCompletionChunk, ChatCompletionCreateParamsStreaming } from 'openai/resources/chat/completions';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { Usage } from '../../workflows/protocol/turn.ts';
import { describeError, type RetryHint } from '../failure.ts';

export interface StreamedCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

export interface ModelReply {
  readonly text: string;
  readonly refusal: string;
  readonly calls: readonly StreamedCall[];
  readonly finishReason: string;
  readonly model: string;
  readonly usage: Usage;
  readonly latencyMs: number;
  readonly firstTokenMs: number | null;
}

export interface ModelOptions {
  readonly apiKey: string | undefined;
  readonly baseUrl: string | undefined;
  /** Model of profiles that name none. */
  readonly defaultModel: string;
  /** Until the first chunk; default 10 min (T23). */
  readonly firstByteTimeoutMs?: number;
  /** Between chunks; default 60 s. */
  readonly streamIdleTimeoutMs?: number;
}

export type ModelRequest = Omit<ChatCompletionCreateParamsStreaming, 'stream' | 'stream_options'>;

export interface Model {
  readonly defaultModel: string;
  /** `onChunk` is called for each piece of the stream as it comes. */
  stream(params: ModelRequest, signal: AbortSignal, onChunk?: () => void): Promise<ModelReply>;
}

const FIRST_BYTE_TIMEOUT_MS = 10 * 60_000;
const STREAM_IDLE_TIMEOUT_MS = 60_000;

/** Retries are Temporal's, so the SDK makes none. */
export function openAiModel(options: ModelOptions): Model {
  const client = new OpenAI({
    // A local server without authentication still needs the header to be there.
    apiKey: options.apiKey ?? 'none',
    ...(options.baseUrl === undefined ? {} : { baseURL: options.baseUrl }),
    maxRetries: 0,
    timeout: options.firstByteTimeoutMs ?? FIRST_BYTE_TIMEOUT_MS,
  });
  return {
    defaultModel: options.defaultModel,
    async stream(params, signal, onChunk) {
      const stall = new StallGuard(signal, options);
      try {
        const startedAt = performance.now();
        const body = { ...params, stream: true, stream_options: { include_usage: true } } as const;
        const chunks = await client.chat.completions.create(body, { signal: stall.signal });
        const reply = new ReplyBuilder(params.model);
        for await (const chunk of chunks) {
          stall.moved();
          onChunk?.();
          reply.add(chunk, performance.now() - startedAt);
        }
        return reply.finish(performance.now() - startedAt);
      } catch (error) {
        throw signal.aborted ? error : (stall.stalled() ?? broken(error));
      } finally {
        stall.done();
      }
    },
  };
}

/** A connection that breaks in the middle of a stream is reported by the platform, not by the client. */
const broken = (error: unknown): unknown =>
  error instanceof OpenAIError
    ? error
    : new APIConnectionError({ message: `the stream broke off: ${describeError(error)}` });

/** Aborts a stream that does not start or does not go on. */
class StallGuard {
  readonly #controller = new AbortController();
  readonly #idleMs: number;
  readonly signal: AbortSignal;
  #timer: NodeJS.Timeout;

  constructor(outer: AbortSignal, { firstByteTimeoutMs, streamIdleTimeoutMs }: ModelOptions) {
    this.#idleMs = streamIdleTimeoutMs ?? STREAM_IDLE_TIMEOUT_MS;
    this.#timer = this.#arm(firstByteTimeoutMs ?? FIRST_BYTE_TIMEOUT_MS);
    this.signal = AbortSignal.any([outer, this.#controller.signal]);
  }

  moved(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#arm(this.#idleMs);
  }

  stalled(): Error | null {
    return this.#controller.signal.aborted ? (this.#controller.signal.reason as Error) : null;
  }

  done(): void {
    clearTimeout(this.#timer);
  }

  #arm(ms: number): NodeJS.Timeout {
    return setTimeout(
      () => this.#controller.abort(new APIConnectionError({ message: `the model sent nothing for ${ms} ms` })),
      ms,
    );
  }
}

class ReplyBuilder {
  readonly #calls: { id: string; name: string; arguments: string }[] = [];
  #model: string;
  #text = '';
  #refusal = '';
  #finishReason = '';
  #usage: Usage = { input: 0, output: 0, cached: 0 };
  #firstTokenMs: number | null = null;

  constructor(model: string) {
    this.#model = model;
  }

  add(chunk: ChatCompletionChunk, elapsedMs: number): void {
    this.#model = chunk.model || this.#model;
    if (chunk.usage) {
      const { prompt_tokens: input, completion_tokens: output, prompt_tokens_details: details } = chunk.usage;
      this.#usage = { input, output, cached: details?.cached_tokens ?? 0 };
    }
    const choice = chunk.choices[0];
    if (!choice) return;
    const { content, refusal, tool_calls: toolCalls } = choice.delta;
    if (content || refusal || toolCalls?.length) this.#firstTokenMs ??= Math.round(elapsedMs);
    this.#text += content ?? '';
    this.#refusal += refusal ?? '';
    for (const call of toolCalls ?? []) {
      // Some servers leave the index out and send each call whole.
      const index = call.index ?? this.#calls.length;
      this.#calls[index] ??= { id: '', name: '', arguments: '' };
      const target = this.#calls[index];
      target.id ||= call.id ?? '';
      target.name += call.function?.name ?? '';
      target.arguments += call.function?.arguments ?? '';
    }
    this.#finishReason = choice.finish_reason ?? this.#finishReason;
  }

  finish(elapsedMs: number): ModelReply {
    if (this.#finishReason === '') throw new APIConnectionError({ message: 'the stream ended before it was finished' });
    return {
      text: this.#text,
      refusal: this.#refusal,
      calls: this.#calls.filter((call) => call !== undefined),
      finishReason: this.#finishReason,
      model: this.#model,
      usage: this.#usage,
      latencyMs: Math.round(elapsedMs),
      firstTokenMs: this.#firstTokenMs,
    };
  }
}

/** Null when the error is none of the provider's. */
export function providerFailure(error: unknown): { error: CodedError; hint: RetryHint } | null {
  if (!(error instanceof APIError) || error instanceof APIUserAbortError) return null;
  const { status } = error;
  const cause = { cause: error };
  if (status === 401 || status === 403) {
    const message = `the model provider refused the credentials (${status}): set a valid OPENAI_API_KEY for the worker`;
    return { error: new CodedError('provider_auth', message, cause), hint: { nonRetryable: true } };
  }
  if (
    status === 400 &&
    (error.code === 'context_length_exceeded' || /context length|too many tokens/i.test(error.message))
  ) {
    return { error: new CodedError('context_overflow', error.message, cause), hint: { nonRetryable: true } };
  }
  const transient = status === undefined || status === 408 || status === 409 || status === 429 || status >= 500;
  const where =
    error instanceof APIConnectionError
      ? `cannot reach the model (${causeOf(error)}); check OPENAI_BASE_URL`
      : error.message;
  return {
    error: new CodedError('provider_error', where, cause),
    hint: { nonRetryable: !transient, retryAfterMs: transient ? retryAfterMs(error.headers) : undefined },
  };
}

const causeOf = (error: Error): string => (error.cause instanceof Error ? error.cause.message : error.message);

/** `retry-after-ms`, or `retry-after` in seconds or as a date; at most an hour. */
function retryAfterMs(headers: Headers | undefined): number | undefined {
  const value = headers?.get('retry-after');
  const ms = Number(headers?.get('retry-after-ms') ?? Number.NaN);
  const seconds = Number(value ?? Number.NaN);
  const until = value ? Date.parse(value) - Date.now() : Number.NaN;
  const delay = [ms, seconds * 1000, until].find((candidate) => Number.isFinite(candidate) && candidate >= 0);
  return delay === undefined ? undefined : Math.min(delay, 3_600_000);
}

/** The model behind the OpenAI Chat Completions wire: one streamed call, bounded in time and size (W14, W15). */
import OpenAI, { OpenAIError } from 'openai';
import { boundedFetch } from './bounded-fetch.ts';
import type { Model, ModelReply } from './model.ts';
import { ReplyBuilder } from './reply.ts';
import { type CallTimes, FIRST_BYTE_TIMEOUT_MS, Overlong, StreamFailure, StreamGuard } from './stream-guard.ts';
import { estimatedUsage } from './usage.ts';

/** Where the provider is, and how long it may take. */
export interface ModelOptions extends CallTimes {
  /** Undefined for a server that asks for none. */
  readonly apiKey: string | undefined;
  /** Any server that speaks this wire; OpenAI's own when undefined. */
  readonly baseUrl: string | undefined;
  /** Name of the model for profiles that name none. */
  readonly defaultModel: string;
}

/** A model that makes each call once: retries are Temporal's. */
export function openAiModel(options: ModelOptions): Model {
  const client = new OpenAI({
    // A local server without authentication still needs the header to be there.
    apiKey: options.apiKey ?? 'none',
    ...(options.baseUrl === undefined ? {} : { baseURL: options.baseUrl }),
    maxRetries: 0,
    // The client would print the words of the provider.
    logLevel: 'off',
    timeout: options.firstByteTimeoutMs ?? FIRST_BYTE_TIMEOUT_MS,
    fetch: boundedFetch,
  });
  return {
    defaultModel: options.defaultModel,
    secrets: options.apiKey === undefined ? [] : [options.apiKey],
    async stream(params, signal, listener) {
      const guard = new StreamGuard(signal, options);
      const reply = new ReplyBuilder(params.model, listener);
      const startedAt = performance.now();
      const replied = (): ModelReply => {
        const latencyMs = Math.round(performance.now() - startedAt);
        const streamed = reply.finish();
        return { ...streamed, usage: streamed.usage ?? estimatedUsage(params, streamed), latencyMs };
      };
      try {
        const body = { ...params, stream: true, stream_options: { include_usage: true } } as const;
        const chunks = await client.chat.completions.create(body, { signal: guard.signal });
        for await (const chunk of chunks) {
          guard.moved();
          // Leaving the loop aborts the request.
          if (!reply.add(chunk, performance.now() - startedAt)) break;
        }
        return replied();
      } catch (error) {
        if (signal.aborted) throw error;
        const failure = guard.reason() ?? broken(error);
        if (!(failure instanceof Overlong) || reply.isEmpty) throw failure;
        reply.cut();
        return replied();
      } finally {
        guard.done();
      }
    },
  };
}

/** A connection that breaks in the middle of a stream is reported by the platform, not by the client. */
const broken = (error: unknown): unknown =>
  error instanceof OpenAIError
    ? error
    : new StreamFailure('the stream broke off', error instanceof Error ? error : undefined);

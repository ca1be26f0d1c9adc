/** One model call over the OpenAI Chat Completions wire, streamed (W14). */
import OpenAI, { OpenAIError } from 'openai';
import type { Model, ModelReply } from './model.ts';
import { ReplyBuilder } from './reply.ts';
import {
  boundedFetch,
  type CallTimes,
  FIRST_BYTE_TIMEOUT_MS,
  Overlong,
  StreamFailure,
  StreamGuard,
} from './stream-guard.ts';
import { estimatedUsage } from './usage.ts';

export interface ModelOptions extends CallTimes {
  readonly apiKey: string | undefined;
  readonly baseUrl: string | undefined;
  /** Model of profiles that name none. */
  readonly defaultModel: string;
}

/** Retries are Temporal's, so the SDK makes none. */
export function openAiModel(options: ModelOptions): Model {
  const client = new OpenAI({
    // A local server without authentication still needs the header to be there.
    apiKey: options.apiKey ?? 'none',
    ...(options.baseUrl === undefined ? {} : { baseURL: options.baseUrl }),
    maxRetries: 0,
    // It would print the words of the provider.
    logLevel: 'off',
    timeout: options.firstByteTimeoutMs ?? FIRST_BYTE_TIMEOUT_MS,
    fetch: boundedFetch,
  });
  return {
    defaultModel: options.defaultModel,
    secrets: options.apiKey === undefined ? [] : [options.apiKey],
    async stream(params, signal, onChunk) {
      const guard = new StreamGuard(signal, options);
      const reply = new ReplyBuilder(params.model);
      const startedAt = performance.now();
      const replied = (): ModelReply => {
        const latencyMs = Math.round(performance.now() - startedAt);
        const streamed = reply.finish();
        if (!streamed) throw new StreamFailure('the stream ended before it was finished');
        return { ...streamed, usage: streamed.usage ?? estimatedUsage(params, streamed), latencyMs };
      };
      try {
        const body = { ...params, stream: true, stream_options: { include_usage: true } } as const;
        const chunks = await client.chat.completions.create(body, { signal: guard.signal });
        for await (const chunk of chunks) {
          guard.moved();
          onChunk?.();
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

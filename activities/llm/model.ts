/** What a model is to the activities: one streamed call over a request, whichever adapter speaks to the provider. */
import type { ChatCompletionCreateParamsStreaming } from 'openai/resources/chat/completions';
import type { Usage } from '../../workflows/protocol/turn.ts';
import type { Finish } from './finish.ts';

/** The body of a request, without what makes it a streamed one. */
export type ModelRequest = Omit<ChatCompletionCreateParamsStreaming, 'stream' | 'stream_options'>;

/** A tool call as the model wrote it. */
export interface WireToolCall {
  /** Made by the provider: it may be empty, or the same for several calls. */
  readonly id: string;
  readonly name: string;
  /** JSON, if the model wrote it well. */
  readonly arguments: string;
}

/** One answer of the model, bounded and well-formed whatever the provider sent (W15). */
export interface ModelReply {
  readonly text: string;
  /** Why the model refused, in its own words; empty when it did not. */
  readonly refusal: string;
  readonly calls: readonly WireToolCall[];
  /** Why the model stopped, in the word of the provider; `length` when a limit of ours cut the answer short. */
  readonly finishReason: string;
  /** What that word means. */
  readonly finish: Exclude<Finish, 'failed'>;
  /** Whether a limit of ours cut the answer short: it was too large to be kept, or took too long. */
  readonly cutHere: boolean;
  /** The name of the model by which the provider says it answered. */
  readonly model: string;
  /** As the provider counted it, or else our own estimate (W17). */
  readonly usage: Usage;
  /** From the request to the last piece of the answer. */
  readonly latencyMs: number;
  /** From the request to the first piece that said something; null when the answer is empty. */
  readonly firstTokenMs: number | null;
}

/** Follows one call: the texts that it is given, put together, are what the reply keeps. */
export interface StreamListener {
  /** The model goes on with its text. */
  text(text: string): void;
  /** The model thinks, where its provider tells; the reply does not keep it. */
  reasoning(text: string): void;
  /** The model goes on with the arguments of its call with that place, from 0; `text` is empty when only the name is known. */
  call(index: number, tool: string, text: string): void;
}

/** A model behind an OpenAI-compatible endpoint, as the activities use it. */
export interface Model {
  /** Name of the model for profiles that name none. */
  readonly defaultModel: string;
  /** Texts that a log must not show when the provider repeats them. */
  readonly secrets: readonly string[];
  /**
   * Makes one call and gathers its answer, which `listener` follows. Throws an error of the provider, which `providerFailure` understands, or
   * the reason of `signal`.
   */
  stream(request: ModelRequest, signal: AbortSignal, listener?: StreamListener): Promise<ModelReply>;
}

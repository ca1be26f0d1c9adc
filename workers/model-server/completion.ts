/**
 * The answer side of the Chat Completions wire: what a model may answer, and that answer as one completion or as the chunks of a stream.
 *
 * Invariant: no clock and no randomness, so the same request and answer give the same bytes. Ids are hashes of the conversation, hence
 * stable under a retry and new with every message added.
 */
import { createHash } from 'node:crypto';
import type { ChatRequest } from './chat-request.ts';

/** A call that a model proposes. */
export interface ToolCallAnswer {
  /** The provider's id of the call; made from the conversation and the call's place when absent. */
  readonly id?: string;
  readonly name: string;
  /** An object is sent as JSON. A string goes on the wire as it is, so that a script can send arguments that are not JSON. */
  readonly arguments: string | object;
}

/** The tokens of a completion, as they are on the wire. */
export interface WireUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number };
  readonly completion_tokens_details?: { readonly reasoning_tokens?: number };
}

/** An answer of a model that works: a text, a refusal, calls, or several of these. */
export interface MessageAnswer {
  readonly kind: 'message';
  readonly content?: string;
  readonly reasoning?: string;
  readonly refusal?: string;
  readonly toolCalls?: readonly ToolCallAnswer[];
  /** Why the completion ended, in any provider's word; `tool_calls` when absent and calls are proposed, else `stop`. */
  readonly finishReason?: string;
  /** Figures that take the place of estimated ones; `null` sends no usage at all, as some servers do. */
  readonly usage?: Partial<WireUsage> | null;
  /** How long to wait before the first byte; not at all when absent. */
  readonly delayMs?: number;
  /** How long to wait before each further chunk of a stream; not at all when absent. */
  readonly chunkDelayMs?: number;
}

/** An HTTP error in place of an answer. */
export interface ErrorAnswer {
  readonly kind: 'error';
  readonly status: number;
  readonly code?: string;
  readonly message?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** How long to wait before the error; not at all when absent. */
  readonly delayMs?: number;
}

/** A stream that breaks: `reset` cuts the connection, `stall` keeps it open and silent until the server closes. */
export interface BrokenAnswer {
  readonly kind: 'reset' | 'stall';
  /** How many chunks are sent before the break, at most those before the finishing chunk. A request without stream gets nothing. */
  readonly afterChunks: number;
  /** What is being sent when the stream breaks; a filler text when absent. */
  readonly partial?: Pick<MessageAnswer, 'content' | 'toolCalls'>;
}

/** A stream of whatever is given, for a provider that keeps to nothing; it may have no end. */
export interface RawAnswer {
  readonly kind: 'raw';
  /**
   * The events of the stream. Each chunk is the data of one event, as JSON; a text goes out as it is. They are read as fast as the client
   * takes them.
   */
  readonly chunks: Iterable<unknown>;
}

/** Anything that a model server may answer. */
export type ModelAnswer = MessageAnswer | ErrorAnswer | BrokenAnswer | RawAnswer;

interface Envelope {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

interface WireToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

/** The answer as one completion. */
export function completionOf(request: ChatRequest, answer: MessageAnswer, model: string): object {
  const toolCalls = wireToolCalls(request, answer);
  const usage = usageOf(request, answer);
  const message = {
    role: 'assistant',
    content: answer.content ?? (toolCalls.length > 0 ? null : ''),
    refusal: answer.refusal ?? null,
    ...(answer.reasoning === undefined ? {} : { reasoning_content: answer.reasoning }),
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  };
  return {
    ...envelopeOf(request, model),
    object: 'chat.completion',
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReasonOf(answer) }],
    ...(usage ? { usage } : {}),
  };
}

/** The answer as the chunks of a stream, `[DONE]` not included; `finished: false` leaves out all that closes the stream. */
export function chunksOf(request: ChatRequest, answer: MessageAnswer, model: string, finished = true): object[] {
  const withUsage = request.stream_options?.include_usage === true;
  const head = { ...envelopeOf(request, model), object: 'chat.completion.chunk' };
  const chunk = (delta: object, finish_reason: string | null) => ({
    ...head,
    choices: [{ index: 0, delta, logprobs: null, finish_reason }],
    ...(withUsage ? { usage: null } : {}),
  });
  const chunks: object[] = deltasOf(request, answer).map((delta) => chunk(delta, null));
  if (!finished) return chunks;
  chunks.push(chunk({}, finishReasonOf(answer)));
  const usage = usageOf(request, answer);
  if (withUsage && usage) chunks.push({ ...head, choices: [], usage });
  return chunks;
}

/** The message of a broken answer, long enough for the chunks that are still sent of it. */
export function brokenMessage(answer: BrokenAnswer): MessageAnswer {
  const filler = { content: 'unfinished '.repeat(Math.max(1, answer.afterChunks) * PIECE) };
  return { kind: 'message', ...(answer.partial ?? filler) };
}

function deltasOf(request: ChatRequest, answer: MessageAnswer): object[] {
  const calls = wireToolCalls(request, answer).flatMap((call, index) => [
    { tool_calls: [{ index, ...call, function: { name: call.function.name, arguments: '' } }] },
    ...piecesOf(call.function.arguments).map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
  ]);
  return [
    { role: 'assistant', content: '', refusal: null },
    ...piecesOf(answer.reasoning).map((piece) => ({ reasoning_content: piece })),
    ...piecesOf(answer.content).map((piece) => ({ content: piece })),
    ...piecesOf(answer.refusal).map((piece) => ({ refusal: piece })),
    ...calls,
  ];
}

/** The least length of a piece of a stream, in code points. */
const PIECE = 12;
/** About how many pieces a text is cut into at most. */
const MAX_PIECES = 200;

/** The pieces of a text in a stream. They are cut by code points, so that a piece never ends inside a surrogate pair. */
function piecesOf(text = ''): string[] {
  const points = Array.from(text);
  const size = Math.max(PIECE, Math.ceil(points.length / MAX_PIECES));
  const pieces: string[] = [];
  for (let at = 0; at < points.length; at += size) pieces.push(points.slice(at, at + size).join(''));
  return pieces;
}

function envelopeOf(request: ChatRequest, model: string): Envelope {
  return { id: `chatcmpl-${hashOf(request.messages)}`, created: 0, model };
}

function wireToolCalls(request: ChatRequest, answer: MessageAnswer): WireToolCall[] {
  return (answer.toolCalls ?? []).map((call, index) => ({
    id: call.id ?? `call_${hashOf([request.messages, index])}`,
    type: 'function',
    function: { name: call.name, arguments: argumentsText(call) },
  }));
}

const argumentsText = (call: ToolCallAnswer): string =>
  typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments);

const finishReasonOf = (answer: MessageAnswer): string =>
  answer.finishReason ?? (answer.toolCalls?.length ? 'tool_calls' : 'stop');

function hashOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 24);
}

const tokensOf = (text: string): number => Math.ceil(text.length / 4);

/** An estimate of the usage: four characters a token, over the messages and tools as they are on the wire. */
function usageOf(request: ChatRequest, answer: MessageAnswer): WireUsage | undefined {
  if (answer.usage === null) return undefined;
  const said = [answer.reasoning, answer.content, answer.refusal];
  const called = (answer.toolCalls ?? []).map((call) => call.name + argumentsText(call));
  const prompt_tokens = tokensOf(JSON.stringify(request.messages) + JSON.stringify(request.tools ?? ''));
  const completion_tokens = tokensOf([...said, ...called].join(''));
  const parts = { prompt_tokens, completion_tokens, ...answer.usage };
  return { ...parts, total_tokens: parts.total_tokens ?? parts.prompt_tokens + parts.completion_tokens };
}

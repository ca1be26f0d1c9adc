/**
 * A turn's stream as chunks of a UI message, as `useChat` of the AI SDK takes them: the turn is one message of the assistant.
 *
 * Invariants
 * 1. A call appears once, with all of its arguments, before anything is said of it.
 * 2. The message ends where nothing goes on before somebody answers an approval: the front end then sends the answer with the next request.
 * 3. No text is shown twice: where a model is asked again, what it repeats is passed over; where it says something else, the text before is marked
 *    `retracted`, because a chunk cannot take it back.
 */
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import type { StreamPart } from '../../stream-parts.ts';

/** What is known of the text that was retracted. */
const RETRACTED = { agentturn: { retracted: true } } as const;

/** What goes with a message: its turn, and where its stream goes on. */
export interface ChatMetadata {
  readonly agentId: string;
  readonly agentTurnId: string;
  /** Absent until the message has ended, or asks for an approval. */
  readonly cursor?: string;
}

/** A chunk of a UI message, version 1 of the stream. */
export type UiMessageChunk =
  | { readonly type: 'start'; readonly messageId: string; readonly messageMetadata: ChatMetadata }
  | { readonly type: 'start-step' | 'finish-step' }
  | { readonly type: 'text-start' | 'reasoning-start' | 'reasoning-end'; readonly id: string }
  | { readonly type: 'text-delta' | 'reasoning-delta'; readonly id: string; readonly delta: string }
  | { readonly type: 'text-end'; readonly id: string; readonly providerMetadata?: typeof RETRACTED }
  | {
      readonly type: 'tool-input-available';
      readonly toolCallId: string;
      readonly toolName: string;
      readonly input: JsonValue;
    }
  | {
      readonly type: 'tool-input-error';
      readonly toolCallId: string;
      readonly toolName: string;
      readonly input: string;
      readonly errorText: string;
    }
  | {
      readonly type: 'tool-approval-request';
      readonly approvalId: string;
      readonly toolCallId: string;
      readonly reason?: string;
    }
  | {
      readonly type: 'tool-approval-response';
      readonly approvalId: string;
      readonly approved: boolean;
      readonly reason?: string;
    }
  | {
      readonly type: 'tool-output-available';
      readonly toolCallId: string;
      readonly output: JsonValue;
      readonly preliminary?: true;
    }
  | { readonly type: 'tool-output-error'; readonly toolCallId: string; readonly errorText: string }
  | { readonly type: 'tool-output-denied'; readonly toolCallId: string }
  | {
      readonly type: 'data-waiting' | 'data-provider' | 'data-question' | 'data-deliverable' | 'data-refusal';
      readonly id?: string;
      readonly data: JsonValue;
      readonly transient?: true;
    }
  | { readonly type: 'message-metadata'; readonly messageMetadata: ChatMetadata }
  | {
      readonly type: 'finish';
      readonly finishReason: 'stop' | 'tool-calls' | 'length';
      readonly messageMetadata: ChatMetadata;
    }
  | { readonly type: 'abort'; readonly reason?: string }
  | { readonly type: 'error'; readonly errorText: string };

/** How far a call is: its result is awaited, or somebody's answer, or nothing. */
export type CallState = 'running' | 'asked' | 'over';

/** Where a message begins, or goes on. */
export interface MessageStart {
  readonly agentId: string;
  readonly agentTurnId: string;
  /** The calls that the message has; none for one that begins. */
  readonly calls?: ReadonlyMap<string, CallState>;
}

/** Makes chunks of the parts of a stream. */
export class UiMessage {
  readonly #metadata: ChatMetadata;
  readonly #calls: Map<string, CallState>;
  #step: number | null = null;
  #ids = 0;
  /** The open part of text or reasoning. */
  #open: { readonly kind: 'text' | 'reasoning'; readonly id: string } | null = null;
  /** The text of the step. */
  #text = '';
  /** What was shown of the step before the model was asked again, while the new answer may still be the same. */
  #shown: string | null = null;

  constructor({ agentId, agentTurnId, calls }: MessageStart) {
    this.#metadata = { agentId, agentTurnId };
    this.#calls = new Map(calls);
  }

  /** The first chunk. */
  start(): UiMessageChunk {
    return { type: 'start', messageId: this.#metadata.agentTurnId, messageMetadata: this.#metadata };
  }

  /** The last chunks of a message that waits for answers; none while something else goes on. */
  pause(cursor: string): UiMessageChunk[] {
    const states = [...this.#calls.values()].filter((state) => state !== 'over');
    if (states.length === 0 || states.some((state) => state !== 'asked')) return [];
    return [...this.#endStep(), this.#finish('tool-calls', cursor)];
  }

  /** The chunks of a part. */
  take(part: StreamPart): UiMessageChunk[] {
    switch (part.type) {
      case 'text':
        return [...this.#toStep(part.stepIndex), ...this.#addText(part.delta)];
      case 'reasoning':
        // While it is open whether the text before holds, its part stays open too.
        return this.#shown === null ? [...this.#toStep(part.stepIndex), ...this.#delta('reasoning', part.delta)] : [];
      case 'retracted':
        this.#shown ??= this.#text;
        this.#text = '';
        return [];
      case 'step':
        return this.#commitStep(part);
      case 'approval':
        return this.#approval(part);
      case 'progress':
        if (this.#calls.get(part.callId) === undefined) return [];
        return [
          { type: 'tool-output-available', toolCallId: part.callId, output: part.progress, preliminary: true } as const,
        ];
      case 'result':
        return this.#result(part);
      case 'waiting': {
        const { callId, tool, deadline } = part;
        return [{ type: 'data-waiting', id: callId, data: { toolCallId: callId, tool, deadline } }];
      }
      case 'provider': {
        const { code, message, nextTryAt } = part;
        return [{ type: 'data-provider', data: { code, message, nextTryAt }, transient: true }];
      }
      case 'call_delta':
        return [];
      case 'end':
        return this.#end(part);
    }
  }

  #toStep(stepIndex: number): UiMessageChunk[] {
    if (this.#step === stepIndex) return [];
    const ended = this.#endStep();
    this.#step = stepIndex;
    this.#text = '';
    return [...ended, { type: 'start-step' }];
  }

  #endStep(): UiMessageChunk[] {
    const closed = this.#close();
    if (this.#step === null) return closed;
    this.#step = null;
    return [...closed, { type: 'finish-step' }];
  }

  #delta(kind: 'text' | 'reasoning', delta: string): UiMessageChunk[] {
    const before = this.#open?.kind === kind ? [] : this.#close();
    if (this.#open) return [...before, { type: `${kind}-delta`, id: this.#open.id, delta }];
    this.#ids += 1;
    this.#open = { kind, id: `${this.#metadata.agentTurnId}.${this.#step}.${this.#ids}` };
    const { id } = this.#open;
    return [...before, { type: `${kind}-start`, id }, { type: `${kind}-delta`, id, delta }];
  }

  #close(isVoid = false): UiMessageChunk[] {
    if (!this.#open) return [];
    const { kind, id } = this.#open;
    this.#open = null;
    if (kind === 'reasoning') return [{ type: 'reasoning-end', id }];
    return [{ type: 'text-end', id, ...(isVoid ? { providerMetadata: RETRACTED } : {}) }];
  }

  #addText(delta: string): UiMessageChunk[] {
    const shown = this.#shown;
    this.#text += delta;
    if (shown === null) return this.#delta('text', delta);
    // What is said again is passed over.
    if (shown.startsWith(this.#text)) return [];
    this.#shown = null;
    if (this.#text.startsWith(shown)) return this.#delta('text', this.#text.slice(shown.length));
    return [...this.#retract(shown), ...this.#delta('text', this.#text)];
  }

  /** Marks what was shown of a step as void. */
  #retract(shown: string): UiMessageChunk[] {
    this.#shown = null;
    return shown === '' ? [] : this.#close(true);
  }

  #commitStep({ stepIndex, calls, refusal }: Extract<StreamPart, { type: 'step' }>): UiMessageChunk[] {
    const chunks = this.#toStep(stepIndex);
    if (this.#shown !== null && this.#shown !== this.#text) {
      chunks.push(...this.#retract(this.#shown));
      if (this.#text !== '') chunks.push(...this.#delta('text', this.#text));
    }
    this.#shown = null;
    chunks.push(...this.#close());
    if (refusal !== undefined) chunks.push({ type: 'data-refusal', data: { refusal } });
    for (const { callId, tool, arguments: written } of calls) {
      this.#calls.set(callId, 'running');
      const [call, input] = [{ toolCallId: callId, toolName: tool }, parsed(written)];
      if (input !== undefined) chunks.push({ type: 'tool-input-available', ...call, input });
      else chunks.push({ type: 'tool-input-error', ...call, input: written, errorText: 'the arguments are not JSON' });
    }
    return chunks;
  }

  #approval(part: Extract<StreamPart, { type: 'approval' }>): UiMessageChunk[] {
    const { callId, tool, phase, reason, deadline, cursor } = part;
    const why = reason === undefined ? {} : { reason };
    // A question of the runtime, about a budget, belongs to no call.
    if (!this.#calls.has(callId)) {
      return [{ type: 'data-question', id: callId, data: { callId, tool, phase, deadline: deadline ?? null, ...why } }];
    }
    if (phase === 'asked') {
      this.#calls.set(callId, 'asked');
      return [
        { type: 'tool-approval-request', approvalId: callId, toolCallId: callId, ...why },
        // A reader that loses its connection now can still answer.
        { type: 'message-metadata', messageMetadata: { ...this.#metadata, cursor } },
      ];
    }
    if (phase === 'escalated') return [];
    this.#calls.set(callId, phase === 'denied' ? 'over' : 'running');
    if (phase === 'unanswered') return [];
    const approved = phase === 'approved';
    return [
      { type: 'tool-approval-response', approvalId: callId, approved, ...why },
      ...(approved ? [] : [{ type: 'tool-output-denied', toolCallId: callId } as const]),
    ];
  }

  #result({ callId, status, result, error }: Extract<StreamPart, { type: 'result' }>): UiMessageChunk[] {
    const state = this.#calls.get(callId);
    this.#calls.set(callId, 'over');
    // A denied call has been told of; the result of a call that the message does not show belongs to an earlier message.
    if (state !== 'running' && state !== 'asked') return [];
    if (status === 'success' || status === 'partial') {
      return [{ type: 'tool-output-available', toolCallId: callId, output: result ?? null }];
    }
    const errorText = error ? `${error.code}: ${error.message}` : status;
    return [{ type: 'tool-output-error', toolCallId: callId, errorText }];
  }

  #end({ status, errorCode, deliverable, cursor }: Extract<StreamPart, { type: 'end' }>): UiMessageChunk[] {
    const chunks: UiMessageChunk[] = [];
    const { text, fields } = deliverable;
    const isTold = status === 'success' || status === 'partial';
    if (isTold && text != null && text !== this.#text) chunks.push(...this.#delta('text', text));
    chunks.push(...this.#endStep());
    if (fields) {
      const data = Object.fromEntries(fields.map(({ name, value }) => [name, value]));
      chunks.push({ type: 'data-deliverable', id: 'deliverable', data });
    }
    if (isTold) return [...chunks, this.#finish(errorCode === 'answer_truncated' ? 'length' : 'stop', cursor)];
    const reason = deliverable.fallback?.reason;
    if (errorCode === 'stopped' || status === 'canceled') {
      return [...chunks, { type: 'abort', ...(reason === undefined ? {} : { reason }) }];
    }
    const errorText = `${errorCode ?? status}${reason === undefined ? '' : `: ${reason}`}`;
    return [...chunks, { type: 'error', errorText }];
  }

  #finish(finishReason: 'stop' | 'tool-calls' | 'length', cursor: string): UiMessageChunk {
    return { type: 'finish', finishReason, messageMetadata: { ...this.#metadata, cursor } };
  }
}

function parsed(written: string): JsonValue | undefined {
  try {
    return JSON.parse(written) as JsonValue;
  } catch {
    return undefined;
  }
}

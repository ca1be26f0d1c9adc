/**
 * A turn's events as lines for a person, as they happen, with how long each thing took.
 *
 * Invariant: durations come from the events' own times, so a slow reader does not change them.
 */
import type { AgentEvent, CallEvent, ProviderEvent, StepEvent } from '../../workflows/contract/events.ts';
import { noticeText } from '../../workflows/contract/notices.ts';
import { betweenTurnsText } from './between-turns.ts';
import { chatStepText, messageText } from './chat-text.ts';
import { duration, time, valueLine } from './format.ts';

/** That a turn waits for its provider, in words. */
export const providerText = ({ code, message, nextTryAt }: Omit<ProviderEvent['payload'], 'stepIndex'>): string =>
  `waits for the model [${code}]: ${message}; next try at ${time(nextTryAt)}`;

/** Turns the events of one turn into lines that a waiting person reads. */
export class TurnProgress {
  readonly #startedAt: number;
  /** By call id: when it began to wait. */
  readonly #suspendedAt = new Map<string, number>();
  /** Results that the model step settled itself are stored before the step is announced. */
  #early: { event: AgentEvent; payload: CallEvent['payload'] }[] = [];
  #epoch = 0;
  #stepStartedAt: number | undefined;

  /** `startedAt`: the moment that counts as zero, epoch ms. */
  constructor(startedAt: number) {
    this.#startedAt = startedAt;
  }

  lines(event: AgentEvent): string[] {
    switch (event.type) {
      case 'state':
        if (event.payload.activity === 'waiting_for_workers') return [this.#line(event, 'waits for a worker')];
        return this.#lease(event, event.payload.turnEpoch);
      case 'step':
        return this.#step(event, event.payload);
      case 'provider':
        return [this.#line(event, providerText(event.payload))];
      case 'call':
        return this.#call(event, event.payload);
      case 'approval': {
        const { tool, phase, by } = event.payload;
        return [this.#line(event, `${tool || 'budget'}: ${phase}${by === undefined ? '' : ` by ${by}`}`)];
      }
      case 'notice':
        return [this.#line(event, noticeText(event.payload))];
      case 'task': {
        const { status, errorCode } = event.payload;
        return [this.#line(event, `ended: ${status}${errorCode === null ? '' : ` (${errorCode})`}`)];
      }
      case 'message':
        return [this.#line(event, messageText(event.payload))];
      case 'chat_step':
        return [this.#line(event, chatStepText(event.payload))];
      case 'dropped':
        return [this.#line(event, `dropped ${event.payload.what}: ${event.payload.reason}`)];
      case 'work':
      case 'wait':
      case 'wake':
      case 'closure':
      case 'continuation':
        return [this.#line(event, betweenTurnsText(event))];
    }
  }

  #lease(event: AgentEvent, epoch: number): string[] {
    if (epoch === this.#epoch) return [];
    this.#epoch = epoch;
    return [this.#line(event, `leased, epoch ${epoch}`)];
  }

  #step(event: AgentEvent, { stepIndex, phase, tools, errorCode }: StepEvent['payload']): string[] {
    if (phase === 'started') {
      this.#stepStartedAt = event.createdAt;
      return [];
    }
    // Announced when the model answered; that it completed later is not news.
    if (this.#stepStartedAt === undefined) return [];
    const took = duration(event.createdAt - this.#stepStartedAt);
    this.#stepStartedAt = undefined;
    const outcome = phase === 'failed' ? `failed (${errorCode ?? 'no code'})` : (tools ?? []).join(', ') || 'text';
    const early = this.#early.map((call) => this.#settled(call.event, call.payload));
    this.#early = [];
    return [this.#line(event, `step ${stepIndex}: model ${took} -> ${outcome}`), ...early];
  }

  #call(event: AgentEvent, payload: CallEvent['payload']): string[] {
    const { callId, tool, phase, deadline, status, reason } = payload;
    switch (phase) {
      case 'suspended': {
        this.#suspendedAt.set(callId, event.createdAt);
        const until = deadline === undefined ? '' : ` until ${time(deadline)}`;
        return [this.#line(event, `  ${tool} waits for a result${until} (call ${callId})`)];
      }
      case 'settled':
        if (this.#stepStartedAt !== undefined && payload.durationMs === undefined && !this.#suspendedAt.has(callId)) {
          this.#early.push({ event, payload });
          return [];
        }
        return [this.#settled(event, payload)];
      case 'progress':
        return [this.#line(event, `  ${tool}: ${valueLine(payload.progress ?? null)}`)];
      case 'deferred':
        return [this.#line(event, `  a result (${status}) for call ${callId} must wait: ${reason}`)];
      case 'dropped':
        return [this.#line(event, `  a result (${status}) for call ${callId} was dropped: ${reason}`)];
    }
  }

  #settled(event: AgentEvent, { callId, tool, status, durationMs }: CallEvent['payload']): string {
    const suspendedAt = this.#suspendedAt.get(callId);
    const waited = suspendedAt === undefined ? undefined : event.createdAt - suspendedAt;
    const took = waited ?? durationMs;
    return this.#line(event, `  ${tool} ${status}${took === undefined ? '' : ` ${duration(took)}`}`);
  }

  #line(event: AgentEvent, text: string): string {
    const at = `${((event.createdAt - this.#startedAt) / 1_000).toFixed(2)} s`;
    return `${at.padStart(9)}  ${text}`;
  }
}

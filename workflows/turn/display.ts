/** What the Web UI's workflow page says about a turn: the current details, as Markdown. Costs no history event. */
import { log, setCurrentDetails } from '@temporalio/workflow';
import type { Lease } from '../contract/lease.ts';
import type { StepOutcomeRecord } from '../contract/steps.ts';
import { clip } from '../protocol/sizes.ts';
import { shownTime } from '../protocol/time.ts';
import { addUsage, NO_USAGE, shownTokens, type Usage } from '../protocol/turn.ts';

const SHOWN_STEPS = 15;
const SHOWN_NOTICES = 5;

interface CallLine {
  readonly tool: string;
  readonly status: string;
  readonly ms: number | null;
}

interface StepLine {
  readonly stepIndex: number;
  readonly latencyMs: number;
  readonly usage: Usage;
  readonly calls: Map<string, CallLine>;
}

/** A waiting call as it is shown; `deadline` is in epoch ms. */
export interface WaitingLine {
  readonly callId: string;
  readonly tool: string;
  readonly deadline: number;
}

/** What the display has to show, between two runs. */
export interface DisplayCarry {
  readonly steps: readonly (Omit<StepLine, 'calls'> & { readonly calls: readonly (readonly [string, CallLine])[] })[];
  readonly stepCount: number;
  readonly usage: Usage;
  readonly waiting: readonly WaitingLine[];
  readonly state: string;
  /** Absent when there are none. */
  readonly notices?: readonly string[];
}

/** Where the details go, and what went wrong with them. */
export interface DisplayOutlet {
  readonly show: (details: string) => void;
  readonly warn: (message: string) => void;
}

const WEB_UI: DisplayOutlet = { show: setCurrentDetails, warn: (message) => log.warn(message) };

/** Invariant: what cannot be shown is a warning and a line that says so. No turn fails because of it. */
export class TurnDisplay {
  readonly #lease: Lease;
  readonly #outlet: DisplayOutlet;
  /** The last ones. */
  #steps: readonly StepLine[];
  #stepCount: number;
  #usage: Usage;
  #waiting: readonly WaitingLine[];
  #state: string;
  /** The last ones. */
  #notices: readonly string[];

  constructor(lease: Lease, carry?: DisplayCarry, outlet: DisplayOutlet = WEB_UI) {
    this.#lease = lease;
    this.#outlet = outlet;
    this.#steps = carry?.steps.map((line) => ({ ...line, calls: new Map(line.calls) })) ?? [];
    this.#stepCount = carry?.stepCount ?? 0;
    this.#usage = carry?.usage ?? NO_USAGE;
    this.#waiting = carry?.waiting ?? [];
    this.#state = carry?.state ?? 'running';
    this.#notices = carry?.notices ?? [];
    this.#render();
  }

  get waiting(): readonly WaitingLine[] {
    return this.#waiting;
  }

  carry(): DisplayCarry {
    return {
      steps: this.#steps.map((line) => ({ ...line, calls: [...line.calls] })),
      stepCount: this.#stepCount,
      usage: this.#usage,
      waiting: this.#waiting,
      state: this.#state,
      ...(this.#notices.length > 0 ? { notices: this.#notices } : {}),
    };
  }

  thought(step: StepOutcomeRecord): void {
    const calls = new Map<string, CallLine>();
    for (const { callId, tool, settled } of step.calls)
      calls.set(callId, { tool, status: settled?.status ?? 'running', ms: null });
    const { stepIndex, latencyMs, usage } = step;
    this.#steps = [...this.#steps, { stepIndex, latencyMs, usage, calls }].slice(-SHOWN_STEPS);
    this.#stepCount += 1;
    this.#usage = addUsage(this.#usage, step.usage);
    this.#render();
  }

  call(callId: string, status: string, ms: number | null): void {
    const calls = this.#steps.at(-1)?.calls;
    const line = calls?.get(callId);
    if (calls && line) calls.set(callId, { ...line, status, ms });
    this.#render();
  }

  notice(stepIndex: number, text: string): void {
    this.#notices = [...this.#notices, `step ${stepIndex}: ${text}`].slice(-SHOWN_NOTICES);
    this.#render();
  }

  waitFor(waiting: readonly WaitingLine[]): void {
    this.#waiting = waiting;
    this.#state = waiting.length > 0 ? 'suspended' : 'running';
    this.#render();
  }

  end(status: string, errorCode: string | null): void {
    this.#waiting = [];
    this.#state = errorCode ? `${status} (${errorCode})` : status;
    this.#render();
  }

  #render(): void {
    const { show, warn } = this.#outlet;
    try {
      show(clip(this.#details(), 18_000));
    } catch (error) {
      warn(`the details of the turn cannot be shown: ${String(error)}`);
      show(`**State:** ${this.#state}\n\nThe rest cannot be shown; the log of the worker says why.`);
    }
  }

  #details(): string {
    const { agentId, turnEpoch, title, profileName } = this.#lease;
    const usage = this.#usage;
    const lines = [
      `**Goal:** ${escapeMarkdown(title)}`,
      '',
      `**State:** ${this.#state} · agent ${agentId} · profile ${profileName} · epoch ${turnEpoch}`,
      '',
      `**Tokens:** ${shownTokens(usage.input, usage)} in, ${shownTokens(usage.output, usage)} out · **steps:** ${this.#stepCount}`,
      ...this.#waiting.map(
        ({ tool, callId, deadline }) => `\n**Waiting for** ${tool} (call ${callId}) until ${shownTime(deadline)}`,
      ),
      ...this.#notices.map((text) => `\n**Noticed** after ${escapeMarkdown(text)}`),
      '',
      ...this.#steps.map(stepLine),
    ];
    return lines.join('\n');
  }
}

const stepLine = ({ stepIndex, latencyMs, usage, calls }: StepLine): string => {
  const tools = [...calls.values()].map(({ tool, status, ms }) => `${tool} ${status}${ms === null ? '' : ` ${ms} ms`}`);
  return `- **step ${stepIndex}** · model ${latencyMs} ms · ${shownTokens(usage.input, usage)} + ${shownTokens(usage.output, usage)} tokens${tools.map((tool) => ` · ${tool}`).join('')}`;
};

const escapeMarkdown = (text: string): string => text.replace(/[\\`*_{}[\]<>|#]/g, '\\$&');

/** What the Web UI's workflow page says about a turn: the current details, as Markdown. Costs no history event. */
import { log, setCurrentDetails } from '@temporalio/workflow';
import type { ChatStep } from '../chat/step.ts';
import type { Lease, TurnEnd } from '../contract/lease.ts';
import type { StepOutcomeRecord } from '../contract/steps.ts';
import { clip } from '../protocol/sizes.ts';
import { addUsage, NO_USAGE, type Usage } from '../protocol/turn.ts';
import { type CallLine, type EndLine, markdownOf, type StepLine, type WaitingLine } from './details.ts';

const SHOWN_STEPS = 15;
const SHOWN_NOTICES = 5;

/** What the display has to show, between two runs. */
export interface DisplayCarry {
  readonly steps: readonly (Omit<StepLine, 'calls'> & { readonly calls: readonly (readonly [string, CallLine])[] })[];
  readonly stepCount: number;
  readonly usage: Usage;
  readonly cost: number | null;
  /** Null before the model's first words. */
  readonly said: string | null;
  readonly waiting: readonly WaitingLine[];
  readonly state: string;
  /** Absent when there are none. */
  readonly notices?: readonly string[];
}

const NOTHING: DisplayCarry = {
  steps: [],
  stepCount: 0,
  usage: NO_USAGE,
  cost: 0,
  said: null,
  waiting: [],
  state: 'running',
};

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
  #steps: readonly (StepLine & { readonly calls: Map<string, CallLine> })[];
  #stepCount: number;
  #usage: Usage;
  #cost: number | null;
  #said: string | null;
  #waiting: readonly WaitingLine[];
  /** Questions that were asked in this run, by the calls they are about. */
  readonly #questions = new Map<string, WaitingLine['question']>();
  #state: string;
  /** The last ones. */
  #notices: readonly string[];
  #end: EndLine | null = null;

  constructor(lease: Lease, carry: DisplayCarry = NOTHING, outlet: DisplayOutlet = WEB_UI) {
    this.#lease = lease;
    this.#outlet = outlet;
    this.#steps = carry.steps.map((line) => ({ ...line, calls: new Map(line.calls) }));
    this.#stepCount = carry.stepCount;
    this.#usage = carry.usage;
    this.#cost = carry.cost;
    this.#said = carry.said;
    this.#waiting = carry.waiting;
    this.#state = carry.state;
    this.#notices = carry.notices ?? [];
    for (const { callId, question } of carry.waiting) this.#questions.set(callId, question);
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
      cost: this.#cost,
      said: this.#said,
      waiting: this.#waiting,
      state: this.#state,
      ...(this.#notices.length > 0 ? { notices: this.#notices } : {}),
    };
  }

  thought(step: StepOutcomeRecord): void {
    const { stepIndex, latencyMs, usage, cost, shown } = step;
    const calls = new Map<string, CallLine>();
    for (const { callId, tool, settled } of step.calls) {
      const args = shown?.calls[callId];
      const status = settled?.status ?? 'running';
      calls.set(callId, { tool, status, ms: null, ...(args === undefined ? {} : { arguments: args }) });
    }
    this.#steps = [...this.#steps, { stepIndex, latencyMs, usage, calls }].slice(-SHOWN_STEPS);
    this.#stepCount += 1;
    this.#usage = addUsage(this.#usage, usage);
    this.#cost = this.#cost === null || cost === null ? null : this.#cost + cost;
    if (shown && shown.text !== '') this.#said = shown.text;
    this.#render();
  }

  call(callId: string, status: string, ms: number | null): void {
    const calls = this.#steps.at(-1)?.calls;
    const line = calls?.get(callId);
    if (calls && line) calls.set(callId, { ...line, status, ms });
    this.#render();
  }

  /** People are asked about a call, or about a budget. */
  asked(callId: string, question: NonNullable<WaitingLine['question']>): void {
    this.#questions.set(callId, question);
    if (question.kind === 'approval') this.call(callId, 'waiting for approval', null);
  }

  notice(stepIndex: number, text: string): void {
    this.#notices = [...this.#notices, `step ${stepIndex}: ${text}`].slice(-SHOWN_NOTICES);
    this.#render();
  }

  waitFor(waiting: readonly WaitingLine[]): void {
    const now = Date.now();
    const before = new Map(this.#waiting.map((line) => [line.callId, line]));
    this.#waiting = waiting.map(({ callId, tool, deadline, ...told }) => {
      const known = before.get(callId);
      const question = this.#questions.get(callId);
      const approvers = told.approvers ?? known?.approvers;
      const since = known?.since ?? now;
      return { callId, tool, deadline, since, ...(question ? { question } : {}), ...(approvers ? { approvers } : {}) };
    });
    this.#state = waiting.length > 0 ? 'suspended' : 'running';
    this.#render();
  }

  end({ status, errorCode, reason, deliverable, agent }: TurnEnd): void {
    this.#waiting = [];
    this.#state = errorCode ? `${status} (${errorCode})` : status;
    this.#end = {
      errorCode,
      reason,
      ...(deliverable === undefined ? {} : { deliverable }),
      ...(agent ? { agent } : {}),
    };
    this.#render();
  }

  /** Which step of a chat the turn is at, by what is shown of it (C3). */
  #chatStep(): ChatStep {
    if (this.#end) return 'record';
    const last = this.#steps.at(-1);
    if (!last) return 'decide';
    return last.calls.size > 0 ? 'execute' : 'respond';
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
    const { agentId, agentTurnId, turnEpoch, title, profileName, parent = null, chat } = this.#lease;
    return markdownOf({
      chat: chat ? { chatId: chat.chatId, step: this.#chatStep() } : null,
      goal: title,
      state: this.#state,
      agentId,
      agentTurnId,
      profileName,
      turnEpoch,
      parent,
      usage: this.#usage,
      cost: this.#cost,
      stepCount: this.#stepCount,
      said: this.#said,
      waiting: this.#waiting,
      notices: this.#notices,
      steps: this.#steps,
      end: this.#end,
    });
  }
}

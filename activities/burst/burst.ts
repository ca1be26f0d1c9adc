/**
 * A burst: several actions of a turn, one after the other, with the kernel between them.
 *
 * Invariants
 * 1. Everything that decides is in the store before anything follows from it: the answer of a model, and what the inbox delivered with it, with
 *    its step; what happened between two steps with the opening of the second. So another attempt comes the same way, and calls no model and
 *    runs no tool a second time (T5).
 * 2. Once a later attempt has written, an earlier one writes nothing, calls no model and starts no tool, whatever it still holds (W10).
 * 3. A summary begins a burst, for the history keeps what led to it, and a second attempt writes no other one (K15). So does a model call that
 *    has failed for good, which fails again as a call of its own does; one that is to be tried again is, after its pause, by another attempt
 *    that comes the same way (W14).
 * 4. An attempt that comes after the turn has ended gives the recorded end (T29).
 * 5. The end of a turn that follows from a step is committed with the step: a kernel of the same state is asked within the transaction.
 */
import { Context } from '@temporalio/activity';
import type { CommitTurnInput } from '../../workflows/contract/activities.ts';
import type { BetweenSteps } from '../../workflows/contract/between-steps.ts';
import {
  type BurstAction,
  type BurstInput,
  type BurstItem,
  type BurstOutcome,
  firstStepOf,
} from '../../workflows/contract/burst.ts';
import type { CallResult } from '../../workflows/contract/calls.ts';
import type { InboxDelivery } from '../../workflows/contract/inbox.ts';
import type { Ending, TurnCommit, TurnEnd } from '../../workflows/contract/lease.ts';
import type { StepCommit, StepOutcomeRecord } from '../../workflows/contract/steps.ts';
import type {
  CallLlmAction,
  ExecuteToolsAction,
  KernelAction,
  SummarizeAction,
} from '../../workflows/kernel/actions.ts';
import type { SettledCall } from '../../workflows/kernel/calls.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { burstLimitsSchema } from '../../workflows/protocol/profile.ts';
import { utf8Bytes } from '../../workflows/protocol/sizes.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import { short } from '../../workflows/turn/burst-items.ts';
import { TurnKernel } from '../../workflows/turn/kernel.ts';
import { wholeState } from '../../workflows/turn/short-state.ts';
import { type Holding, isFirstAttempt, moment } from '../heartbeat.ts';
import {
  answerStep,
  beginStep,
  type ModelDeps,
  type OpenedStep,
  type StepToBegin,
  stepBegin,
} from '../llm/call-model.ts';
import { writeSummary } from '../llm/summarize.ts';
import { isOutage, outlastOutage } from '../store-outage.ts';
import { type CallDeps, performCalls, runsApart, type StepOfBurst } from './calls.ts';
import { workflowClock } from './clock.ts';
import { endsAttempt, isCoded, isTriedAgain } from './failures.ts';
import { feedItem, leadsTo, resultItems, tryItems } from './kernel-items.ts';

/** What a burst needs from the process that runs it. */
export interface BurstDeps extends ModelDeps, CallDeps {
  readonly store: ModelDeps['store'] & CallDeps['store'];
  readonly commitTurn: (input: CommitTurnInput) => Promise<TurnEnd>;
  /** Starts and tells who waited for the end of a turn that is committed. */
  readonly tellEnding: (ending: Ending, privateTitles?: true) => Promise<TurnEnd>;
}

/** Of a profile that sets none. */
const USUAL_LIMITS = burstLimitsSchema.parse({});

/** Never written: a turn whose lease is over either has an end, or refuses one. */
const LOST = { status: 'failed', errorCode: 'worker_lost' } as const;

/**
 * The end that an attempt before this one has committed, or that somebody gave the turn; its items are told to nobody any more. Errors:
 * `stale_epoch` when the turn goes on without this lease.
 */
export async function recordedEnd(
  { commitTurn }: BurstDeps,
  { engine, privateTitles }: BurstInput,
  fence: Fence,
  signal: AbortSignal,
): Promise<BurstOutcome> {
  const commit = { termination: LOST, deliverable: { from: 'fallback' }, engine } as const;
  const titles = privateTitles ? { privateTitles } : {};
  const end = await outlastOutage(signal, () => commitTurn({ ...fence, ...commit, ...titles }));
  return { items: [], untold: 0, end };
}

const ofStep = (action: KernelAction): action is BurstAction => action.type !== 'done' && action.type !== 'await';

type DoneAction = Extract<KernelAction, { type: 'done' }>;

/** A step that was opened with the last result of the one before it. */
interface OpenedWithResult {
  readonly step: OpenedStep;
  /** What the inbox delivered with it, and when that was, by the clock of the workflow. */
  readonly delivery: InboxDelivery;
  readonly nowMs: number;
}

/** One attempt at a burst. */
export class Burst {
  readonly #deps: BurstDeps;
  readonly #input: BurstInput;
  readonly #fence: Fence;
  readonly #holding: Holding;
  readonly #now: () => number;
  readonly #kernel: TurnKernel;
  readonly #startedAt = performance.now();
  #items: BurstItem[] = [];
  #bytes = 0;
  #steps = 0;
  #inboxRead: number;
  /** How many items there were when the last step had been answered. */
  #answered = 0;
  /** Whether this attempt has tried to end the turn: then it may have done so without learning of it. */
  #mayHaveEnded = false;
  /** The end that was committed with the last step. */
  #ending: Ending | null = null;
  /** The claims that were committed with the last step, and when the store had been asked for them. */
  #claims: StepOfBurst['claims'] = new Map();
  #claimedAt = moment();
  /** The step that was opened with the last result, and what the inbox delivered with it. */
  #opened: OpenedWithResult | null = null;
  /** Whether it may have been opened without this attempt learning of it. */
  #mayHaveOpened = false;
  /** What led attempts before this one to their steps, by their indices; null where no such attempt is known of. */
  #led: ReadonlyMap<number, readonly BetweenSteps[]> | null = null;
  /** The last step that they opened; 0 where none is known of. */
  #ledTo = 0;

  constructor(deps: BurstDeps, input: BurstInput, fence: Fence, holding: Holding) {
    this.#deps = deps;
    this.#input = input;
    this.#fence = fence;
    this.#holding = holding;
    this.#now = workflowClock(input.nowMs);
    const { log } = Context.current();
    this.#kernel = new TurnKernel(
      { state: wholeState(input.state), noticed: input.noticed ?? [] },
      { observed: (observation) => log.debug(observation.type, { ...observation }), notice: () => {} },
    );
    this.#inboxRead = input.inboxRead ?? 0;
  }

  /** Performs it. Errors: as those of `runSteps`. */
  async run(): Promise<BurstOutcome> {
    const first = isFirstAttempt() && !this.#input.again;
    try {
      if (!first) await this.#readLed();
      return await this.#advance();
    } catch (error) {
      if (!isCoded(error, 'stale_epoch') || (first && !this.#mayHaveEnded)) throw error;
      return recordedEnd(this.#deps, this.#input, this.#fence, this.#holding.signal);
    }
  }

  async #advance(): Promise<BurstOutcome> {
    let action: KernelAction = this.#input.action;
    while (ofStep(action)) {
      const isFirst = this.#items.length === 0;
      if (!isFirst && !this.#opened && (this.#isEnough(action) || action.type === 'summarize')) return this.#outcome();
      if (action.type === 'execute_tools' && runsApart(this.#deps, action)) return { ...this.#outcome(), apart: true };
      const next: KernelAction | BurstOutcome = this.#goAsBefore(action) ?? (await this.#perform(action));
      if ('items' in next) return next;
      action = next;
    }
    return action.type === 'done' ? this.#end(action) : this.#outcome();
  }

  /** The first act of another attempt: from now on those before it can write nothing. */
  async #readLed(): Promise<void> {
    const first = firstStepOf(this.#input.action);
    const steps = await outlastOutage(this.#holding.signal, () => this.#deps.store.readLedSteps(this.#fence, first));
    this.#led = new Map(steps.map(({ stepIndex, ledBy }) => [stepIndex, ledBy]));
    this.#ledTo = steps.at(-1)?.stepIndex ?? 0;
  }

  #perform(action: BurstAction): Promise<KernelAction | BurstOutcome> {
    switch (action.type) {
      case 'call_llm':
        return this.#callModel(action);
      case 'execute_tools':
        return this.#executeTools(action);
      case 'summarize':
        return this.#summarize(action);
    }
  }

  #outcome(): BurstOutcome {
    return { items: short(this.#items), untold: this.#kernel.moment.noticed.length };
  }

  /** Whether the workflow is told before the action is performed. */
  #isEnough(action: BurstAction): boolean {
    // Where an attempt before this one has gone further, what led it on is in the store: another burst asks for it from a stored step on.
    if (action.type !== 'call_llm' && firstStepOf(action) <= this.#ledTo) return false;
    if (this.#deps.isStopping?.()) return true;
    const ranMs = performance.now() - this.#startedAt;
    const { maxMs, maxSteps, maxBytes } = this.#input.limits ?? USUAL_LIMITS;
    return ranMs >= maxMs || this.#steps >= maxSteps || this.#bytes >= maxBytes;
  }

  get #mark(): { inboxRead?: number } {
    return this.#inboxRead > 0 ? { inboxRead: this.#inboxRead } : {};
  }

  /** What happened since the last answer; the step that comes next keeps it. */
  get #since(): readonly BetweenSteps[] {
    return this.#items.slice(this.#answered).filter((item) => item.kind !== 'step');
  }

  async #callModel(action: CallLlmAction): Promise<KernelAction | BurstOutcome> {
    const isFirst = this.#items.length === 0;
    const commitWith = (commit: StepCommit) => this.#commitStep(commit);
    const toBegin = this.#toBegin(action, this.#kernel);
    const call = { ...this.#fence, ...toBegin, ...this.#mark, nowMs: this.#now, commitWith };
    const ready = this.#opened?.step;
    this.#opened = null;
    try {
      const opened = ready ?? (await beginStep(this.#deps, call, this.#holding));
      this.#kernel.takeNoticed();
      // A workflow that was reset asks again for steps that are stored.
      if (opened.opening.recorded && !this.#led) await this.#readLed();
      const record = opened.opening.recorded ?? (await answerStep(this.#deps, call, opened, this.#holding));
      return this.#answerTo({ kind: 'step', nowMs: record.answeredAt ?? this.#now(), record });
    } catch (error) {
      if (isFirst || this.#holding.signal.aborted || endsAttempt(error) || isTriedAgain(error)) throw error;
      return this.#outcome();
    }
  }

  /** The step of a model call that the kernel asks for, after what is told to it beyond the items of this burst. */
  #toBegin(request: CallLlmAction, kernel: TurnKernel, unsaid: readonly BetweenSteps[] = []): StepToBegin {
    const { profileHash } = this.#input;
    const { noticed } = kernel.moment;
    const ledBy = [...this.#since, ...unsaid];
    return { profileHash, request, noticed, ...(ledBy.length > 0 ? { ledBy } : {}) };
  }

  async #commitStep(commit: StepCommit): Promise<StepOutcomeRecord> {
    const endWith = (record: StepOutcomeRecord) => this.#endAfter(record);
    const askedAt = moment();
    const { store } = this.#deps;
    try {
      const { record, ending, claims } = await store.commitStepAndEnd(this.#fence, commit, endWith);
      this.#ending = ending;
      this.#claimedAt = askedAt;
      this.#claims = new Map(claims.map((claim) => [claim.call.callId, claim]));
      return record;
    } catch (error) {
      if (isOutage(error) || endsAttempt(error)) throw error;
      // The answer is paid for: what keeps the turn from being ended with it does not keep it from being stored.
      return store.commitStep(this.#fence, commit);
    }
  }

  /** The end of the turn that follows from a step; null when it goes on. */
  #endAfter(record: StepOutcomeRecord): TurnCommit | null {
    // Without it two kernels would be told two times.
    if (record.answeredAt === undefined) return null;
    const { kernel, next } = tryItems(this.#kernel, [{ kind: 'step', nowMs: record.answeredAt, record }]);
    if (next?.type !== 'done') return null;
    this.#mayHaveEnded = true;
    return this.#endOf(next, kernel);
  }

  /** What an attempt before this one was led by after the same action, and not what this one would find; null where it came to no step. */
  #goAsBefore(action: BurstAction): KernelAction | null {
    if (action.type === 'call_llm') return null;
    const stepIndex = firstStepOf(action);
    const ledBy = this.#led?.get(stepIndex) ?? [];
    if (!leadsTo(this.#kernel, stepIndex, ledBy)) return null;
    let next: KernelAction | null = null;
    for (const item of ledBy) next = this.#tell(item) ?? next;
    return next;
  }

  async #executeTools(action: ExecuteToolsAction): Promise<KernelAction | BurstOutcome> {
    const { profileHash, again } = this.#input;
    const input = { ...this.#fence, profileHash, ...(again ? { again } : {}) };
    const { settled, waiting } = await performCalls(this.#deps, input, action, this.#holding, {
      atOnce: this.#input.parallelCalls ?? action.calls.length,
      claims: this.#claims,
      claimedAt: this.#claimedAt,
      settleLast: (result, all) => this.#settleLast(firstStepOf(action), result, all),
    });
    if (waiting.length > 0) return { ...this.#outcome(), suspended: { settled, waiting } };
    const opened = await this.#goAsOpened(action);
    if (opened) return opened;
    const { signal } = this.#holding;
    const mark = this.#mark;
    const delivery =
      this.#opened?.delivery ?? (await outlastOutage(signal, () => this.#deps.store.readInbox(this.#fence, mark)));
    const { inbox, results } = resultItems(this.#opened?.nowMs ?? this.#now(), settled, delivery);
    if (inbox) this.#tell(inbox);
    return this.#answerTo(results);
  }

  /** What led to the step that was opened with the last result, where the answer to that was lost; null where none was opened. */
  async #goAsOpened(action: ExecuteToolsAction): Promise<KernelAction | null> {
    if (!this.#mayHaveOpened || this.#opened) return null;
    this.#mayHaveOpened = false;
    await this.#readLed();
    return this.#goAsBefore(action);
  }

  /**
   * Stores the result of the last call of a step, and opens the next step with it where that is what follows. The tool has run: what keeps the
   * step from being opened does not keep its result from being stored.
   */
  async #settleLast(
    stepIndex: number,
    result: CallResult,
    all: (settled: SettledCall) => readonly SettledCall[],
  ): Promise<SettledCall> {
    const nowMs = this.#now();
    let delivered: InboxDelivery = {};
    const openWith = (settled: SettledCall, delivery: InboxDelivery) => {
      delivered = delivery;
      const { inbox, results } = resultItems(nowMs, all(settled), delivery);
      const items = inbox ? [inbox, results] : [results];
      const { kernel, next } = tryItems(this.#kernel, items);
      if (next?.type !== 'call_llm' || next.stepIndex !== stepIndex || this.#isEnough(next)) return null;
      return stepBegin(this.#toBegin(next, kernel, items));
    };
    const { store } = this.#deps;
    try {
      const { settled, next } = await store.settleCallAndOpen(this.#fence, result, stepIndex, this.#mark, openWith);
      if (next) this.#opened = { nowMs, delivery: delivered, step: { opening: next, foundAt: performance.now() } };
      return settled;
    } catch (error) {
      this.#mayHaveOpened ||= isOutage(error);
      if (isOutage(error) || endsAttempt(error)) throw error;
      return store.settleCall(this.#fence, result);
    }
  }

  async #summarize(request: SummarizeAction): Promise<KernelAction> {
    const { profileHash } = this.#input;
    const { seq, tokens, usage, cost } = await writeSummary(
      this.#deps,
      { ...this.#fence, profileHash, request },
      this.#holding,
    );
    const { stepIndex } = request;
    const event = {
      type: 'summarized',
      nowMs: this.#now(),
      stepIndex,
      summary: [seq, 'summary', tokens],
      usage,
      cost,
    } as const;
    return this.#answerTo({ kind: 'event', event });
  }

  #answerTo(item: BurstItem): KernelAction {
    const next = this.#tell(item);
    if (next) return next;
    throw new CodedError('internal_error', 'the kernel had no answer');
  }

  /** Tells the kernel what happened, as the workflow will tell its own; null when nothing follows from it at once. */
  #tell(item: BurstItem): KernelAction | null {
    this.#items.push(item);
    this.#bytes += utf8Bytes(JSON.stringify(item));
    if (item.kind === 'inbox') this.#noteRead(item.delivery);
    if (item.kind === 'step') {
      this.#noteRead(item.record);
      this.#steps += 1;
      this.#answered = this.#items.length;
    }
    return feedItem(this.#kernel, item);
  }

  #noteRead({ items = [] }: { readonly items?: readonly { readonly seq: number }[] }): void {
    this.#inboxRead = items.reduce((read, { seq }) => Math.max(read, seq), this.#inboxRead);
  }

  async #end(action: DoneAction): Promise<BurstOutcome> {
    const { privateTitles } = this.#input;
    const commit = this.#endOf(action, this.#kernel);
    const ending = this.#ending;
    const end = await (ending
      ? this.#deps.tellEnding(ending, privateTitles)
      : outlastOutage(this.#holding.signal, () =>
          this.#deps.commitTurn({ ...this.#fence, ...commit, ...(privateTitles ? { privateTitles } : {}) }),
        ));
    return { ...this.#outcome(), end };
  }

  /** What a kernel that is done has to say to the store, which takes its notices. */
  #endOf({ termination, deliverable, hide }: DoneAction, kernel: TurnKernel): TurnCommit {
    const { engine } = this.#input;
    return { termination, deliverable, engine, ...(hide ? { hide } : {}), ...kernel.takeNoticed() };
  }
}

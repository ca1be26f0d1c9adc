/**
 * The activity that performs several actions of a turn, one after the other, and runs the kernel between them.
 *
 * Invariants
 * 1. Everything that decides is in the store before anything follows from it: the answer of a model with its step, what happened between two
 *    steps with the opening of the second. So another attempt comes the same way, and calls no model and runs no tool a second time (T5).
 * 2. Once a later attempt has written, an earlier one writes nothing and starts no tool, whatever it still holds (W10).
 * 3. A model call that fails ends the burst before it: the next burst begins with the call, and fails as a call of its own does (W14).
 */
import { Context } from '@temporalio/activity';
import type { CommitTurnInput } from '../../workflows/contract/activities.ts';
import type { BetweenSteps } from '../../workflows/contract/between-steps.ts';
import type { BurstAction, BurstInput, BurstItem, BurstOutcome } from '../../workflows/contract/burst.ts';
import type { TurnEnd } from '../../workflows/contract/lease.ts';
import type {
  CallLlmAction,
  ExecuteToolsAction,
  KernelAction,
  SummarizeAction,
} from '../../workflows/kernel/actions.ts';
import { KERNEL_VERSION } from '../../workflows/kernel/version.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { utf8Bytes } from '../../workflows/protocol/sizes.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import { short } from '../../workflows/turn/burst-items.ts';
import { type KernelMoment, TurnKernel } from '../../workflows/turn/kernel.ts';
import { responseEvent } from '../../workflows/turn/response.ts';
import { type Holding, leaseCheck, withHeartbeat } from '../heartbeat.ts';
import { answerStep, beginStep, type ModelDeps } from '../llm/call-model.ts';
import { writeSummary } from '../llm/summarize.ts';
import { outlastOutage } from '../store-outage.ts';
import { type CallDeps, performCalls, runsApart } from './calls.ts';

/** What a burst needs from the process that runs it. */
export interface BurstDeps extends ModelDeps, CallDeps {
  readonly store: ModelDeps['store'] & CallDeps['store'];
  readonly commitTurn: (input: CommitTurnInput) => Promise<TurnEnd>;
}

/** How much one burst does before the workflow is told. */
const LONGEST_MS = 8_000;
const MOST_STEPS = 32;
const MOST_BYTES = 128 * 1024;

/**
 * Performs the action and those that follow from it, until the turn has ended, must wait, or has done enough. Errors: those of the first
 * action, as its own activity throws them; of a later one only those that another attempt may heal.
 */
export const runSteps =
  (deps: BurstDeps) =>
  (input: BurstInput): Promise<BurstOutcome> => {
    const { agentId, agentTurnId, turnEpoch, noticed = [] } = input;
    // Two versions may decide otherwise of the same turn; the workflow's own is the one that a replay asks.
    if (input.kernel !== KERNEL_VERSION) return Promise.resolve({ items: [], untold: noticed.length, apart: true });
    const acting = Context.current().info.currentAttemptScheduledTimestampMs;
    const fence: Fence = { agentId, agentTurnId, turnEpoch, acting };
    return withHeartbeat(leaseCheck(deps.store, fence), (holding) => new Burst(deps, input, fence, holding).run());
  };

/** The clock of the workflow, as an attempt goes on with it: the server said how long ago it was first asked for. */
function workflowClock(nowMs: number): () => number {
  const { currentAttemptScheduledTimestampMs, scheduledTimestampMs } = Context.current().info;
  const startedAt = performance.now();
  const waitedMs = Math.max(0, currentAttemptScheduledTimestampMs - scheduledTimestampMs);
  return () => Math.round(nowMs + waitedMs + performance.now() - startedAt);
}

const ofStep = (action: KernelAction): action is BurstAction => action.type !== 'done' && action.type !== 'await';

class Burst {
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
  /** Where the kernel stood when the last step had been answered, or the burst began, and how many items there were by then. */
  #answered: { readonly moment: KernelMoment; readonly items: number };

  constructor(deps: BurstDeps, input: BurstInput, fence: Fence, holding: Holding) {
    this.#deps = deps;
    this.#input = input;
    this.#fence = fence;
    this.#holding = holding;
    this.#now = workflowClock(input.nowMs);
    const { log } = Context.current();
    this.#kernel = new TurnKernel(
      { state: input.state, noticed: input.noticed ?? [] },
      { observed: (observation) => log.debug(observation.type, { ...observation }), notice: () => {} },
    );
    this.#inboxRead = input.inboxRead ?? 0;
    this.#answered = { moment: this.#kernel.moment, items: 0 };
  }

  async run(): Promise<BurstOutcome> {
    let action: KernelAction = this.#input.action;
    while (ofStep(action)) {
      if (this.#items.length > 0 && this.#isEnough()) return this.#outcome();
      if (action.type === 'execute_tools' && runsApart(this.#deps, action)) return { ...this.#outcome(), apart: true };
      const next: KernelAction | BurstOutcome = await this.#perform(action);
      if ('items' in next) return next;
      action = next;
    }
    return action.type === 'done' ? this.#end(action) : this.#outcome();
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

  #isEnough(): boolean {
    const ranMs = performance.now() - this.#startedAt;
    return ranMs >= LONGEST_MS || this.#steps >= MOST_STEPS || this.#bytes >= MOST_BYTES;
  }

  get #mark(): { inboxRead?: number } {
    return this.#inboxRead > 0 ? { inboxRead: this.#inboxRead } : {};
  }

  /** What happened since the last answer; the step that comes next keeps it. */
  get #since(): readonly BetweenSteps[] {
    return this.#items.slice(this.#answered.items).filter((item) => item.kind !== 'step');
  }

  async #callModel(action: CallLlmAction): Promise<KernelAction | BurstOutcome> {
    const isFirst = this.#items.length === 0;
    const since = this.#since;
    const { profileHash } = this.#input;
    const noticed = this.#kernel.takeNoticed();
    const call = { ...this.#fence, profileHash, request: action, ...noticed, ...this.#mark, nowMs: this.#now };
    const led = since.length > 0 ? { ledBy: since } : {};
    const opened = await beginStep(this.#deps, { ...call, ...led }, this.#holding);
    const { ledBy, recorded } = opened.opening;
    if (since.length > 0 && ledBy !== null && !isSame(ledBy, since)) return this.#goAsBefore(ledBy);
    try {
      const record = recorded ?? (await answerStep(this.#deps, call, opened, this.#holding));
      return this.#answerTo({ kind: 'step', nowMs: record.answeredAt ?? this.#now(), record });
    } catch (error) {
      if (isFirst || this.#holding.signal.aborted || endsAttempt(error)) throw error;
      return this.#outcome();
    }
  }

  /** An attempt before this one went on from here: what it was led by decides, and not what this one found. */
  #goAsBefore(ledBy: readonly BetweenSteps[]): KernelAction {
    this.#kernel.goBack(this.#answered.moment);
    this.#items.length = this.#answered.items;
    let next: KernelAction | null = null;
    for (const item of ledBy) next = this.#tell(item) ?? next;
    if (next) return next;
    throw new CodedError('internal_error', 'a step is led by nothing that the kernel answers');
  }

  async #executeTools(action: ExecuteToolsAction): Promise<KernelAction | BurstOutcome> {
    const { settled, waiting } = await performCalls(
      this.#deps,
      this.#fence,
      this.#input.profileHash,
      action,
      this.#holding,
    );
    if (waiting.length > 0) return { ...this.#outcome(), suspended: { settled, waiting } };
    const { signal } = this.#holding;
    const mark = this.#mark;
    const delivery = await outlastOutage(signal, () => this.#deps.store.readInbox(this.#fence, mark));
    const nowMs = this.#now();
    if (delivery.items || delivery.delegated) this.#tell({ kind: 'inbox', nowMs, delivery });
    return this.#answerTo({ kind: 'event', event: { type: 'tool_results', nowMs, settled, suspended: [] } });
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
    switch (item.kind) {
      case 'event':
        return this.#kernel.feed(item.event);
      case 'inbox':
        this.#noteRead(item.delivery);
        this.#kernel.take(item.delivery, item.nowMs);
        return null;
      case 'step': {
        const { record, nowMs } = item;
        this.#noteRead(record);
        this.#kernel.take(record, nowMs);
        const next = this.#kernel.feed(responseEvent(record, nowMs));
        this.#steps += 1;
        this.#answered = { moment: this.#kernel.moment, items: this.#items.length };
        return next;
      }
    }
  }

  #noteRead({ items = [] }: { readonly items?: readonly { readonly seq: number }[] }): void {
    this.#inboxRead = Math.max(this.#inboxRead, ...items.map(({ seq }) => seq));
  }

  async #end({ termination, deliverable, hide }: Extract<KernelAction, { type: 'done' }>): Promise<BurstOutcome> {
    const { engine, privateTitles } = this.#input;
    const end = await outlastOutage(this.#holding.signal, () =>
      this.#deps.commitTurn({
        ...this.#fence,
        termination,
        deliverable,
        engine,
        ...(hide ? { hide } : {}),
        ...this.#kernel.takeNoticed(),
        ...(privateTitles ? { privateTitles } : {}),
      }),
    );
    return { ...this.#outcome(), end };
  }
}

const isSame = (a: readonly BetweenSteps[], b: readonly BetweenSteps[]): boolean =>
  JSON.stringify(a) === JSON.stringify(b);

/** Whether an error says that this attempt is over, and not that a model call has failed. */
const endsAttempt = (error: unknown): boolean =>
  error instanceof CodedError && (error.code === 'stale_epoch' || error.code === 'call_overtaken');

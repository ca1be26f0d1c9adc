/**
 * The model activity: it opens the step, renders the request, streams the answer, reads the calls in it, and commits.
 *
 * Invariant: the model is not asked again for a step whose thought is stored; the activity returns what was recorded (T5).
 */
import { Context, log } from '@temporalio/activity';
import type { CallModelInput } from '../../workflows/contract/activities.ts';
import type { SummaryStore } from '../../workflows/contract/agent-summary.ts';
import type { WorkStore } from '../../workflows/contract/agent-work.ts';
import type { BetweenSteps } from '../../workflows/contract/between-steps.ts';
import type { CallStore } from '../../workflows/contract/calls.ts';
import type { CardStore } from '../../workflows/contract/cards.ts';
import type { InboxMark } from '../../workflows/contract/inbox.ts';
import type { SessionJournal } from '../../workflows/contract/journal.ts';
import type { LeaseStore } from '../../workflows/contract/lease.ts';
import type { ProfileStore } from '../../workflows/contract/profiles.ts';
import type {
  NewCall,
  ShownStep,
  StepBegin,
  StepCommit,
  StepOpening,
  StepOutcomeRecord,
  StepStore,
} from '../../workflows/contract/steps.ts';
import type { ReadStore } from '../../workflows/contract/views.ts';
import type { StateLine } from '../../workflows/kernel/actions.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { clip } from '../../workflows/protocol/sizes.ts';
import type { AnswerLimit, Fence } from '../../workflows/protocol/turn.ts';
import type { App } from '../app/app.ts';
import { toApplicationFailure } from '../failure.ts';
import { type Holding, leaseCheck, withHeartbeat } from '../heartbeat.ts';
import { redact } from '../redact.ts';
import { outlastOutage } from '../store-outage.ts';
import type { ChunkWriter } from './chunk-writer.ts';
import type { Model, ModelReply, ModelRequest, StreamListener } from './model.ts';
import { refuseLost, waitOut } from './patience.ts';
import { costOf } from './pricing.ts';
import { readProposals } from './proposals.ts';
import { providerFailure } from './provider-failure.ts';
import { buildRequest, noteCard, offeredNames } from './request.ts';
import { readShown } from './shown.ts';
import type { StateFacts } from './state-block.ts';
import { promptTokens } from './usage.ts';

/** What the activities that ask a model need. */
export interface ModelDeps {
  readonly store: LeaseStore &
    StepStore &
    CallStore &
    CardStore &
    ProfileStore &
    WorkStore &
    SummaryStore &
    Pick<ReadStore, 'getTurn'>;
  readonly app: App;
  readonly model: Model;
  /** Where answers go while they are written. */
  readonly chunks: ChunkWriter;
  /** Keeps journals of chat sessions; none are kept when absent. */
  readonly journal?: SessionJournal | undefined;
}

/**
 * Throws `context_build_error` when the request cannot be rendered, `stale_epoch` when the lease is over, `step_closed` when the turn has gone on
 * without the step, `worker_lost` when too many attempts were lost, and the failures of the provider as `waitOut` throws them. While the
 * store is away it waits: an answer is paid for.
 */
export const callModel =
  (deps: ModelDeps) =>
  (input: CallModelInput): Promise<StepOutcomeRecord> =>
    withHeartbeat(leaseCheck(deps.store, input), async (holding) => {
      const opened = await beginStep(deps, input, holding);
      return opened.opening.recorded ?? answerStep(deps, input, opened, holding);
    });

/** A model call under a lease; what is absent in the input of the activity comes from a burst. */
export interface ModelCallInput extends CallModelInput {
  /** As in `StepBegin`. */
  readonly ledBy?: readonly BetweenSteps[];
  /** The time by the clock of the workflow, epoch ms, where the store is to keep when the model had answered. */
  readonly nowMs?: () => number;
  /** Commits the step, where more than the step may be committed with it; the store's `commitStep` when absent. */
  readonly commitWith?: (commit: StepCommit) => Promise<StepOutcomeRecord>;
}

/** What is said of a step that is to be opened. */
export type StepToBegin = Pick<ModelCallInput, 'profileHash' | 'noticed' | 'ledBy' | 'request'> & InboxMark;

/** A step that was opened, and when, by `performance.now()`. */
export interface OpenedStep {
  readonly opening: StepOpening;
  readonly foundAt: number;
}

const fenceOf = ({ agentId, agentTurnId, turnEpoch, acting }: Fence): Fence => ({
  agentId,
  agentTurnId,
  turnEpoch,
  ...(acting === undefined ? {} : { acting }),
});

const markOf = ({ inboxRead }: InboxMark): InboxMark => (inboxRead === undefined ? {} : { inboxRead });

/** The step of a model call, as it is to be opened. */
export function stepBegin(step: StepToBegin): StepBegin {
  const { profileHash, noticed, ledBy } = step;
  const { stepIndex, hide = [], room } = step.request;
  return {
    ...markOf(step),
    stepIndex,
    profileHash,
    hide,
    ...(noticed ? { noticed } : {}),
    ...(room === undefined ? {} : { room }),
    ...(ledBy ? { ledBy } : {}),
  };
}

/** Opens the step of a model call; before the first one of a chat turn its journal has that it began (C9). Errors: those of store and journal. */
export async function beginStep(
  { store, journal }: Pick<ModelDeps, 'store' | 'journal'>,
  input: ModelCallInput,
  { signal }: Holding,
): Promise<OpenedStep> {
  if (input.request.stepIndex === 1) await journal?.record(input.agentId);
  const opening = await outlastOutage(signal, () => store.openStep(fenceOf(input), stepBegin(input)));
  return { opening, foundAt: performance.now() };
}

/** Asks the model for a step that has been opened, and commits the answer. Errors: as those of `callModel`. */
export async function answerStep(
  deps: ModelDeps,
  input: ModelCallInput,
  { opening, foundAt }: OpenedStep,
  holding: Holding,
): Promise<StepOutcomeRecord> {
  const { signal } = holding;
  const { agentTurnId, request: action, nowMs } = input;
  const fence = fenceOf(input);
  const { commitWith = (step: StepCommit) => deps.store.commitStep(fence, step) } = input;
  const { stepIndex } = action;
  refuseLost(opening);
  for (const warning of opening.warnings) log.warn(warning, { agentTurnId });
  const request = await render(deps, input, opening, signal);
  await holding.confirm();
  const { outage, snapshot } = opening;
  const patienceMs = snapshot.profile.providerPatienceMs;
  const { windowTokens } = snapshot.profile.context;
  const call = { store: deps.store, fence, stepIndex, outage, foundAt, patienceMs, signal };
  const { currentAttemptScheduledTimestampMs: attempt } = Context.current().info;
  const shown = deps.chunks.open({ fence, stepIndex, attempt });
  const reply = await ask(deps.model, request, signal, { shown, windowTokens }).catch((error: unknown) => {
    shown.drop();
    return waitOut(call, error);
  });
  shown.end(reply.usage);
  if (reply.finish === 'unknown') {
    const { finishReason } = reply;
    log.warn('the provider ended its answer with a word that is not known: it does not count as whole', {
      finishReason,
    });
  }
  const truncated = limitOf(reply, request);
  const { proposed, calls } = await readProposals(reply.calls, {
    truncated,
    agentTurnId,
    stepIndex: action.stepIndex,
    offered: offeredNames(request),
    app: deps.app,
    profile: opening.snapshot.profile,
    resultFields: opening.resultFields,
    agentId: input.agentId,
    readResult: (callId) => outlastOutage(signal, () => deps.store.readResult(fence, callId)),
    readWake: (cardId) => outlastOutage(signal, () => deps.store.readWake(fence, cardId)),
    readWork: () => outlastOutage(signal, () => deps.store.readWork(fence)),
    summary: (agentId) => outlastOutage(signal, () => deps.store.agentSummary(agentId)),
    delegated: async (turnId) => {
      const turn = await outlastOutage(signal, () => deps.store.getTurn(turnId));
      return turn?.parent?.agentId === input.agentId ? turn : null;
    },
    finalReport: action.note?.kind === 'final_report',
  });
  const refusal = reply.refusal || (reply.finish === 'filtered' ? 'stopped by the content filter' : '');
  const commit: StepCommit = {
    ...markOf(input),
    ...(nowMs ? { answeredAt: nowMs() } : {}),
    stepIndex: action.stepIndex,
    steerIds: opening.steers.map((card) => card.cardId),
    note: noteCard(action.note),
    thought: { text: reply.text || reply.refusal, toolCalls: proposed, ...(refusal ? { refusal } : {}) },
    calls,
    ...(opening.snapshot.profile.privateTitles ? {} : { shown: shownStep(reply.text, calls) }),
    usage: reply.usage,
    model: reply.model,
    cost: costOf(deps.app.prices, [reply.model, request.model], reply.usage),
    finishReason: reply.finishReason,
    ...(truncated ? { truncated } : {}),
    latencyMs: reply.latencyMs,
    firstTokenMs: reply.firstTokenMs,
  };
  return outlastOutage(signal, () => commitWith(commit));
}

/** Whose limit cut the answer short; null when none did. */
function limitOf({ finish, cutHere, usage }: ModelReply, request: ModelRequest): AnswerLimit | null {
  if (cutHere) return 'runtime';
  if (finish === 'unknown') return finish;
  if (finish === 'whole' || finish === 'filtered') return null;
  const most = request.max_completion_tokens;
  return most != null && usage.output >= most ? 'profile' : 'provider';
}

const SHOWN_TEXT_BYTES = 400;
const SHOWN_ARGUMENTS_BYTES = 160;
const SHOWN_CALLS = 4;

function shownStep(text: string, calls: readonly NewCall[]): ShownStep {
  const shown = calls.slice(0, SHOWN_CALLS).map(({ content }): [string, string] => {
    return [content.callId, clip(JSON.stringify(content.arguments), SHOWN_ARGUMENTS_BYTES)];
  });
  return { text: clip(text.trim(), SHOWN_TEXT_BYTES), calls: Object.fromEntries(shown) };
}

/** The model request of the step. Throws `context_build_error`. */
async function render(
  { store, model }: ModelDeps,
  { request: action, agentId, agentTurnId, turnEpoch }: CallModelInput,
  opening: StepOpening,
  signal: AbortSignal,
): Promise<ModelRequest> {
  const planned = await outlastOutage(signal, () => readShown(store, action.plan.ranges));
  const cards = [...planned, ...opening.steers];
  const fence = { agentId, agentTurnId, turnEpoch };
  const facts = await outlastOutage(signal, () => stateFacts(store, fence, opening.criteria, action.stateBlock ?? []));
  try {
    const { snapshot, resultFields } = opening;
    const failures = opening.outage?.failures ?? 0;
    return buildRequest({ snapshot, resultFields, action, cards, facts, defaultModel: model.defaultModel, failures });
  } catch (error) {
    throw new CodedError('context_build_error', `the model request could not be built: ${String(error)}`, {
      cause: error,
    });
  }
}

/** Reads what the lines that stand last in the prompt name (K14). */
async function stateFacts(
  store: CardStore & CallStore,
  fence: Fence,
  criteria: readonly string[],
  lines: readonly StateLine[],
): Promise<StateFacts> {
  const said = lines.find((line) => line.kind === 'user_messages');
  const planned = lines.find((line) => line.kind === 'plan');
  const extents = said?.seqs.map((seq) => ({ boxId: said.boxId, fromSeq: seq, toSeq: seq })) ?? [];
  const [cards, written] = await Promise.all([
    extents.length > 0 ? store.readExtents(extents) : [],
    planned ? store.readCall(fence, planned.callId) : null,
  ]);
  return { criteria, userMessages: cards, plan: written?.arguments ?? null };
}

/** Bytes of the provider's own words that a line of the log repeats. */
const SAID_BYTES = 2_000;

/** From this share of its window on a prompt may be what a provider refuses without saying why. */
const NEARLY_FULL = 0.8;

const isNearlyFull = (request: ModelRequest, windowTokens: number): boolean =>
  promptTokens(request) > NEARLY_FULL * windowTokens;

/** As one that says it: the prompt is made shorter, and the call is made again. */
const nearlyFull = ({ message }: CodedError): CodedError =>
  new CodedError(
    'context_overflow',
    `${message}; the prompt takes more than four fifths of the window, so a shorter one is tried`,
  );

/** What a call has besides its request. */
interface Asking {
  readonly shown?: StreamListener;
  /** The window of the model; a prompt is not made shorter for a refusal that says nothing where it is left out. */
  readonly windowTokens?: number;
}

/**
 * Asks the model. A failure of the provider is thrown as an ApplicationFailure in our words, with its code and what is known about a retry
 * (W14); the provider's words go to the log of the worker, without secrets. Throws the reason of `signal` when that has fired.
 */
export async function ask(
  model: Model,
  request: ModelRequest,
  signal: AbortSignal,
  { shown, windowTokens }: Asking = {},
): Promise<ModelReply> {
  try {
    return await model.stream(request, signal, shown);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const failure = providerFailure(error);
    if (!failure) throw error;
    const said = clip(redact(failure.said, model.secrets), SAID_BYTES);
    log.warn('the model provider failed', { code: failure.error.code, said });
    const isFull = failure.isUnknown && windowTokens !== undefined && isNearlyFull(request, windowTokens);
    throw toApplicationFailure(isFull ? nearlyFull(failure.error) : failure.error, failure.hint);
  }
}

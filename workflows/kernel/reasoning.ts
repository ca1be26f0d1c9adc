/** What follows when the model has answered, or has not: the calls of its message, the end of the turn, or another model call (K2, K11). */
import type { AnswerLimit, Termination } from '../protocol/turn.ts';
import { onProposals } from './acting.ts';
import type { Observation } from './actions.ts';
import { withUsage } from './budgets.ts';
import { answerOf, done, finishReport, withoutReport } from './ending.ts';
import type { LlmFailedEvent, LlmResponseEvent } from './events.ts';
import { callAgain, nextModelCall } from './funnel.ts';
import { afterAnswer } from './fuse.ts';
import { type Handle, handleOf, merge } from './handles.ts';
import type { ModelCall } from './model-call.ts';
import { observed, type StepOutcome } from './outcome.ts';
import { phaseOf } from './phase.ts';
import { corrected, promptLimit } from './pressure.ts';
import { rollback } from './rollback.ts';
import type { KernelState } from './state.ts';

const REFUSAL: Termination = { status: 'failed', errorCode: 'provider_refusal', reason: 'the model refused' };

/** The model has answered. An answer to the final report ends the turn, whatever else is in it (K9). */
export function onResponse(state: KernelState, event: LlmResponseEvent): StepOutcome {
  const { ending } = phaseOf(state, 'reasoning').call;
  const next = withResponse(state, event);
  if (ending !== null) return event.refused ? withoutReport(next, ending) : finishReport(next, ending, event.calls);
  if (event.refused) return done(next, REFUSAL, { from: 'fallback' });
  if (event.calls.length > 0) return onProposals(next, event.calls, event.nowMs);
  return event.truncated ? onTruncated(next, event, event.truncated) : onAnswer(next, event.nowMs);
}

/** The state with the cards of the answer, and with what it cost; what the step had to hide is hidden by now. */
function withResponse(state: KernelState, event: LlmResponseEvent): KernelState {
  const results = event.calls.flatMap(({ settled }) => (settled ? [handleOf(settled)] : []));
  return {
    ...state,
    ...withUsage(state, event.usage, event.cost),
    context: {
      ...state.context,
      correction: corrected(state, event.usage, shownIn(event)),
      overflows: 0,
      activityAt: event.nowMs,
    },
    handles: merge(state.handles, [...event.handles, ...results]),
    lastThought: { cardId: event.thoughtCardId, hasText: event.hasText },
    toHide: [],
  };
}

/** The cards of the event that were part of its prompt although no plan knew them: messages of users that came meanwhile, and a note. */
const shownIn = ({ handles }: LlmResponseEvent): readonly Handle[] =>
  handles.filter(([, role]) => role !== 'assistant');

/** How often the model is asked to go on with an answer that was cut short (K11). */
const CONTINUATIONS = 3;

/** An answer that says nothing, and nobody knows why: it may be well with the next one, which is asked for in the same way. */
const SAID_NOTHING = 'the model ended its answer without a word, for a reason that is not known';

/**
 * The model is asked to go on. After three continuations, and where there is nothing to go on from because its reasoning took the whole limit,
 * the turn ends with what was said: cut short is never whole. What ended for a reason that nobody knows may be whole, and is not gone on with.
 */
function onTruncated(state: KernelState, { hasText, nowMs }: LlmResponseEvent, limit: AnswerLimit): StepOutcome {
  const { answerParts, lastThought } = state;
  const part = answerParts.length + 1;
  const seen: Observation = { type: 'truncated', part };
  if (limit === 'unknown')
    return observed([seen], hasText ? onCut(state, true, limit, nowMs) : rollback(state, SAID_NOTHING, nowMs));
  // Asked again in the same way, it would end in the same way.
  if (!hasText || part > CONTINUATIONS) return observed([seen], onCut(state, hasText || part > 1, limit, nowMs));
  const next = { ...state, rollbacks: 0, answerParts: [...answerParts, ...(lastThought ? [lastThought.cardId] : [])] };
  return observed([seen], nextModelCall(next, nowMs, { note: { kind: 'go_on' } }));
}

/** What happened to the answer. */
const CUT: Readonly<Record<AnswerLimit, string>> = {
  profile: 'was cut short by model.maxTokens of the profile',
  provider: 'was cut short by the output limit of the model or its provider',
  runtime: 'was cut short by what is kept of one answer (512 KiB, 20 minutes)',
  unknown: "ended for a reason that is not known, which the worker's log names",
};

/** The answer stays cut short. Where the turn is to be ended by a tool, its text is no answer, and the model is reminded of that. */
function onCut(state: KernelState, hasAnswer: boolean, limit: AnswerLimit, nowMs: number): StepOutcome {
  if (hasAnswer && lacksTool(state)) return onAnswer(state, nowMs);
  const errorCode = 'answer_truncated';
  if (!hasAnswer) {
    const reason = `the model said nothing before the answer ${CUT[limit]}; its reasoning may have taken all of it`;
    return done(state, { status: 'failed', errorCode, reason }, { from: 'fallback' });
  }
  const reason = `the answer ${CUT[limit]}, and ${limit === 'unknown' ? 'may not be' : 'is not'} whole`;
  return done(state, { status: 'partial', errorCode, reason }, answerOf(state));
}

const lacksTool = ({ config, requiredToolDone }: KernelState): boolean =>
  config.mustEndWith.length > 0 && !requiredToolDone;

/** A message without tool calls ends the turn, unless the profile wants it ended by a tool (W13); then it is a repetition (K12). */
function onAnswer(state: KernelState, nowMs: number): StepOutcome {
  const tools = state.config.mustEndWith;
  if (!lacksTool(state)) return done(state, { status: 'success' }, answerOf(state));
  const extra = { onlyTools: tools, requireTool: true, note: { kind: 'must_end_with', tools } } as const;
  return observed(
    [{ type: 'reminded', tools }],
    nextModelCall({ ...state, rollbacks: 0, answerParts: [], streaks: afterAnswer(state.streaks) }, nowMs, extra),
  );
}

/** How often a prompt that the provider finds too long is made shorter and sent again (K11). */
const FORCED_COMPACTIONS = 2;

/** The model has not answered: a prompt that was too long is made shorter and sent again, any other failure ends the turn (K11). */
export function onModelFailure(state: KernelState, event: LlmFailedEvent): StepOutcome {
  const { call } = phaseOf(state, 'reasoning');
  if (event.code === 'context_overflow' && state.context.overflows < FORCED_COMPACTIONS)
    return onOverflow(state, call, event.nowMs);
  if (call.ending !== null) return withoutReport(state, call.ending);
  return done(state, { status: 'failed', errorCode: event.code, reason: event.message }, { from: 'fallback' });
}

/** Our count was wrong: everything that may go goes, and the model is asked for the same again, as a step of its own. */
function onOverflow(state: KernelState, call: ModelCall, nowMs: number): StepOutcome {
  const overflows = state.context.overflows + 1;
  const { estimate } = state.context;
  const correction = Math.max(state.context.correction, estimate === 0 ? 1 : promptLimit(state) / estimate);
  const next = { ...state, context: { ...state.context, overflows, correction } };
  return observed([{ type: 'overflow', time: overflows }], callAgain(next, nowMs, call, true));
}

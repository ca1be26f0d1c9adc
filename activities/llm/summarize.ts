/**
 * The summary activity (K15, K16): it writes the oldest messages in short, by a model; by rule for a new sprint, before the report, and when the
 * model cannot.
 *
 * Invariants
 * 1. A summary that is stored is not written again.
 * 2. A summary takes no more tokens than the kernel has made room for.
 */
import { Context, log } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import type { SummarizeInput } from '../../workflows/contract/activities.ts';
import type { SummaryRecord } from '../../workflows/contract/steps.ts';
import { clip } from '../../workflows/protocol/sizes.ts';
import { NO_USAGE, type Usage } from '../../workflows/protocol/turn.ts';
import { describeError } from '../failure.ts';
import { type Holding, leaseCheck, withHeartbeat } from '../heartbeat.ts';
import { outlastOutage } from '../store-outage.ts';
import { countTokens } from '../tokens.ts';
import { ask, type ModelDeps } from './call-model.ts';
import { costOf } from './pricing.ts';
import { type ShownCard, SUMMARY_HEAD, toMessages } from './projection.ts';
import { readShown } from './shown.ts';

/** Attempts at a model that fails and may heal, before the summary is written by rule. */
const MODEL_ATTEMPTS = 2;

/** What summarising needs: nobody follows how a summary is written. */
type SummaryDeps = Omit<ModelDeps, 'chunks'>;

/** A summary before it is stored, and what it took to write it; `cost` is null when the price is not known. */
interface Written {
  readonly text: string;
  readonly usage: Usage;
  readonly cost: number | null;
  /** Present where the model was cut short in it. */
  readonly isCut?: true;
}

/** Throws `stale_epoch` when the lease is over, and the failure of the provider when another attempt may heal it. */
export const summarize =
  (deps: SummaryDeps) =>
  (input: SummarizeInput): Promise<SummaryRecord> =>
    withHeartbeat(leaseCheck(deps.store, input), (holding) => writeSummary(deps, input, holding));

/** Writes the summary under a lease that is held. Errors: as those of `summarize`. */
export async function writeSummary(
  deps: SummaryDeps,
  { profileHash, request, ...fence }: SummarizeInput,
  holding: Holding,
): Promise<SummaryRecord> {
  const { signal } = holding;
  const { store } = deps;
  const { stepIndex, hide, plan, maxTokens } = request;
  const there = await outlastOutage(signal, () => store.findSummary(fence, hide));
  if (there) return there;
  const cards = await outlastOutage(signal, () => readShown(store, plan.ranges));
  const { profile } = await outlastOutage(signal, () => store.readProfile(profileHash));
  const messages = toMessages(cards, profile.context.windowTokens);
  const byRule = (): Written => ({ text: ruleSummary(cards, messages), usage: NO_USAGE, cost: 0 });
  const model = profile.context.summaryModel ?? profile.model.name ?? deps.model.defaultModel;
  await holding.confirm();
  const written =
    request.mode === 'sprint' || request.byRule
      ? byRule()
      : await byModel(deps, model, messages, maxTokens, signal).catch(orElse(byRule, signal));
  const { usage, cost } = written;
  const commit = { stepIndex, hide, usage, cost, text: within(written, maxTokens) };
  return outlastOutage(signal, () => store.commitSummary(fence, commit));
}

const INSTRUCTIONS = [
  'You shorten the older part of a working conversation between an assistant, its tools and people, so that the assistant can go on without it.',
  'Keep: the goal and every requirement, decision and directive; facts, names, numbers, ids and paths that may still matter;',
  'what was done, what came of it, what is open, and what failed and why. Leave out greetings, repetition and raw output.',
  'An earlier summary in it is as important as the rest. Write plain text, in the language of the conversation.',
].join(' ');

/** Throws the failure of the provider, and an Error for an empty summary. */
async function byModel(
  { model, app }: SummaryDeps,
  name: string,
  messages: readonly ChatCompletionMessageParam[],
  maxTokens: number,
  signal: AbortSignal,
): Promise<Written> {
  const content = `Shorten this to at most ${maxTokens} tokens:\n\n${messages.map(spoken).join('\n\n')}`;
  const request = {
    model: name,
    messages: [
      { role: 'system', content: INSTRUCTIONS },
      { role: 'user', content },
    ],
    max_completion_tokens: maxTokens,
  } satisfies Parameters<typeof ask>[1];
  const reply = await ask(model, request, signal);
  if (reply.text.trim() === '') throw new Error('the model wrote an empty summary');
  const cost = costOf(app.prices, [reply.model, name], reply.usage);
  return { text: reply.text, usage: reply.usage, cost, ...(reply.finish === 'whole' ? {} : { isCut: true }) };
}

/** What follows a failure of the model: another attempt, or a summary by rule. */
function orElse(byRule: () => Written, signal: AbortSignal): (error: unknown) => Written {
  return (error) => {
    // What no retry can heal would end the turn: another attempt is not made then.
    const heals = !(error instanceof ApplicationFailure && error.nonRetryable);
    if (signal.aborted || (heals && Context.current().info.attempt < MODEL_ATTEMPTS)) throw error;
    log.warn('the summary is written by rule', { error: describeError(error) });
    return byRule();
  };
}

/** The message as a line of a conversation that is told to another model. */
const spoken = (message: ChatCompletionMessageParam): string => {
  const calls = 'tool_calls' in message ? (message.tool_calls ?? []) : [];
  const made = calls.flatMap((call) =>
    'function' in call ? `(calls ${call.function.name} ${call.function.arguments})` : [],
  );
  const text = typeof message.content === 'string' ? message.content : '';
  return `${message.role}: ${[text, ...made].filter((part) => part !== '').join('\n')}`;
};

/** Bytes that a summary by rule repeats of one text. */
const RULE_TEXT_BYTES = 600;

/** A summary without a model: how much there was, the tools that were called, earlier summaries, what users and the assistant said last. */
export function ruleSummary(cards: readonly ShownCard[], messages: readonly ChatCompletionMessageParam[]): string {
  const tools = cards.flatMap((card) => (card.type === 'tool.result' ? [card.content.tool] : []));
  const earlier = cards.flatMap((card) => (card.type === 'context.summary' ? [card.content.text] : []));
  const lastOf = (role: 'assistant' | 'user') => {
    const said = messages.flatMap((message) =>
      message.role === role && typeof message.content === 'string' ? [message.content] : [],
    );
    return said.findLast((text) => text !== '' && !text.startsWith(SUMMARY_HEAD)) ?? '';
  };
  const parts = [
    `${messages.length} older messages were left out.`,
    tools.length > 0 ? `Tools called: ${counts(tools)}.` : '',
    ...earlier.map((text) => clip(text, Math.floor((2 * RULE_TEXT_BYTES) / earlier.length))),
    lastOf('user') === '' ? '' : `A user said: ${clip(lastOf('user'), RULE_TEXT_BYTES)}`,
    lastOf('assistant') === '' ? '' : `The assistant said last: ${clip(lastOf('assistant'), RULE_TEXT_BYTES)}`,
  ];
  return parts.filter((part) => part !== '').join('\n');
}

/** The names in order, each with how often it comes. */
function counts(names: readonly string[]): string {
  const times = new Map<string, number>();
  for (const name of names) times.set(name, (times.get(name) ?? 0) + 1);
  return [...times]
    .map(([name, count]) => (count === 1 ? name : `${name} (${count} times)`))
    .sort()
    .join(', ');
}

const CUT_NOTE = '\n(this summary was cut short)';

/** The text in at most so many tokens; where it is not all of it, it says so. */
function within({ text, isCut }: Written, maxTokens: number): string {
  if (!isCut && countTokens(text) <= maxTokens) return text;
  let kept = text;
  while (countTokens(kept + CUT_NOTE) > maxTokens && kept !== '')
    kept = clip(kept, Math.floor(Buffer.byteLength(kept) * 0.9));
  return kept + CUT_NOTE;
}

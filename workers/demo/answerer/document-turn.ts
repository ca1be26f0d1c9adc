/**
 * What a turn over documents knows so far.
 *
 * Invariant: all of it is read from the conversation. The offline model keeps no state: the same conversation always gives the same next
 * step.
 */
import { z } from 'zod';
import { type ChatMessage, type ChatRequest, lastUserIndex, textOf } from '../../model-server/chat-request.ts';

/** One call of the turn with its answer. */
export interface CallOutcome {
  readonly name: string;
  readonly arguments: unknown;
  /** The result as parsed JSON, or its text where it is none; undefined when the call failed. */
  readonly result: unknown;
  /** Why the call failed; undefined when it did not. */
  readonly errorCode: string | undefined;
  /** What the call's error says besides its code; undefined when it says nothing. */
  readonly errorMessage: string | undefined;
}

/** A line that `search_text` found. */
export interface SearchHit {
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

/** One search of the turn; `truncated` says that it found more than its hits. */
export interface Search {
  readonly query: string;
  readonly hits: readonly SearchHit[];
  readonly truncated: boolean;
}

/** Lines of a file as `read_file` returned them. */
export interface ReadText {
  readonly path: string;
  readonly fromLine: number;
  readonly text: string;
}

/** What a person said about the plan; `unanswered` carries why nobody answered. */
export type Confirmation =
  | { readonly kind: 'not_asked' }
  | { readonly kind: 'yes' | 'no'; readonly note: string }
  | { readonly kind: 'unanswered'; readonly errorCode: string };

/** What is known of a turn over documents. */
export interface DocumentTurn {
  readonly question: string;
  /** The names of the tools that were called. */
  readonly called: ReadonlySet<string>;
  /** The paths that `list_files` listed. */
  readonly files: readonly string[];
  /** How many files the folder has. */
  readonly total: number;
  /** Whether there are more files than `files`. */
  readonly listCutOff: boolean;
  readonly confirmation: Confirmation;
  readonly searches: readonly Search[];
  readonly reads: readonly ReadText[];
  /** The codes of the calls that failed, by the name of their tool. */
  readonly failed: ReadonlyMap<string, string>;
}

/** How much of a match is kept, in characters: one in a generated file can be a megabyte long, and its beginning is enough to judge it. */
const HIT_TEXT = 1000;

const fileList = z.object({
  files: z.array(z.object({ path: z.string() })),
  total: z.number().optional(),
  truncated: z.boolean().optional(),
});
const searchResult = z.object({
  matches: z.array(z.object({ path: z.string(), line: z.number(), text: z.string() })),
  truncated: z.boolean().optional(),
});
const searchArguments = z.object({ query: z.string() });
const readResult = z.object({ path: z.string(), from_line: z.number(), text: z.string() });
const confirmResult = z.object({ answer: z.enum(['yes', 'no']), note: z.string().nullish() });
const toolFailure = z.object({ error: z.object({ code: z.string(), message: z.string().optional() }) });

/** What the newest turn of a conversation knows so far. */
export function documentTurn(request: ChatRequest): DocumentTurn {
  const { question, outcomes } = currentTurn(request.messages);
  const listed = resultsOf(outcomes, 'list_files', fileList)[0]?.result;
  const files = (listed?.files ?? []).map((file) => file.path);
  return {
    question,
    called: new Set(outcomes.map((outcome) => outcome.name)),
    files,
    total: listed?.total ?? files.length,
    listCutOff: listed?.truncated ?? false,
    confirmation: confirmationOf(outcomes),
    searches: resultsOf(outcomes, 'search_text', searchResult).map(({ outcome, result }) => ({
      query: searchArguments.safeParse(outcome.arguments).data?.query ?? '',
      hits: result.matches.map((hit) => ({ ...hit, text: hit.text.slice(0, HIT_TEXT) })),
      truncated: result.truncated ?? false,
    })),
    reads: resultsOf(outcomes, 'read_file', readResult).map(({ result }) => ({
      path: result.path,
      fromLine: result.from_line,
      text: result.text,
    })),
    failed: new Map(outcomes.flatMap((outcome) => failureOf(outcome))),
  };
}

const EXPECTED = new Map<string, z.ZodType>([
  ['list_files', fileList],
  ['search_text', searchResult],
  ['read_file', readResult],
]);

/** The failure of a call. A result in another shape than expected (cut short, say) counts as one, so that the report says so. */
function failureOf({ name, result, errorCode }: CallOutcome): readonly (readonly [string, string])[] {
  if (errorCode !== undefined) return [[name, errorCode]];
  const isReadable = EXPECTED.get(name)?.safeParse(result).success ?? true;
  return isReadable ? [] : [[name, 'unreadable_result']];
}

/** The newest request of a person, and what was done about it. */
export interface CurrentTurn {
  readonly question: string;
  readonly outcomes: readonly CallOutcome[];
}

/** Characters of a question that are read: what follows is no question, and may be made to take long. */
const MOST_READ = 4_000;

/** The newest request of a person and the calls made since. */
export function currentTurn(messages: readonly ChatMessage[]): CurrentTurn {
  const start = lastUserIndex(messages);
  const asked = messages[start];
  const turn = messages.slice(start + 1);
  const answers = new Map<string, string>();
  // Ids are unique within a message only, so the answers of each message are collected by themselves.
  const outcomes = turn.flatMap((message, index) => {
    if (message.role !== 'assistant' || !message.tool_calls) return [];
    answers.clear();
    for (const answer of turn.slice(index + 1)) {
      if (answer.role !== 'tool') break;
      answers.set(answer.tool_call_id, textOf(answer));
    }
    return message.tool_calls.map((call) => outcomeOf(call.function, answers.get(call.id) ?? ''));
  });
  return { question: asked ? textOf(asked).slice(0, MOST_READ).trim() : '', outcomes };
}

function outcomeOf(call: { name: string; arguments: string }, answer: string): CallOutcome {
  const result = jsonOf(answer);
  const failure = toolFailure.safeParse(result);
  const { code: errorCode, message: errorMessage } = failure.data?.error ?? {};
  const known = { name: call.name, arguments: jsonOf(call.arguments), errorCode, errorMessage };
  return { ...known, result: failure.success ? undefined : (result ?? answer) };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function resultsOf<T>(
  outcomes: readonly CallOutcome[],
  name: string,
  schema: z.ZodType<T>,
): { outcome: CallOutcome; result: T }[] {
  return outcomes.flatMap((outcome) => {
    const parsed = outcome.name === name ? schema.safeParse(outcome.result) : undefined;
    return parsed?.success ? [{ outcome, result: parsed.data }] : [];
  });
}

function confirmationOf(outcomes: readonly CallOutcome[]): Confirmation {
  const asked = outcomes.find((outcome) => outcome.name === 'confirm_scope');
  if (!asked) return { kind: 'not_asked' };
  const answer = confirmResult.safeParse(asked.result);
  if (answer.success) return { kind: answer.data.answer, note: answer.data.note?.trim() ?? '' };
  // A refusal by policy or by an approver is a no, in whichever words it comes.
  if (/denied|declined|rejected|refused/.test(asked.errorCode ?? '')) return { kind: 'no', note: '' };
  return { kind: 'unanswered', errorCode: asked.errorCode ?? 'unreadable_answer' };
}

/**
 * What a turn over documents knows so far, read from the conversation alone. The offline model keeps no state: the
 * same conversation always gives the same next step.
 */
import { z } from 'zod';
import { type ChatMessage, type ChatRequest, lastUserIndex, textOf } from '../../model-server/chat-request.ts';

/** One call of the turn with its answer; `result` is undefined when it failed. */
export interface CallOutcome {
  readonly name: string;
  readonly arguments: unknown;
  readonly result: unknown;
  readonly errorCode: string | undefined;
}

export interface SearchHit {
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

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

/** `unanswered` carries why nobody answered. */
export type Confirmation =
  | { readonly kind: 'not_asked' }
  | { readonly kind: 'yes' | 'no'; readonly note: string }
  | { readonly kind: 'unanswered'; readonly errorCode: string };

export interface DocumentTurn {
  readonly question: string;
  readonly called: ReadonlySet<string>;
  readonly files: readonly string[];
  readonly total: number;
  /** There are more files than `files`. */
  readonly listCutOff: boolean;
  readonly confirmation: Confirmation;
  readonly searches: readonly Search[];
  readonly reads: readonly ReadText[];
  /** Codes of the calls that failed, by tool. */
  readonly failed: ReadonlyMap<string, string>;
}

/** A hit in a generated file can be a megabyte long; its beginning is enough to judge it. */
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
const toolFailure = z.object({ error: z.object({ code: z.string() }) });

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

/** A result in another shape than expected (cut short, say) counts as a failed call, so that the report says so. */
function failureOf({ name, result, errorCode }: CallOutcome): readonly (readonly [string, string])[] {
  if (errorCode !== undefined) return [[name, errorCode]];
  const isReadable = EXPECTED.get(name)?.safeParse(result).success ?? true;
  return isReadable ? [] : [[name, 'unreadable_result']];
}

export interface CurrentTurn {
  readonly question: string;
  readonly outcomes: readonly CallOutcome[];
}

/** The newest request of a person and the calls made since. */
export function currentTurn(messages: readonly ChatMessage[]): CurrentTurn {
  const start = lastUserIndex(messages);
  const asked = messages[start];
  const turn = messages.slice(start + 1);
  const answers = new Map<string, string>();
  // Later answers must not replace earlier ones: ids are unique within a message only.
  const outcomes = turn.flatMap((message, index) => {
    if (message.role !== 'assistant' || !message.tool_calls) return [];
    answers.clear();
    for (const answer of turn.slice(index + 1)) {
      if (answer.role !== 'tool') break;
      answers.set(answer.tool_call_id, textOf(answer));
    }
    return message.tool_calls.map((call) => outcomeOf(call.function, answers.get(call.id) ?? ''));
  });
  return { question: asked ? textOf(asked).trim() : '', outcomes };
}

function outcomeOf(call: { name: string; arguments: string }, answer: string): CallOutcome {
  const result = jsonOf(answer);
  const failure = toolFailure.safeParse(result);
  const errorCode = failure.success ? failure.data.error.code : undefined;
  const known = { name: call.name, arguments: jsonOf(call.arguments), errorCode };
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

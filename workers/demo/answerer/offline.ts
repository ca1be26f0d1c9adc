/**
 * The model for a machine without an API key: deterministic, rule-based, and open about it in its name and in every text. What it answers
 * depends on what is offered and asked: a question over documents is answered with quotes; `call NAME {json}` calls that tool, so that a
 * developer can exercise tools without a model; anything else is acknowledged, in the form the runtime asks for.
 *
 * Invariant: the model keeps nothing between requests.
 */
import { type ChatRequest, type ChatTool, forcedTool, toolNames } from '../../model-server/chat-request.ts';
import type { MessageAnswer, ToolCallAnswer } from '../../model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../model-server/wire.ts';
import { answerFromDocuments, isDocumentQuestion, OFFLINE_NOTICE } from './document-answerer.ts';
import { type CallOutcome, currentTurn } from './document-turn.ts';

/** The name of the offline model, which every answer carries. */
export const OFFLINE_MODEL = 'agentturn-offline';

const SHOWN_CHARACTERS = 200;
const SHOWN_RESULT = 2000;
/** How many requests the server keeps, since it may run for days. */
const KEPT_REQUESTS = 100;

/** Where the offline model listens; any free port of 127.0.0.1 when absent. */
export interface OfflineModelOptions {
  readonly port?: number;
  readonly host?: string;
}

/** Serves the offline model on this machine. Throws `port_in_use`. */
export function startOfflineModel(options: OfflineModelOptions = {}): Promise<ModelServer> {
  return startModelServer({ ...options, answer: offlineAnswer, model: OFFLINE_MODEL, keepRequests: KEPT_REQUESTS });
}

/** The offline model's answer to a request. */
export function offlineAnswer(request: ChatRequest): MessageAnswer {
  if (isDocumentQuestion(request)) return answerFromDocuments(request);
  const { question, outcomes } = currentTurn(request.messages);
  if (outcomes.length > 0) return conclude(request, outcomes, resultsText(outcomes));
  const calls = request.tool_choice === 'none' ? [] : requestedCalls(question, toolNames(request));
  if (calls.length > 0) return { kind: 'message', toolCalls: calls };
  const received = Array.from(question).slice(0, SHOWN_CHARACTERS).join('');
  return conclude(request, outcomes, `Offline model (rule-based, no language model): received "${received}".`);
}

/** Ends the turn the way it must end: by `submit_result` where its fields are known or it is forced, else by text. */
function conclude(request: ChatRequest, outcomes: readonly CallOutcome[], text: string): MessageAnswer {
  const submit = request.tools?.find((tool) => tool.function.name === 'submit_result');
  const names = submit ? resultFieldNames(submit) : [];
  const mustSubmit = forcedTool(request) === 'submit_result' || request.tool_choice === 'required' || names.length > 0;
  const wasRefused = outcomes.some((outcome) => outcome.name === 'submit_result');
  if (!submit || !mustSubmit || wasRefused || request.tool_choice === 'none') return { kind: 'message', content: text };
  const fields = (names.length > 0 ? names : ['answer']).map((name) => ({ name, value: text }));
  return { kind: 'message', toolCalls: [{ name: 'submit_result', arguments: { fields } }] };
}

function resultsText(outcomes: readonly CallOutcome[]): string {
  const lines = outcomes.map(({ name, result, errorCode }) => {
    const shown = typeof result === 'string' ? result : JSON.stringify(result);
    return `- ${name}: ${errorCode === undefined ? shown.slice(0, SHOWN_RESULT) : `failed (${errorCode})`}`;
  });
  return [`Results of the calls (${OFFLINE_NOTICE}):`, ...lines].join('\n');
}

const CALL = /\bcall\s+([a-zA-Z0-9_-]{1,64})\s*(?=\{)/g;

/** The calls that the text asks for: every `call NAME {json}` that names an offered tool. The JSON goes on the wire as it was written. */
function requestedCalls(text: string, offered: ReadonlySet<string>): readonly ToolCallAnswer[] {
  return [...text.matchAll(CALL)].flatMap((match) => {
    const name = match[1] ?? '';
    const json = objectAt(text, match.index + match[0].length);
    return json !== undefined && offered.has(name) ? [{ name, arguments: json }] : [];
  });
}

/** The JSON object that begins here: the shortest stretch up to a closing brace that parses. */
function objectAt(text: string, start: number): string | undefined {
  for (let end = text.indexOf('}', start); end !== -1; end = text.indexOf('}', end + 1)) {
    const json = text.slice(start, end + 1);
    try {
      JSON.parse(json);
      return json;
    } catch {
      // This brace stands inside the object; the next one may close it.
    }
  }
  return undefined;
}

/** The field names that `submit_result` asks for, from its parameters or, failing that, its description. */
function resultFieldNames(submit: ChatTool): readonly string[] {
  const named = valuesAt(submit.function.parameters, ['properties', 'fields', 'items', 'properties', 'name']);
  if (named.length > 0) return named;
  const listed = /\bfields?\b[^:\n]*:\s*([^\n]+)/i.exec(submit.function.description ?? '')?.[1] ?? '';
  const quoted = [...listed.matchAll(/["'`]([\w.-]+)["'`]/g)].map((match) => match[1] ?? '');
  if (quoted.length > 0) return [...new Set(quoted)];
  const words = listed.split(/[,;]|\band\b/).map((word) => /^\s*([A-Za-z_][\w-]*)/.exec(word)?.[1] ?? '');
  return [...new Set(words.filter((word) => word !== ''))];
}

/** The `enum` or `const` values of the schema at a path. */
function valuesAt(schema: unknown, path: readonly string[]): readonly string[] {
  const found = path.reduce<unknown>((value, key) => propertyOf(value, key), schema);
  const allowed = propertyOf(found, 'enum') ?? [propertyOf(found, 'const')];
  return Array.isArray(allowed) ? allowed.filter((value): value is string => typeof value === 'string') : [];
}

function propertyOf(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
}

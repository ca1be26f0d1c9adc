/**
 * The model for a machine without an API key: deterministic, rule-based, and open about it in its name and in every text. What it answers
 * depends on what is offered and asked: a question over documents is answered with quotes; `call TOOL {json}` calls that tool, so that a
 * developer can exercise tools without a model; anything else is acknowledged, in the form the runtime asks for.
 *
 * Invariant: the model keeps nothing between requests.
 */
import { type ChatRequest, type ChatTool, forcedTool, toolNames } from '../../model-server/chat-request.ts';
import type { MessageAnswer } from '../../model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../model-server/wire.ts';
import { answerFromDocuments, isDocumentQuestion, OFFLINE_NOTICE } from './document-answerer.ts';
import { type CallOutcome, currentTurn } from './document-turn.ts';
import { requestedCalls } from './requested-calls.ts';
import { valueFor } from './result-values.ts';

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
  const requested = request.tool_choice === 'none' ? undefined : requestedCalls(question, toolNames(request));
  if (requested?.kind === 'misspelt') {
    return conclude(request, outcomes, `Not understood (${OFFLINE_NOTICE}): ${requested.problem}`);
  }
  if (requested && requested.calls.length > 0) return { kind: 'message', toolCalls: requested.calls };
  const received = Array.from(question).slice(0, SHOWN_CHARACTERS).join('');
  return conclude(
    request,
    outcomes,
    `No answer (${OFFLINE_NOTICE}): received "${received}". It calls tools: write call TOOL {"argument": 1}.`,
  );
}

/** Ends the turn the way it must end: by `submit_result` where its fields are known or it is forced, else by text. */
function conclude(request: ChatRequest, outcomes: readonly CallOutcome[], text: string): MessageAnswer {
  const submit = request.tools?.find((tool) => tool.function.name === 'submit_result');
  const asked = submit ? resultFields(submit) : [];
  const mustSubmit = forcedTool(request) === 'submit_result' || request.tool_choice === 'required' || asked.length > 0;
  const wasRefused = outcomes.some((outcome) => outcome.name === 'submit_result');
  if (!submit || !mustSubmit || wasRefused || request.tool_choice === 'none') return { kind: 'message', content: text };
  const objects = outcomes.flatMap(({ result, arguments: given }) => [result, given]).filter(isObject);
  const fields = (asked.length > 0 ? asked : [{ name: 'answer', schema: undefined }]).map(({ name, schema }) => ({
    name,
    value: schema === undefined ? text : valueFor(name, schema, { text, objects }),
  }));
  return { kind: 'message', toolCalls: [{ name: 'submit_result', arguments: { fields } }] };
}

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function resultsText(outcomes: readonly CallOutcome[]): string {
  const lines = outcomes.map(({ name, result, errorCode, errorMessage }) => {
    const shown = typeof result === 'string' ? result : (JSON.stringify(result) ?? '');
    const failure = `failed (${errorCode})${errorMessage === undefined ? '' : `: ${errorMessage}`}`;
    return `- ${name}: ${(errorCode === undefined ? shown : failure).slice(0, SHOWN_RESULT)}`;
  });
  return [`Results of the calls (${OFFLINE_NOTICE}):`, ...lines].join('\n');
}

/** A field that `submit_result` asks for; `schema` is undefined where any value may stand. */
interface ResultField {
  readonly name: string;
  readonly schema: unknown;
}

/**
 * The fields that `submit_result` asks for, from its parameters or, failing that, its description, which also tells those that may be left
 * out: `- NAME (optional)`.
 */
function resultFields(submit: ChatTool): readonly ResultField[] {
  const { parameters, description = '' } = submit.function;
  const items = ['properties', 'fields', 'items'].reduce<unknown>(propertyOf, parameters);
  const variants = propertyOf(items, 'anyOf');
  const typed = (Array.isArray(variants) ? variants : []).flatMap((variant) => {
    const members = propertyOf(variant, 'properties');
    return valuesOf(propertyOf(members, 'name')).map((name) => ({ name, schema: propertyOf(members, 'value') }));
  });
  const names = valuesOf(propertyOf(propertyOf(items, 'properties'), 'name'));
  const untyped = names.length > 0 ? names : describedNames(description);
  const fields = typed.length > 0 ? typed : untyped.map((name) => ({ name, schema: undefined }));
  const required = fields.filter(({ name }) => !description.includes(`- ${name} (optional)`));
  return required.length > 0 ? required : fields;
}

function describedNames(description: string): readonly string[] {
  const listed = /\bfields?\b[^:\n]*:\s*([^\n]+)/i.exec(description)?.[1] ?? '';
  const quoted = [...listed.matchAll(/["'`]([\w.-]+)["'`]/g)].map((match) => match[1] ?? '');
  if (quoted.length > 0) return [...new Set(quoted)];
  const words = listed.split(/[,;]|\band\b/).map((word) => /^\s*([A-Za-z_][\w-]*)/.exec(word)?.[1] ?? '');
  return [...new Set(words.filter((word) => word !== ''))];
}

/** The texts that a schema lists by `enum` or `const`. */
function valuesOf(schema: unknown): readonly string[] {
  const allowed = propertyOf(schema, 'enum') ?? [propertyOf(schema, 'const')];
  return Array.isArray(allowed) ? allowed.filter((value): value is string => typeof value === 'string') : [];
}

function propertyOf(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
}

/**
 * The scripted model for tests: a server of the real wire whose answers are written down beforehand.
 *
 * A conversation chooses its script by a marker in a user message, `[script:NAME]`, so turns that run at the same time each follow their
 * own. Without a marker it follows `default`. Which answer of the script comes next depends on `by`:
 * - `position` (default) counts the assistant messages after the last user message with the marker, or in the whole conversation without
 *   one. A request that is retried gets the same answer again, whatever was lost.
 * - `counter` counts the requests of that script, for conversations that are cut or rolled back, and for a provider that fails at first and
 *   then recovers.
 *
 * Invariant: a script never makes an answer up. One that ran out, is unknown or throws answers 400 (a client does not retry that) and is
 * noted, and `assertDone()` throws for it, for refused requests and for answers that were never asked for.
 */
import { type ChatMessage, type ChatRequest, textOf } from './chat-request.ts';
import type { ModelAnswer } from './completion.ts';
import { type AnswerFunction, type ModelServer, type ModelServerOptions, startModelServer } from './wire.ts';

/** One answer of a script, or a function that makes it from the request. */
export type ScriptStep = ModelAnswer | AnswerFunction;
/** The answers of one turn in their order. */
export type Script = readonly ScriptStep[];

/** The scripts of a model. */
export interface ScriptedModelOptions {
  /** Scripts by their names. A conversation follows the one that its last marker `[script:NAME]` in a user message names. */
  readonly scripts?: Readonly<Record<string, Script>>;
  /** What answers conversations without a marker: a script, or a function that answers each request. */
  readonly default?: Script | AnswerFunction;
  /**
   * How the next answer is found. `position`, when absent: by the assistant messages behind the marker, so that a request that is tried again gets
   * the same answer. `counter`: by the requests of that script so far, for a provider that fails at first and then recovers.
   */
  readonly by?: 'position' | 'counter';
}

/** A model whose answers are written down beforehand. */
export interface ScriptedModel {
  /** Answers a request by the scripts, for a model server. */
  readonly answer: AnswerFunction;
  /** What went wrong so far, one sentence each. */
  readonly failures: readonly string[];
  /** Adds a script for turns that are started later. */
  add(name: string, script: Script): void;
  /** Notes something that must fail the test. */
  fail(message: string): void;
  /** Throws unless every answer was asked for and nothing failed. */
  assertDone(): void;
}

/** A scripted model with the server that speaks for it. */
export type ScriptedServer = ModelServer & Omit<ScriptedModel, 'answer' | 'fail'>;

const MARKER = /\[script:([\w.-]+)\]/g;
const DEFAULT = '(default)';

/** A model that answers by scripts; a script alone is the one for conversations without a marker. */
export function scriptedModel(script: Script | ScriptedModelOptions): ScriptedModel {
  const options: ScriptedModelOptions = isScript(script) ? { default: script } : script;
  const scripts = new Map(Object.entries(options.scripts ?? {}));
  if (isScript(options.default)) scripts.set(DEFAULT, options.default);
  const asked = new Map<string, Set<number>>();
  const counters = new Map<string, number>();
  const failures: string[] = [];

  const refuse = (message: string): ModelAnswer => {
    failures.push(message);
    return { kind: 'error', status: 400, code: 'script_exhausted', message };
  };
  const nextIndex = (name: string, position: number): number => {
    if (options.by !== 'counter') return position;
    const count = counters.get(name) ?? 0;
    counters.set(name, count + 1);
    return count;
  };
  const answer: AnswerFunction = async (request) => {
    const { name, position } = placeOf(request.messages);
    if (name === DEFAULT && typeof options.default === 'function') return options.default(request);
    const steps = scripts.get(name);
    if (!steps) return refuse(`no script "${name}": add it, or mark the user message with [script:NAME]`);
    const index = nextIndex(name, position);
    const step = steps[index];
    if (!step) return refuse(`script "${name}" ran out after ${steps.length} answers`);
    asked.set(name, (asked.get(name) ?? new Set()).add(index));
    return run(step, request, (cause) => refuse(`script "${name}" threw at answer ${index + 1}: ${cause}`));
  };
  return {
    answer,
    failures,
    add: (name, steps) => void scripts.set(name, steps),
    fail: (message) => void failures.push(message),
    assertDone: () => assertDone([...failures, ...leftovers(scripts, asked)]),
  };
}

/** Serves a scripted model; requests that the wire refuses count as failures of the script. Throws `port_in_use`. */
export async function startScriptedModel(
  script: Script | ScriptedModelOptions,
  options: Omit<ModelServerOptions, 'answer'> = {},
): Promise<ScriptedServer> {
  const model = scriptedModel(script);
  const { answer, failures, add, assertDone: done } = model;
  const server = await startModelServer({
    ...options,
    answer,
    onRefusal: (error) => {
      model.fail(`a request was refused: ${error.message}`);
      options.onRefusal?.(error);
    },
  });
  return { ...server, failures, add, assertDone: done };
}

/** One answer for each attempt at the same place: `attempts(error, error, message)`. Every further attempt gets the last one. */
export function attempts(...steps: readonly [ScriptStep, ...ScriptStep[]]): AnswerFunction {
  let made = 0;
  return (request) => {
    const step = steps[Math.min(made, steps.length - 1)] ?? steps[0];
    made += 1;
    return typeof step === 'function' ? step(request) : step;
  };
}

function isScript(value: unknown): value is Script {
  return Array.isArray(value);
}

async function run(
  step: ScriptStep,
  request: ChatRequest,
  onThrow: (cause: string) => ModelAnswer,
): Promise<ModelAnswer> {
  if (typeof step !== 'function') return step;
  try {
    return await step(request);
  } catch (error) {
    return onThrow(error instanceof Error ? error.message : String(error));
  }
}

/** The script that a conversation follows, and how far the conversation has come in it. */
function placeOf(messages: readonly ChatMessage[]): { name: string; position: number } {
  const start = messages.findLastIndex((message) => markerOf(message) !== undefined);
  const marked = messages[start];
  const turn = messages.slice(start + 1);
  const position = turn.filter((message) => message.role === 'assistant').length;
  return { name: (marked && markerOf(marked)) ?? DEFAULT, position };
}

function markerOf(message: ChatMessage): string | undefined {
  if (message.role !== 'user') return undefined;
  return [...textOf(message).matchAll(MARKER)].at(-1)?.[1];
}

function leftovers(scripts: ReadonlyMap<string, Script>, asked: ReadonlyMap<string, ReadonlySet<number>>): string[] {
  return [...scripts].flatMap(([name, steps]) => {
    const left = steps.flatMap((_, index) => (asked.get(name)?.has(index) ? [] : [index + 1]));
    if (left.length === 0) return [];
    return [`script "${name}": answer ${left.join(', ')} of ${steps.length} was never asked for`];
  });
}

function assertDone(problems: readonly string[]): void {
  if (problems.length > 0) throw new Error(`The scripted model is not done:\n- ${problems.join('\n- ')}`);
}

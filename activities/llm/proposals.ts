/**
 * From the model's tool calls to calls the runtime can run: ids of our own, arguments parsed and validated before anybody else sees
 * them (W9, W15). Whatever is wrong becomes a failed result written for the model; the turn goes on.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { isDelegation, READ_RESULT, SKILL, SUBMIT_RESULT, UPDATE_PLAN } from '../../workflows/protocol/builtins.ts';
import type { ProposedCall, ToolError, ToolResultContent } from '../../workflows/protocol/cards.ts';
import type { ResultFields } from '../../workflows/protocol/enqueue.ts';
import type { GovernancePolicy } from '../../workflows/protocol/governance.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';
import type { Skill } from '../../workflows/protocol/profile.ts';
import type { NewCall } from '../../workflows/protocol/store.ts';
import { type App, isRepeatable } from '../app.ts';
import { describeError } from '../failure.ts';
import { callId } from '../store/ids.ts';

import { parseDelegation } from '../tools/delegation.ts';
import { digestOf, factsOf } from './facts.ts';
import type { StreamedCall } from './openai.ts';
import { planSchema } from './plan-tool.ts';
import { answerRead, readResultSchema } from './read-result.ts';
import { answerSkill, skillSchema } from './skills.ts';
import { submissionError, submitResultSchema } from './submit-result.ts';

export interface ProposalContext {
  readonly agentTurnId: string;
  readonly stepIndex: number;
  /** Names offered in this very request. */
  readonly offered: ReadonlySet<string>;
  readonly app: App;
  readonly governance?: GovernancePolicy | undefined;
  readonly resultFields: ResultFields | null;
  readonly skills?: readonly Skill[];
  /** Results that `read_result` was asked for, by call id. */
  readonly results?: ReadResults;
  /** In the final report other calls are ignored, so submit_result need not be alone (K9). */
  readonly finalReport?: boolean;
}

/** What `read_result` answers to each of these calls. */
export type ReadResults = ReadonlyMap<string, ToolResultContent | null>;

export interface Proposals {
  readonly proposed: readonly ProposedCall[];
  readonly calls: readonly NewCall[];
}

export function readProposals(streamed: readonly StreamedCall[], context: ProposalContext): Proposals {
  const seen = new Set<string>();
  const proposed = streamed.map((call, index): ProposedCall => {
    const id = callId(context.agentTurnId, context.stepIndex, index);
    // A missing or repeated provider id would make the next request malformed: ours takes its place on the wire.
    const providerCallId = call.id && !seen.has(call.id) ? call.id : id;
    seen.add(providerCallId);
    return { callId: id, providerCallId, name: wireName(call.name), arguments: call.arguments };
  });
  const alone = streamed.length === 1 || context.finalReport === true;
  const calls = proposed.map((call, index) => readCall(call, streamed[index]?.name ?? '', index, alone, context));
  // Text that is not JSON goes back on the wire as an empty object: providers refuse a history that does not parse.
  return {
    proposed: proposed.map((call) => ({ ...call, arguments: isObjectText(call.arguments) ? call.arguments : '{}' })),
    calls,
  };
}

const wireName = (name: string): string => name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || 'unnamed';

function readCall(call: ProposedCall, asked: string, index: number, alone: boolean, context: ProposalContext): NewCall {
  const { callId: id, name: tool } = call;
  const args = parseObject(call.arguments);
  const checked = args === null ? { error: notAnObject(call) } : check(asked, args, alone, context);
  if ('error' in checked) {
    const result: ToolResultContent = {
      callId: id,
      tool,
      status: 'failed',
      afterExecution: 'continue',
      error: checked.error,
    };
    const content = { callId: id, tool, arguments: args ?? {} };
    return { index, content, digest: digestOf(args ?? { unread: call.arguments }), result };
  }
  const content = { callId: id, tool, arguments: checked.args };
  const digest = digestOf(checked.args);
  if (tool === READ_RESULT) return { index, content, digest, result: readAnswer(id, checked.args, context) };
  if (tool === UPDATE_PLAN) return { index, content, digest, result: noted(id) };
  if (tool === SKILL) return { index, content, digest, ...skillAnswer(id, checked.args, context) };
  if (tool !== SUBMIT_RESULT) {
    const claimed = context.governance === undefined && isRepeatable(context.app.tools.get(tool));
    const facts = factsOf(context.governance, tool, checked.args);
    return { index, content, digest, ...facts, ...(claimed ? { claimed } : {}) };
  }
  return {
    index,
    content,
    digest,
    result: { callId: id, tool, status: 'success', afterExecution: 'terminate', result: { accepted: true } },
  };
}

function readAnswer(callId: string, args: JsonObject, { results }: ProposalContext): ToolResultContent {
  const parsed = readResultSchema.parse(args);
  const answer = answerRead(parsed, results?.get(parsed.call_id) ?? null);
  const base = { callId, tool: READ_RESULT, afterExecution: 'continue' } as const;
  return 'error' in answer ? { ...base, status: 'failed', ...answer } : { ...base, status: 'success', ...answer };
}

function skillAnswer(
  callId: string,
  args: JsonObject,
  { skills = [] }: ProposalContext,
): Pick<NewCall, 'skill' | 'result'> {
  const parsed = skillSchema.parse(args);
  const answer = answerSkill(skills, parsed);
  const base = { callId, tool: SKILL, afterExecution: 'continue' } as const;
  return 'error' in answer
    ? { result: { ...base, status: 'failed', ...answer } }
    : { skill: parsed.name, result: { ...base, status: 'success', ...answer } };
}

const noted = (callId: string): ToolResultContent => ({
  callId,
  tool: UPDATE_PLAN,
  status: 'success',
  afterExecution: 'continue',
  result: { accepted: true },
});

/** Call ids that the model wants to read the results of. */
export function readsOf(streamed: readonly StreamedCall[]): readonly string[] {
  const asked = streamed.filter((call) => call.name === READ_RESULT);
  return asked.flatMap((call) => {
    const { data } = readResultSchema.safeParse(parseObject(call.arguments));
    return data ? [data.call_id] : [];
  });
}

type Checked = { readonly args: JsonObject } | { readonly error: ToolError };

function check(
  tool: string,
  args: JsonObject,
  alone: boolean,
  { offered, app, resultFields }: ProposalContext,
): Checked {
  if (!offered.has(tool)) {
    const names = [...offered].join(', ') || 'none';
    return {
      error: {
        code: 'unknown_tool',
        message: `there is no tool ${tool} in this request; offered: ${names}`,
        kind: 'recoverable',
      },
    };
  }
  try {
    if (isDelegation(tool)) return { args: parseDelegation(tool, args) };
    if (tool === READ_RESULT) return { args: readResultSchema.parse(args) };
    if (tool === SKILL) return { args: skillSchema.parse(args) };
    if (tool === UPDATE_PLAN) return { args: jsonOnly(planSchema.parse(args) as JsonObject) };
    if (tool !== SUBMIT_RESULT) return { args: jsonOnly(app.tools.get(tool)?.parse(args) ?? args) };
    const parsed = submitResultSchema.parse(args) as unknown as JsonObject;
    const error = submissionError(parsed, alone, resultFields);
    return error ? { error } : { args: parsed };
  } catch (error) {
    return {
      error: invalidArguments(tool, error instanceof z.ZodError ? z.prettifyError(error) : describeError(error)),
    };
  }
}

/** What is stored must be what the tool gets: a transform that yields a Date, a Map or a bigint is a mistake of the schema. */
function jsonOnly(args: JsonObject): JsonObject {
  const stored = throughJson(args);
  if (isDeepStrictEqual(stored, withoutUndefined(args))) return stored as JsonObject;
  throw new TypeError('what its schema yields is not JSON');
}

function throughJson(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value));
  } catch (error) {
    throw new TypeError(`what its schema yields is not JSON: ${describeError(error)}`);
  }
}

const withoutUndefined = (args: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined));

const invalidArguments = (tool: string, problem: string): ToolError => ({
  code: 'invalid_arguments',
  message: `the arguments of ${tool} do not match its schema:\n${problem}\nCorrect them and call again.`,
  kind: 'recoverable',
});

const notAnObject = (call: ProposedCall): ToolError => ({
  code: 'invalid_arguments',
  message: `the arguments of ${call.name} must be one JSON object, got: ${call.arguments.slice(0, 200) || '(nothing)'}`,
  kind: 'recoverable',
});

const isObjectText = (text: string): boolean => text.trim() !== '' && parseObject(text) !== null;

/** An empty text counts as no arguments at all. */
function parseObject(text: string): JsonObject | null {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;
  } catch {
    return null;
  }
}

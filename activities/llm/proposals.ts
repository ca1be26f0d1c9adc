/**
 * From the model's tool calls to calls the runtime can run: ids of our own, arguments parsed and validated before anybody else sees
 * them (W9, W15). Whatever is wrong becomes a failed result written for the model; the turn goes on.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { NewCall } from '../../workflows/contract/steps.ts';
import { isDelegation, READ_RESULT, SKILL, SUBMIT_RESULT, UPDATE_PLAN } from '../../workflows/protocol/builtins.ts';
import type { ThoughtCall, ToolError, ToolResultContent } from '../../workflows/protocol/cards.ts';
import type { ResultFields } from '../../workflows/protocol/enqueue.ts';
import type { GovernancePolicy } from '../../workflows/protocol/governance.ts';
import { isDeeperThan, type JsonObject } from '../../workflows/protocol/json.ts';
import type { Skill } from '../../workflows/protocol/profile.ts';
import { clip } from '../../workflows/protocol/sizes.ts';
import type { App } from '../app/app.ts';
import { describeError } from '../failure.ts';
import { callId } from '../ids.ts';
import { isRepeatable } from '../tool.ts';
import { parseDelegation } from '../tools/delegation.ts';
import { digestOf, factsOf } from './facts.ts';
import { planSchema } from './plan-tool.ts';
import { answerRead, readResultSchema } from './read-result.ts';
import { REPLY_BOUNDS, type StreamedCall } from './reply.ts';
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
  readonly proposed: readonly ThoughtCall[];
  readonly calls: readonly NewCall[];
}

export function readProposals(streamed: readonly StreamedCall[], context: ProposalContext): Proposals {
  const seen = new Set<string>();
  const proposed = streamed.map((call, index): ThoughtCall => {
    const id = callId(context.agentTurnId, context.stepIndex, index);
    // A missing, repeated or ill-formed provider id would make the next request malformed: ours takes its place on the wire.
    const providerCallId = WIRE_ID.test(call.id) && !seen.has(call.id) ? call.id : id;
    seen.add(providerCallId);
    return { callId: id, providerCallId, name: wireName(call.name), arguments: call.arguments };
  });
  const alone = streamed.length === 1 || context.finalReport === true;
  const calls = proposed.map((call, index) => readCall(call, streamed[index]?.name ?? '', index, alone, context));
  // Text that cannot be read goes back on the wire as an empty object: providers refuse a history that does not parse.
  return {
    proposed: proposed.map((call) => ({ ...call, arguments: wireArguments(call.arguments) })),
    calls,
  };
}

const wireArguments = (text: string): string => (text.trim() !== '' && 'args' in readArguments(text) ? text : '{}');

/** Printable, without spaces. */
const WIRE_ID = /^[\x21-\x7e]{1,128}$/;

const wireName = (name: string): string => name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || 'unnamed';

function readCall(call: ThoughtCall, asked: string, index: number, alone: boolean, context: ProposalContext): NewCall {
  const { callId: id, name: tool } = call;
  const read = readArguments(call.arguments);
  const args = 'args' in read ? read.args : null;
  const checked =
    'args' in read ? check(asked, read.args, alone, context) : { error: invalidArguments(tool, read.problem) };
  if ('error' in checked) {
    const result: ToolResultContent = {
      callId: id,
      tool,
      status: 'failed',
      afterExecution: 'continue',
      error: { ...checked.error, message: clip(checked.error.message, MESSAGE_BYTES) },
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
    const read = readArguments(call.arguments);
    const { data } = readResultSchema.safeParse('args' in read ? read.args : null);
    return data ? [data.call_id] : [];
  });
}

/** What is wrong with a call, as the model reads it. */
const MESSAGE_BYTES = 8 * 1024;
const MOST_ISSUES = 20;

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
    const parsed = parse(tool, args, app);
    if (isTooLarge(parsed)) return { error: invalidArguments(tool, TOO_LARGE) };
    const error = tool === SUBMIT_RESULT ? submissionError(parsed, alone, resultFields) : null;
    return error ? { error } : { args: parsed };
  } catch (error) {
    return { error: invalidArguments(tool, `they do not match its schema:\n${problemOf(error)}`) };
  }
}

function parse(tool: string, args: JsonObject, app: App): JsonObject {
  if (isDelegation(tool)) return parseDelegation(tool, args);
  if (tool === READ_RESULT) return readResultSchema.parse(args);
  if (tool === SKILL) return skillSchema.parse(args);
  if (tool === UPDATE_PLAN) return jsonOnly(planSchema.parse(args) as JsonObject);
  if (tool === SUBMIT_RESULT) return submitResultSchema.parse(args) as unknown as JsonObject;
  return jsonOnly(app.tools.get(tool)?.parse(args) ?? args);
}

/** Of thousands of wrong items the first ones say enough. */
const problemOf = (error: unknown): string =>
  error instanceof z.ZodError
    ? z.prettifyError(new z.ZodError(error.issues.slice(0, MOST_ISSUES)))
    : describeError(error);

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
  message: `the arguments of ${tool} cannot be taken: ${problem}\nCorrect them and call again.`,
  kind: 'recoverable',
});

/** Of arguments that are none. */
const SHOWN_BYTES = 200;
const TOO_LARGE = `they are larger than ${REPLY_BOUNDS.bytes / 1024} KiB`;

/** A short number may be a long one when it is written again. */
const isTooLarge = (args: JsonObject): boolean => Buffer.byteLength(JSON.stringify(args)) > REPLY_BOUNDS.bytes;

/** An empty text counts as no arguments at all. What is read can be walked by recursion, and fits a card. */
function readArguments(text: string): { readonly args: JsonObject } | { readonly problem: string } {
  const value = text.trim() === '' ? {} : parsed(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { problem: `they must be one JSON object, got: ${clip(text, SHOWN_BYTES) || '(nothing)'}` };
  if (isDeeperThan(value, REPLY_BOUNDS.depth))
    return { problem: `they are nested more than ${REPLY_BOUNDS.depth} deep` };
  const args = value as JsonObject;
  return isTooLarge(args) ? { problem: TOO_LARGE } : { args };
}

/** Undefined when it is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

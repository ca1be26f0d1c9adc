/**
 * From the model's tool calls to calls that the runtime can run.
 *
 * Invariants
 * 1. Each call gets an id of ours, the same in every attempt at the step.
 * 2. Arguments are parsed and validated here, before rules, store and tools see them (W9, W15), and what the model
 *    left out gets the default of the tool's schema (W8).
 * 3. Whatever is wrong with a call becomes its failed result, written for the model; the turn goes on.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { type WorkEffect, withEffect } from '../../workflows/agent-state/effects.ts';
import type { WorkReading } from '../../workflows/contract/agent-work.ts';
import type { NewCall } from '../../workflows/contract/steps.ts';
import type { ThoughtCall, ToolError } from '../../workflows/protocol/cards.ts';
import type { ResultFields } from '../../workflows/protocol/enqueue.ts';
import { isDeeperThan, type JsonObject } from '../../workflows/protocol/json.ts';
import type { Profile } from '../../workflows/protocol/profile.ts';
import { clip } from '../../workflows/protocol/sizes.ts';
import type { AnswerLimit } from '../../workflows/protocol/turn.ts';
import type { App } from '../app/app.ts';
import { nearest } from '../app/nearest.ts';
import { describeError } from '../failure.ts';
import { callId } from '../ids.ts';
import { isRepeatable } from '../tool.ts';
import type { AnswerContext, BuiltinAnswer, CheckedArguments } from '../tools/builtin/builtin-tool.ts';
import { builtinTool, runnableTool } from '../tools/builtin/registry.ts';
import { digestOf, factsOf } from './facts.ts';
import type { WireToolCall } from './model.ts';
import { REPLY_BOUNDS } from './reply.ts';

/** What decides about the calls of a step. */
export interface ProposalContext {
  readonly agentTurnId: string;
  readonly stepIndex: number;
  /** Names of the tools that this very request offers. */
  readonly offered: ReadonlySet<string>;
  readonly app: App;
  /** The profile as it is pinned for the turn. */
  readonly profile: Profile;
  /** Result fields of the request or else of the profile; null when there are none. */
  readonly resultFields: ResultFields | null;
  readonly agentId: string;
  /** Finds the result of an earlier call of this agent; null when there is none. */
  readonly readResult: AnswerContext['readResult'];
  readonly readWake: AnswerContext['readWake'];
  /** Reads the agent's work as it stands before this step. */
  readonly readWork: AnswerContext['work'];
  readonly summary: AnswerContext['summary'];
  readonly delegated: AnswerContext['delegated'];
  /** Whose limit cut the message short; null when none did. */
  readonly truncated: AnswerLimit | null;
  /** In the final report other calls are not run: a call that must be alone in its message is alone there (K9). */
  readonly finalReport: boolean;
}

/** The calls of one message in their order, twice. */
export interface Proposals {
  /** As the conversation keeps them and sends them back to the provider. */
  readonly proposed: readonly ThoughtCall[];
  /** As the store takes them. */
  readonly calls: readonly NewCall[];
}

/** Reads the calls of one message. A call of a tool that is answered at once has its result. Throws what `readResult` throws. */
export async function readProposals(streamed: readonly WireToolCall[], context: ProposalContext): Promise<Proposals> {
  const seen = new Set<string>();
  const proposed = streamed.map((call, index): ThoughtCall => {
    const id = callId(context.agentTurnId, context.stepIndex, index);
    // A missing, repeated or ill-formed provider id would make the next request malformed: ours takes its place on the wire.
    const providerCallId = WIRE_ID.test(call.id) && !seen.has(call.id) ? call.id : id;
    seen.add(providerCallId);
    return { callId: id, providerCallId, name: wireName(call.name), arguments: call.arguments };
  });
  const { profile, resultFields, readResult, readWake, summary, delegated } = context;
  const alone = streamed.length === 1 || context.finalReport;
  const work = new WorkOfStep(context.readWork);
  const reads = { readResult, readWake, summary, delegated, work: () => work.read() };
  const answering = { profile, resultFields, ...reads, alone, output: outputOf(context) };
  const calls: NewCall[] = [];
  // One after the other: each sees what those before it change.
  for (const [index, call] of proposed.entries()) {
    const isCut = context.truncated !== null && index === proposed.length - 1;
    const read = await readCall({ call, asked: streamed[index]?.name ?? '', index, isCut }, context, answering);
    if (read.effect) await work.apply(read.effect);
    calls.push(read);
  }
  // Text that cannot be read goes back on the wire as an empty object: providers refuse a history that does not parse.
  return {
    proposed: proposed.map((call) => ({ ...call, arguments: wireArguments(call.arguments) })),
    calls,
  };
}

/** The agent's work, read when the first call of a step asks for it, with what the calls of the step change. */
class WorkOfStep {
  readonly #readWork: AnswerContext['work'];
  #reading: Promise<WorkReading> | undefined;

  constructor(readWork: AnswerContext['work']) {
    this.#readWork = readWork;
  }

  read(): Promise<WorkReading> {
    this.#reading ??= this.#readWork();
    return this.#reading;
  }

  /** Errors: those of `withEffect`; a call has tried the effect before. */
  async apply(effect: WorkEffect): Promise<void> {
    const { work, nowMs } = await this.read();
    this.#reading = Promise.resolve({ work: withEffect(work, effect, nowMs), nowMs });
  }
}

/**
 * The schema of the agent's output where the turn is to deliver what it describes: a request may name other fields, and this worker's app may
 * have another version of the agent.
 */
function outputOf({ app, profile, resultFields }: ProposalContext): AnswerContext['output'] {
  const described = app.agents.get(profile.name)?.profile.resultFields;
  return isDeepStrictEqual(described, resultFields) ? (app.outputs.get(profile.name) ?? null) : null;
}

const wireArguments = (text: string): string => (text.trim() !== '' && 'args' in readArguments(text) ? text : '{}');

/** An id that every provider takes back: printable ASCII without spaces. */
const WIRE_ID = /^[\x21-\x7e]{1,128}$/;

/** The name in letters that every provider takes back. */
const wireName = (name: string): string => name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || 'unnamed';

/** A call of a message. */
interface CallToRead {
  readonly call: ThoughtCall;
  /** The name as the model wrote it. */
  readonly asked: string;
  readonly index: number;
  /** Whether the message was cut short in it, or behind it. */
  readonly isCut: boolean;
}

async function readCall(
  { call, asked, index, isCut }: CallToRead,
  context: ProposalContext,
  answering: AnswerContext,
): Promise<NewCall> {
  const { callId: id, name: tool } = call;
  const read = readArguments(call.arguments);
  const args = 'args' in read ? read.args : null;
  const unread = (problem: string) => ({ error: isCut ? cutArguments(tool) : invalidArguments(tool, problem) });
  const checked = 'args' in read ? check(asked, read.args, context, answering) : unread(read.problem);
  if ('error' in checked) {
    const error = { ...checked.error, message: clip(checked.error.message, MESSAGE_BYTES) };
    const content = { callId: id, tool, arguments: args ?? {} };
    return { index, content, digest: digestOf(args ?? { unread: call.arguments }), ...settled(id, tool, { error }) };
  }
  const content = { callId: id, tool, arguments: checked.args };
  const digest = digestOf(checked.args);
  const builtin = builtinTool(tool);
  const called = { agentId: context.agentId, callId: id };
  if (builtin && 'answer' in builtin)
    return { index, content, digest, ...settled(id, tool, await builtin.answer(checked.args, answering, called)) };
  const { governance } = context.profile;
  const claimed = governance === undefined && isRepeatable(runnableTool(context.app.tools, tool));
  const facts = factsOf(governance, tool, checked.args);
  return { index, content, digest, ...facts, ...(claimed ? { claimed } : {}) };
}

/** The result of a call that is settled while it is proposed. */
function settled(callId: string, tool: string, answer: BuiltinAnswer): Pick<NewCall, 'skill' | 'result' | 'effect'> {
  if ('error' in answer)
    return { result: { callId, tool, status: 'failed', afterExecution: 'continue', error: answer.error } };
  const { result, skill, effect, afterExecution = 'continue' } = answer;
  const taken = { ...(skill === undefined ? {} : { skill }), ...(effect ? { effect } : {}) };
  return { ...taken, result: { callId, tool, status: 'success', afterExecution, result } };
}

/** Bytes in which a failed result says what is wrong with its call. */
const MESSAGE_BYTES = 8 * 1024;
/** Issues of a schema that are named: of thousands of wrong items the first ones say enough. */
const MOST_ISSUES = 20;

/** The arguments as the tool takes them, or why the call is refused. */
function check(
  tool: string,
  args: JsonObject,
  { offered, app }: ProposalContext,
  answering: AnswerContext,
): CheckedArguments {
  if (!offered.has(tool)) {
    const names = [...offered].join(', ') || 'none';
    const meant = nearest(tool, offered);
    const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
    return {
      error: {
        code: 'unknown_tool',
        message: `there is no tool ${tool} in this request; offered: ${names}${hint}`,
        kind: 'recoverable',
      },
    };
  }
  try {
    const builtin = builtinTool(tool);
    const parsed = builtin ? builtin.parse(args) : jsonOnly(app.tools.get(tool)?.parse(args) ?? args);
    if (isTooLarge(parsed)) return { error: invalidArguments(tool, TOO_LARGE) };
    const admission = builtin && 'answer' in builtin ? builtin.admit?.(parsed, answering) : undefined;
    return admission ?? { args: parsed };
  } catch (error) {
    return { error: invalidArguments(tool, `they do not match its schema:\n${problemOf(error)}`) };
  }
}

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

const cutArguments = (tool: string): ToolError => ({
  code: 'arguments_truncated',
  message: `your message was cut short by an output limit in the arguments of ${tool}: nothing was called.\nCall again with less in one call, or in several calls.`,
  kind: 'recoverable',
});

/** Bytes that an error repeats of arguments that are none. */
const SHOWN_BYTES = 200;
const TOO_LARGE = `they are larger than ${REPLY_BOUNDS.bytes / 1024} KiB`;

/** Measured as they are stored: a number that the model wrote in few digits may take many when it is written again. */
const isTooLarge = (args: JsonObject): boolean => Buffer.byteLength(JSON.stringify(args)) > REPLY_BOUNDS.bytes;

/**
 * The arguments in a text of the model. An empty text counts as no arguments at all. What is read can be walked by recursion, and fits a
 * card.
 */
function readArguments(text: string): { readonly args: JsonObject } | { readonly problem: string } {
  const value = text.trim() === '' ? {} : parsed(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { problem: `they must be one JSON object, got: ${clip(text, SHOWN_BYTES) || '(nothing)'}` };
  if (isDeeperThan(value, REPLY_BOUNDS.depth))
    return { problem: `they are nested more than ${REPLY_BOUNDS.depth} deep` };
  const args = value as JsonObject;
  return isTooLarge(args) ? { problem: TOO_LARGE } : { args };
}

/** The value that a text of JSON says; undefined when the text is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * What a built-in tool is: a tool that comes with the runtime. Each is one object in a file of its own, listed in `registry.ts`; whatever
 * handles tools finds it there.
 *
 * Invariants
 * 1. A built-in tool is answered while its call is proposed, is run like a tool of the app, or delegates: it has exactly one of `answer`,
 *    `execute` and `delegation`.
 * 2. What is offered of it is the same bytes as long as profile and result fields are the same, so that a prompt keeps its prefix (W18).
 */
import { z } from 'zod';
import type { WorkEffect } from '../../../workflows/agent-state/effects.ts';
import type { AgentSummary } from '../../../workflows/contract/agent-summary.ts';
import type { WorkReading } from '../../../workflows/contract/agent-work.ts';
import type { Delegation } from '../../../workflows/contract/delegation.ts';
import type { TurnView } from '../../../workflows/contract/views.ts';
import type { ToolError, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { ResultFields } from '../../../workflows/protocol/enqueue.ts';
import type { JsonObject, JsonValue } from '../../../workflows/protocol/json.ts';
import type { CapabilityKind, Profile, ToolSpec } from '../../../workflows/protocol/profile.ts';
import { parametersOf } from '../../parameters.ts';
import { DEFAULT_TOOL_TIMEOUT_MS, type RunnableTool } from '../../tool.ts';

/** To whom a built-in tool is offered. */
export interface Offer {
  readonly profile: Profile;
  /** Result fields of the request or else of the profile; null when there are none. */
  readonly resultFields: ResultFields | null;
}

interface Offered {
  /** Reserved: no tool of an app may have it. */
  readonly name: string;
  /** The kind of capability that lets the tool through; null when no capability keeps it away (K8). */
  readonly kind: CapabilityKind | null;
  /** Whether agents of this profile are offered the tool. When left out: those whose profile names it in `builtins`. */
  readonly offeredTo?: (profile: Profile) => boolean;
  /** What the tool does, written for the model. */
  readonly description: string | ((offer: Offer) => string);
  /** JSON Schema of the arguments, as the model reads it. */
  readonly parameters: JsonObject | ((offer: Offer) => JsonObject);
  /** The arguments with their defaults. Throws a ZodError when they do not match. */
  readonly parse: (args: JsonObject) => JsonObject;
}

/** What a tool that is answered while its call is proposed may look at. */
export interface AnswerContext extends Offer {
  /** No other call stands in the model's message, or the message is the final report, in which other calls are not run (K9). */
  readonly alone: boolean;
  /** The schema of the agent's output, which checks more than the result fields say; null when this worker's app has none for them. */
  readonly output: z.core.$ZodObject | null;
  /** The result of an earlier call of this agent; null when this agent never made that call, or the call has no result. */
  readResult(callId: string): Promise<ToolResultContent | null>;
  /** What came for this agent with that card, whole; null when it was told of no such card. */
  readWake(cardId: string): Promise<string | null>;
  /** The work of this agent, with what the calls before this one change of it. */
  work(): Promise<WorkReading>;
  /** An agent as it stands; null when there is none. */
  summary(agentId: string): Promise<AgentSummary | null>;
  /** A turn that this agent has delegated; null for any other. */
  delegated(agentTurnId: string): Promise<Pick<TurnView, 'status' | 'errorCode' | 'deliverable'> | null>;
}

/** The call that a tool is asked to answer. */
export interface AnsweredCall {
  readonly agentId: string;
  readonly callId: string;
}

/**
 * `terminate` ends the turn with this call. `skill` names the skill that the call takes up (K8). `effect` is what it changes of the agent's work
 * with the commit of the turn (A7).
 */
export type BuiltinAnswer =
  | {
      readonly result: JsonValue;
      readonly afterExecution?: 'terminate';
      readonly skill?: string;
      readonly effect?: WorkEffect;
    }
  | { readonly error: ToolError };

/** What becomes of arguments that match the schema of their tool. */
export type CheckedArguments = { readonly args: JsonObject } | { readonly error: ToolError };

/**
 * A tool whose result is there with its call, without an activity of its own. Rules do not judge such a call and nobody is asked about it: it
 * must not do anything to the world.
 */
export interface AnsweredTool extends Offered {
  /** The arguments as they are stored and answered, or what the model must correct in them although they match the schema. */
  readonly admit?: (args: JsonObject, context: AnswerContext) => CheckedArguments;
  readonly answer: (
    args: JsonObject,
    context: AnswerContext,
    call: AnsweredCall,
  ) => BuiltinAnswer | Promise<BuiltinAnswer>;
}

/** A tool whose calls pass the rules and may be asked about. */
interface DispatchedTool extends Offered {
  /** JSON Schema that arguments written by an approver must match, where `parameters` demands less than `parse` does. */
  readonly editedParameters?: JsonObject;
}

/** A tool that is run like one of the app, by the tool activity. */
export interface ExecutedTool extends DispatchedTool, RunnableTool {}

/** What a call hands to another agent. */
export type DelegationTerms = Omit<Delegation, 'callId' | 'attempt'>;

/** A tool that opens a turn of another agent: the store does all of it in one transaction (W12). */
export interface DelegatingTool extends DispatchedTool {
  /** The task that parsed arguments hand over. */
  readonly delegation: (args: JsonObject) => DelegationTerms;
}

/** A tool of the runtime, by the way in which its calls are settled. */
export type BuiltinTool = AnsweredTool | ExecutedTool | DelegatingTool;

type Definition<Tool extends Offered, Schema extends z.ZodType> = Omit<Tool, 'parameters' | 'parse'> & {
  readonly schema: Schema;
  /** The JSON Schema of `schema` when left out. */
  readonly parameters?: Tool['parameters'];
};

interface Answering<Schema extends z.ZodType> extends Definition<Offered, Schema> {
  admit?(args: z.output<Schema>, context: AnswerContext): CheckedArguments;
  answer(args: z.output<Schema>, context: AnswerContext, call: AnsweredCall): BuiltinAnswer | Promise<BuiltinAnswer>;
}

interface Executing<Schema extends z.ZodType> extends Definition<DispatchedTool, Schema> {
  readonly sideEffects: ToolSpec['sideEffects'];
  execute(args: z.output<Schema>): JsonValue | Promise<JsonValue>;
}

interface Delegating<Schema extends z.ZodType> extends Definition<DispatchedTool, Schema> {
  delegation(args: z.output<Schema>): DelegationTerms;
}

/** A tool that is answered while its call is proposed. */
export function answeredTool<Schema extends z.ZodType>(definition: Answering<Schema>): AnsweredTool {
  const { schema, answer, admit, ...offered } = definition;
  return {
    parameters: parametersOf(schema),
    ...offered,
    parse: parserOf(schema),
    ...(admit ? { admit: (args, context) => admit(args as z.output<Schema>, context) } : {}),
    answer: (args, context, call) => answer(args as z.output<Schema>, context, call),
  };
}

/** A tool that is run by the tool activity; it has a minute for it, and its result goes to the model. */
export function executedTool<Schema extends z.ZodType>(definition: Executing<Schema>): ExecutedTool {
  const { schema, sideEffects, execute, ...offered } = definition;
  return {
    parameters: parametersOf(schema),
    ...offered,
    spec: { afterExecution: 'continue', timeoutMs: DEFAULT_TOOL_TIMEOUT_MS, sideEffects },
    parse: parserOf(schema),
    execute: async (args) => execute(args as z.output<Schema>),
  };
}

/** A tool that opens a turn of another agent. */
export function delegatingTool<Schema extends z.ZodType>(definition: Delegating<Schema>): DelegatingTool {
  const { schema, delegation, ...offered } = definition;
  return {
    parameters: parametersOf(schema),
    ...offered,
    parse: parserOf(schema),
    delegation: (args) => delegation(args as z.output<Schema>),
  };
}

const parserOf =
  (schema: z.ZodType) =>
  (args: JsonObject): JsonObject =>
    z.parse(schema, args) as JsonObject;

/**
 * The built-in tools. What is offered to a model, which names an app may not take, how arguments are checked and how calls are answered or
 * run, all of it follows from this list (W12). What the kernel does with some of them by name is in `workflows/protocol/builtins.ts`.
 *
 * Invariant: the order of the list is that of every model request, behind the tools of the app; a new tool comes last, so that prompts of
 * profiles without it stay the same bytes (W18).
 */
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { BuiltinSpec, Profile } from '../../../workflows/protocol/profile.ts';
import type { RunnableTool } from '../../tool.ts';
import { agentGet } from './agent-get.ts';
import { askExpert } from './ask-expert.ts';
import type { BuiltinTool, Offer } from './builtin-tool.ts';
import { cancelTimerTool } from './cancel-timer.ts';
import { completeWorkItem } from './complete-work-item.ts';
import { createTriggerTool } from './create-trigger.ts';
import { createWorkItem } from './create-work-item.ts';
import { delegateAsync } from './delegate-async.ts';
import { listWorkItemsTool } from './list-work-items.ts';
import { now } from './now.ts';
import { pickWorkItem } from './pick-work-item.ts';
import { readResultTool } from './read-result.ts';
import { setTimer } from './set-timer.ts';
import { skill } from './skill.ts';
import { submitResult } from './submit-result.ts';
import { updatePlan } from './update-plan.ts';
import { updateWorkItem } from './update-work-item.ts';
import { waitFor } from './wait-for.ts';

/** Those with which an agent lives on between its turns. */
const BETWEEN_TURNS: readonly BuiltinTool[] = [
  agentGet,
  createWorkItem,
  updateWorkItem,
  pickWorkItem,
  listWorkItemsTool,
  completeWorkItem,
  waitFor,
  setTimer,
  cancelTimerTool,
  createTriggerTool,
];

/** All tools of the runtime, in the order in which they are offered. */
export const BUILTIN_TOOLS: readonly BuiltinTool[] = [
  delegateAsync,
  askExpert,
  submitResult,
  readResultTool,
  skill,
  updatePlan,
  now,
  ...BETWEEN_TURNS,
];

const BY_NAME: ReadonlyMap<string, BuiltinTool> = new Map(BUILTIN_TOOLS.map((tool) => [tool.name, tool]));

/** The built-in tool of that name; undefined when there is none. */
export const builtinTool = (name: string): BuiltinTool | undefined => BY_NAME.get(name);

/** Names of the tools with which an agent lives on between its turns, for the field `builtins` of its profile. */
export const AGENT_STATE_TOOLS: readonly string[] = BETWEEN_TURNS.map(({ name }) => name);

/** Names of the tools that a profile gets when its field `builtins` names them; the others are offered by what else it says. */
export const OPTIONAL_BUILTINS: readonly string[] = BUILTIN_TOOLS.filter((tool) => !tool.offeredTo).map(
  ({ name }) => name,
);

/** A tool as it stands in a model request. */
export interface OfferedTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonObject;
}

const toolsOf = (profile: Profile): readonly BuiltinTool[] =>
  BUILTIN_TOOLS.filter(({ name, offeredTo }) => offeredTo?.(profile) ?? profile.builtins.includes(name));

/** The built-in tools of a profile as its model reads them, in their order. */
export const offeredBuiltins = (offer: Offer): OfferedTool[] =>
  toolsOf(offer.profile).map(({ name, description, parameters }) => ({
    name,
    description: typeof description === 'function' ? description(offer) : description,
    parameters: typeof parameters === 'function' ? parameters(offer) : parameters,
  }));

/** The built-in tools of a profile as they are pinned with it, for the kernel and the store. */
export const builtinSpecs = (profile: Profile): BuiltinSpec[] =>
  toolsOf(profile).map((tool) => ({ name: tool.name, kind: tool.kind, parameters: editedParameters(tool, profile) }));

function editedParameters(tool: BuiltinTool, profile: Profile): JsonObject | null {
  if ('answer' in tool) return null;
  const { parameters, editedParameters: edited } = tool;
  return edited ?? (typeof parameters === 'function' ? parameters({ profile, resultFields: null }) : parameters);
}

type AppTools = ReadonlyMap<string, RunnableTool>;

/** What the tool activity runs for calls of that name: a built-in tool or one of the app. Undefined when there is nothing to run. */
export function runnableTool(tools: AppTools, name: string): RunnableTool | undefined {
  const builtin = builtinTool(name);
  if (!builtin) return tools.get(name);
  return 'execute' in builtin ? builtin : undefined;
}

/**
 * Arguments as the tool of that name takes them; as they are, when neither the runtime nor the app has such a tool. Throws a ZodError when
 * they do not match.
 */
export const parseArguments = (tools: AppTools, name: string, args: JsonObject): JsonObject =>
  (builtinTool(name) ?? tools.get(name))?.parse(args) ?? args;

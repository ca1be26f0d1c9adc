/**
 * An app of agents and tools. All that a developer writes is checked where it is defined, so that a mistake is found when the module loads, with
 * the path to it, and not in the middle of a turn.
 */
import { z } from 'zod';
import { letThrough } from '../../workflows/kernel/config.ts';
import { SUBMIT_RESULT } from '../../workflows/protocol/builtins.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { Profile, ProfileSnapshot, ToolSpec } from '../../workflows/protocol/profile.ts';
import type { Tool } from '../tool.ts';
import { BUILTIN_TOOLS, builtinSpecs, builtinTool } from '../tools/builtin/registry.ts';
import { checked } from './checked.ts';
import type { Agent, OutputSchema } from './define-agent.ts';

export { type Agent, type AgentDefinition, defineAgent } from './define-agent.ts';
export { defineTool, type ToolDefinition } from './define-tool.ts';

/** What a model costs per million tokens, in the one currency of all prices of the app. Cached input tokens cost `input` unless priced. */
export const modelPriceSchema = z.strictObject({
  input: z.number().nonnegative(),
  output: z.number().nonnegative(),
  cachedInput: z.number().nonnegative().optional(),
});
/** What a million tokens of a model cost, in the currency of the price list. */
export type ModelPrice = z.infer<typeof modelPriceSchema>;

/** An app as the runtime keeps it. */
export interface App {
  /** By name, as each is pinned for the turns of its agents. */
  readonly agents: ReadonlyMap<string, ProfileSnapshot>;
  /** What agents deliver, by the name of the agent; nothing for an agent that does not say it. */
  readonly outputs: ReadonlyMap<string, OutputSchema>;
  /** The app's own tools by name, whichever agents are offered them; built-in tools are not among them. */
  readonly tools: ReadonlyMap<string, Tool>;
  /** Prices by name of the model. */
  readonly prices: ReadonlyMap<string, ModelPrice>;
  /** Decides which version of the app new turns get (W4). */
  readonly revision: number;
}

/** An app as its developer writes it. */
export interface AppDefinition {
  readonly agents: readonly Agent[];
  /** Each agent is offered all of them, or those that its `allowedTools` names. */
  readonly tools?: readonly Tool[];
  /** Prices by model name as the provider reports it; the cost of a model that is not here is unknown, not 0 (W17). */
  readonly models?: Readonly<Record<string, ModelPrice>>;
  /**
   * A whole number that rises with each deployment, such as a build number or a build time; default 0. Workers with the highest one say
   * what new turns get. Among equal ones the version that came last counts, so that going back to an earlier one needs a higher number.
   */
  readonly revision?: number;
}

const revisionSchema = z.int().nonnegative();

/**
 * Puts an app together. Throws `invalid_config` for a name that two agents or two tools have, for a malformed price and a malformed revision.
 */
export function defineApp({ agents, tools = [], models = {}, revision = 0 }: AppDefinition): App {
  const byTool = unique('tool', tools, (tool) => tool.spec.name);
  const byAgent = unique('agent', agents, ({ profile }) => profile.name);
  const prices = new Map(
    Object.entries(models).map(([name, price]) => [name, checked(`price of model ${name}`, modelPriceSchema, price)]),
  );
  return {
    tools: byTool,
    prices,
    revision: checked('revision', revisionSchema, revision),
    agents: new Map([...byAgent].map(([name, { profile }]) => [name, snapshotOf(profile, byTool)])),
    outputs: new Map([...byAgent].flatMap(([name, { output }]) => (output ? [[name, output]] : []))),
  };
}

/** The profile with the tools it is offered. A name in its `allowedTools` that matches nothing is left out with a warning (W7). */
function snapshotOf(profile: Profile, tools: ReadonlyMap<string, Tool>): ProfileSnapshot {
  const names = [...new Set(profile.allowedTools ?? tools.keys())];
  const warnings = names
    .filter((name) => !tools.has(name) && !builtinTool(name))
    .map((name) => `allowedTools names ${name}, which is no tool of the app: left out`);
  const offered = names.flatMap((name) => tools.get(name)?.spec ?? []);
  const endable = new Set([...letThrough(profile, offered), SUBMIT_RESULT]);
  const endings = profile.mustEndWith
    .filter((name) => !endable.has(name))
    .map((name) => `mustEndWith names ${name}, which is not offered: the rule is ignored for it`);
  return {
    profile,
    tools: offered,
    builtins: builtinSpecs(profile),
    warnings: [...warnings, ...endings, ...misnamed(profile, offered)],
  };
}

/**
 * A warning for each name that matches no tool. A rule for it does nothing: most likely the name is wrong, and what it was meant for goes
 * unguarded.
 */
function misnamed(profile: Profile, offered: readonly ToolSpec[]): string[] {
  const names = new Set([...offered.map((tool) => tool.name), ...BUILTIN_TOOLS.map((tool) => tool.name)]);
  const { governance, skills, stableCore } = profile;
  const ruled = [
    ...(governance?.rules ?? []).map((rule) => rule.tool),
    ...(governance?.constraints ?? []).map((rule) => rule.tool),
    ...(governance?.rateLimits ?? []).map((rule) => rule.tool),
    ...(governance?.veto ?? []),
  ].filter((pattern) => !pattern.includes('*'));
  const wanted = [...stableCore, ...skills.flatMap((skill) => skill.allowedTools ?? [])];
  return [
    ...[...new Set(ruled)]
      .filter((name) => !names.has(name))
      .map((name) => `governance names ${name}, which is no tool of the profile`),
    ...[...new Set(wanted)]
      .filter((name) => !names.has(name))
      .map((name) => `a skill or stableCore names ${name}, which is no tool of the profile`),
  ];
}

/** The items by name. Throws `invalid_config` when two have the same. */
function unique<T>(kind: string, items: readonly T[], nameOf: (item: T) => string): Map<string, T> {
  const map = new Map<string, T>();
  for (const item of items) {
    const name = nameOf(item);
    if (map.has(name)) throw new CodedError('invalid_config', `two ${kind}s are named ${name}; names must be unique`);
    map.set(name, item);
  }
  return map;
}

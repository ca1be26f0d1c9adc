/**
 * An app of agents and tools. All that a developer writes is checked where it is defined, so that a mistake is found when the module loads, with
 * the path to it, and not in the middle of a turn.
 */
import { z } from 'zod';
import { letThrough } from '../../workflows/kernel/config.ts';
import { SUBMIT_RESULT } from '../../workflows/protocol/builtins.ts';
import type { Profile, ProfileSnapshot, ToolSpec } from '../../workflows/protocol/profile.ts';
import type { Tool } from '../tool.ts';
import { BUILTIN_TOOLS, builtinSpecs } from '../tools/builtin/registry.ts';
import { unknownPaths } from './argument-paths.ts';
import type { Agent, OutputSchema } from './define-agent.ts';
import { callerOf, checked, invalid } from './definition.ts';
import { unknownTools } from './tool-names.ts';

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
 * Puts an app together. Throws `invalid_config` for a name that two agents or two tools have, for the name of a tool in a profile that no tool
 * has, for a malformed price and a malformed revision.
 */
export function defineApp({ agents, tools = [], models = {}, revision = 0 }: AppDefinition): App {
  const at = callerOf(defineApp);
  const byTool = unique('tool', tools, ({ spec }) => spec.name);
  const byAgent = unique('agent', agents, ({ profile }) => profile.name);
  const prices = new Map(
    Object.entries(models).map(([name, price]) => [
      name,
      checked({ what: `price of model ${name}`, at }, modelPriceSchema, price),
    ]),
  );
  return {
    tools: byTool,
    prices,
    revision: checked({ what: 'revision', at }, revisionSchema, revision),
    agents: new Map([...byAgent].map(([name, agent]) => [name, snapshotOf(agent, byTool)])),
    outputs: new Map([...byAgent].flatMap(([name, { output }]) => (output ? [[name, output]] : []))),
  };
}

/**
 * The profile with the tools it is offered. Throws `invalid_config` for a name that no tool of the app has (W7), and for a path that no
 * argument has (K5). The name of a tool that the profile itself keeps away is a warning: it may be meant so.
 */
function snapshotOf({ profile, definedAt }: Agent, tools: ReadonlyMap<string, Tool>): ProfileSnapshot {
  const unknown = [...unknownTools(profile, tools.keys()), ...unknownPaths(profile, tools)];
  if (unknown.length > 0) throw invalid({ what: `agent ${profile.name}`, at: definedAt }, `: ${unknown.join('\n')}`);
  const names = [...new Set(profile.allowedTools ?? tools.keys())];
  const offered = names.flatMap((name) => tools.get(name)?.spec ?? []);
  return { profile, tools: offered, builtins: builtinSpecs(profile), warnings: keptAway(profile, offered) };
}

/** A warning for each tool that a rule or an ending names and the profile is not offered. */
function keptAway(profile: Profile, offered: readonly ToolSpec[]): string[] {
  const names = new Set([...offered, ...BUILTIN_TOOLS].map((tool) => tool.name));
  const endable = new Set([...letThrough(profile, offered), SUBMIT_RESULT]);
  const wanted = [...profile.stableCore, ...profile.skills.flatMap((skill) => skill.allowedTools ?? [])];
  return [
    ...profile.mustEndWith
      .filter((name) => !endable.has(name))
      .map((name) => `mustEndWith names ${name}, which is not offered: the rule is ignored for it`),
    ...[...new Set(wanted)]
      .filter((name) => !names.has(name))
      .map((name) => `a skill or stableCore names ${name}, which is no tool of the profile`),
  ];
}

/** The items by name. Throws `invalid_config` when two have the same. */
function unique<T extends { readonly definedAt: string | undefined }>(
  kind: string,
  items: readonly T[],
  nameOf: (item: T) => string,
): Map<string, T> {
  const map = new Map<string, T>();
  for (const item of items) {
    const name = nameOf(item);
    const first = map.get(name);
    if (first) {
      const places = [first, item].flatMap(({ definedAt = [] }) => definedAt);
      throw invalid(
        { what: `two ${kind}s are named ${name}`, at: places.length === 2 ? places.join(' and ') : undefined },
        '; names must be unique',
      );
    }
    map.set(name, item);
  }
  return map;
}

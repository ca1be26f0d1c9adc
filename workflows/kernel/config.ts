/** The kernel's config of a turn, made from the profile and the request when the turn is leased. Pure. */
import { SUBMIT_RESULT } from '../protocol/builtins.ts';
import type { ResultFields } from '../protocol/enqueue.ts';
import type { Profile, ProfileSnapshot, ToolSpec } from '../protocol/profile.ts';
import { ALWAYS, type Exposure } from './exposure.ts';
import type { KernelConfig } from './state.ts';

/**
 * What the kernel must know of a profile and a request. Required result fields make `submit_result` the way to end, unless the profile names
 * another one that is offered (T28). A required ending that is not offered is dropped, and the turn ends as if there were no rule (W13).
 */
export function kernelConfig(
  snapshot: ProfileSnapshot,
  resultFields: ResultFields | null,
  fixedTokens: number,
): KernelConfig {
  const { profile, tools } = snapshot;
  const offered = new Set([...letThrough(profile, tools), SUBMIT_RESULT]);
  const wanted = profile.mustEndWith.filter((name) => offered.has(name));
  const fieldsRequired = resultFields?.fields.some((field) => field.required) ?? false;
  const mustEndWith = wanted.length === 0 && fieldsRequired ? [SUBMIT_RESULT] : wanted;
  const { windowTokens } = profile.context;
  return {
    budgets: profile.budgets,
    mustEndWith,
    submitResult: true,
    context: { windowTokens, answerTokens: answerTokens(profile), fixedTokens },
    ...exposureOf(snapshot),
    ...(profile.governance ? { governance: profile.governance } : {}),
    ...(profile.rollbackOn.length > 0 ? { rollbackOn: profile.rollbackOn } : {}),
  };
}

/** The names of those tools of the app that the profile's capabilities let through (K8). */
export function letThrough({ capabilities }: Profile, tools: readonly ToolSpec[]): readonly string[] {
  const { kinds, ids } = capabilities ?? {};
  if (kinds && !kinds.includes('tool')) return [];
  return tools.map((tool) => tool.name).filter((name) => ids?.includes(name) ?? true);
}

/** The rules of what is offered; nothing for a profile that always offers all its tools. */
function exposureOf({ profile, tools, builtins }: ProfileSnapshot): { readonly exposure?: Exposure } {
  const { skills, stableCore, capabilities } = profile;
  if (skills.length === 0 && !capabilities) return {};
  const admitted = builtins.filter(({ kind }) => kind === null || (capabilities?.kinds?.includes(kind) ?? true));
  const names = admitted.map(({ name }) => name).filter((name) => !ALWAYS.includes(name));
  const declared = [...letThrough(profile, tools), ...names];
  // What the profile asked for by name is not narrowed by skills.
  const core = [...stableCore, ...admitted.filter(({ kind }) => kind === 'tool').map(({ name }) => name)];
  const rules = skills.map(({ name, allowedTools, leaseSteps }) => ({
    name,
    allowedTools,
    ...(leaseSteps === undefined ? {} : { leaseSteps }),
  }));
  return { exposure: { declared, core, skills: rules } };
}

/** The share of the window that is kept for the answer where the profile does not limit it. */
const ANSWER_SHARE = 0.05;

/** The part of the window that is kept for the answer; never more than half of it. */
const answerTokens = ({ model, context }: Profile): number =>
  Math.min(model.maxTokens ?? Math.floor(context.windowTokens * ANSWER_SHARE), Math.floor(context.windowTokens / 2));

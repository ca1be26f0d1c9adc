/**
 * Which tools a model call offers (K8): those that the profile declares and its capabilities let through, narrowed by the skills in use.
 * Pure.
 *
 * Invariants
 * 1. `submit_result` and `read_result` are always offered. The other built-ins are exempt from the filter by id, not from the one by kind.
 * 2. The list changes only when a skill comes into use or its time is over, so that providers find the beginning of the prompt in their
 *    caches (W18).
 */
import { READ_RESULT, SKILL, SUBMIT_RESULT, UPDATE_PLAN } from '../protocol/builtins.ts';

/** What a skill of the profile does to the list of tools. */
export interface SkillRule {
  readonly name: string;
  /** The tools it is used with; null when it leaves the list as it is. */
  readonly allowedTools: readonly string[] | null;
  /** After how many steps it is out of use again; absent when it stays to the end of the turn. */
  readonly leaseSteps?: number;
}

/** What a profile says about the tools to offer. */
export interface Exposure {
  /** The tools that capabilities let through, in the order in which they are offered. */
  readonly declared: readonly string[];
  /** The tools that are offered whatever skills are in use. */
  readonly core: readonly string[];
  /** All skills that the model may take up. */
  readonly skills: readonly SkillRule[];
}

/** A skill that the turn has taken up. */
export interface ActiveSkill {
  readonly name: string;
  /** The index of the last step it is in use for; null when it stays to the end of the turn. */
  readonly until: number | null;
}

/** The skills in use, in the order in which the model took them up. */
export interface SkillState {
  readonly skills: readonly ActiveSkill[];
}

/** The built-in tools that no filter and no skill takes away; a profile does not declare them. */
export const ALWAYS: readonly string[] = [SUBMIT_RESULT, READ_RESULT];

/** The names of the tools to offer; undefined when nothing is ever left out. */
export function offeredTools(
  exposure: Exposure | undefined,
  skills: readonly ActiveSkill[],
): readonly string[] | undefined {
  if (!exposure) return undefined;
  const used = exposure.skills.filter((skill) => skills.some((active) => active.name === skill.name));
  const narrow = used.length > 0 && used.every((skill) => skill.allowedTools !== null);
  const open = new Set([...exposure.core, SKILL, UPDATE_PLAN, ...used.flatMap((skill) => skill.allowedTools ?? [])]);
  const declared = narrow ? exposure.declared.filter((tool) => open.has(tool)) : exposure.declared;
  return [...declared, ...ALWAYS];
}

/** The skills in use from the next step on, with those of these names. The time of a skill that was in use already begins anew. */
export function activated(
  rules: readonly SkillRule[],
  skills: readonly ActiveSkill[],
  names: readonly string[],
  stepIndex: number,
): readonly ActiveSkill[] {
  const fresh = rules.filter((rule) => names.includes(rule.name));
  return [
    ...skills.filter((active) => !names.includes(active.name)),
    ...fresh.map(({ name, leaseSteps }) => ({
      name,
      until: leaseSteps === undefined ? null : stepIndex + leaseSteps,
    })),
  ];
}

/** The skills that are still in use for the step with this index. */
export const inUse = (skills: readonly ActiveSkill[], stepIndex: number): readonly ActiveSkill[] =>
  skills.every(({ until }) => until === null || until >= stepIndex)
    ? skills
    : skills.filter(({ until }) => until === null || until >= stepIndex);

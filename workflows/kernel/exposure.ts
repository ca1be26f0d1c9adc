/**
 * Which tools a model call offers (K8): those the profile declares, as far as its capabilities let them through, narrowed by the skills in
 * use. Pure.
 *
 * Invariants
 * 1. `submit_result` and `read_result` are always offered; other built-ins are exempt from filters by id, not from those by kind.
 * 2. The list changes only when a skill comes into use or its time is over, so that the prompt's prefix stays what it was (W18).
 */
import { READ_RESULT, SKILL, SUBMIT_RESULT, UPDATE_PLAN } from '../protocol/builtins.ts';

export interface SkillRule {
  readonly name: string;
  /** Null: it does not narrow. */
  readonly allowedTools: readonly string[] | null;
  /** It ends after that many steps; absent = never. */
  readonly leaseSteps?: number;
}

export interface Exposure {
  /** In the order in which they are offered. */
  readonly declared: readonly string[];
  /** Offered whatever skills are in use. */
  readonly core: readonly string[];
  readonly skills: readonly SkillRule[];
}

export interface ActiveSkill {
  readonly name: string;
  /** The last step it is in use for; null = to the end. */
  readonly until: number | null;
}

/** The skills in use, in the order in which the model took them up. */
export interface SkillState {
  readonly skills: readonly ActiveSkill[];
}

const ALWAYS: readonly string[] = [SUBMIT_RESULT, READ_RESULT];

/** Undefined: nothing is left out. */
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

/** In use from the next step on; asked for again, its time begins anew. */
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

export const inUse = (skills: readonly ActiveSkill[], stepIndex: number): readonly ActiveSkill[] =>
  skills.every(({ until }) => until === null || until >= stepIndex)
    ? skills
    : skills.filter(({ until }) => until === null || until >= stepIndex);

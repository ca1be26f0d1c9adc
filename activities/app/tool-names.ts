/**
 * The names of tools in a profile. One that no tool has is a mistake of whoever wrote it: a rule for it guards nothing, and a list with it offers
 * less than it says. It is found when the app is defined, not while a turn runs (W7).
 */
import { SUBMIT_RESULT } from '../../workflows/protocol/builtins.ts';
import type { Profile } from '../../workflows/protocol/profile.ts';
import { BUILTIN_TOOLS } from '../tools/builtin/registry.ts';
import { nearest } from './nearest.ts';

/** A name, and the field of the profile that has it. */
interface NameOfTool {
  readonly field: string;
  readonly name: string;
}

const BUILTIN_NAMES = BUILTIN_TOOLS.map(({ name }) => name);

/** The names in rules, without patterns: what a pattern is meant for may come later. */
const ruled = ({ governance }: Profile): NameOfTool[] =>
  [
    ...(governance?.rules ?? []).map(({ tool }, index) => ({ field: `governance.rules[${index}]`, name: tool })),
    ...(governance?.constraints ?? []).map(({ tool }, at) => ({ field: `governance.constraints[${at}]`, name: tool })),
    ...(governance?.rateLimits ?? []).map(({ tool }, at) => ({ field: `governance.rateLimits[${at}]`, name: tool })),
    ...(governance?.veto ?? []).map((name) => ({ field: 'governance.veto', name })),
  ].filter(({ name }) => !name.includes('*'));

const named = (field: string, names: readonly string[] | null | undefined): NameOfTool[] =>
  (names ?? []).map((name) => ({ field, name }));

/** What each name in the profile that names no tool of the app is, with what was most likely meant; empty when all is well. */
export function unknownTools(profile: Profile, ofApp: Iterable<string>): string[] {
  const own = [...ofApp];
  const any = [...own, ...BUILTIN_NAMES];
  const skills = profile.skills.flatMap(({ name, allowedTools }) => named(`skill ${name}`, allowedTools));
  return [
    ...unknown([...named('allowedTools', profile.allowedTools), ...ruled(profile), ...skills], any),
    ...unknown(named('stableCore', profile.stableCore), any),
    ...unknown(named('capabilities.ids', profile.capabilities?.ids), own),
    ...unknown(named('mustEndWith', profile.mustEndWith), [...own, SUBMIT_RESULT]),
  ];
}

function unknown(wanted: readonly NameOfTool[], names: readonly string[]): string[] {
  return wanted
    .filter(({ name }) => !names.includes(name))
    .map(({ field, name }) => {
      const meant = nearest(name, names);
      return `${field} names ${name}, which is no tool of the app${meant === undefined ? '' : `; did you mean ${meant}?`}`;
    });
}

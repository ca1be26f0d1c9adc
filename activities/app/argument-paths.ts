/**
 * The paths of a profile's rules into the arguments of calls. One that no argument has is a mistake of whoever wrote it: the condition of a
 * rule would never hold, and what it was meant to guard would run without a question. It is found when the app is defined (K5).
 */
import type { JsonObject, JsonValue } from '../../workflows/protocol/json.ts';
import type { Profile } from '../../workflows/protocol/profile.ts';
import type { Tool } from '../tool.ts';
import { nearest } from './nearest.ts';

/** A path, the tool whose arguments it is about, and the field of the profile that has it. */
interface ArgumentPath {
  readonly field: string;
  readonly tool: string;
  readonly path: string;
}

const pathsOf = ({ governance }: Profile): ArgumentPath[] => [
  ...(governance?.rules ?? []).flatMap(({ tool, when }, at) =>
    when ? [{ field: `governance.rules[${at}].when`, tool, path: when.path }] : [],
  ),
  ...(governance?.constraints ?? []).map(({ tool, path }, at) => ({
    field: `governance.constraints[${at}]`,
    tool,
    path,
  })),
];

/** What each path is that leads to no argument of its tool, with what was most likely meant; empty when all is well. */
export function unknownPaths(profile: Profile, tools: ReadonlyMap<string, Tool>): string[] {
  return pathsOf(profile).flatMap(({ field, tool, path }) => {
    const spec = tools.get(tool)?.spec;
    // What a schema transforms is judged as it comes out, and its JSON Schema says what goes in.
    const missing = spec && !spec.transforms ? firstMissing(spec.parameters, path.split('.')) : null;
    if (!missing) return [];
    const meant = nearest(missing.name, missing.known);
    const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
    return [`${field} has the path ${path}, and the arguments of ${tool} have no ${missing.name}${hint}`];
  });
}

/** The first part of the path that the schema does not have, and the names it has there; null when it has all, or leaves them open. */
function firstMissing(
  schema: JsonObject,
  [name, ...rest]: readonly string[],
): { readonly name: string; readonly known: readonly string[] } | null {
  if (name === undefined) return null;
  const { properties, items, additionalProperties } = schema;
  if (isSchema(items) && /^\d+$/.test(name)) return firstMissing(items, rest);
  // Unions, references and records leave open what is there.
  if (!isSchema(properties)) return null;
  const next = Object.hasOwn(properties, name) ? properties[name] : undefined;
  if (isSchema(next)) return firstMissing(next, rest);
  if (next !== undefined || isSchema(additionalProperties) || additionalProperties === true) return null;
  return { name, known: Object.keys(properties) };
}

const isSchema = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

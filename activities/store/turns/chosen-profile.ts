/**
 * The profile of a request: the one that it names, else that of its agent, else the one that is named like the agent. A request whose
 * profile is not there is refused when it is accepted, and so is one that would make all users of a profile share one agent.
 */
import { closest } from 'fastest-levenshtein';
import { sql } from 'kysely';
import type { Profile } from '../../../workflows/protocol/profile.ts';
import type { Reader } from '../context.ts';
import type { ProfileRow } from '../schema/rows.ts';
import { profileByHash, profileNames } from './profiles.ts';
import type { Refusal } from './refusal.ts';

/** A query for the version of the profile that the agent's next turn gets; `asked` is the profile that the request names. */
export const selectChosenProfile = ({ db }: Reader, agentId: string, asked: string | undefined) =>
  db
    .selectFrom('profile_heads')
    .select('hash')
    .where(
      'name',
      '=',
      asked ?? sql<string>`coalesce((select profile from agents where agent_id = ${agentId}), ${agentId})`,
    );

/** The profile that a request is for. */
export interface ChosenProfile {
  readonly agentId: string;
  readonly name: string;
  /** What `selectChosenProfile` has found; undefined when no app has registered a profile of that name. */
  readonly head: Pick<ProfileRow, 'hash'> | undefined;
}

/**
 * Why an agent cannot have this profile; null when it can, and also while no app has registered any profile: a client may come before the
 * first worker. Errors: `store_corrupt` for a profile that cannot be read.
 */
export async function profileRefusal(reader: Reader, { agentId, name, head }: ChosenProfile): Promise<Refusal | null> {
  if (head) return name === agentId ? sharedRefusal(agentId, (await profileByHash(reader, head.hash)).profile) : null;
  const nearest = await nearestRegistered(reader, name);
  if (nearest === null) return null;
  const message =
    name === agentId
      ? `agent ${agentId} has no profile, and none has its name: name one with the request (${nearest})`
      : `no profile named ${name} is registered: ${nearest}`;
  return { code: 'profile_not_found', message };
}

/** Why a delegation cannot go to a profile of this name: no app has registered it. */
export async function unregistered(reader: Reader, name: string): Promise<Refusal> {
  const nearest = await nearestRegistered(reader, name);
  const hint = nearest === null ? '' : `: ${nearest}`;
  return { code: 'profile_not_found', message: `no profile named ${name} is registered${hint}` };
}

/** Which registered name is written most like this one; null when no app has registered any. */
async function nearestRegistered(reader: Reader, name: string): Promise<string | null> {
  const names = await profileNames(reader);
  return names.length === 0 ? null : `the nearest name that is registered is ${closest(name, names)}`;
}

/**
 * Why an agent named like its profile is refused: everybody who named only the profile would read and write the memory of one agent. Null
 * for another name, and where the profile says that it has this one agent.
 */
export function sharedRefusal(
  agentId: string,
  { name, singleton }: Pick<Profile, 'name' | 'singleton'>,
): Refusal | null {
  if (agentId !== name || singleton) return null;
  const message =
    `${name} is a profile and not an agent: all who ask for it so would share one memory. ` +
    `For one turn without a memory call client.run('${name}', …) (agentturn run ${name} …); for a memory of its own name the agent and the ` +
    `profile, client.agent('ID', { profile: '${name}' }) (agentturn enqueue ID … --profile ${name}); ` +
    'where one agent is to serve all, its profile says singleton: true';
  return { code: 'invalid_request', message };
}

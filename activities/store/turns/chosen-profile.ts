/**
 * The profile of a request: the one that it names, else that of its agent, else the one that is named like the agent. A request whose
 * profile is not there is refused when it is accepted, and so is one that would make all users of a profile share one agent.
 */
import { distance } from 'fastest-levenshtein';
import { sql } from 'kysely';
import { nameWithin } from '../../../workflows/contract/border.ts';
import type { Profile } from '../../../workflows/protocol/profile.ts';
import type { Reader } from '../context.ts';
import { prepared } from '../prepared.ts';
import type { ProfileRow } from '../schema/rows.ts';
import { profileByHash, profileNames, selectProfileHead } from './profiles.ts';
import type { Refusal } from './refusal.ts';

/** A request, as far as it decides the profile of its turn. */
export interface ProfileChoice {
  readonly agentId: string;
  /** The tenant of the agent, where the request would make it. */
  readonly tenant: string | null;
  /** The profile that the request names. */
  readonly asked: string | undefined;
}

/** A query for the version of the profile that the agent's next turn gets. */
export const selectChosenProfile = (reader: Reader, { agentId, tenant, asked }: ProfileChoice) =>
  asked === undefined
    ? headOfAgent(reader.db, { agentId, name: nameWithin(tenant, agentId) })
    : selectProfileHead(reader, asked);

const headOfAgent = prepared((db, agent: { agentId: string; name: string }) =>
  db
    .selectFrom('profile_heads')
    .select('hash')
    .where(
      'name',
      '=',
      sql<string>`coalesce((select profile from agents where agent_id = ${agent.agentId}), ${agent.name})`,
    ),
);

/** The profile that a request is for. */
export interface ChosenProfile {
  readonly agentId: string;
  readonly tenant: string | null;
  /** Whether the caller is told which profiles there are; it is when left out. */
  readonly isShown?: boolean;
  readonly name: string;
  /** What `selectChosenProfile` has found; undefined when no app has registered a profile of that name. */
  readonly head: Pick<ProfileRow, 'hash'> | undefined;
}

/**
 * Why an agent cannot have this profile; null when it can, and also while no app has registered any profile: a client may come before the
 * first worker. Errors: `store_corrupt` for a profile that cannot be read.
 */
export async function profileRefusal(
  reader: Reader,
  { agentId, tenant, name, head, isShown = true }: ChosenProfile,
): Promise<Refusal | null> {
  const called = nameWithin(tenant, agentId);
  if (head) return name === called ? sharedRefusal(called, (await profileByHash(reader, head.hash)).profile) : null;
  const registered = await registeredNames(reader, name);
  if (registered === null) return null;
  if (!isShown)
    return { code: 'profile_not_found', message: `no profile is named ${name}, or none was named for ${called}` };
  const message =
    name === called
      ? `agent ${agentId} has no profile, and none has its name: name one with the request (${registered})`
      : `no profile is named ${name}: ${registered}`;
  return { code: 'profile_not_found', message };
}

/** Why a delegation cannot go to a profile of this name: no app has registered it. */
export async function unregistered(reader: Reader, name: string): Promise<Refusal> {
  const registered = await registeredNames(reader, name);
  const hint = registered === null ? '' : `: ${registered}`;
  return { code: 'profile_not_found', message: `no profile is named ${name}${hint}` };
}

/** A name that differs in more than this share of its letters was not meant. */
const MOST_DIFFERENT = 0.4;
/** How many registered names are listed. */
const MOST_LISTED = 10;

/** Which names are registered, those first that are written most like this one; null when no app has registered any. */
async function registeredNames(reader: Reader, name: string): Promise<string | null> {
  const names = await profileNames(reader);
  const ranked = names.map((each) => ({ each, far: distance(name, each) })).sort((a, b) => a.far - b.far);
  const [first] = ranked;
  if (!first) return null;
  const isMeant = first.far <= Math.max(name.length, first.each.length) * MOST_DIFFERENT;
  const listed = ranked.slice(0, MOST_LISTED).map(({ each }) => each);
  const more = names.length > listed.length ? ` and ${names.length - listed.length} more` : '';
  return `${isMeant ? `did you mean ${first.each}? ` : ''}registered ${names.length === 1 ? 'is' : 'are'} ${listed.join(', ')}${more}`;
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

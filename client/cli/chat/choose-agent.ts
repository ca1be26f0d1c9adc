/** With whom a person chats who names nobody, or somebody who is not there. */
import { distance } from 'fastest-levenshtein';
import type { RegisteredProfile } from '../../../workflows/contract/profiles.ts';
import type { ClientStore } from '../../../workflows/contract/store.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { sessionAgentId } from '../../../workflows/protocol/ids.ts';
import { commandLine } from '../../command-line.ts';
import { UsageError } from '../failure.ts';

/** Who is talked to, as the command line says it. */
export interface NamedAgent {
  readonly agent: string | undefined;
  readonly chatId: string;
  readonly profile: string | undefined;
}

/** A name that differs in more than this share of its letters was not meant. */
const MOST_DIFFERENT = 0.4;

/** The name that was most likely meant; undefined when none is written like it. */
export const nearestName = (name: string, names: readonly string[]): string | undefined =>
  names
    .map((each) => ({ each, far: distance(name.toLowerCase(), each.toLowerCase()) }))
    .filter(({ each, far }) => far <= Math.max(name.length, each.length) * MOST_DIFFERENT)
    .sort((a, b) => a.far - b.far)[0]?.each;

/** The one agent that can be meant where none is named. Errors: `invalid_request`, which lists those that can be named. */
export function onlyAgent(profiles: readonly RegisteredProfile[]): string {
  const singletons = profiles.filter(({ singleton }) => singleton);
  const [only, more] = profiles.length === 1 ? profiles : singletons;
  if (only && !more) return only.name;
  if (profiles.length === 0)
    throw new CodedError('invalid_request', 'no agent is there to chat with: no app has been started on this store', {
      cure: `Start one with "${commandLine('dev --app app.ts')}", then name its agent: ${commandLine('chat AGENT')}`,
    });
  const names = profiles.map(({ name }) => name).join(', ');
  throw new UsageError('invalid_request', `say with whom to chat: ${names}`, {
    cure: `For example: ${commandLine(`chat ${profiles[0]?.name}`)}`,
  });
}

/** The agent to chat with. Errors: `invalid_request` where none is named and several can be meant; `profile_not_found`. */
export async function chosenAgent(
  store: Pick<ClientStore, 'listProfiles' | 'getSession' | 'getAgent'>,
  { agent, chatId, profile }: NamedAgent,
): Promise<string> {
  const profiles = await store.listProfiles();
  if (agent === undefined) return profile ?? onlyAgent(profiles);
  const names = profiles.map(({ name }) => name);
  const wanted = profile ?? agent;
  // A client may come before the first worker.
  if (names.length === 0 || names.includes(wanted)) return agent;
  const isKnown =
    profile === undefined &&
    ((await store.getSession(sessionAgentId(agent, chatId))) ?? (await store.getAgent(agent))) !== null;
  if (isKnown) return agent;
  const meant = nearestName(wanted, names);
  const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
  throw new CodedError('profile_not_found', `no agent is named ${wanted}, there ${listed(names)}${hint}`, {
    cure: `For example: ${commandLine(`chat ${meant ?? names[0]}`)}`,
  });
}

const listed = (names: readonly string[]): string =>
  names.length === 1 ? `is ${names[0]}` : `are ${names.join(', ')}`;

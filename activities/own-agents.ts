/**
 * Which turns a worker works on.
 *
 * Invariant: a turn is worked on by workers whose app defines its agent, whatever other apps serve the same worker target. An activity that
 * comes to a worker of another app is handed on: it fails before it has done anything, and is tried again until it comes to the right one.
 */
import type { ProfileStore } from '../workflows/contract/profiles.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import type { App } from './app/app.ts';
import { toApplicationFailure } from './failure.ts';

/** The pause before it is tried again: which worker takes it then is chance. */
const HANDED_ON_MS = 500;

const hasProfile = (input: unknown): input is { readonly profileHash: string } =>
  typeof input === 'object' && input !== null && 'profileHash' in input && typeof input.profileHash === 'string';

const orNull = (error: unknown): null => {
  if (error instanceof CodedError && error.code === 'profile_not_found') return null;
  throw error;
};

/** The activities, each of which throws `agent_not_served` when its input is of an agent that the app does not define. */
export function ofOwnAgents<T extends object>(
  { store, app }: { readonly store: Pick<ProfileStore, 'readProfile'>; readonly app: App },
  activities: T,
): T {
  const demandAgent = async (profileHash: string) => {
    const found = await store.readProfile(profileHash).catch(orNull);
    // Without its profile it fails by itself, if it holds a lease at all.
    if (!found || app.agents.has(found.profile.name)) return;
    const { name, workerTarget } = found.profile;
    const message = `this worker's app has no agent ${name}: the turn waits for a worker of ${workerTarget} whose app defines it; give one of the apps a workerTarget of its own`;
    throw toApplicationFailure(new CodedError('agent_not_served', message), { retryAfterMs: HANDED_ON_MS });
  };
  const wrapped = Object.entries(activities).map(([name, run]) => [
    name,
    async (input: unknown) => {
      if (hasProfile(input)) await demandAgent(input.profileHash);
      return run(input);
    },
  ]);
  return Object.fromEntries(wrapped) as T;
}

/** Profiles: immutable snapshots by content hash, and which one of a name the next turn gets (W4). */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Registration } from '../../../workflows/contract/profiles.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { type ProfileSnapshot, profileSchema } from '../../../workflows/protocol/profile.ts';
import { storedJson } from '../../well-formed.ts';
import { type ProfileCache, read, type StoreContext, type Trx, write } from '../context.ts';

/** Their registration locks the heads of several names. */
const PROFILES = 'profiles';

const hashOf = (snapshot: string): string => createHash('sha256').update(snapshot).digest('hex');

/**
 * Keeps the versions, and makes each the one that new turns get, unless it is an older one: one that the store knows already, of an app
 * whose revision is not higher than that of the version in use. So a worker of the old version that starts again in the middle of a
 * deployment sets nothing back. Returns the names that stay with another version.
 */
export async function registerProfiles(
  ctx: StoreContext,
  snapshots: readonly ProfileSnapshot[],
  { revision = 0, takeOver = false }: Registration = {},
): Promise<readonly string[]> {
  const now = ctx.now();
  return write(ctx, PROFILES, async (trx) => {
    const outdated: string[] = [];
    for (const entry of snapshots) {
      const snapshot = storedJson(entry);
      const hash = hashOf(snapshot);
      const { name } = entry.profile;
      const [unseen] = await trx
        .insertInto('profiles')
        .values({ hash, name, snapshot, created_at: now })
        .onConflict((conflict) => conflict.column('hash').doNothing())
        .returning('hash')
        .execute();
      await trx
        .insertInto('profile_heads')
        .values({ name, hash, revision, updated_at: now })
        .onConflict((conflict) => {
          const move = conflict.column('name').doUpdateSet({ hash, revision, updated_at: now });
          return takeOver ? move : move.where('profile_heads.revision', unseen ? '<=' : '<', revision);
        })
        .execute();
      const head = await selectProfileHead(trx, name).executeTakeFirst();
      if (head?.hash !== hash) outdated.push(name);
    }
    return outdated;
  });
}

export const selectProfileHead = (trx: Trx, name: string) =>
  trx.selectFrom('profile_heads').select('hash').where('name', '=', name);

export interface CurrentProfile {
  readonly hash: string;
  readonly snapshot: ProfileSnapshot;
}

export const currentProfile = async (trx: Trx, name: string, cache: ProfileCache): Promise<CurrentProfile | null> =>
  profileAt(trx, await selectProfileHead(trx, name).executeTakeFirst(), cache);

/** The profile that the head row of its name points to; null without one. */
export async function profileAt(
  trx: Trx,
  head: { readonly hash: string } | undefined,
  cache: ProfileCache,
): Promise<CurrentProfile | null> {
  return head ? { hash: head.hash, snapshot: await profileByHash(trx, head.hash, cache) } : null;
}

/** Whether any worker has registered its app in this store yet. */
export const anyProfile = async (trx: Trx): Promise<boolean> =>
  (await trx.selectFrom('profile_heads').select('name').limit(1).executeTakeFirst()) !== undefined;

export const readProfile = (ctx: StoreContext, hash: string): Promise<ProfileSnapshot> =>
  read(ctx, (db) => profileByHash(db as Trx, hash, ctx.profiles));

/** What was read once need not be read again: a hash always means the same snapshot. */
export async function profileByHash(trx: Trx, hash: string, cache: ProfileCache): Promise<ProfileSnapshot> {
  const known = cache.get(hash);
  if (known) return known;
  const row = await trx.selectFrom('profiles').select('snapshot').where('hash', '=', hash).executeTakeFirst();
  if (!row) throw new CodedError('profile_not_found', `profile version ${hash} is not in the store`);
  const snapshot = readable(hash, row.snapshot);
  cache.set(hash, snapshot);
  return snapshot;
}

/** Errors: `store_corrupt`. */
function readable(hash: string, stored: string): ProfileSnapshot {
  try {
    const snapshot = JSON.parse(stored) as ProfileSnapshot;
    return { ...snapshot, profile: profileSchema.parse(snapshot.profile) };
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : 'it is no JSON';
    throw new CodedError('store_corrupt', `profile version ${hash} in the store is malformed: ${why}`, {
      cause: error,
    });
  }
}

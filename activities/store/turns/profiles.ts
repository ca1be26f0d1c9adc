/** Profiles: immutable snapshots by content hash, and which one of a name the next turn gets (W4). */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { RegisteredProfile, Registration } from '../../../workflows/contract/profiles.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { type ProfileSnapshot, profileSchema } from '../../../workflows/protocol/profile.ts';
import { type Reader, read, type StoreContext, type Tx, write } from '../context.ts';
import { prepared } from '../prepared.ts';
import { decoded, encodedText } from '../schema/json.ts';
import type { ProfileRow } from '../schema/rows.ts';

/** The name under which registrations go one after the other: each locks the heads of several profiles. */
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
  return write(ctx, PROFILES, async (tx) => {
    const outdated: string[] = [];
    for (const entry of snapshots) {
      const snapshot = encodedText(entry);
      const hash = hashOf(snapshot);
      const { name } = entry.profile;
      const [unseen] = await tx.db
        .insertInto('profiles')
        .values({ hash, name, snapshot, created_at: tx.now })
        .onConflict((conflict) => conflict.column('hash').doNothing())
        .returning('hash')
        .execute();
      await tx.db
        .insertInto('profile_heads')
        .values({ name, hash, revision, updated_at: tx.now })
        .onConflict((conflict) => {
          const move = conflict.column('name').doUpdateSet({ hash, revision, updated_at: tx.now });
          return takeOver ? move : move.where('profile_heads.revision', unseen ? '<=' : '<', revision);
        })
        .execute();
      const head = await selectProfileHead(tx, name).executeTakeFirst();
      if (head?.hash !== hash) outdated.push(name);
    }
    return outdated;
  });
}

/** Keeps a version that follows from another one, and that no turn gets by name. Idempotent by its content. */
export async function keepVersion({ db, now }: Tx, version: ProfileSnapshot): Promise<CurrentProfile> {
  const snapshot = encodedText(version);
  const hash = hashOf(snapshot);
  const { name } = version.profile;
  await db
    .insertInto('profiles')
    .values({ hash, name, snapshot, created_at: now })
    .onConflict((conflict) => conflict.column('hash').doNothing())
    .execute();
  return { hash, snapshot: version };
}

/** A query for the version of a name that new turns get. */
export const selectProfileHead = ({ db }: Reader, name: string) => headOf(db, { name });

const headOf = prepared((db, profile: { name: string }) =>
  db.selectFrom('profile_heads').select('hash').where('name', '=', profile.name),
);

/** The version of a profile that new turns get. */
export interface CurrentProfile {
  readonly hash: string;
  readonly snapshot: ProfileSnapshot;
}

/** The version of that name that new turns get; null when no app has registered it. Errors: `store_corrupt`. */
export const currentProfile = async (reader: Reader, name: string): Promise<CurrentProfile | null> =>
  profileAt(reader, await selectProfileHead(reader, name).executeTakeFirst());

/** The version that a row of `selectProfileHead` points to; null without a row. Errors: `profile_not_found`, `store_corrupt`. */
export const profileAt = async (
  reader: Reader,
  head: Pick<ProfileRow, 'hash'> | undefined,
): Promise<CurrentProfile | null> =>
  head ? { hash: head.hash, snapshot: await profileByHash(reader, head.hash) } : null;

/** The names of all profiles that apps have registered in this store. */
export const profileNames = async ({ db }: Reader): Promise<readonly string[]> =>
  (await db.selectFrom('profile_heads').select('name').orderBy('name').execute()).map(({ name }) => name);

/** The agents that apps have registered, by name. Errors: `store_corrupt`. */
export const listProfiles = (ctx: StoreContext): Promise<readonly RegisteredProfile[]> =>
  read(ctx, async (reader) => {
    const heads = await reader.db.selectFrom('profile_heads').select(['name', 'hash']).orderBy('name').execute();
    const found: RegisteredProfile[] = [];
    for (const { name, hash } of heads) {
      const { workerTarget, singleton } = (await profileByHash(reader, hash)).profile;
      found.push({ name, workerTarget, singleton, hash });
    }
    return found;
  });

/** Whether any worker has registered its app in this store yet. */
export const anyProfile = async ({ db }: Reader): Promise<boolean> =>
  (await db.selectFrom('profile_heads').select('name').limit(1).executeTakeFirst()) !== undefined;

/** Reads a version by its hash. Errors: `profile_not_found`, `store_corrupt`. */
export const readProfile = (ctx: StoreContext, hash: string): Promise<ProfileSnapshot> =>
  read(ctx, (reader) => profileByHash(reader, hash));

/**
 * A version by its hash, which always means the same snapshot: what was read once is not read again. Errors: `profile_not_found`,
 * `store_corrupt`.
 */
export async function profileByHash({ db, profiles }: Reader, hash: string): Promise<ProfileSnapshot> {
  const known = profiles.get(hash);
  if (known) return known;
  const row = await db.selectFrom('profiles').select('snapshot').where('hash', '=', hash).executeTakeFirst();
  if (!row) throw new CodedError('profile_not_found', `profile version ${hash} is not in the store`);
  const snapshot = readable(hash, row);
  profiles.set(hash, snapshot);
  return snapshot;
}

/** A snapshot is checked when it is read, for an error in it would show up in the middle of a turn. Errors: `store_corrupt`. */
function readable(hash: string, row: Pick<ProfileRow, 'snapshot'>): ProfileSnapshot {
  try {
    const snapshot = decoded(row.snapshot);
    return { ...snapshot, profile: profileSchema.parse(snapshot.profile) };
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : 'it is no JSON';
    throw new CodedError('store_corrupt', `profile version ${hash} in the store is malformed: ${why}`, {
      cause: error,
    });
  }
}

/** Profiles: versions of agent definitions, and which of them new turns get (W4). */
import type { ProfileSnapshot } from '../protocol/profile.ts';

/** How an app's definitions stand to those that were registered before. */
export interface Registration {
  /**
   * The revision of the app, which rises with each deployment; 0 when left out. A higher one than that of the version in use always counts,
   * the same one only for versions that the store has not seen, a lower one never.
   */
  readonly revision?: number;
  /** Makes these versions the ones in use whatever was registered before: for a process that has the store for itself. */
  readonly takeOver?: boolean;
}

/** An agent that an app has registered. */
export interface RegisteredProfile {
  readonly name: string;
  readonly workerTarget: string;
  /** Whether it has one agent, which all who ask for it share. */
  readonly singleton: boolean;
  /** Of the version that new turns get. */
  readonly hash: string;
}

/** The definitions of agents, each version by the hash of its content. */
export interface ProfileStore {
  /**
   * Keeps these versions, and makes each the one that new turns of its name get, where `registration` allows. Returns the names that stay
   * with another version. Idempotent by the content of each version.
   */
  registerProfiles(snapshots: readonly ProfileSnapshot[], registration?: Registration): Promise<readonly string[]>;
  /** The agents that apps have registered, and the worker target on which new turns of each run. Errors: `store_corrupt`. */
  listProfiles(): Promise<readonly RegisteredProfile[]>;
  /** Reads the version with that hash. Errors: `profile_not_found`; `store_corrupt` when the row cannot be read. */
  readProfile(hash: string): Promise<ProfileSnapshot>;
}

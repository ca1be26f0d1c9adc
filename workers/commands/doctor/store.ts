/** What `doctor` asks the store. */
import { isDeepStrictEqual } from 'node:util';
import type { App } from '../../../activities/app/app.ts';
import type { Store } from '../../../workflows/contract/store.ts';
import { storeNow } from '../../supervision/check-turn.ts';
import { type CheckResult, well, wrong } from './findings.ts';

/** A clock that is further off misleads whoever reads the log. */
const MOST_SKEW_MS = 5_000;
/** Workers that were all restarted, and a scheduled supervisor between two passes, are away for less. */
const MOST_UNSUPERVISED_MS = 120_000;

/** Whether the store answers. Errors: those of the store. */
export async function storeAnswer(store: Store): Promise<CheckResult> {
  await store.listAgents({ limit: 1 });
  const { where } = await store.identity();
  return well(`${where} opens and answers`);
}

/** Whether the clock of this machine agrees with that of the store. */
export function clockOf(store: Store): CheckResult {
  const aheadMs = store.clockAheadMs();
  const how = aheadMs > 0 ? 'behind' : 'ahead of';
  return Math.abs(aheadMs) <= MOST_SKEW_MS
    ? well("this machine's clock agrees with the store's")
    : wrong('clock_skew', `this machine's clock is ${Math.round(Math.abs(aheadMs) / 1_000)} s ${how} the store's`);
}

/** Whether a supervisor is active. Errors: those of the store. */
export async function supervisionOf(store: Store): Promise<CheckResult> {
  const until = await store.supervisedUntil();
  if (until === null) return wrong('no_supervisor', 'no supervisor was ever active on this store');
  const awayMs = storeNow(store) - until;
  return awayMs <= MOST_UNSUPERVISED_MS
    ? well('a supervisor is active')
    : wrong('no_supervisor', `no supervisor has been active for ${Math.round(awayMs / 1_000)} s`);
}

/** Whether new turns of the app's agents get the definitions that the app has. Errors: those of the store. */
export async function versionsOf({ agents }: App, store: Store): Promise<CheckResult> {
  const registered = new Map((await store.listProfiles()).map(({ name, hash }) => [name, hash]));
  const unknown = [...agents.keys()].filter((name) => !registered.has(name));
  if (unknown.length > 0)
    return wrong('agent_not_registered', `the store knows no agent ${unknown.join(', ')} of this app`);
  const outdated: string[] = [];
  for (const [name, ours] of agents) {
    const theirs = await store.readProfile(registered.get(name) ?? '');
    if (!isDeepStrictEqual(JSON.parse(JSON.stringify(ours)), JSON.parse(JSON.stringify(theirs)))) outdated.push(name);
  }
  return outdated.length === 0
    ? well('new turns get the definitions of this app')
    : wrong('agent_outdated', `new turns of ${outdated.join(', ')} get another definition than this app's`);
}

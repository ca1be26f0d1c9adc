/**
 * Which store a namespace belongs to. Workers of two stores on one namespace would take each other's turns, and look for them in the wrong
 * store; so the first worker marks the namespace with its store, and whoever has another store is refused.
 *
 * The mark is a paused Temporal Schedule that never starts anything: it is created once by whoever is first, and no retention removes it.
 */
import { type Client, ScheduleAlreadyRunning, ScheduleNotFoundError } from '@temporalio/client';
import type { StoreIdentity } from '../workflows/contract/views.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { CONTROL_QUEUE } from '../workflows/protocol/ids.ts';
import { commandLine } from './command-line.ts';

/** The id of the schedule that is the mark. */
export const STORE_MARK_ID = 'agentturn-store';

const SERVER_MS = 10_000;

/** The store that the namespace belongs to; null when it is not marked. Errors: those of the Temporal client. */
export async function storeOfNamespace(client: Client): Promise<StoreIdentity | null> {
  try {
    const describe = () => client.schedule.getHandle(STORE_MARK_ID).describe();
    const { memo } = await client.withDeadline(Date.now() + SERVER_MS, describe);
    const { storeId, where } = memo ?? {};
    return typeof storeId === 'string' ? { storeId, where: String(where) } : null;
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return null;
    throw error;
  }
}

/** Marks the namespace, unless it is marked. Errors: `store_mismatch` when it belongs to another store; those of the Temporal client. */
export async function claimNamespace(client: Client, ours: StoreIdentity): Promise<void> {
  if (refuseOther(client, ours, await storeOfNamespace(client))) return;
  try {
    await mark(client, ours);
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
    refuseOther(client, ours, await storeOfNamespace(client));
  }
}

/** Gives the namespace to this store, whatever it belonged to. Errors: those of the Temporal client. */
export async function takeNamespace(client: Client, ours: StoreIdentity): Promise<void> {
  if (await storeOfNamespace(client)) await client.schedule.getHandle(STORE_MARK_ID).delete();
  await mark(client, ours);
}

/** Whether the namespace belongs to this store; false when it belongs to none. Errors: `store_mismatch` when it belongs to another one. */
export function refuseOther(client: Client, ours: StoreIdentity, found: StoreIdentity | null): boolean {
  if (!found || found.storeId === ours.storeId) return found !== null;
  const { namespace } = client.options;
  throw new CodedError(
    'store_mismatch',
    `namespace ${namespace} belongs to the store ${found.where}, and this is ${ours.where}: name that store, or another namespace or ` +
      `server; "${commandLine('doctor --fix')}" gives the namespace to this store`,
  );
}

const mark = (client: Client, { storeId, where }: StoreIdentity): Promise<unknown> =>
  client.withDeadline(Date.now() + SERVER_MS, () =>
    client.schedule.create({
      scheduleId: STORE_MARK_ID,
      spec: {},
      action: { type: 'startWorkflow', workflowType: 'agent', taskQueue: CONTROL_QUEUE, args: [] },
      memo: { storeId, where },
      state: { paused: true, note: `This namespace belongs to the AgentTurn store ${where}. The schedule never runs.` },
    }),
  );

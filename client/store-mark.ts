/**
 * Which store a namespace belongs to. Workers of two stores on one namespace would take each other's turns, and look for them in the wrong
 * store; so the first worker marks the namespace with its store, and whoever has another store is refused.
 *
 * The mark is a paused Temporal Schedule that never starts anything: it is created once by whoever is first, and no retention removes it.
 */
import { type Client, isGrpcServiceError, ScheduleAlreadyRunning, ScheduleNotFoundError } from '@temporalio/client';
import type { StoreIdentity } from '../workflows/contract/views.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { CONTROL_QUEUE } from '../workflows/protocol/ids.ts';
import { commandLine } from './command-line.ts';
import { isOfTemporal, temporalFailure } from './connect.ts';

/** The id of the schedule that is the mark. */
export const STORE_MARK_ID = 'agentturn-store';

/** A worker that starts beside many others waits for a server that is slow to answer all of them. */
const SERVER_MS = 30_000;

/** The store that the namespace belongs to; null when it is not marked. Errors: `namespace_not_found`, `temporal_unreachable`. */
export async function storeOfNamespace(client: Client): Promise<StoreIdentity | null> {
  try {
    const { memo } = await ask(client, () => client.schedule.getHandle(STORE_MARK_ID).describe());
    const { storeId, where } = memo ?? {};
    return typeof storeId === 'string' ? { storeId, where: String(where) } : null;
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return null;
    throw error;
  }
}

/** Marks the namespace, unless it is marked. Errors: `store_mismatch` when it belongs to another store, `namespace_not_found`, `temporal_unreachable`. */
export async function claimNamespace(client: Client, ours: StoreIdentity): Promise<void> {
  if (refuseOther(client, ours, await storeOfNamespace(client))) return;
  try {
    await mark(client, ours);
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
    refuseOther(client, ours, await storeOfNamespace(client));
  }
}

/** Gives the namespace to this store, whatever it belonged to. Errors: `namespace_not_found`, `temporal_unreachable`. */
export async function takeNamespace(client: Client, ours: StoreIdentity): Promise<void> {
  if (await storeOfNamespace(client)) await ask(client, () => client.schedule.getHandle(STORE_MARK_ID).delete());
  await mark(client, ours);
}

/**
 * Whether the namespace belongs to this store; false when it belongs to none. `named` says whether somebody named the server, as opposed to one
 * that was found on this machine. Errors: `store_mismatch` when it belongs to another store.
 */
export function refuseOther(client: Client, ours: StoreIdentity, found: StoreIdentity | null, named = true): boolean {
  if (!found || found.storeId === ours.storeId) return found !== null;
  const { namespace } = client.options;
  const belongs = `namespace ${namespace} belongs to the store ${found.where}, and this is ${ours.where}`;
  if (!named)
    throw new CodedError(
      'store_mismatch',
      `the server of this store does not run, and of the one that was found, ${belongs}`,
      {
        cure: `Start the server of this store with "${commandLine('dev')}", or name it with --temporal or TEMPORAL_ADDRESS.`,
      },
    );
  throw new CodedError('store_mismatch', belongs, {
    cure:
      `Name the server of this store, another namespace, or the store that the namespace belongs to; where nothing works with that one any ` +
      `more, "${commandLine('doctor --fix')}" gives the namespace to this store.`,
  });
}

const mark = (client: Client, { storeId, where }: StoreIdentity): Promise<unknown> =>
  ask(client, () =>
    client.schedule.create({
      scheduleId: STORE_MARK_ID,
      spec: {},
      action: { type: 'startWorkflow', workflowType: 'agent', taskQueue: CONTROL_QUEUE, args: [] },
      memo: { storeId, where },
      state: { paused: true, note: `This namespace belongs to the AgentTurn store ${where}. The schedule never runs.` },
    }),
  );

async function ask<T>(client: Client, request: () => Promise<T>): Promise<T> {
  try {
    return await client.withDeadline(Date.now() + SERVER_MS, request);
  } catch (error) {
    if (!isOfTemporal(error)) throw error;
    const reason = isGrpcServiceError(error.cause) ? error.cause.details : error.message;
    const message = `the Temporal server did not say which store namespace ${client.options.namespace} belongs to (${reason})`;
    throw temporalFailure(error, client, message);
  }
}

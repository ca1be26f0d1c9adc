/**
 * Which Temporal server a client uses: the one that was named; else the dev server recorded in the data folder; else one on
 * 127.0.0.1:7233.
 */
import type { Client } from '@temporalio/client';
import { commandLine } from '../../client/command-line.ts';
import type { TemporalAddress } from '../../client/connect.ts';
import { refuseOther, storeOfNamespace } from '../../client/store-mark.ts';
import type { ReadStore } from '../../workflows/contract/views.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { answersTcp, probeTemporal } from '../temporal/probe.ts';
import { readServerRecord } from '../temporal/server-record.ts';
import type { Settings } from './settings.ts';

/** The port at which a Temporal server is looked for where none is named. */
export const PREFERRED_PORT = 7233;
/** How long a server may take to answer on a busy machine, ms; a port where nothing runs refuses at once. */
export const PROBE_MS = 10_000;

/**
 * The server for clients and for `worker`, which start none; whether it has the namespace, and is this store's, is for whoever uses it. Throws
 * `temporal_unreachable` when none is named and none answers.
 */
export async function locateTemporal({ temporal, dataDir, namespace }: Settings): Promise<TemporalAddress> {
  if (temporal) return temporal;
  const ports = [readServerRecord(dataDir)?.port, PREFERRED_PORT];
  for (const port of ports) {
    if (port !== undefined && (await answers(port, namespace))) return { address: `127.0.0.1:${port}`, namespace };
  }
  throw new CodedError(
    'temporal_unreachable',
    `no Temporal server is named, ${dataDir} records none that runs, and none answers at 127.0.0.1:${PREFERRED_PORT}`,
    { cure: `Start one with "${commandLine('dev')}", or set TEMPORAL_ADDRESS.` },
  );
}

async function answers(port: number, namespace: string): Promise<boolean> {
  if (!(await answersTcp(port))) return false;
  const probe = await probeTemporal(`127.0.0.1:${port}`, namespace, PROBE_MS);
  return probe.healthy || probe.kind === 'no_namespace';
}

/**
 * Refuses a server that was found, or named, and belongs to another store: what it says of turns is not about ours. Errors: `store_mismatch`,
 * `namespace_not_found`, those of the Temporal client.
 */
export async function refuseOthers(
  client: Client,
  store: Pick<ReadStore, 'identity'>,
  { temporal }: Pick<Settings, 'temporal'>,
): Promise<void> {
  refuseOther(client, await store.identity(), await storeOfNamespace(client), temporal !== undefined);
}

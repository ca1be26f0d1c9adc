/** What `doctor` asks the Temporal server. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isGrpcServiceError } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { noNamespace, type TemporalClient } from '../../../client/connect.ts';
import { queueFacts } from '../../../client/queue-facts.ts';
import { refuseOther, storeOfNamespace, takeNamespace } from '../../../client/store-mark.ts';
import type { ReadStore } from '../../../workflows/contract/views.ts';
import { SEARCH_ATTRIBUTES } from '../../../workflows/protocol/ids.ts';
import { ensureSearchAttributes, missingSearchAttributes } from '../../temporal/search-attributes.ts';
import { type CheckResult, unchecked, well, wrong } from './findings.ts';

const SERVER_MS = 10_000;
const GRPC_NOT_FOUND = 5;
const GRPC_PERMISSION_DENIED = 7;
/** How long closed workflows stay in a namespace that doctor makes. */
const RETENTION_MS = 7 * 24 * 3_600_000;
/** How long a server with several frontends may take to know a new namespace. */
const KNOWN_MS = 30_000;
const POLL_MS = 200;

/** Which server it is. Errors: those of the Temporal client. */
export async function serverOf({ connection, at }: TemporalClient): Promise<CheckResult> {
  const { serverVersion } = await connection.withDeadline(Date.now() + SERVER_MS, () =>
    connection.workflowService.getSystemInfo({}),
  );
  return well(`${at.address} answers: Temporal ${serverVersion || 'of an unknown version'}`);
}

/** Whether the namespace is there; with `fix` it is made. Errors: `namespace_not_found`, those of the Temporal client. */
export async function namespaceOf(temporal: TemporalClient, fix: boolean): Promise<CheckResult> {
  const { namespace } = temporal.at;
  if (await isThere(temporal)) return well(`namespace ${namespace} is there`);
  if (!fix) throw noNamespace(namespace, ` at ${temporal.at.address}`);
  await temporal.connection.withDeadline(Date.now() + SERVER_MS, () =>
    temporal.connection.workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: msToTs(RETENTION_MS),
    }),
  );
  await untilKnown(temporal);
  return well(`namespace ${namespace} is made, and keeps closed workflows for seven days`);
}

/** A server that was asked for the namespace before may go on to say for some seconds that there is none. Errors: those of the server. */
async function untilKnown({ connection, at: { namespace } }: TemporalClient): Promise<void> {
  const { workflowService, operatorService } = connection;
  const deadline = Date.now() + KNOWN_MS;
  for (;;) {
    try {
      await connection.withDeadline(deadline, async () => {
        await workflowService.countWorkflowExecutions({ namespace });
        await operatorService.listSearchAttributes({ namespace });
      });
      return;
    } catch (error) {
      if (grpcCode(error) !== GRPC_NOT_FOUND || Date.now() >= deadline) throw error;
      await sleep(POLL_MS);
    }
  }
}

async function isThere({ connection, at: { namespace } }: TemporalClient): Promise<boolean> {
  try {
    await connection.withDeadline(Date.now() + SERVER_MS, () =>
      connection.workflowService.describeNamespace({ namespace }),
    );
    return true;
  } catch (error) {
    const code = grpcCode(error);
    // A key may be allowed to run workflows in a namespace and yet not to describe it.
    if (code === GRPC_PERMISSION_DENIED) return true;
    if (code === GRPC_NOT_FOUND) return false;
    throw error;
  }
}

/** Whether the namespace has the search attributes; with `fix` they are made. Errors: `temporal_not_ready`. */
export async function attributesOf({ connection, at }: TemporalClient, fix: boolean): Promise<CheckResult> {
  if (fix) await ensureSearchAttributes(connection, at.namespace, SEARCH_ATTRIBUTES);
  const missing = await missingSearchAttributes(connection, at.namespace, SEARCH_ATTRIBUTES);
  return missing.length === 0
    ? well('the namespace has the search attributes of turns')
    : wrong('attributes_missing', `the namespace lacks the search attributes ${missing.join(', ')}`);
}

/** Whether the namespace belongs to this store; with `fix` it is given to it. `named`: as for `refuseOther`. Errors: `store_mismatch`. */
export async function ownerOf(
  { client }: TemporalClient,
  store: Pick<ReadStore, 'identity'>,
  { fix, named }: { readonly fix: boolean; readonly named: boolean },
): Promise<CheckResult> {
  const ours = await store.identity();
  const found = await storeOfNamespace(client);
  if (fix && found?.storeId !== ours.storeId) await takeNamespace(client, ours);
  else if (!refuseOther(client, ours, found, named))
    return unchecked('the namespace belongs to no store yet: the first worker gives it to its own');
  return well('the namespace belongs to this store');
}

/** Whether somebody serves a worker target. Errors: those of the Temporal client. */
export async function serviceOf({ client }: TemporalClient, target: string): Promise<CheckResult> {
  const { hasPollers } = await client.withDeadline(Date.now() + SERVER_MS, () => queueFacts(client, target));
  return hasPollers
    ? well(`target ${target} is served`)
    : wrong('target_not_served', `no worker serves target ${target}`);
}

const grpcCode = (error: unknown): number | undefined => (isGrpcServiceError(error) ? error.code : undefined);

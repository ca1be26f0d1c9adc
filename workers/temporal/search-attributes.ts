/**
 * The search attributes that agents need in a namespace: which are missing, and registering them.
 *
 * Invariants
 * 1. `temporal server start-dev --search-attribute` registers them only in a namespace that it creates, so on existing data this file is
 *    the only way a new one gets in.
 * 2. An attribute never changes its type: a clash is an error, not an update.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Connection, isGrpcServiceError } from '@temporalio/client';
import { noNamespace } from '../../client/connect.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { reasonOf } from './probe.ts';

/** The names of search attributes with their types. */
export type SearchAttributes = Readonly<Record<string, 'Keyword' | 'Int'>>;

/** The values of temporal.api.enums.v1.IndexedValueType. */
const INDEXED_VALUE_TYPE = { Keyword: 2, Int: 3 } as const;
const GRPC_NOT_FOUND = 5;
const CALL_MS = 10_000;
const USABLE_MS = 15_000;
const POLL_MS = 50;

/**
 * The names that are not registered, in the order given. Throws `namespace_not_found`, and `temporal_not_ready`, also when one is registered with
 * another type.
 */
export async function missingSearchAttributes(
  connection: Connection,
  namespace: string,
  attributes: SearchAttributes,
): Promise<string[]> {
  const { operatorService } = connection;
  const { customAttributes } = await connection
    .withDeadline(Date.now() + CALL_MS, () => operatorService.listSearchAttributes({ namespace }))
    .catch((error: unknown) => {
      if (isGrpcServiceError(error) && error.code === GRPC_NOT_FOUND) throw noNamespace(namespace, '', error);
      throw notReady(`Cannot list the search attributes of namespace ${namespace}`, namespace, attributes, error);
    });
  const names = Object.keys(attributes);
  for (const name of names) {
    const registered = customAttributes?.[name];
    const wanted = attributes[name];
    if (registered === undefined || wanted === undefined || registered === INDEXED_VALUE_TYPE[wanted]) continue;
    throw new CodedError(
      'temporal_not_ready',
      `Search attribute ${name} of namespace ${namespace} must be ${wanted} but is registered with another type ` +
        `(IndexedValueType ${registered}), and a type cannot be changed. Use another namespace, or a new data folder.`,
    );
  }
  return names.filter((name) => customAttributes?.[name] === undefined);
}

/**
 * Registers what is missing, and returns those names once the namespace accepts all of the attributes, also those that another process has
 * registered a moment ago. Throws `temporal_not_ready`, with the command to run by hand.
 */
export async function ensureSearchAttributes(
  connection: Connection,
  namespace: string,
  attributes: SearchAttributes,
): Promise<string[]> {
  const missing = await missingSearchAttributes(connection, namespace, attributes);
  if (missing.length > 0) {
    const wanted = missing.map((name) => [name, attributes[name] ?? 'Keyword'] as const);
    await register(connection, namespace, Object.fromEntries(wanted));
  }
  await untilUsable(connection, namespace, attributes);
  return missing;
}

async function register(connection: Connection, namespace: string, wanted: SearchAttributes): Promise<void> {
  const searchAttributes = Object.fromEntries(
    Object.entries(wanted).map(([name, type]) => [name, INDEXED_VALUE_TYPE[type]]),
  );
  const { operatorService } = connection;
  try {
    await connection.withDeadline(Date.now() + CALL_MS, () =>
      operatorService.addSearchAttributes({ namespace, searchAttributes }),
    );
  } catch (error) {
    // Another process may have registered the same ones between the list and now; then all is well.
    const left = await missingSearchAttributes(connection, namespace, wanted);
    if (left.length > 0) {
      throw notReady(`Cannot register ${left.join(', ')} in namespace ${namespace}`, namespace, wanted, error);
    }
  }
}

/**
 * Waits until workflows may be started with the attributes: a server knows new ones when it reads its namespaces again, a dev server of ours
 * within two seconds. A query is refused for the same reason as a workflow start (the namespace has no mapping yet) but leaves
 * nothing behind.
 */
async function untilUsable(connection: Connection, namespace: string, attributes: SearchAttributes): Promise<void> {
  const query = Object.keys(attributes)
    .map((name) => `${name} IS NOT NULL`)
    .join(' AND ');
  const { workflowService } = connection;
  const deadline = Date.now() + USABLE_MS;
  for (;;) {
    try {
      await connection.withDeadline(deadline, () => workflowService.countWorkflowExecutions({ namespace, query }));
      return;
    } catch (error) {
      if (Date.now() >= deadline) {
        const what = `Namespace ${namespace} refuses its search attributes after ${USABLE_MS / 1000} s`;
        throw notReady(what, namespace, attributes, error);
      }
      await sleep(POLL_MS);
    }
  }
}

function notReady(what: string, namespace: string, attributes: SearchAttributes, cause: unknown): CodedError {
  const flags = Object.entries(attributes).map(([name, type]) => `--name ${name} --type ${type}`);
  const command = `temporal operator search-attribute create --namespace ${namespace} ${flags.join(' ')}`;
  return new CodedError('temporal_not_ready', `${what}: ${reasonOf(cause)}. Register them by hand: ${command}`, {
    cause,
  });
}

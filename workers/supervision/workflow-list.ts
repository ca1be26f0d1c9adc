/**
 * Calls to the Temporal server that end when their caller does, and the server's list of workflows read by them.
 *
 * Invariant: nothing of a call is kept when it is over, however long its caller lives.
 */
import { type Client, ServiceError } from '@temporalio/client';
import { optionalTsToMs } from '@temporalio/common/lib/time.js';

/** Who calls the server. */
export interface ServerCaller {
  readonly temporal: Client;
  /** Fires when the caller ends. */
  readonly ended: AbortSignal;
}

/** A workflow as the list of workflows shows it. */
export interface ListedWorkflow {
  readonly workflowId: string;
  readonly runId: string;
  /** When its run ended, epoch ms of the server; null while it runs. */
  readonly closedAt: number | null;
}

const PAGE = 1_000;

/** Makes one call, which is given up when the caller ends. Throws the errors of the call, and the reason of `ended` when that has fired. */
export async function callUntilEnded<T>({ temporal, ended }: ServerCaller, call: () => Promise<T>): Promise<T> {
  ended.throwIfAborted();
  // The client never takes its listener off a signal, and with it keeps the call and its answer: each call gets a signal of its own.
  const own = new AbortController();
  const abort = () => own.abort(ended.reason);
  ended.addEventListener('abort', abort, { once: true });
  try {
    return await temporal.withAbortSignal(own.signal, call);
  } catch (error) {
    ended.throwIfAborted();
    throw error;
  } finally {
    ended.removeEventListener('abort', abort);
  }
}

function notListed(error: unknown): never {
  const cause = error instanceof Error ? error : new Error(String(error));
  throw new ServiceError(`the server did not list workflows: ${cause.message}`, { cause });
}

/** The workflows that match the query, those that closed last first, read page by page. Throws `ServiceError`, and the reason of `ended` when that has fired. */
export async function* listWorkflows(
  caller: ServerCaller,
  query: string,
  pageSize = PAGE,
): AsyncGenerator<ListedWorkflow, void> {
  const { workflowService, options } = caller.temporal;
  let nextPageToken: Uint8Array = new Uint8Array();
  do {
    const request = { namespace: options.namespace, query, pageSize, nextPageToken };
    const page = await callUntilEnded(caller, () => workflowService.listWorkflowExecutions(request).catch(notListed));
    for (const { execution, closeTime } of page.executions)
      yield {
        workflowId: execution?.workflowId ?? '',
        runId: execution?.runId ?? '',
        closedAt: optionalTsToMs(closeTime) ?? null,
      };
    nextPageToken = page.nextPageToken;
  } while (nextPageToken.length > 0);
}

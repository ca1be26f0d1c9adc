/** What the lists of workflows make of times that a clock which was ahead has written (T7, T29). */
import { beforeEach, expect, jest, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { ClosedWorkflows, type ListingDeps, RunningWorkflows } from '../../../workers/supervision/listing.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';

const DAY = 24 * 60 * 60_000;
const MINUTE = 60_000;
const START = 1_800_000_000_000;

/** How long the process has run, and what the clock of its machine shows. */
let [ran, wall] = [0, START];
beforeEach(() => {
  [ran, wall] = [1_000, START];
  jest.spyOn(performance, 'now').mockImplementation(() => ran);
  jest.spyOn(Date, 'now').mockImplementation(() => wall);
});
const pass = (ms: number): void => {
  [ran, wall] = [ran + ms, wall + ms];
};

/** A server with one workflow, of a turn that ended at `endedAt`; it notes what it is asked. */
function serverWith(endedAt: number, openTurns = 0, closedAt = START) {
  const [queries, closed]: [string[], string[]] = [[], []];
  const workflowId = turnWorkflowId('a', '01890a5d-ac96-774b-bcce-b302099a8057');
  const listed = { execution: { workflowId, runId: 'r' }, closeTime: msToTs(closedAt) };
  const executions = [listed];
  const temporal = {
    options: { namespace: 'n' },
    withAbortSignal: (_: AbortSignal, call: () => Promise<unknown>) => call(),
    withDeadline: (_: number, call: () => Promise<unknown>) => call(),
    workflow: {
      count: async () => ({ count: 1 }),
      getHandle: (id: string) => ({ terminate: async () => void closed.push(id) }),
    },
    workflowService: {
      listWorkflowExecutions: async ({ query }: { query: string }) => {
        queries.push(query);
        return { executions, nextPageToken: new Uint8Array() };
      },
    },
  };
  const store = {
    clockAheadMs: () => 0,
    countOpenTurns: async () => openTurns,
    listOpenTurns: async () => [],
    makeDue: async () => 0,
    getTurn: async (agentTurnId: string) => ({ agentTurnId, endedAt }),
  };
  const deps: ListingDeps = {
    store: store as unknown as ListingDeps['store'],
    temporal: temporal as unknown as Client,
    ended: new AbortController().signal,
  };
  return { deps, queries, closed, executions };
}

test('a leftover workflow of a turn that ended by a clock which was ahead is closed a while after it was first seen (T29)', async () => {
  const { deps, closed } = serverWith(START + DAY);
  const running = new RunningWorkflows(deps, 0, MINUTE);
  await running.compare();
  pass(MINUTE - 1);
  await running.compare();
  expect(closed).toEqual([]);
  pass(3_000);
  await running.compare();
  expect(closed).toHaveLength(1);
});

test('a leftover workflow of a turn that ended by the same clock is closed a while after that (T29)', async () => {
  const { deps, closed } = serverWith(START - MINUTE + 10_000);
  const running = new RunningWorkflows(deps, 0, MINUTE);
  await running.compare();
  expect(closed).toEqual([]);
  pass(10_000);
  await running.compare();
  expect(closed).toHaveLength(1);
});

test('the lists are compared again after their pause, though the clock was set back meanwhile (T29)', async () => {
  const { deps, queries } = serverWith(START, 2);
  const running = new RunningWorkflows(deps);
  await running.compare();
  await running.compare();
  expect(queries).toHaveLength(1);
  pass(3_000);
  wall -= DAY;
  await running.compare();
  expect(queries).toHaveLength(2);
});

const since = (time: number) => `CloseTime >= '${new Date(time - 10 * MINUTE).toISOString()}'`;

test('what closed is listed from now on, where it was listed by a clock that was ahead up to a time that is still to come (T7)', async () => {
  const { deps, queries } = serverWith(START);
  await new ClosedWorkflows(deps).list(START + DAY);
  expect(queries[0]).toContain(since(START));
});

test.each([
  ['an hour ahead', 60 * MINUTE],
  ['right', 0],
])("what closed is listed by the server's times, by a machine whose clock is %s (T7)", async (_, aheadMs) => {
  wall += aheadMs;
  const { deps, queries } = serverWith(START, 0, START - MINUTE);
  const closed = new ClosedWorkflows(deps);
  // What closed last says what time it is there.
  const first = await closed.list(null);
  expect(first).toBe(START - MINUTE);
  expect(queries.at(-1)).toContain(since(START - MINUTE));
  // It is later there by what has passed here, though nothing more closes.
  pass(30 * MINUTE);
  expect(await closed.list(first)).toBe(START + 29 * MINUTE);
  expect(queries.at(-1)).toContain(since(START + 29 * MINUTE));
  expect(queries).toHaveLength(3);
  // Another process goes on from there.
  await new ClosedWorkflows(deps).list(START + 29 * MINUTE);
  expect(queries.at(-1)).toContain(since(START + 29 * MINUTE));
});

test('where nothing has closed yet, what closes first says what time it is (T7)', async () => {
  const { deps, queries, executions } = serverWith(START);
  const closed = new ClosedWorkflows(deps);
  const [first] = executions.splice(0);
  expect(await closed.list(await closed.list(null))).toBe(0);
  if (first) executions.push(first);
  expect(await closed.list(0)).toBe(START);
  expect(queries.at(-1)).toContain(since(START));
});

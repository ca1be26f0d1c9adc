/** The sweeper on a real server: it wakes the mailbox that is gone, leaves the others alone, and does not ask for each of them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { v7 } from 'uuid';
import { ringMailbox } from '../../client/doorbell.ts';
import { startSweeper } from '../../workers/sweeper.ts';
import { agentWorkflowId } from '../../workflows/protocol/ids.ts';
import { testApp } from '../support/app.ts';
import { type Harness, openHarness } from '../support/harness.ts';

let harness: Harness;

beforeAll(async () => {
  harness = await openHarness();
  await harness.store.registerProfiles([...testApp([]).agents.values()]);
});
afterAll(async () => harness?.close());

/** Leased in the store and open in Temporal; no worker does anything about it. */
async function heldMailbox(): Promise<string> {
  const agentId = `agent-${v7()}`;
  const request = { instruction: 'go', profile: 'tester', priority: 'normal' } as const;
  await harness.store.accept({ agentId, request });
  await harness.store.leaseNext(agentId);
  await ringMailbox(harness.temporal.client, agentId);
  return agentId;
}

const describeMailbox = (agentId: string) =>
  harness.temporal.client.workflow.getHandle(agentWorkflowId(agentId)).describe();

const listed = async () => (await harness.temporal.client.workflow.count("ExecutionStatus = 'Running'")).count;

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(100);
}

test('of many mailboxes with an open turn only the one that is gone gets a bell (T3)', async () => {
  const [gone = '', ...others] = await Promise.all(Array.from({ length: 12 }, heldMailbox));
  await until(async () => (await listed()) === 12);
  await harness.temporal.client.workflow.getHandle(agentWorkflowId(gone)).terminate();
  await until(async () => (await listed()) === 11);
  const lengths = async () => (await Promise.all(others.map(describeMailbox))).map((mailbox) => mailbox.historyLength);
  const before = await lengths();

  const looks = jest.spyOn(harness.temporal.client.workflow, 'getHandle');
  const errors: unknown[] = [];
  const { store, temporal } = harness;
  const onError = (error: unknown) => errors.push(error);
  const stop = startSweeper({ store, temporal: temporal.client, everyMs: 100, olderThanMs: 50, onError });
  await until(async () => (await listed()) === 12);
  await stop();
  const asked = new Set(looks.mock.calls.map(([workflowId]) => workflowId));
  looks.mockRestore();

  expect(errors).toEqual([]);
  expect([...asked]).toEqual([agentWorkflowId(gone)]);
  expect((await describeMailbox(gone)).status.name).toBe('RUNNING');
  expect(await lengths()).toEqual(before);
}, 60_000);

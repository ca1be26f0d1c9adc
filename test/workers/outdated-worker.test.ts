/** Workers of several versions of an app at one store: what new turns get, and what a worker says that is behind (W4). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { App } from '../../activities/app/app.ts';
import type { WorkerDeps } from '../../workers/worker.ts';
import { enqueueRequestSchema } from '../../workflows/protocol/enqueue.ts';
import { testApp } from '../support/app.ts';
import { type Harness, openHarness } from '../support/harness.ts';

let harness: Harness;

beforeAll(async () => {
  harness = await openHarness();
});
afterAll(() => harness.close());

const saying = (instructions: string): App => testApp([], { instructions });

/** Starts a worker and stops it; returns what it said. */
async function started(app: App, more: Partial<WorkerDeps> = {}): Promise<readonly string[]> {
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const nobody = { url: 'http://127.0.0.1:9/v1' };
  const worker = await harness.startWorker(app, nobody, { supervisor: null, log, ...more });
  await worker.stop();
  return lines;
}

async function instructionsOf(agentId: string): Promise<string> {
  const request = enqueueRequestSchema.parse({ instruction: 'go', profile: 'tester' });
  const outcome = await harness.store.accept({ agentId, request });
  const hash = outcome.kind === 'accepted' ? outcome.lease?.profileHash : undefined;
  return (await harness.store.readProfile(hash ?? '')).profile.instructions;
}

test('a worker of an old version that starts again sets nothing back, and says so, unless it takes over (W4)', async () => {
  expect(await started(saying('old'))).toEqual([]);
  expect(await started(saying('new'))).toEqual([]);
  expect(await started(saying('old'))).toEqual([
    expect.stringMatching(/new turns of tester get a newer definition .* raise "revision"/),
  ]);
  expect(await instructionsOf('a')).toBe('new');
  expect(await started(saying('old'), { takeOver: true })).toEqual([]);
  expect(await instructionsOf('b')).toBe('old');
  expect(await started({ ...saying('new'), revision: 7 })).toEqual([]);
  expect(await instructionsOf('c')).toBe('new');
});

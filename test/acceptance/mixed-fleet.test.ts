/** A fleet in the middle of a deployment: two releases, whose kernels are not the same, serve the same turns. */
import { cpSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { startScriptedModel } from '../../workers/model-server/scripted.ts';
import { KERNEL_VERSION } from '../../workflows/kernel/version.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { calls, say, taskEvents } from '../support/asking.ts';
import { openHarness, testBundlePath } from '../support/harness.ts';
import { whatWasDone } from '../support/holding-app.ts';
import { type Release, startWorkerProcess, type WorkerProcess } from '../support/processes.ts';
import { WAIT } from '../support/wait.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const OTHER_VERSION = 'f'.repeat(KERNEL_VERSION.length);
const TURNS = 40;

/** The sources with another version of the kernel, in a folder of their own. */
function otherRelease(): Release {
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-release-'));
  for (const part of ['workflows', 'activities', 'workers', 'client', 'test/support', 'package.json'])
    cpSync(join(ROOT, part), join(folder, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const other = (from: string, to: string): string => {
    const text = readFileSync(from, 'utf8');
    expect(text).toContain(KERNEL_VERSION);
    writeFileSync(to, text.replaceAll(KERNEL_VERSION, OTHER_VERSION));
    return to;
  };
  const version = join(folder, 'workflows/kernel/version.ts');
  other(version, version);
  const bundlePath = other(testBundlePath(), join(folder, 'workflow-bundle.js'));
  return { program: join(folder, 'test/support/worker-process.ts'), bundlePath };
}

test('no turn fails while workers of two kernels serve it: what the kernels might not agree on is done step by step (W4, W10)', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-fleet-'));
  const harness = await openHarness('sqlite');
  const model = await startScriptedModel({
    scripts: { work: [calls('look', 'count_again', 'count'), calls('count'), say('done')] },
  });
  const workers: WorkerProcess[] = [];
  try {
    // With few places for activities, so that one worker takes those of the other's turns.
    const capacity = { activities: 2 };
    const releases = [{}, { release: otherRelease() }];
    workers.push(
      ...(await Promise.all(releases.map((one) => startWorkerProcess(harness, model.url, dir, { capacity, ...one })))),
    );
    const request = { instruction: '[script:work] go', profile: 'bursting' };
    const turns = await Promise.all(
      Array.from({ length: TURNS }, () => harness.client.agent(`agent-${v7()}`).enqueue(request)),
    );
    const scheduled: string[][] = [];
    for (const turn of turns) {
      const { status, turnEpoch, agentId, steps } = await turn.result(WAIT);
      expect([status, turnEpoch, steps.length]).toEqual(['success', 1, 3]);
      expect(await taskEvents(harness.store, turn)).toHaveLength(1);
      const { events } = await harness.temporal.client.workflow
        .getHandle(turnWorkflowId(agentId, turn.id))
        .fetchHistory();
      scheduled.push(
        (events ?? []).flatMap((event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? []),
      );
    }
    expect(whatWasDone(dir)).toHaveLength(4 * TURNS);
    const inOneBurst = scheduled.filter((names) => names.join() === 'runSteps');
    const apart = scheduled.filter((names) => names.includes('callModel'));
    expect(inOneBurst.length).toBeGreaterThan(0);
    expect(apart.length).toBeGreaterThan(0);
    expect(await harness.store.violations()).toEqual([]);
  } finally {
    await Promise.all(workers.map((worker) => worker.end('SIGKILL')));
    await harness.close();
    await model.close();
  }
});

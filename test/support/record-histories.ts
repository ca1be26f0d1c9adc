/**
 * `node test/support/record-histories.ts [name ...]`: runs every shape of turn (test/histories/shapes.ts) on a real server and keeps its
 * closed history in test/histories/NAME.json, for test/architecture/replay.test.ts. Without names it records them all anew.
 *
 * Ids come from agent and idempotency key, so a new recording differs from the last only in times and run ids.
 */
import { readdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { startScriptedModel } from '../../workers/model-server/scripted.ts';
import { Recorder } from '../histories/recorder.ts';
import { app, OTHERS, TURNS } from '../histories/shapes.ts';
import setUp from './global-setup.ts';
import tearDown from './global-teardown.ts';
import { openHarness } from './harness.ts';

const HISTORIES = fileURLToPath(new URL('../histories/', import.meta.url));

async function record(names: readonly string[]): Promise<void> {
  const harness = await openHarness();
  const scripts = Object.fromEntries(Object.entries(TURNS).map(([name, { script }]) => [name, script]));
  const model = await startScriptedModel({
    scripts,
    // Asked for a summary, which is no conversation of a script.
    default: () => ({ kind: 'message', content: 'what came before, in short' }),
  });
  try {
    const recorder = new Recorder(harness, app, model);
    await recorder.startWorker();
    for (const name of names) {
      const [shape, other] = [TURNS[name], OTHERS[name]];
      if (shape) await recorder.save(name, await recorder.turn(name, shape));
      if (other) await recorder.save(name, await other(recorder, name));
    }
    if (model.failures.length > 0) throw new Error(model.failures.join('\n'));
  } finally {
    await harness.close();
    await model.close();
  }
}

async function main(asked: readonly string[]): Promise<void> {
  const known = [...Object.keys(TURNS), ...Object.keys(OTHERS)];
  const unknown = asked.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`no such shape: ${unknown.join(', ')}; there are ${known.join(', ')}`);
  await setUp();
  try {
    await record(asked.length > 0 ? asked : known);
  } finally {
    await tearDown();
  }
  const stale = readdirSync(HISTORIES).filter((file) => file.endsWith('.json') && !known.includes(file.slice(0, -5)));
  for (const file of stale) rmSync(`${HISTORIES}${file}`);
}

await main(process.argv.slice(2));

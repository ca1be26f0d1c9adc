/**
 * `node test/support/record-histories.ts [name ...]`: runs every shape of turn (test/histories/shapes.ts) on a real server and keeps its
 * closed history in test/histories/NAME.json, for test/architecture/replay.test.ts. Without names it records them all anew.
 *
 * Ids come from agent and idempotency key, so a new recording differs from the last only in times and run ids.
 */
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import type { EnqueueInput } from '../../workflows/protocol/enqueue.ts';
import { agentWorkflowId, CONTROL_QUEUE, turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { app, type Closed, OTHERS, TURNS, type TurnShape } from '../histories/shapes.ts';
import { signalAcceptor } from './acceptor.ts';
import setUp from './global-setup.ts';
import tearDown from './global-teardown.ts';
import { type Harness, openHarness } from './harness.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const HISTORIES = fileURLToPath(new URL('../histories/', import.meta.url));
const WAIT = { timeoutMs: 120_000 };
const CLOSED = /^EVENT_TYPE_WORKFLOW_EXECUTION_(COMPLETED|FAILED|TERMINATED|CONTINUED_AS_NEW)$/;

export class Recorder {
  readonly harness: Harness;
  readonly #model: ScriptedServer;

  constructor(harness: Harness, model: ScriptedServer) {
    this.harness = harness;
    this.#model = model;
  }

  async startWorker(): Promise<void> {
    await this.harness.startWorker(app, this.#model);
  }

  enqueue(agentId: string, script: string, idempotencyKey: string, more: Partial<EnqueueInput> = {}) {
    const instruction = `[script:${script}] Go.`;
    return this.harness.client.agent(agentId).enqueue({ instruction, profile: 'tester', idempotencyKey, ...more });
  }

  /** As a foreign client does it. */
  async signalAcceptor(agentId: string, body: unknown): Promise<void> {
    await signalAcceptor(this.harness.temporal.client, agentId, body);
  }

  /** Without any request. */
  async startAcceptor(agentId: string): Promise<void> {
    const workflowId = agentWorkflowId(agentId);
    await this.harness.temporal.client.workflow.start('agent', { workflowId, taskQueue: CONTROL_QUEUE });
  }

  async turn(name: string, { request, expected = 'success', meanwhile }: TurnShape): Promise<Closed> {
    const turn = await this.enqueue(name, name, 'turn', request);
    const workflowId = turnWorkflowId(name, turn.id);
    await meanwhile?.(turn, this, workflowId);
    const { status, reason } = await turn.result(WAIT);
    if (status !== expected) throw new Error(`${name} ended ${status}, not ${expected}: ${reason}`);
    return { workflowId };
  }

  async save(name: string, { workflowId, runId }: Closed): Promise<void> {
    const { workflow } = this.harness.temporal.client;
    const handle = workflow.getHandle(workflowId, runId, { followRuns: false });
    // Waits for the end, whichever it is.
    await handle.result().catch(() => {});
    const history = await handle.fetchHistory();
    const { events } = JSON.parse(withoutPlace(historyToJSON(history))) as { events: { eventType: string }[] };
    const end = events.at(-1)?.eventType ?? '';
    if (!CLOSED.test(end)) throw new Error(`${name} is not closed, its last event is ${end}`);
    const text = `{"events":[\n${events.map((event) => JSON.stringify(event)).join(',\n')}\n]}\n`;
    writeFileSync(`${HISTORIES}${name}.json`, text);
    console.log(`${name}: ${events.length} events, ${Math.round(text.length / 1024)} KiB`);
  }
}

/** Nothing of the machine it was recorded on. */
const withoutPlace = (json: string): string =>
  json
    .replaceAll(`file://${ROOT}`, '')
    .replaceAll(ROOT, '')
    // Worker identities, which also name their sticky queues.
    .replace(/\b\d+@[\w.-]+/g, 'recorder');

async function record(names: readonly string[]): Promise<void> {
  const harness = await openHarness();
  const scripts = Object.fromEntries(Object.entries(TURNS).map(([name, { script }]) => [name, script]));
  const model = await startScriptedModel({
    scripts,
    // Asked for a summary, which is no conversation of a script.
    default: () => ({ kind: 'message', content: 'what came before, in short' }),
  });
  try {
    const recorder = new Recorder(harness, model);
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

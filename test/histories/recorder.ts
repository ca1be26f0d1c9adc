/** What records the history of one shape on a real server. */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import type { App } from '../../activities/app/app.ts';
import type { TurnHandle } from '../../client/api.ts';
import type { Script, ScriptedServer } from '../../workers/model-server/scripted.ts';
import type { EnqueueInput } from '../../workflows/protocol/enqueue.ts';
import { agentWorkflowId, CONTROL_QUEUE, turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { signalAcceptor } from '../support/acceptor.ts';
import type { Harness } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const HISTORIES = fileURLToPath(new URL('.', import.meta.url));
const CLOSED = /^EVENT_TYPE_WORKFLOW_EXECUTION_(COMPLETED|FAILED|CANCELED|TERMINATED|CONTINUED_AS_NEW)$/;

export interface TurnShape {
  readonly script: Script;
  readonly request?: Partial<EnqueueInput>;
  readonly expected?: string;
  /** Runs beside the turn: what reaches it from outside. */
  readonly meanwhile?: (turn: TurnHandle, recorder: Recorder, workflowId: string) => Promise<unknown>;
}

export interface Closed {
  readonly workflowId: string;
  readonly runId?: string;
}

export class Recorder {
  readonly harness: Harness;
  readonly #app: App;
  readonly #model: ScriptedServer;

  constructor(harness: Harness, app: App, model: ScriptedServer) {
    this.harness = harness;
    this.#app = app;
    this.#model = model;
  }

  async startWorker(): Promise<void> {
    await this.harness.startWorker(this.#app, this.#model, { acceptor: true });
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

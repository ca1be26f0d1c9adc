/**
 * A story of an agent that lives on between its turns, while the Temporal server, the worker and the gateway are killed between its acts
 * (T13, T17, A6–A10), as people see it: on the command line, in the console, in Temporal's Web UI.
 */
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { v7 } from 'uuid';
import { AgentHttpClient } from '../../client/http/http-client.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import type { AgentSchedulingPosture } from '../../workflows/agent-state/posture.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { TurnView } from '../../workflows/contract/views.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { isTerminal } from '../../workflows/protocol/turn.ts';
import { ChaosTemporal } from '../chaos/temporal.ts';
import { commandsIn } from '../client/cli/in-process.ts';
import { type CliProcess, emptyFolder, startCli } from '../client/cli/processes.ts';
import { describeInBrowser, launchBrowser, openWorkflowPage } from '../support/browser.ts';
import { type Backend, type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/processes.ts';
import { DELIVERED, Gate, storyScripts, WAITS } from '../support/story.ts';
import { seen, WAIT } from '../support/wait.ts';

/** Where pictures of the pages go; none are taken when it is not set. */
const SCREENSHOTS = process.env.AGENTTURN_SCREENSHOTS;
const TOKEN = 'the-token-of-the-story';
/** How long a page of the Web UI is given before it is loaded again. */
const RELOAD_MS = 20_000;

const newFolder = () => mkdtempSync(join(tmpdir(), 'agentturn-story-'));

/** What is killed between the acts. */
interface Processes {
  readonly worker: WorkerProcess;
  readonly gateway: CliProcess;
  /** The address of the gateway. */
  readonly url: string;
}

/** The servers of one story; all but the store and the model are killed. */
class Stage {
  readonly harness: Harness;
  readonly agentId = `clerk-${v7().slice(-6)}`;
  readonly #temporal: ChaosTemporal;
  readonly #model: ScriptedServer;
  readonly #browser: Browser;
  #running: Processes | undefined;

  private constructor(parts: [ChaosTemporal, Harness, ScriptedServer, Browser]) {
    [this.#temporal, this.harness, this.#model, this.#browser] = parts;
  }

  static async open(backend: Backend, scripts: ReturnType<typeof storyScripts>): Promise<Stage> {
    const temporal = await ChaosTemporal.start(newFolder(), { webUi: true });
    const harness = await openHarness(backend, { address: temporal.address });
    const stage = new Stage([temporal, harness, await startScriptedModel({ scripts }), await launchBrowser()]);
    stage.#running = await stage.#start();
    return stage;
  }

  get #env(): Record<string, string> {
    const { address, namespace, storeUrl } = this.harness;
    return { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, AGENTTURN_STORE: storeUrl };
  }

  get #processes(): Processes {
    if (!this.#running) throw new Error('nothing runs');
    return this.#running;
  }

  async #start(): Promise<Processes> {
    const gateway = startCli(['gateway', '--json', '--port', '0', '--web-ui', this.#temporal.uiUrl ?? ''], {
      env: { ...this.#env, AGENTTURN_GATEWAY_TOKEN: TOKEN },
      cwd: emptyFolder(),
    });
    const [[line], worker] = await Promise.all([
      gateway.until(/\{"ready".*\n/),
      startWorkerProcess(this.harness, this.#model.url, newFolder(), { app: 'story' }),
    ]);
    return { worker, gateway, url: (JSON.parse(line) as { ready: { url: string } }).ready.url };
  }

  async #kill(): Promise<void> {
    const { worker, gateway } = this.#processes;
    await Promise.all([worker.end('SIGKILL'), gateway.end('SIGKILL')]);
  }

  /** Kills the Temporal server, the worker and the gateway, and starts them again. */
  async killAll(): Promise<void> {
    await Promise.all([this.#kill(), this.#temporal.restart('SIGKILL', 0)]);
    this.#running = await this.#start();
  }

  /** The agent, by way of the gateway that runs now. */
  agent() {
    return new AgentHttpClient({ url: this.#processes.url, token: TOKEN }).agent(this.agentId, { profile: 'clerk' });
  }

  ask(script: string) {
    return this.agent().enqueue({ instruction: `[script:${script}] go on`, idempotencyKey: script });
  }

  /** A delivery from outside, the same one each time; what became of it. */
  async deliver(path: string): Promise<unknown> {
    const answer = await fetch(`${this.#processes.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'delivery-1' },
      body: JSON.stringify({ note: '[script:carrier] the desk is at the door' }),
    });
    return [answer.status, await answer.json()];
  }

  /** The last turn, once there are so many and all have ended. */
  async rested(turns: number): Promise<TurnView> {
    const { store } = this.harness;
    const all = await seen(store, async () => {
      const all = await store.listTurns(this.agentId);
      return all.length >= turns && all.every(({ status }) => isTerminal(status)) ? all : undefined;
    });
    expect(all.map(({ deliverable }) => deliverable?.text)).toEqual(DELIVERED.slice(0, turns));
    return all.at(-1) as TurnView;
  }

  /** What the command line says of the agent, each line with single spaces. */
  async told(...command: string[]): Promise<string> {
    const { code, stdout } = await commandsIn(this.#env)([...command, this.agentId]);
    expect(code).toBe(0);
    return stdout.replace(/ +/g, ' ');
  }

  /** The posture and its reason stand on the agent's page of the console, and on that of its last turn in Temporal's Web UI. */
  async shown(turn: TurnView, posture: AgentSchedulingPosture, reason: string): Promise<void> {
    const console = await this.#browser.newPage({ viewport: { width: 1_400, height: 900 } });
    console.setDefaultTimeout(WAIT.timeoutMs);
    await console.goto(`${this.#processes.url}/#token=${TOKEN}`);
    await console.getByText('Waits for people').waitFor();
    await console.goto(`${this.#processes.url}/console/#/agents/${this.agentId}`);
    await console.locator('.posture').getByText(posture.replaceAll('_', ' ')).waitFor();
    expect(await console.locator('.posture').textContent()).toContain(reason);
    const workflowId = turnWorkflowId(this.agentId, turn.agentTurnId);
    // The turn ends in the store; its workflow, which was killed right then, a little later.
    await this.harness.temporal.client.workflow.getHandle(workflowId).result();
    const webUi = await openWorkflowPage(this.#browser, this.harness.namespace, workflowId, this.#temporal.uiUrl);
    webUi.setDefaultTimeout(WAIT.timeoutMs);
    await untilDetails(webUi, `The agent is now ${posture}: ${reason}`);
    if (posture === 'waiting_for_external') await pictures({ console, 'web-ui': webUi });
    await Promise.all([console.close(), webUi.close()]);
  }

  /** All that was written down of the agent. */
  events(): Promise<readonly AgentEvent[]> {
    return this.harness.store.readEvents({ agentId: this.agentId, limit: 1_000 });
  }

  /** Throws unless the model was asked for every answer, and for no other. */
  assertDone(): void {
    this.#model.assertDone();
  }

  async close(): Promise<void> {
    await this.#browser.close();
    await this.#kill();
    await this.harness.close();
    await this.#model.close();
    await this.#temporal.stop();
  }
}

/** Loads the page of a workflow again and again until its current details say that: it asks the worker once, which may just have been killed. */
async function untilDetails(page: Page, text: string): Promise<void> {
  const said = page.frameLocator('iframe >> nth=2').getByText(text);
  const deadline = Date.now() + WAIT.timeoutMs;
  for (;;) {
    await page.getByRole('tab', { name: 'User Metadata' }).click();
    const isThere = await said.waitFor({ timeout: RELOAD_MS }).then(
      () => true,
      () => false,
    );
    if (isThere) return;
    expect(Date.now()).toBeLessThan(deadline);
    await page.reload();
  }
}

async function pictures(pages: Readonly<Record<string, Page>>): Promise<void> {
  if (!SCREENSHOTS) return;
  mkdirSync(SCREENSHOTS, { recursive: true });
  for (const [name, page] of Object.entries(pages))
    await page.screenshot({ path: join(SCREENSHOTS, `story-${name}.png`), fullPage: true });
}

/** Each act has happened once: what the events say, the rows do too. */
async function expectOnce(stage: Stage): Promise<void> {
  const { store } = stage.harness;
  const [events, turns] = [await stage.events(), await store.listTurns(stage.agentId)];
  const items = await store.listWorkItems(stage.agentId);
  expect(items.map(({ state }) => state)).toEqual(['completed', 'completed', 'completed']);
  const changes = events.flatMap(({ type, payload }) => (type === 'work' ? [payload] : []));
  for (const change of ['create', 'complete'])
    expect(changes.filter((each) => each.change === change)).toEqual(
      items.map(({ workItemId }) => expect.objectContaining({ workItemId, applied: true })),
    );
  expect(changes.filter(({ change }) => change === 'wait')).toHaveLength(2);
  const waits = events.flatMap(({ type, payload }) => (type === 'wait' ? [`${payload.kind} ${payload.phase}`] : []));
  expect(waits).toEqual(['external resolved', 'operator resolved']);
  expect(await store.listTriggers(stage.agentId)).toMatchObject([{ name: 'carrier', hits: 1 }]);
  expect(events.flatMap(({ type, payload }) => (type === 'wake' ? [payload.disposition] : []))).toEqual(['woken']);
  const tasks = events.filter(({ type }) => type === 'task').map(({ agentTurnId }) => agentTurnId);
  expect(tasks).toEqual(turns.map(({ agentTurnId }) => agentTurnId));
  const calls = turns.flatMap(({ steps }) => steps.flatMap((step) => step.calls));
  expect(calls.filter(({ status }) => status !== 'success')).toEqual([]);
  expect(calls.filter(({ tool }) => tool === 'complete_work_item')).toHaveLength(3);
  expect(await store.violations()).toEqual([]);
}

describeInBrowser('an agent whose Temporal server, worker and gateway are killed between its acts', () => {
  test.each(scenarioStores(import.meta.url))(
    'plans, goes on by itself, waits, is woken, asks a person, and comes to its end, each once, on %s',
    async (backend) => {
      const [planned, delivered] = [new Gate(), new Gate()];
      const stage = await Stage.open(backend, storyScripts(planned, delivered));
      try {
        await stage.ask('plan');
        // It has planned, and goes on by itself: the model is at its first answer.
        await planned.asked;
        expect(await stage.told('agents', 'get')).toMatch(/^posture active_turn: .* runnable .* blocked /ms);
        await stage.killAll();
        planned.open();

        const waiting = await stage.rested(3);
        await stage.killAll();
        const untilCarrier = await stage.told('agents', 'get');
        expect(untilCarrier).toContain(`posture waiting_for_external: ${WAITS.carrier}`);
        expect(untilCarrier).toMatch(
          /^work_\w+ waiting_external, current .* see it delivered\nwork_\w+ blocked .* pay the bill$/m,
        );
        expect(untilCarrier).toMatch(/^wait_\w+ external active .* the carrier brings the desk$/m);
        await stage.shown(waiting, 'waiting_for_external', WAITS.carrier);

        const { path } = await stage.agent().triggers.create({ name: 'carrier' });
        expect(await stage.deliver(path)).toEqual([200, { disposition: 'woken' }]);
        await stage.killAll();
        expect(await stage.deliver(path)).toEqual([200, { disposition: 'duplicate' }]);
        delivered.open();

        const asking = await stage.rested(4);
        await stage.killAll();
        const untilPerson = await stage.told('agents', 'get');
        expect(untilPerson).toContain(`posture waiting_for_operator: ${WAITS.person}`);
        expect(untilPerson).toMatch(
          /^work_\w+ waiting_operator, current .* see it delivered\nwork_\w+ blocked .* pay the bill$/m,
        );
        expect(untilPerson).toMatch(/^wait_\w+ operator active .* is it kept\?$/m);
        await stage.shown(asking, 'waiting_for_operator', WAITS.person);

        await stage.ask('kept');
        const last = await stage.rested(6);
        const atRest = await stage.told('agents', 'get');
        expect(atRest).toMatch(/^posture idle: .+$/m);
        expect((await stage.told('work', 'ls', '--all')).match(/^work_\w+ completed .*$/gm)).toHaveLength(3);
        expect(await stage.told('waits', 'ls')).toBe('it waits for nothing\n');
        await stage.shown(last, 'idle', /^posture idle: (.+)$/m.exec(atRest)?.[1] ?? '');
        await expectOnce(stage);
        stage.assertDone();
      } finally {
        await stage.close();
      }
    },
    4 * WAIT.timeoutMs,
  );
});

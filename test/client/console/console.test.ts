/** The console in a real browser, as a person uses it. */
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import { AGENT_STATE_TOOLS } from '../../../activities/tools/builtin/registry.ts';
import type { ModelAnswer } from '../../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import { describeInBrowser, launchBrowser } from '../../support/browser.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';
import { ALL, type GatewayBench, openGateway } from '../gateway/bench.ts';

/** Where pictures of the pages go; none are taken when it is not set. */
const SCREENSHOTS = process.env.AGENTTURN_SCREENSHOTS;
const WIDTHS = [400, 1_400] as const;
const PAGE_BYTES = 72 * 1_024;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const book = defineTool({
  name: 'book',
  description: 'Books a trip.',
  parameters: z.object({ city: z.string(), price: z.number().max(1_000) }),
  sideEffects: 'idempotent',
  execute: ({ city, price }) => ({ booked: city, price }),
});
const askPerson = defineTool({
  name: 'ask_person',
  description: 'Asks a person.',
  parameters: z.object({ question: z.string() }),
  afterExecution: 'suspend',
  suspendTimeoutMs: 3_600_000,
});
const app = defineApp({
  agents: [
    defineAgent({ name: 'tester', model: { name: 'priced' } }),
    defineAgent({
      name: 'travel',
      model: { name: 'priced' },
      governance: { rules: [{ tool: 'book', action: 'ask', reason: 'it costs 100 or more' }] },
    }),
    defineAgent({
      name: 'planner',
      model: { name: 'priced' },
      builtins: [...AGENT_STATE_TOOLS],
      delegationPolicy: { profiles: ['tester'] },
    }),
    defineAgent({ name: 'guide', allowedTools: [], delegationPolicy: { profiles: ['tester'] } }),
  ],
  tools: [book, askPerson],
  models: { priced: { input: 1_000, output: 1_000 } },
});

const says = (content: string, chunkDelayMs = 0): ModelAnswer => ({ kind: 'message', content, chunkDelayMs });
const calls = (name: string, args: object): ModelAnswer => ({
  kind: 'message',
  content: `I call ${name}.`,
  toolCalls: [{ name, arguments: args }],
});
/** An answer, or how it follows from what the model has read. */
type Answered = ModelAnswer | ((read: string) => ModelAnswer);
/** What the model answers to a request, one answer for each step. */
const scripts = new Map<string, readonly Answered[]>();
/** A request that is answered so. */
function asks(instruction: string, ...answers: Answered[]): string {
  scripts.set(instruction, answers);
  return instruction;
}

/** Has an agent make three work items, complete the first and wait for a person with the second. */
async function plans(id: string, reason: string): Promise<void> {
  const ask = asks(`Will it be sunny, ${id}?`, calls('ask_person', { question: 'Will it be sunny?' }));
  const todo = (text: string, state: string) => ({ text, state });
  const list = [todo('compare the prices', 'completed'), todo('book the one that is chosen', 'pending')];
  const instruction = asks(
    `Plan my trip to Rome, ${id}.`,
    calls('create_work_item', { objective: 'Find flights to Rome' }),
    calls('create_work_item', { objective: 'Book a flight to Rome', todo_list: list }),
    (read) => calls('create_work_item', { objective: 'Write the itinerary', blocked_by: [itemIn(read, 1)] }),
    completes(0),
    (read) => calls('pick_work_item', { work_item_id: itemIn(read, 1) }),
    calls('set_timer', { after_seconds: 40_000, every_seconds: 86_400, reason: 'look at the prices again' }),
    calls('create_trigger', { name: 'the airline' }),
    calls('delegate_async', { target_strategy: 'new', target_ref: 'tester', instruction: ask }),
    calls('wait_for', { wake: 'operator_input', reason, recheck_after_seconds: 3_000 }),
  );
  await (await gateway.client.agent(id, { profile: 'planner' }).enqueue({ instruction })).result();
}

/** The id of the work item that was made first, second, third, in what the model has read. */
const itemIn = (read: string, place: number): string => [...new Set(read.match(/work_[0-9a-f]{16}/g))][place] ?? '';

const completes = (place: number) => (read: string) =>
  calls('complete_work_item', { work_item_id: itemIn(read, place), result_summary: 'done' });

let harness: Harness;
let model: ModelServer;
let gateway: GatewayBench;
let browser: Browser;
const pages: Page[] = [];
/** What pages complained of, and what they asked of anybody but the gateway. */
const complaints: string[] = [];

beforeAll(async () => {
  harness = await openHarness();
  model = await startModelServer({
    answer: ({ messages }) => {
      const requested = (content: unknown) =>
        [...scripts.keys()].find((instruction) => String(content).includes(instruction));
      const asked = messages.findLastIndex(({ role, content }) => role === 'user' && requested(content) !== undefined);
      const step = messages.slice(asked).filter(({ role }) => role === 'assistant').length;
      const answer = scripts.get(requested(messages[asked]?.content) ?? '')?.[step] ?? says('nothing more');
      return typeof answer === 'function' ? answer(JSON.stringify(messages)) : answer;
    },
  });
  await harness.startWorker(app, model);
  gateway = await openGateway(harness, { webUi: 'http://temporal.example/namespaces/n/workflows' });
  browser = await launchBrowser();
}, WAIT.timeoutMs);
afterAll(async () => {
  await browser?.close();
  await gateway?.server.close();
  await harness?.close();
  await model?.close();
});
afterEach(async () => {
  for (const page of pages.splice(0)) await page.close();
  expect(complaints.splice(0)).toEqual([]);
});

const newAgent = (name: string) => `${name}-${v7().slice(-6)}`;

/** A tab that is signed in and shows that place. */
async function open(
  place = '',
  { token = ALL, width = 1_400 }: { token?: string; width?: number } = {},
): Promise<Page> {
  const page = await browser.newPage({ viewport: { width, height: 900 } });
  page.setDefaultTimeout(WAIT.timeoutMs);
  pages.push(page);
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    // A browser tells of each answer that refuses.
    if (message.type() === 'error' && !/status of 4\d\d/.test(message.text())) complaints.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(gateway.server.url) && !request.url().startsWith('data:'))
      complaints.push(request.url());
  });
  await page.goto(`${gateway.server.url}/#token=${encodeURIComponent(token)}`);
  await page.getByText('Waits for people').waitFor();
  if (place !== '') await page.goto(`${gateway.server.url}/console/#/${place}`);
  return page;
}

async function picture(page: Page, name: string): Promise<void> {
  if (!SCREENSHOTS) return;
  mkdirSync(SCREENSHOTS, { recursive: true });
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    await page.screenshot({ path: join(SCREENSHOTS, `console-${name}-${width}.png`) });
  }
}

/** What axe-core finds that is serious. */
async function seriousFindings(page: Page): Promise<unknown> {
  // The page's own policy lets nobody add a script; evaluated as the browser's debugger it may run.
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    interface Axe {
      run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }>;
    }
    const { violations } = await (globalThis as unknown as { axe: Axe }).axe.run();
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
  });
}

const isWiderThanItsWindow = (page: Page): Promise<boolean> =>
  page.evaluate('document.documentElement.scrollWidth > innerWidth');

describeInBrowser('the console', () => {
  test('streams the text of a turn as it is written, in two tabs, and shows what it cost', async () => {
    const id = newAgent('tester');
    const text = Array.from({ length: 40 }, (_, word) => `word${word}`).join(' ');
    // The text is written only once both tabs look on.
    const instruction = asks('Count to forty.', calls('ask_person', { question: 'Now?' }), says(text, 50));
    const turn = await gateway.client.agent(id, { profile: 'tester' }).enqueue({ instruction });
    const first = await open(`turns/${turn.id}`);
    await first.evaluate(`
      globalThis.lengths = new Set();
      new MutationObserver(() => lengths.add([...document.querySelectorAll('.step .text')].at(-1)?.textContent.length ?? 0))
        .observe(document.body, { subtree: true, childList: true, characterData: true });
    `);
    const second = await open(`turns/${turn.id}`);
    await first.locator('.question').waitFor();
    await second
      .locator('.question')
      .getByLabel(/Result/)
      .fill('"yes"');
    await second.getByRole('button', { name: 'Send the result' }).click();
    for (const page of [first, second]) {
      await page.getByRole('heading', { name: 'End success' }).waitFor();
      expect(await page.locator('.step .text').last().textContent()).toBe(text);
      expect(await page.locator('.deliverable').textContent()).toBe(text);
    }
    // More than nothing and all of it.
    expect(await first.evaluate<number>('lengths.size')).toBeGreaterThan(3);
    const figures = await first.locator('.figures').textContent();
    expect(figures).toMatch(/Cost0\.\d+/);
    expect(figures).toMatch(/Steps2/);
    const link = await first.getByRole('link', { name: 'Web UI' }).getAttribute('href');
    expect(link).toBe(`http://temporal.example/namespaces/n/workflows/agents%2F${id}%2Fturns%2F${turn.id}`);
    expect(await first.getByRole('button', { name: 'Stop the turn' }).isVisible()).toBe(false);
  });

  test('an approval is edited and answered from the inbox, and the call runs with what was written there', async () => {
    const id = newAgent('trips');
    const answers = asks('Book me a trip to Rome.', calls('book', { city: 'Rome', price: 250 }), says('Booked.'));
    const turn = await gateway.client.agent(id, { profile: 'travel' }).enqueue({ instruction: answers });
    const page = await open();
    const question = page.locator('.question').filter({ hasText: id });
    await question.getByText('it costs 100 or more').waitFor();
    expect(await question.getByText(/ left$/).textContent()).toMatch(/\d/);
    await picture(page, 'inbox');
    const written = question.getByLabel(/Arguments/);
    await written.fill('{"city":"Rome","price":200');
    // What was typed stays while the lists are read again.
    const reread = page.waitForResponse(/\/v1\/inbox/);
    await reread;
    expect(await written.inputValue()).toBe('{"city":"Rome","price":200');
    await question.getByRole('button', { name: 'Approve' }).click();
    await question.getByText('A JSON object is expected').waitFor();
    await written.fill('{"city":"Rome","price":2000}');
    await question.getByRole('button', { name: 'Approve' }).click();
    await question.getByRole('status').getByText('price').waitFor();
    await written.fill('{"city":"Rome","price":200}');
    await question.getByRole('button', { name: 'Approve' }).click();
    await question.waitFor({ state: 'detached' });
    expect(await turn.result()).toMatchObject({
      status: 'success',
      steps: [{ calls: [{ approval: { by: 'ann', arguments: { price: 200 } } }] }, {}],
    });
    expect(
      (await gateway.client.approvals({ agentTurnId: turn.id, all: true })).map((each) => each.answeredBy),
    ).toEqual(['ann']);
  });

  test('a turn shows its calls; its wait is answered, denied, steered and stopped in its own view', async () => {
    const id = newAgent('helper');
    const asking = {
      instruction: asks(
        'Ask somebody whether it is warm enough.',
        calls('ask_person', { question: 'Is it warm?' }),
        calls('ask_person', { question: 'Sure?' }),
      ),
    };
    const turn = await gateway.client.agent(id, { profile: 'tester' }).enqueue(asking);
    const page = await open(`turns/${turn.id}`);
    const question = page.locator('.question');
    await question.getByLabel(/Result/).fill('{"warm":true}');
    await picture(page, 'turn');
    await question.getByRole('button', { name: 'Send the result' }).click();
    await page.getByText('"warm": true').waitFor();
    await page.getByRole('article', { name: 'Step 2' }).getByText('"question": "Sure?"').waitFor();
    await page.getByLabel('A message for the running turn').fill('Hurry.');
    await page.getByRole('button', { name: 'Steer' }).click();
    await page.getByText('shown to the model before its next call').waitFor();
    await page.getByRole('button', { name: 'Stop the turn' }).click();
    await page.getByRole('heading', { name: 'End failed' }).waitFor();
    expect((await turn.get()).reason).toBe('stopped by ann');
    const denied = await gateway.client.agent(newAgent('trips'), { profile: 'travel' }).enqueue({
      instruction: asks('Book a trip to Oslo.', calls('book', { city: 'Oslo', price: 500 }), says('Not booked.')),
    });
    await page.goto(`${gateway.server.url}/console/#/turns/${denied.id}`);
    await page.locator('.question').getByLabel('Reason').fill('too dear');
    await page.getByRole('button', { name: 'Deny' }).click();
    await page.getByRole('heading', { name: 'End success' }).waitFor();
    expect(await page.locator('.call').textContent()).toContain('too dear');
  });

  test('an agent is asked, its work delegated turn by turn, stopped and started', async () => {
    const id = newAgent('guide');
    await (
      await gateway.client.agent(id, { profile: 'guide' }).enqueue({ instruction: asks('Say hello.', says('Hello.')) })
    ).result();
    const page = await open(`agents/${id}`);
    const ask = { profile: 'tester', question: asks('Will it be sunny?', says('Sunny.')) };
    await page
      .getByLabel('A new request')
      .fill(asks('Plan my weekend.', calls('ask_expert', ask), says('It is sunny.')));
    await page.getByRole('button', { name: 'Enqueue' }).click();
    await page.getByRole('heading', { name: 'End success' }).waitFor();
    await page.getByRole('heading', { name: 'Delegated' }).waitFor();
    await picture(page, 'delegation');
    await page.goto(`${gateway.server.url}/console/#/agents/${id}`);
    await page.getByRole('button', { name: 'Stop the agent' }).click();
    // Nothing is stopped before the question is answered.
    await page.getByRole('dialog').getByRole('button', { name: 'Leave it' }).click();
    expect((await harness.client.agent(id).get())?.lifecycle.acceptsExternalMessages).toBe(true);
    await page.getByRole('button', { name: 'Stop the agent' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Stop it' }).click();
    await page.locator('.badge').getByText('stopped').waitFor();
    expect(await page.getByLabel('A new request').isVisible()).toBe(false);
    await page.getByRole('button', { name: 'Start the agent' }).click();
    await page.locator('.posture .badge').getByText('idle').waitFor();
  });

  test('an agent that waits for a person is found by its posture, shows why and at what, and is answered', async () => {
    const id = newAgent('planner');
    const reason = 'Which of the two flights shall I book?';
    await plans(id, reason);
    const page = await open();
    const row = page.getByRole('region', { name: 'Agents' }).getByRole('row').filter({ hasText: id });
    await row.getByText('waiting for operator').waitFor();
    expect(await row.textContent()).toContain(reason);
    await page.getByLabel('Posture').selectOption('idle');
    await row.waitFor({ state: 'detached' });
    await page.getByLabel('Posture').selectOption('waiting_for_operator');
    await row.waitFor();
    await row.getByRole('link', { name: id }).click();

    await page.locator('.posture').getByText('waiting for operator').waitFor();
    expect(await page.locator('.posture').textContent()).toContain(reason);
    expect(await page.locator('.hint').textContent()).toContain('it waits for a person');
    const part = (name: string) => page.getByRole('region', { name, exact: true });
    expect(await part('How its last turn left it').textContent()).toMatch(
      /waiting awaiting operator input.*waits by wait_.*1 delegated turn is open/,
    );
    const items = part('Work items').locator('.items > li');
    expect(await items.count()).toBe(2);
    expect(await items.first().textContent()).toMatch(
      /^waiting operator current Book a flight.*plan: ready.*Todo: 1 of 2 done.*completed compare.*pending book/,
    );
    expect(await items.last().textContent()).toMatch(/^blocked Write the itinerary.*blocked by work_/);
    expect(await part('Waits').textContent()).toMatch(/for operator Which.*\d+ h.* left · looks again in \d+ min/);
    expect(await part('Timers').textContent()).toMatch(/look at the prices againin \d+ h.*every 24 h/);
    expect(await part('Triggers').textContent()).toMatch(/the airline.*0 hits · never hit/);
    expect(await part('Delegated turns').textContent()).toMatch(/suspended|running/);
    expect(await page.locator('.figures').textContent()).toMatch(/Tokens\d.*Cost\d/);
    expect(await page.content()).not.toContain('/v1/wake/');
    // A link to what stands behind the posture leads there by keyboard.
    await page.locator('.posture').getByRole('link', { name: 'the wait' }).press('Enter');
    expect(await page.evaluate<string>('document.activeElement.textContent')).toContain(reason);
    for (const colorScheme of ['light', 'dark'] as const)
      for (const width of WIDTHS) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 900 });
        expect({ colorScheme, width, found: await seriousFindings(page) }).toEqual({ colorScheme, width, found: [] });
        expect({ width, wider: await isWiderThanItsWindow(page) }).toEqual({ width, wider: false });
      }
    await page.emulateMedia({ colorScheme: 'light' });
    await page.evaluate('document.activeElement.blur()');
    await picture(page, 'agent');

    await page
      .getByLabel('Your answer')
      .fill(asks(`Take the one at noon, ${id}.`, completes(1), completes(2), says('Booked.')));
    await page.getByRole('button', { name: 'Answer' }).click();
    await page.locator('.posture').getByText('idle').waitFor();
    await part('Waits').waitFor({ state: 'hidden' });
    await part('Work items').waitFor({ state: 'hidden' });
    expect(await page.getByLabel('Your answer').isVisible()).toBe(false);
    await page.getByRole('link', { name: /^Answered/ }).waitFor();
    expect(await harness.store.listWaits(id)).toMatchObject([{ kind: 'operator', status: 'resolved' }]);
  });

  test('an agent with work is stopped after a question, marked, started, and woken with a reason', async () => {
    const id = newAgent('planner');
    await plans(id, 'Which of the two hotels shall I book?');
    const page = await open(`agents/${id}`);
    const stop = page.getByRole('button', { name: 'Stop the agent' });
    await stop.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByLabel('Reason').waitFor();
    expect(await seriousFindings(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    await stop.press('Enter');
    await page.getByRole('dialog').getByLabel('Reason').press('Enter');
    await page.locator('.posture').getByText('archived').waitFor();
    await page.locator('.posture').getByText('stopped', { exact: true }).waitFor();
    expect(await page.locator('.hint').textContent()).toContain('agents start');
    expect(await page.getByRole('region', { name: 'Work items' }).locator('.items > li').count()).toBe(2);
    expect(await page.getByRole('textbox').filter({ visible: true }).count()).toBe(0);
    await page.goto(`${gateway.server.url}/console/#/`);
    const row = page.getByRole('region', { name: 'Agents' }).getByRole('row').filter({ hasText: id });
    await row.getByText('stopped', { exact: true }).waitFor();
    await page.goto(`${gateway.server.url}/console/#/agents/${id}`);
    await page.getByRole('button', { name: 'Start the agent' }).click();
    await page.locator('.posture').getByText('waiting for operator').waitFor();
    const before = await harness.store.listTurns(id);
    await page.getByLabel('Wake it, with a reason').fill('the airline is on strike');
    await page.keyboard.press('Enter');
    // It waits for a person, whom nothing of the system outranks (A4).
    await page.getByText('It is told with the next turn that it makes.').waitFor();
    await page.locator('.figures').getByText('Has come for it').waitFor();
    expect(await harness.store.listTurns(id)).toHaveLength(before.length);
  });

  test('the view of an agent follows its events, before it is read again by itself', async () => {
    const id = newAgent('tester');
    const client = harness.client.agent(id, { profile: 'tester' });
    await (await client.enqueue({ instruction: asks('Say hello once more.', says('Hello.')) })).result();
    const page = await open();
    // Where time stands still nothing is read by itself.
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 60_000);
    const followed = page.waitForRequest(/\/events\?afterSeq=[1-9]/);
    await page.goto(`${gateway.server.url}/console/#/agents/${id}`);
    await page.locator('.posture').getByText('idle').waitFor();
    await followed;
    const asked = asks('Is it warm once more?', calls('ask_person', { question: 'Is it warm?' }));
    const turn = await client.enqueue({ instruction: asked });
    const isOpen = page.locator('.posture').getByText('active turn');
    for (let rounds = 0; !(await isOpen.isVisible()); rounds += 1) {
      expect(rounds).toBeLessThan(30);
      await page.waitForTimeout(500);
      await page.clock.runFor(50);
    }
    await turn.stop();
  });

  test('by keyboard alone an agent is found in the overview, and its turn', async () => {
    const id = newAgent('keyboard');
    await (
      await gateway.client
        .agent(id, { profile: 'tester' })
        .enqueue({ instruction: asks('Say hello again.', says('Hello.')) })
    ).result();
    const page = await open();
    const row = page.getByRole('region', { name: 'Agents' }).getByRole('link', { name: id });
    await row.waitFor();
    for (let presses = 0; ; presses += 1) {
      if (await row.evaluate('(element) => element === document.activeElement').catch(() => false)) break;
      if (await page.evaluate<boolean>(`document.activeElement?.textContent === ${JSON.stringify(id)}`)) break;
      expect(presses).toBeLessThan(200);
      await page.keyboard.press('Tab');
    }
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: `Agent ${id}` }).waitFor();
  });

  test('a chat is begun, written in and followed; what comes while a turn is open is collected, and answered next', async () => {
    const chatId = newAgent('chat');
    const page = await open('chats');
    await page.getByLabel('An agent, or the name of a profile').fill('tester');
    await page.getByLabel('A name for the chat').fill(chatId);
    await page.getByRole('button', { name: 'Begin a chat' }).click();
    await page.getByText('Nothing was said yet.').waitFor();
    const message = page.getByLabel(/Your message/);
    const say = async (text: string) => {
      await message.fill(text);
      await message.press('Enter');
      await page.locator('[data-seq]').getByText(text, { exact: true }).waitFor();
    };
    const statusOf = (text: string) => page.locator('[data-seq]').filter({ hasText: text }).locator('.badge');
    const exchange = (text: string) => page.locator('.exchange').filter({ hasText: text });
    const text = Array.from({ length: 40 }, (_, word) => `word${word}`).join(' ');
    await page.evaluate(`
      globalThis.lengths = new Set();
      new MutationObserver(() => lengths.add([...document.querySelectorAll('.step .text')].at(-1)?.textContent.length ?? 0))
        .observe(document.body, { subtree: true, childList: true, characterData: true });
    `);
    await say(asks(`Is it warm, ${chatId}?`, calls('ask_person', { question: 'Warm?' }), says(text, 50)));
    await exchange('Is it warm').locator('.call').getByText('ask_person').waitFor();
    await statusOf('Is it warm').getByText('processing').waitFor();
    // Two that come meanwhile become one turn.
    await say(asks(`One more thing, ${chatId}.`, says('Both heard.')));
    await say(asks(`And another, ${chatId}.`, says('Both heard.')));
    await statusOf('One more thing').getByText('queued').waitFor();
    await statusOf('And another').getByText('collected').waitFor();
    await page.getByLabel('While a turn is open').selectOption('reject');
    await message.fill('Now or never.');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page
      .getByRole('status')
      .getByText(/^Rejected: /)
      .waitFor();
    await statusOf('Now or never.').getByText('rejected').waitFor();
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      expect({ width, found: await seriousFindings(page) }).toEqual({ width, found: [] });
      expect({ width, wider: await isWiderThanItsWindow(page) }).toEqual({ width, wider: false });
    }
    await picture(page, 'chat');
    // The question stands in the chat, and is answered there.
    await page
      .locator('.question')
      .getByLabel(/Result/)
      .fill('"yes"');
    await page.getByRole('button', { name: 'Send the result' }).click();
    await exchange('Is it warm').locator('.badge').getByText('completed').waitFor();
    expect(await exchange('Is it warm').locator('.step .text').last().textContent()).toBe(text);
    expect(await page.evaluate<number>('lengths.size')).toBeGreaterThan(3);
    await exchange('One more thing').locator('.step').getByText('Both heard.').waitFor();
    for (const each of ['Is it warm', 'One more thing', 'And another'])
      await statusOf(each).getByText('done').waitFor();
    expect(await exchange('And another').locator('[data-seq]').count()).toBe(2);
    const sent = await gateway.client.chat('tester', chatId).messages();
    expect(sent.map(({ status }) => status)).toEqual(['done', 'done', 'done', 'rejected']);
    await page.getByRole('link', { name: 'Chats' }).click();
    const row = page.getByRole('region', { name: 'Chats' }).getByRole('row').filter({ hasText: chatId });
    expect(await row.textContent()).toMatch(/tester4/);
    expect(await seriousFindings(page)).toEqual([]);
  });

  test('a chat turn is interrupted and stopped from its chat, and its end says what to do next', async () => {
    const chat = gateway.client.chat('tester', newAgent('chat'));
    const ask = (text: string) => asks(`${text} ${chat.chatId}`, calls('ask_person', { question: 'Warm?' }));
    const hostile = '<img src=x onerror="globalThis.owned = true">';
    await chat.send(`${ask('First')} ${hostile}`, { sender: { agentId: 'bob', instanceId: hostile } });
    const page = await open(`chats/tester/${chat.chatId}`);
    await page.locator('.question').waitFor();
    await chat.send(ask('Second'), { policy: 'steer' });
    await page.getByRole('button', { name: 'Interrupt' }).click();
    const exchange = (text: string) => page.locator('.exchange').filter({ hasText: text });
    await exchange('First').locator('.badge').getByText('failed').waitFor();
    expect(await exchange('First').textContent()).toMatch(/stopped.*interrupted by ann.*Send the next message/);
    // What it had not read is the next turn.
    await exchange('Second').locator('.call').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await exchange('Second').getByText('stopped by ann').waitFor();
    expect(await page.locator('.exchange').first().textContent()).toContain(hostile);
    expect(await page.evaluate('globalThis.owned')).toBeUndefined();
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'hidden' });
    const reader = await open(`chats/tester/${chat.chatId}`, { token: 'token-of-read' });
    await reader.locator('.exchange').getByText('stopped by ann').waitFor();
    expect(await reader.getByRole('button').allInnerTexts()).toEqual(['Sign out']);
    expect(await reader.getByRole('textbox').count()).toBe(0);
  });

  test.each(['light', 'dark'] as const)(
    'has nothing serious for axe-core, and fits its window, in %s',
    async (colorScheme) => {
      const id = newAgent('trips');
      const turn = await gateway.client.agent(id, { profile: 'travel' }).enqueue({
        instruction: asks('Book a weekend in Rome.', calls('book', { city: 'Rome', price: 250 }), says('Booked.')),
      });
      const other = await gateway.client
        .agent(newAgent('tester'), { profile: 'tester' })
        .enqueue({ instruction: asks('Say x.', says('x')) });
      await other.result();
      for (const width of WIDTHS) {
        const page = await open('', { width });
        await page.emulateMedia({ colorScheme });
        for (const [place, there] of [
          ['', page.locator('.question').filter({ hasText: id })],
          [`agents/${id}`, page.getByLabel('A new request')],
          [`turns/${turn.id}`, page.locator('.question')],
          [`turns/${other.id}`, page.getByRole('heading', { name: 'End success' })],
        ] as const) {
          await page.goto(`${gateway.server.url}/console/#/${place}`);
          await there.waitFor();
          expect({ place, width, found: await seriousFindings(page) }).toEqual({ place, width, found: [] });
          expect({ place, width, wider: await isWiderThanItsWindow(page) }).toEqual({ place, width, wider: false });
        }
      }
      await turn.stop();
    },
  );

  test('a table fits its box, in which long ids are shortened', async () => {
    const id = `run-${v7()}`;
    const instruction = asks(`Say hello to everybody who is there, ${id}.`, says('Hello.'));
    await (await gateway.client.agent(id, { profile: 'tester' }).enqueue({ instruction })).result();
    const page = await open();
    const ofAgent = page.getByRole('region', { name: 'Agents' }).getByRole('link', { name: id, exact: true });
    await page.getByRole('region', { name: 'Agents' }).getByRole('row').nth(1).waitFor();
    expect(await ofAgent.count()).toBe(0);
    await page.getByLabel('with one-shot agents that have ended').check();
    await ofAgent.waitFor();
    for (const place of ['', `agents/${id}`]) {
      await page.goto(`${gateway.server.url}/console/#/${place}`);
      const link = page.getByRole('region', { name: 'Turns' }).getByRole('link', { name: id, exact: true });
      await link.waitFor();
      expect(await link.getAttribute('title')).toBe(id);
      for (const width of [900, 1_099, 1_100, 1_200]) {
        await page.setViewportSize({ width, height: 900 });
        const wider = await page.evaluate(`[...document.querySelectorAll('.scroll')]
          .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
          .map(({ ariaLabel, scrollWidth, clientWidth }) => [ariaLabel, scrollWidth, clientWidth].join(' '))`);
        expect({ place, width, wider }).toEqual({ place, width, wider: [] });
      }
    }
    await picture(page, 'tables');
  });

  test('an answer that was cut short ends partial, with its reason and what to do (K11)', async () => {
    const part = { kind: 'message', content: 'and so on, ', finishReason: 'length' } as const;
    const instruction = asks('Tell me everything.', part, part, part, part);
    const turn = await gateway.client.agent(newAgent('tester'), { profile: 'tester' }).enqueue({ instruction });
    const page = await open(`turns/${turn.id}`);
    await page.getByRole('heading', { name: 'End partial' }).waitFor();
    const end = page.locator('.turn');
    await end.getByText('answer_truncated the answer was cut short by the output limit of the model').waitFor();
    await end.getByText('Raise model.maxTokens, or ask for less.').waitFor();
    expect(await page.locator('.deliverable').textContent()).toBe('and so on, '.repeat(4));
    await picture(page, 'cut-answer');
    const { json } = await gateway.call('GET', `/v1/turns/${turn.id}`);
    expect(json).toMatchObject({
      status: 'partial',
      errorCode: 'answer_truncated',
      reason: 'the answer was cut short by the output limit of the model or its provider, and is not whole',
      cure: 'Raise model.maxTokens, or ask for less.',
    });
  });

  test('a turn that is not there is neither steered nor stopped', async () => {
    const page = await open('turns/none');
    await page.getByRole('alert').getByText('none').waitFor();
    expect(await page.getByRole('button').allInnerTexts()).toEqual(['Sign out']);
    expect(await page.getByRole('textbox').count()).toBe(0);
  });

  test('a token is asked for, kept out of the address, and refused when it is unknown; a reader gets no buttons', async () => {
    const page = await browser.newPage();
    pages.push(page);
    page.setDefaultTimeout(WAIT.timeoutMs);
    await page.goto(`${gateway.server.url}/console/`);
    await page.getByLabel(/Token of this gateway/).fill('wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    const refusal = page.getByRole('alert').getByText('This token is not known here.');
    await refusal.waitFor();
    expect(await refusal.textContent()).not.toMatch(/Authorization|Bearer/);
    expect(await seriousFindings(page)).toEqual([]);
    await page.getByLabel(/Token of this gateway/).fill(ALL);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('ann (read, write, approve, operate)').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    const id = newAgent('helper');
    const turn = await gateway.client
      .agent(id, { profile: 'tester' })
      .enqueue({ instruction: asks('Is it warm?', calls('ask_person', { question: 'Is it warm?' })) });
    const reader = await open(`turns/${turn.id}`, { token: 'token-of-read' });
    expect(reader.url()).not.toContain('token');
    await reader.getByText('This token may not answer.').waitFor();
    expect(await reader.getByRole('button').allInnerTexts()).toEqual(['Sign out']);
    await reader.goto(`${gateway.server.url}/console/#/agents/${id}`);
    await reader.locator('.posture').getByText('active turn').waitFor();
    expect(await reader.getByRole('button').allInnerTexts()).toEqual(['Sign out']);
    expect(await reader.getByRole('textbox').count()).toBe(0);
    await turn.stop();
  });

  test('a gateway that goes away is told of, and the page goes on when it is back', async () => {
    const id = newAgent('tester');
    const turn = await gateway.client.agent(id, { profile: 'tester' }).enqueue({
      instruction: asks('Is it warm now?', calls('ask_person', { question: 'Is it warm?' }), says('Good.')),
    });
    const page = await open(`turns/${turn.id}`);
    await page.locator('.question').waitFor();
    await page.context().setOffline(true);
    await page
      .getByRole('alert')
      .getByText(/gateway|stream/)
      .waitFor();
    await turn.toolResult({ callId: (await turn.get()).waiting[0]?.callId ?? '', status: 'success', result: 'yes' });
    await turn.result();
    await page.context().setOffline(false);
    await page.getByRole('heading', { name: 'End success' }).waitFor();
    expect(await page.getByRole('article').count()).toBe(2);
    complaints.splice(0);
  });

  test('is small, holds to its policy, and what a model writes becomes text', async () => {
    const names = [
      ...(await (await fetch(`${gateway.server.url}/console/`)).text()).matchAll(/(?:href|src)="([\w.]+)"/g),
    ];
    const seen = new Set(['', ...names.map(([, name]) => name ?? '')]);
    let bytes = 0;
    for (const name of seen) {
      const response = await fetch(`${gateway.server.url}/console/${name}`);
      expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
      const text = await response.text();
      bytes += Buffer.byteLength(text);
      for (const [, imported] of text.matchAll(/from '\.\/([\w.]+)'/g)) seen.add(imported ?? '');
    }
    expect(seen.size).toBeGreaterThan(10);
    expect(bytes).toBeLessThanOrEqual(PAGE_BYTES);
    const hostile = '<img src=x onerror="globalThis.owned = true"><script>globalThis.owned = true</script>';
    const turn = await gateway.client
      .agent(newAgent('tester'), { profile: 'tester' })
      .enqueue({ instruction: asks('Write some HTML.', says(hostile)) });
    await turn.result();
    const page = await open(`turns/${turn.id}`);
    await page.getByRole('heading', { name: 'End success' }).waitFor();
    expect(await page.locator('.deliverable').textContent()).toBe(hostile);
    expect(await page.evaluate('globalThis.owned')).toBeUndefined();
  });
});

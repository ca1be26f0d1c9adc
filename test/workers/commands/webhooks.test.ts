/** `agentturn gateway webhook`, and gateway processes that tell webhooks while they are killed and started. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { type CliProcess, emptyFolder, jsonOf, runCli, startCli } from '../../client/cli/processes.ts';
import { expectSigned, Receiver } from '../../client/webhooks/receiver.ts';
import { testApp } from '../../support/app.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

let harness: Harness;
let receiver: Receiver;
let env: Record<string, string>;
const gateways: CliProcess[] = [];

beforeAll(async () => {
  harness = await openHarness('postgres');
  await harness.store.registerProfiles([...testApp([]).agents.values()]);
  receiver = await new Receiver().open();
  env = {
    TEMPORAL_ADDRESS: harness.address,
    TEMPORAL_NAMESPACE: harness.namespace,
    AGENTTURN_STORE: harness.storeUrl,
    AGENTTURN_GATEWAY_PORT: '0',
    AGENTTURN_GATEWAY_TOKEN: 'a-token-that-is-long-enough',
    AGENTTURN_GATEWAY_WEBHOOKS: join(emptyFolder(), 'webhooks.json'),
  };
}, WAIT.timeoutMs);
afterAll(async () => {
  await Promise.all(gateways.map((gateway) => gateway.end('SIGKILL')));
  await receiver?.close();
  await harness?.close();
});

const command = (...args: string[]) => runCli(['gateway', ...args], { env });

async function startGateway(): Promise<CliProcess> {
  const gateway = startCli(['gateway', '--json'], { env });
  gateways.push(gateway);
  await gateway.until(/\{"ready".*\n/);
  return gateway;
}

async function ends(agentId: string, count: number): Promise<string[]> {
  const ended: string[] = [];
  for (let made = 0; made < count; made += 1) {
    const turn = await harness.client.agent(agentId, { profile: 'tester' }).enqueue({ instruction: 'x' });
    await turn.stop();
    ended.push(turn.id);
  }
  return ended;
}

test(
  'a webhook that a command makes is told by gateways that are killed or frozen in the middle, at least once and in order',
  async () => {
    const made = await command('webhook', 'pager', '--url', receiver.url, '--events', 'turn.ended');
    expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^whsec_\S+\n$/) });
    const secret = made.stdout.trim();
    // Slow enough that something is always under way.
    receiver.behaviour = (_, response) => {
      setTimeout(() => response.writeHead(204).end(), 20);
      return undefined;
    };
    let gateway = await startGateway();
    let frozen: CliProcess | undefined;
    while ((await harness.store.listWebhooks()).length === 0) await harness.store.changed(1_000);
    const agents = Array.from({ length: 4 }, () => `agent-${v7()}`);
    const order = new Map<string, string[]>(agents.map((agentId) => [agentId, []]));
    for (let kill = 0; kill < 3; kill += 1) {
      const came = receiver.came.length;
      const next = await startGateway();
      const ending = Promise.all(
        agents.map(async (agentId) => void order.get(agentId)?.push(...(await ends(agentId, 10)))),
      );
      // The one that tells is the one that was started before.
      await receiver.until(() => receiver.came.length >= came + 12);
      if (kill === 1) {
        gateway.signal('SIGSTOP');
        frozen = gateway;
      } else await gateway.end('SIGKILL');
      // By now another one has told something: it wakes up without a lease.
      if (kill === 2) frozen?.signal('SIGCONT');
      await ending;
      gateway = next;
    }
    const firstOf = (agentId: string) => [
      ...new Set(receiver.came.flatMap(({ json: { data } }) => (data.agentId === agentId ? [data.agentTurnId] : []))),
    ];
    await receiver.until(() => agents.every((agentId) => firstOf(agentId).length === 30));
    for (const agentId of agents) expect(firstOf(agentId)).toEqual(order.get(agentId));
    await expectSigned(receiver.came.slice(0, 20), secret);
    // What was under way when a process was killed, and no more, came twice.
    expect(receiver.came.length).toBeLessThanOrEqual(120 + 3 * agents.length);
    let view: { sent?: number; agentsBehind?: number } = {};
    while (view.sent !== 120) [view = {}] = await harness.store.listWebhooks();
    const listed = jsonOf<{ items: unknown[] }>(await command('webhooks', '--json'));
    expect(listed.items).toMatchObject([{ name: 'pager', sent: 120, agentsBehind: 0, events: ['turn.ended'] }]);
    expect((await command('webhooks')).stdout).toMatch(/NAME +SENT[\s\S]*pager +120 +0/);
    expect(await gateway.end('SIGTERM')).toMatchObject({ code: 0 });
    expect(await frozen?.end('SIGTERM')).toMatchObject({ code: 0 });
  },
  WAIT.timeoutMs,
);

test('a webhook is changed, gets a new secret, and is taken away; what makes no sense is refused', async () => {
  const file = env.AGENTTURN_GATEWAY_WEBHOOKS ?? '';
  const kept = () => JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>[];
  await command('webhook', 'chat', '--url', 'https://chat.example/hook', '--format', 'slack', '--agents', 'team-');
  const [first] = kept().filter(({ name }) => name === 'chat');
  expect(first).toMatchObject({ format: 'slack', agents: ['team-'], url: 'https://chat.example/hook' });
  expect(statSync(file).mode & 0o077).toBe(0);
  const again = await command('webhook', 'chat', '--events', 'approval.asked', '--json');
  expect(jsonOf(again)).toMatchObject({ events: ['approval.asked'], url: 'https://chat.example/hook' });
  const [changed] = kept().filter(({ name }) => name === 'chat');
  expect(changed).toEqual({ ...first, events: ['approval.asked'] });
  await command('webhook', 'chat', '--rotate');
  const [rotated] = kept().filter(({ name }) => name === 'chat');
  expect(rotated?.secrets).toEqual([expect.stringMatching(/^whsec_/), ...((first?.secrets as string[]) ?? [])]);
  expect((await command('webhook', 'chat', '--remove')).code).toBe(0);
  expect(kept().some(({ name }) => name === 'chat')).toBe(false);
  for (const args of [
    ['x'],
    ['x', '--url', 'ftp://a.example'],
    ['x', '--url', 'https://user:word@a.example'],
    ['x', '--url', 'https://a.example', '--events', 'turn.begun'],
    ['x', '--remove'],
  ]) {
    const { code, stderr } = await command('webhook', ...args);
    expect([args, code === 0]).toEqual([args, false]);
    expect(stderr).toMatch(/the webhook|expected an? /i);
  }
});

/** Every command, where a model, a user and a third party say what would draw, hide or move something at a terminal. */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { suspended } from '../../support/asking.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';
import { commandsIn, type RunCommand } from './in-process.ts';
import { type CliProcess, jsonOf, startCli } from './processes.ts';

const APP = fileURLToPath(new URL('fixture-app.ts', import.meta.url));

/** Erases the screen, writes to the clipboard, overwrites the line, colours by C1, and turns the direction of what follows. */
const HOSTILE = 'go \u001b[2J\u001b]52;c;cm0gLXJm\u0007over\rwritten \u009b31m \u202egnp.exe\u2066x \u0008\u007f';
/** What reaches a terminal besides: nothing of it does anything there. */
const DOES_SOMETHING = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

let harness: Harness;
let model: ScriptedServer;
let worker: CliProcess;
let env: Record<string, string>;

const cli: RunCommand = (args, more) => commandsIn(env)(args, more);

beforeAll(async () => {
  harness = await openHarness();
  const asks = { name: 'sign_off', arguments: { what: HOSTILE } };
  model = await startScriptedModel({
    scripts: {
      person: [
        { kind: 'message', content: HOSTILE, toolCalls: [asks] },
        { kind: 'message', content: HOSTILE },
      ],
      broken: [{ kind: 'error', status: 400, message: HOSTILE }],
    },
    default: () => ({ kind: 'message', content: HOSTILE }),
  });
  env = {
    TEMPORAL_ADDRESS: harness.address,
    TEMPORAL_NAMESPACE: harness.namespace,
    AGENTTURN_STORE: `sqlite:${harness.storePath}`,
    AGENTTURN_APP: APP,
    OPENAI_BASE_URL: model.url,
  };
  worker = startCli(['worker', '--json'], { env });
  await worker.until(/\{"ready".*\n/);
});

afterAll(async () => {
  await worker?.end('SIGTERM');
  await harness?.close();
  await model?.close();
});

test('no command lets anything of it reach the terminal', async () => {
  const ran: string[] = [];
  const run = async (args: readonly string[], input?: string) => {
    const done = await cli(args, input === undefined ? {} : { input });
    ran.push(args.slice(0, 2).join(' '));
    expect([args, done.code === 2 ? done.stderr : '']).toEqual([args, '']);
    for (const said of [done.stdout, done.stderr])
      expect([args[0], args[1], DOES_SOMETHING.exec(said)?.[0] ?? null]).toEqual([args[0], args[1], null]);
    return done;
  };
  const asked = jsonOf<{ agentTurnId: string }>(
    await run(['enqueue', 'boss', `[script:person] ${HOSTILE}`, '--profile', 'clerk', '--json']),
  );
  const turn = asked.agentTurnId;
  const [callId = ''] = await suspended(harness.client.turn(turn));
  await harness.client.agent('boss').triggers.create({ name: 'mail' });
  for (const flags of [[], ['--json']]) {
    await run(['turn', 'show', turn, '--full', ...flags]);
    await run(['turn', 'tree', turn, ...flags]);
    await run(['inbox', ...flags]);
    await run(['approvals', ...flags]);
    await run(['turns', 'ls', ...flags]);
    await run(['agents', 'ls', ...flags]);
    await run(['agents', 'get', 'boss', ...flags]);
    await run(['turns', 'costs', ...flags]);
    await run(['events', '--turn', turn, ...flags]);
  }
  await run(['turn', 'steer', turn, HOSTILE]);
  await run(['tool-result', turn, callId, '--status', 'failed', '--error', HOSTILE]);
  await harness.client.turn(turn).result(WAIT);
  await run(['turn', 'show', turn, '--full']);
  await run(['events', '--turn', turn]);
  await run(['enqueue', 'boss', HOSTILE, '--wait']);
  await run(['run', 'clerk', '-', '--wait'], HOSTILE);
  await run(['run', 'clerk', `[script:broken] ${HOSTILE}`, '--wait']);
  await run(['agents', 'wake', 'boss', HOSTILE]);
  await run(['agents', 'stop', 'boss', '--reason', HOSTILE]);
  await run(['agents', 'get', 'boss']);
  await run(['agents', 'start', 'boss']);
  await run(['chat', 'boss', '--chat', 'c1', '--profile', 'clerk'], `${HOSTILE}\n${HOSTILE}\n`);
  await run(['chats']);
  await run(['work', 'ls', 'boss']);
  await run(['waits', 'ls', 'boss']);
  await run(['triggers', 'ls', 'boss']);
  await run(['rebuild', 'boss']);
  await run(['verify']);
  await run(['chats', 'messages', 'boss', 'c1']);
  await run(['turns', 'ls', '--limit', '50']);
  // A mistake of the caller's is told in his own words.
  for (const wrong of [['turn', 'show', HOSTILE], ['agents', 'get', HOSTILE], ['run', HOSTILE, 'x'], [HOSTILE]]) {
    const { stdout, stderr } = await cli(wrong);
    expect([wrong[0], DOES_SOMETHING.exec(stdout + stderr)]).toEqual([wrong[0], null]);
  }
  expect(new Set(ran).size).toBeGreaterThan(18);
});

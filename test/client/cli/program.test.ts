import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { openSqliteStore } from '../../../activities/store/sqlite/open.ts';
import { runCli as runCommands } from '../../../client/cli/cli.ts';
import { clientCommands } from '../../../client/cli/client-commands.ts';
import type { CliEnvironment } from '../../../client/cli/environment.ts';
import { checkCommands, type ProcessActions, processCommands } from '../../../workers/commands/process-commands.ts';
import { printVerification } from '../../../workers/commands/verify.ts';
import type { Verification } from '../../../workers/verify.ts';
import type { Violation } from '../../../workflows/contract/views.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { testApp } from '../../support/app.ts';

interface Recorded {
  readonly out: string[];
  readonly err: string[];
  readonly calls: { readonly command: string; readonly options: unknown }[];
}

type Environment = CliEnvironment & ProcessActions;

const runCli = (argv: readonly string[], environment: Environment): Promise<number> =>
  runCommands(argv, { version: '9.9.9', io: environment.io }, [
    processCommands(environment),
    clientCommands(environment),
    checkCommands(environment),
  ]);

/** An environment that notes what it is asked for; nothing is opened. */
function recorder(
  demo: () => Promise<number> = async () => 0,
  more: Partial<Environment> = {},
): { environment: Environment; recorded: Recorded } {
  const recorded: Recorded = { out: [], err: [], calls: [] };
  const note = (command: string, answer: () => Promise<number>) => (options: unknown) => {
    recorded.calls.push({ command, options });
    return answer();
  };
  const unexpected = () => Promise.reject(new Error('not in this test'));
  const environment: Environment = {
    io: {
      out: (line) => recorded.out.push(line),
      err: (line) => recorded.err.push(line),
      live: false,
      readStdin: unexpected,
    },
    terminal: () => null,
    openStore: unexpected,
    openClient: unexpected,
    findStall: unexpected,
    interruption: () => AbortSignal.abort(),
    writeJournals: unexpected,
    recover: unexpected,
    verify: unexpected,
    doctor: unexpected,
    init: note('init', async () => 0),
    dev: note('dev', async () => 0),
    worker: note('worker', async () => 0),
    gateway: note('gateway', async () => 0),
    gatewayToken: note('gateway token', async () => 0),
    gatewayWebhook: note('gateway webhook', async () => 0),
    gatewayWebhooks: note('gateway webhooks', async () => 0),
    demo: note('demo', demo),
    demoWorker: note('demo-worker', async () => 0),
    ...more,
  };
  return { environment, recorded };
}

describe('the command line', () => {
  test.each([
    [['frobnicate'], /unknown command 'frobnicate'/],
    [['demo', '--frobnicate'], /unknown option '--frobnicate'/],
    [['enqueue', 'alice'], /missing required argument 'instruction'/],
    [['enqueue', 'alice', 'hi', '--priority', 'urgent'], /Allowed choices are now, normal, background/],
    [['enqueue', 'alice', 'hi', '--timeout', '-1'], /expected a number of seconds above 0/],
    [['dev', '--port', '70000'], /expected a port number/],
    [['demo', '--answer', 'maybe'], /Allowed choices are yes, no/],
    [['events'], /one of the options '--agent <agent>' and '--turn <turn>' is required/],
    [['events', '--agent', 'a', '--turn', 't'], /cannot be used with/],
    [['events', '--agent', 'a', '--after', '-1'], /expected a whole number from 0 on/],
    [['events', '--agent', 'a', '--after', '1.5'], /expected a whole number from 0 on/],
    [['turn', 'steer', 't'], /missing required argument 'text'/],
    [['agents', 'wake', 'a'], /missing required argument 'reason'/],
    [['agents', 'ls', '--limit', '0'], /expected a whole number from 1 to 10000/],
    [['verify', '--older-than', 'soon'], /expected a number of seconds above 0/],
    [['tool-result', 't', 'c', '--status', 'fine'], /Allowed choices are success, failed/],
    [['tool-result', 't', 'c'], /say what the result is: --result JSON/],
    [['tool-result', 't', 'c', '--result', '{"a":1'], /--result must be JSON \(.*\)\ncure: /],
    [['enqueue', 'a', 'hi', '--metadata', 'foo'], /--metadata takes KEY=VALUE/],
    [['enqueue', 'a', 'hi', '--result-fields', '{"x":1}'], /--result-fields: /],
    [['turns', 'ls', '--store', 'foo.db'], /A file is named by sqlite:foo\.db/],
    [['--store', 'sqlite:x.db', 'turns', 'ls'], /unknown option '--store': it goes behind the command/],
    [['turns', 'ls', '--temporal', 'nohost'], /unknown option '--temporal': it asks the store alone/],
    [['turn', 'steer'], /turn steer --help says what it takes/],
  ])('%j is wrong: commander says why, exit 2', async (argv, why) => {
    const { environment, recorded } = recorder();
    expect(await runCli(argv, environment)).toBe(2);
    expect(recorded.err.join('\n')).toMatch(why);
    expect(recorded.calls).toEqual([]);
  });

  test.each([[['--help']], [['--version']], [['demo', '--help']]])('%j is answered, exit 0', async (argv) => {
    const { environment, recorded } = recorder();
    expect(await runCli(argv, environment)).toBe(0);
    expect(recorded.out.join('\n')).not.toBe('');
  });

  test('help does not list the hidden command', async () => {
    const { environment, recorded } = recorder();
    await runCli(['--help'], environment);
    expect(recorded.out.join('\n')).not.toContain('demo-worker');
  });

  test('options arrive as values', async () => {
    const { environment, recorded } = recorder();
    await runCli(
      ['dev', '--port', '0', '--ui-port', '8234', '--gateway-port', '7281', '--data-dir', 'd', '--json'],
      environment,
    );
    await runCli(['worker', '--targets', 'a, b', '--app', './app.ts'], environment);
    await runCli(['demo', 'why?', '--dir', 'docs', '--crash', '--answer', 'no'], environment);
    expect(recorded.calls).toEqual([
      { command: 'dev', options: { port: 0, uiPort: 8234, gatewayPort: 7281, dataDir: 'd', json: true } },
      { command: 'worker', options: { targets: ['a', 'b'], app: './app.ts' } },
      { command: 'demo', options: { question: 'why?', dir: 'docs', crash: true, answer: 'no' } },
    ]);
  });

  test('a failure is its code, what happened and the cure; exit 1', async () => {
    const { environment, recorded } = recorder(() => Promise.reject(new CodedError('port_in_use', 'port 1 is taken')));
    expect(await runCli(['demo'], environment)).toBe(1);
    expect(recorded.err).toEqual([
      'error [port_in_use]: port 1 is taken',
      'cure: Stop that process or choose another port.',
    ]);
    expect(recorded.out).toEqual([]);
  });

  test('with --json a failure is one JSON object on standard output', async () => {
    const { environment, recorded } = recorder(() => Promise.reject(new CodedError('port_in_use', 'port 1 is taken')));
    expect(await runCli(['demo', '--json'], environment)).toBe(1);
    const cure = 'Stop that process or choose another port.';
    expect(recorded.out.map((line) => JSON.parse(line))).toEqual([
      { error: { code: 'port_in_use', message: 'port 1 is taken', cure } },
    ]);
    expect(recorded.err).toEqual([]);
  });

  test('an error that ends a program is printed by Node with its code and its cure', () => {
    expect(inspect(new CodedError('port_in_use', 'port 1 is taken'))).toMatch(
      /code: 'port_in_use',\s+cure: 'Stop that process/,
    );
    expect(new CodedError('port_in_use', 'port 1 is taken', { cure: 'Wait.' }).cure).toBe('Wait.');
  });

  test('a stack is shown only with --debug', async () => {
    const broken = () => Promise.reject(new Error('broken'));
    const quiet = recorder(broken);
    await runCli(['demo'], quiet.environment);
    expect(quiet.recorded.err.join('\n')).toMatch(/error \[internal_error\]: broken/);
    expect(quiet.recorded.err.join('\n')).not.toMatch(/\n\s+at /);
    const loud = recorder(broken);
    await runCli(['demo', '--debug'], loud.environment);
    expect(loud.recorded.err.join('\n')).toMatch(/\n\s+at /);
  });
});

describe('verify', () => {
  const lost: Violation = { check: 'lost_turn', agentId: 'alice', agentTurnId: 't1', detail: 'gone' };
  const checked: Verification = {
    unchecked: ['failing_workflow_task: old server'],
    turns: 7,
    agents: 2,
    stalled: 2,
    stalls: [{ agentId: 'bob', agentTurnId: 't2', stall: { kind: 'start', since: 0 } }],
  };
  const verifying = async (pages: readonly (readonly Violation[])[], ...argv: string[]) => {
    const asked: unknown[] = [];
    const { environment, recorded } = recorder();
    environment.verify = (options) => {
      asked.push(options);
      return printVerification(environment.io, options, async (tell) => {
        for (const page of pages) tell(page);
        return checked;
      });
    };
    return { code: await runCli(['verify', ...argv], environment), asked, ...recorded };
  };

  test('exits 0 and says how much it checked when nothing is wrong', async () => {
    const { code, out } = await verifying([]);
    expect([code, out.at(-1)]).toEqual([0, '7 turns, 2 agents: no violation']);
    expect(await verifying([], '--older-than', '5')).toMatchObject({ asked: [{ olderThan: 5 }] });
  });

  test('exits 1 and tells every violation, and what could not be checked', async () => {
    const { code, out, err } = await verifying([[lost]]);
    expect(code).toBe(1);
    expect(out).toEqual([
      'VIOLATION  AGENT  TURN  WHAT',
      'lost_turn  alice  t1    gone',
      'STALLED AGENT  TURN  WHY',
      expect.stringMatching(/^bob {12}t2 {4}leased since 1970-\S+, and its workflow is not there yet/),
      'and 1 more that do not go on',
      '7 turns, 2 agents: 1 violation',
    ]);
    expect(err).toEqual(['not checked: failing_workflow_task: old server']);
  });

  test.each([[[]], [[[lost]]], [[[lost, lost], [lost]]]])(
    '--json is one object, however many pages it has',
    async (pages) => {
      const { code, out } = await verifying(pages, '--json');
      expect(code).toBe(pages.length === 0 ? 0 : 1);
      expect(JSON.parse(out.join('\n'))).toEqual({ violations: pages.flat(), ...checked });
    },
  );

  test('very many findings are printed as they come', async () => {
    const page = Array.from({ length: 1_000 }, () => lost);
    const { code, out } = await verifying(Array.from({ length: 200 }, () => page));
    expect(code).toBe(1);
    expect(out.at(-1)).toBe('7 turns, 2 agents: 200000 violations');
  });
});

describe('lists', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'agentturn-pages-')), 'store.db');
  const openStore = () => openSqliteStore({ path });
  /** What the command prints, its standard error, and the command it names for what follows. */
  const listed = async (...argv: string[]) => {
    const { environment, recorded } = recorder(undefined, { openStore });
    const code = await runCli(argv, environment);
    const [, more = ''] = /^there are more: npm run agentturn -- (.+)$/.exec(recorded.err.join('\n')) ?? [];
    return { code, ...recorded, more: more.split(' ') };
  };

  beforeAll(async () => {
    const store = await openStore();
    await store.registerProfiles([...testApp([]).agents.values()]);
    for (const agentId of ['ann', 'bob', 'cid', 'dee', 'eve']) {
      const request = { instruction: 'x', profile: 'tester', priority: 'normal' } as const;
      const accepted = await store.accept({ agentId, agentTurnId: `turn-of-${agentId}`, request });
      if (accepted.kind !== 'accepted' || !accepted.lease) throw new Error('no lease');
      const budget = { code: 'max_steps_reached', used: 1, limit: 1 } as const;
      const question = { callId: `budget-${agentId}`, kind: 'budget', tool: '', reason: 'used up', budget } as const;
      await store.askApprovals(accepted.lease, [question]);
    }
    await store.close();
  });

  test('agents ls prints a page, says that more follow and by which command', async () => {
    const idsOf = (lines: readonly string[]) => lines.slice(1).map((line) => line.split(' ')[0]);
    const first = await listed('agents', 'ls', '--limit', '2');
    expect(idsOf(first.out)).toEqual(['ann', 'bob']);
    const second = await listed(...first.more);
    expect(idsOf(second.out)).toEqual(['cid', 'dee']);
    const third = await listed(...second.more);
    expect([idsOf(third.out), third.err]).toEqual([['eve'], []]);
    expect((await listed('agents', 'ls', '--limit', '5')).err).toEqual([]);
    const machine = await listed('agents', 'ls', '--limit', '3', '--json');
    expect(JSON.parse(machine.out.join(''))).toMatchObject({ items: [{}, {}, { agentId: 'cid' }], next: 'cid' });
    expect(machine.err).toEqual([]);
  });

  test('approvals prints a page, says that more follow and by which command', async () => {
    const idsOf = (lines: readonly string[]) => lines.flatMap((line) => /^budget-\w+/.exec(line)?.[0] ?? []);
    const first = await listed('approvals', '--all', '--limit', '2');
    const second = await listed(...first.more);
    const third = await listed(...second.more);
    const all = [first, second, third].flatMap(({ out }) => idsOf(out));
    expect(all.toSorted()).toEqual(['budget-ann', 'budget-bob', 'budget-cid', 'budget-dee', 'budget-eve']);
    expect(first.more).toContain('--all');
    expect(third.err).toEqual([]);
    const machine = await listed('approvals', '--limit', '5', '--json');
    expect(JSON.parse(machine.out.join(''))).toMatchObject({ next: null });
    expect(await listed('approvals', '--after', 'there')).toMatchObject({ code: 2 });
  });
});

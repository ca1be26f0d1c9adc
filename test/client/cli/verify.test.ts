/** `agentturn verify` as a process, on an installation that is well and on one where something was broken by hand. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import Database from 'better-sqlite3';
import type { Verification } from '../../../workers/verify.ts';
import type { Violation } from '../../../workflows/contract/views.ts';
import { WAIT } from '../../support/wait.ts';
import { ADD, type Installation, openInstallation, say } from './installation.ts';
import { emptyFolder, jsonOf, runCli } from './processes.ts';

type Report = Verification & { readonly violations: readonly Violation[] };

describe('verify', () => {
  let installation: Installation;

  beforeAll(async () => {
    installation = await openInstallation({ sum: [ADD, say('5')] });
    for (const agentId of ['alice', 'alice', 'bob']) {
      const turn = await installation.harness.client
        .agent(agentId)
        .enqueue({ instruction: '[script:sum] go', profile: 'clerk' });
      await turn.result(WAIT);
    }
  });
  afterAll(() => installation?.close());

  test('exits 0 when nothing is wrong', async () => {
    const ended = await installation.cli(['verify']);
    expect(ended).toEqual({ code: 0, stdout: '3 turns, 2 agents: no violation\n', stderr: '' });
    const machine = await installation.cli(['verify', '--json']);
    expect(machine.code).toBe(0);
    expect(jsonOf(machine)).toEqual({ violations: [], unchecked: [], turns: 3, agents: 2, stalled: 0, stalls: [] });
  });

  test('exits 1 and names what is wrong in the store and between store and server', async () => {
    const { cli, harness } = installation;
    const [first] = await harness.client.agent('alice').turns();
    const database = new Database(harness.storePath);
    database.exec(`delete from events where type = 'task' and agent_turn_id = '${first?.agentTurnId}'`);
    const request = { instruction: '[script:sum] go', profile: 'clerk', priority: 'normal' } as const;
    for (const agentTurnId of ['early', 'late']) await harness.store.accept({ agentId: 'carol', agentTurnId, request });
    await harness.store.setLifecycle('carol', 'stopped', 'test');
    // Nothing leases a turn because somebody changed a row by hand.
    database.exec(`update agents set lifecycle = 'started' where agent_id = 'carol'`);
    database.exec(`update agent_state_head set agent_status = 'asleep' where agent_id = 'carol'`);
    database.close();
    const quiet = jsonOf<Report>(await cli(['verify', '--json']));
    const found = ['turn_without_task_event', 'event_gap', 'queue_forgotten'];
    expect(quiet.violations.map((violation) => violation.check)).toEqual(found);
    const ended = await cli(['verify', '--older-than', '0.01', '--json']);
    expect(ended.code).toBe(1);
    const { violations, turns, agents } = jsonOf<Report>(ended);
    expect({ turns, agents }).toEqual({ turns: 5, agents: 3 });
    expect(violations).toMatchObject([
      { check: 'turn_without_task_event', agentId: 'alice', agentTurnId: first?.agentTurnId },
      { check: 'event_gap', agentId: 'alice' },
      { check: 'queue_forgotten', agentId: 'carol' },
      { check: 'stranded_turn', agentId: 'carol', agentTurnId: 'late' },
    ]);
    const human = await cli(['verify', '--older-than', '0.01']);
    expect(human.code).toBe(1);
    expect(human.stdout).toMatch(/^VIOLATION +AGENT +TURN +WHAT$/m);
    expect(human.stdout).toMatch(/^stranded_turn +carol +late +queued for \d+ s, and its agent is idle$/m);
    expect(human.stdout).toMatch(/^5 turns, 3 agents: 4 violations$/m);
  });

  test('without a server it is an error, not a clean bill of health', async () => {
    const env = { TEMPORAL_ADDRESS: '127.0.0.1:1', AGENTTURN_STORE: installation.harness.storeUrl };
    const ended = await runCli(['verify', '--json'], { cwd: emptyFolder(), env });
    expect(ended.code).toBe(1);
    expect(jsonOf(ended)).toMatchObject({ error: { code: 'temporal_unreachable' } });
  });
});

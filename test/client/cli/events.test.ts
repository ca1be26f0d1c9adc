/** `agentturn events` as processes of their own, several at once, while a worker process writes. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { TurnHandle } from '../../../client/api.ts';
import type { AgentEvent } from '../../../workflows/contract/events.ts';
import { scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';
import { ADD, type Installation, openInstallation, PERSON, say } from './installation.ts';
import { type Finished, jsonOf } from './processes.ts';

const eventsOf = ({ stdout }: Pick<Finished, 'stdout'>): AgentEvent[] =>
  stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as AgentEvent);
const seqsOf = (ended: Pick<Finished, 'stdout'>): number[] => eventsOf(ended).map((event) => event.seq);
const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

describe.each(scenarioStores(import.meta.url))('events on %s', (backend) => {
  let installation: Installation;

  beforeAll(async () => {
    installation = await openInstallation({ sum: [ADD, say('5')], person: [PERSON, say('signed')] }, backend);
  });
  afterAll(() => installation?.close());

  const enqueue = (agentId: string, script: string): Promise<TurnHandle> =>
    installation.harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'clerk' });
  async function waitingCall(turn: TurnHandle): Promise<string> {
    for await (const event of turn.events()) {
      if (event.type === 'call' && event.payload.phase === 'suspended') return event.payload.callId;
    }
    throw new Error('it did not wait');
  }

  test('--turn prints the turn, one line each, oldest first; --after resumes', async () => {
    const { cli, harness } = installation;
    await (await enqueue('alice', 'sum')).result(WAIT);
    const turn = await enqueue('alice', 'sum');
    await turn.result(WAIT);
    const ended = await cli(['events', '--turn', turn.id, '--json']);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(eventsOf(ended)).toEqual(await harness.store.readEvents({ agentId: 'alice', agentTurnId: turn.id }));
    const seqs = seqsOf(ended);
    const after = String(seqs[2]);
    expect(seqsOf(await cli(['events', '--turn', turn.id, '--after', after, '--json']))).toEqual(seqs.slice(3));
    const { stdout } = await cli(['events', '--agent', 'alice']);
    const lines = stdout.trimEnd().split('\n');
    expect(lines.map((line) => Number(line.slice(0, 6)))).toEqual(numbers(1, lines.length));
    expect(stdout).toMatch(new RegExp(`^ +\\d+ {2}20[^ ]+Z {2}${turn.id} {2}state +dispatched, epoch 2$`, 'm'));
    expect(stdout).toMatch(/ {2}step +1 executing: add$/m);
    expect(stdout).toMatch(/ {2}call +add settled success in .* \(call [0-9a-f-]+\)$/m);
    expect(lines.at(-1)).toMatch(/ {2}task +success, deliverable [0-9a-f-]+$/);
  });

  test('--follow --turn ends with the task event; readers in several processes see the same', async () => {
    const { harness, start } = installation;
    const turn = await enqueue('bob', 'person');
    const follow = ['events', '--turn', turn.id, '--follow', '--json'];
    const readers = [start(follow), start(follow), start([...follow, '--after', '2'])];
    const callId = await waitingCall(turn);
    await Promise.all(readers.map((reader) => reader.until(/"phase":"suspended"/)));
    await turn.toolResult({ callId, status: 'success', result: 'yes' });
    const [first, second, late] = await Promise.all(readers.map((reader) => reader.finished()));
    expect([first?.code, second?.code, late?.code]).toEqual([0, 0, 0]);
    const all = await harness.store.readEvents({ agentId: 'bob', agentTurnId: turn.id });
    expect(all.at(-1)?.type).toBe('task');
    expect(first && eventsOf(first)).toEqual(all);
    expect(second?.stdout).toBe(first?.stdout);
    expect(late && eventsOf(late)).toEqual(all.filter((event) => event.seq > 2));
    const resumed = await start([...follow, '--after', String(all.at(-1)?.seq)]).finished();
    expect(resumed).toMatchObject({ code: 0, stdout: '' });
  });

  test.each([['SIGINT'], ['SIGTERM']] as const)(
    '--follow --agent goes on from turn to turn until %s, and the next reader takes over',
    async (signal) => {
      const { harness, start, cli } = installation;
      const agentId = `carol-${signal.toLowerCase()}`;
      // It may be there before its agent is.
      const reader = start(['events', '--agent', agentId, '--follow', '--json']);
      for (let i = 0; i < 3; i += 1) await (await enqueue(agentId, 'sum')).result(WAIT);
      await reader.until(/(?:"type":"task".*){3}\n/s);
      const interrupted = await reader.end(signal);
      expect(interrupted.code).toBe(0);
      const seen = seqsOf(interrupted);
      await (await enqueue(agentId, 'sum')).result(WAIT);
      const rest = seqsOf(await cli(['events', '--agent', agentId, '--after', String(seen.at(-1)), '--json']));
      const all = await harness.store.readEvents({ agentId });
      expect([...seen, ...rest]).toEqual(numbers(1, all.length));
    },
  );

  test('of what is not there is an error', async () => {
    const { cli } = installation;
    const turn = await cli(['events', '--turn', 'no-such-turn', '--follow', '--json']);
    expect(turn.code).toBe(1);
    expect(jsonOf(turn)).toMatchObject({ error: { code: 'turn_not_found' } });
    const agent = await cli(['events', '--agent', 'nobody', '--json']);
    expect(agent.code).toBe(1);
    expect(jsonOf(agent)).toMatchObject({ error: { code: 'agent_not_found' } });
  });
});

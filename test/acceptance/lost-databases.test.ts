/** `dev` is killed while a turn runs, and both databases are lost: the journal alone brings the session back (C10). */
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type ConnectedClient, connect } from '../../workers/connected-client.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import { terminalOf } from '../../workflows/chat/terminal.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { type CliProcess, emptyFolder, jsonOf, runCli, startCli } from '../client/cli/processes.ts';
import { WAIT } from '../support/wait.ts';
import { linesOf } from '../workers/journal/journal-bench.ts';

const APP = new URL('../client/cli/fixture-app.ts', import.meta.url).pathname;

describe('after the loss of both databases', () => {
  const cwd = emptyFolder();
  const data = join(cwd, '.agentturn');
  const held = Promise.withResolvers<void>();
  let model: ModelServer;

  beforeAll(async () => {
    model = await startModelServer({
      answer: ({ messages }) => {
        const said = String(messages.findLast(({ role }) => role === 'user')?.content);
        if (said.includes('hold')) {
          held.resolve();
          return new Promise(() => {});
        }
        return { kind: 'message', content: `heard ${said}` };
      },
    });
  });
  afterAll(() => model?.close());

  /** A `dev` that is ready, and a client of it. */
  async function dev(): Promise<{ process: CliProcess; client: ConnectedClient; temporalPid: number }> {
    const env = { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'test', AGENTTURN_MODEL: 'scripted' };
    const process = startCli(['dev', '--app', APP, '--port', '0', '--ui-port', '0', '--gateway-port', '0', '--json'], {
      cwd,
      env,
    });
    const [line] = await process.until(/\{"ready".*\n/);
    const { temporal: address, temporalPid } = JSON.parse(line).ready;
    const store = `sqlite:${join(data, 'agentturn.db')}`;
    return { process, temporalPid, client: await connect({ store, temporal: { address, namespace: 'default' } }) };
  }

  test('the turn that ran is closed with what to do next, and the next message runs with the history (C9, C10)', async () => {
    const first = await dev();
    const chat = first.client.chat('clerk', 'c1');
    expect(await (await chat.send('my name is Ada')).terminal(WAIT)).toMatchObject({ status: 'completed' });
    const { turn } = await chat.send('hold on');
    const lost = turn?.id ?? '';
    await held.promise;
    await first.client.close();
    await first.process.end('SIGKILL');
    process.kill(first.temporalPid, 'SIGKILL');
    for (const file of readdirSync(data)) if (/^(agentturn|temporal)\.db/.test(file)) rmSync(join(data, file));
    const second = await dev();
    try {
      expect(second.process.output).toContain(
        `session clerk~c1: written from its journal, turn ${lost} closed as failed`,
      );
      const again = second.client.chat('clerk', 'c1');
      expect((await again.messages()).map(({ payload, status }) => `${payload.text}: ${status}`)).toEqual([
        'my name is Ada: done',
        'hold on: done',
      ]);
      const ended = await second.client.store.getTurn(lost);
      expect(ended && terminalOf(ended)).toMatchObject({
        status: 'failed',
        failure: {
          class: 'report_missing',
          reason: expect.stringContaining('recovered'),
          nextAction: expect.stringContaining('Send the message again'),
        },
      });
      const tasks = (await second.client.store.readEvents({ agentId: 'clerk~c1', agentTurnId: lost })).filter(
        ({ type }) => type === 'task',
      );
      expect(tasks).toHaveLength(1);
      const asked = await again.send('who am I?');
      expect(await asked.terminal(WAIT)).toMatchObject({
        status: 'completed',
        deliverable: { text: 'heard who am I?' },
      });
      const shown = JSON.stringify(model.requests.at(-1)?.messages);
      for (const words of ['my name is Ada', 'heard my name is Ada', 'hold on', 'who am I?'])
        expect(shown).toContain(words);
      // The store has the end first, and the journal before the workflow closes.
      const workflow = turnWorkflowId('clerk~c1', asked.turn?.id ?? '');
      await second.client.temporal.client.workflow.getHandle(workflow).result();
      const ends = linesOf(data, 'clerk~c1').filter((line) => line.type === 'terminal');
      expect(ends).toMatchObject([{ status: 'completed' }, { turnId: lost, recovered: true }, { status: 'completed' }]);
      const recovered = await runCli(['recover', '--json'], { cwd });
      expect(jsonOf(recovered)).toMatchObject({
        sessions: [{ sessionId: 'clerk~c1', restored: false, closedTurnId: null }],
        failed: [],
      });
      const rebuilt = await runCli(['rebuild', '--journal', '--json'], { cwd });
      expect(jsonOf(rebuilt)).toMatchObject({ sessions: 1 });
      expect(linesOf(data, 'clerk~c1').filter((line) => line.type === 'terminal')).toEqual(ends);
      expect(await second.client.store.violations()).toEqual([]);
    } finally {
      await second.client.close();
      await second.process.end();
    }
  });
});

/** Leave that is given while nobody is there to take it: by another process, after every worker and the server were restarted (K7). */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { startScriptedModel } from '../../workers/model-server/scripted.ts';
import { ChaosTemporal } from '../chaos/temporal.ts';
import { say, taskEvents } from '../support/asking.ts';
import { openHarness, scenarioStores } from '../support/harness.ts';
import { whatWasDone } from '../support/holding-app.ts';
import { runScript, startWorkerProcess } from '../support/processes.ts';
import { WAIT } from '../support/wait.ts';

const newFolder = () => mkdtempSync(join(tmpdir(), 'agentturn-approval-'));

const spend = { kind: 'message', toolCalls: [{ name: 'spend', arguments: { amount: 7 } }] } as const;

describe('a call that waits for approval', () => {
  test.each(scenarioStores(import.meta.url))(
    'runs once, as edited, when another process gives it after all was restarted, on %s (K7)',
    async (backend) => {
      const dir = newFolder();
      const temporal = await ChaosTemporal.start(newFolder());
      const harness = await openHarness(backend, { address: temporal.address });
      const model = await startScriptedModel({ scripts: { spend: [spend, say('spent')] } });
      let worker = await startWorkerProcess(harness, model.url, dir);
      try {
        const agent = harness.client.agent(`agent-${v7()}`);
        const turn = await agent.enqueue({ instruction: '[script:spend] go', profile: 'tester' });
        for await (const { type } of turn.events()) if (type === 'approval') break;
        const [question] = await harness.client.approvals({ rootTurnId: turn.id });
        await worker.end('SIGKILL');
        await temporal.restart('SIGKILL', 500);
        expect(whatWasDone(dir)).toEqual([]);
        const store = ['--store', harness.storeUrl];
        const where = [...store, '--temporal', harness.address, '--namespace', harness.namespace];
        const listed = await runScript('workers/main.ts', ['approvals', ...store]);
        expect(listed).toContain('spend {"amount":7}');
        const answer = ['--arguments', '{"amount":5}', '--by', 'ann', '--json'];
        const ack = await runScript('workers/main.ts', ['approve', question?.callId ?? '', ...answer, ...where]);
        expect(JSON.parse(ack)).toMatchObject({ ack: 'applied' });
        worker = await startWorkerProcess(harness, model.url, dir);
        expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'spent' } });
        expect(whatWasDone(dir).map(({ tool }) => tool)).toEqual(['spend 5']);
        expect(await taskEvents(harness.store, turn)).toHaveLength(1);
        expect(await harness.store.violations()).toEqual([]);
      } finally {
        await worker.end('SIGKILL');
        await harness.close();
        await model.close();
        await temporal.stop();
      }
    },
    180_000,
  );
});

/** One turn end to end: real server, real store file, real wire. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { defineTool } from '../../activities/app.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { testApp } from '../support/app.ts';
import { type Harness, openHarness } from '../support/harness.ts';

describe('a turn', () => {
  let harness: Harness;
  let model: ScriptedServer;

  const add = defineTool({
    name: 'add',
    description: 'adds',
    parameters: z.object({ a: z.number(), b: z.number() }),
    execute: ({ a, b }) => ({ sum: a + b }),
  });

  beforeAll(async () => {
    harness = await openHarness();
    model = await startScriptedModel({
      scripts: {
        sum: [
          { kind: 'message', toolCalls: [{ name: 'add', arguments: { a: 2, b: 3 } }] },
          { kind: 'message', content: '5' },
        ],
      },
    });
    await harness.startWorker(testApp([add]), model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  test('calls a tool and delivers the answer', async () => {
    const turn = await harness.client.agent('alice').enqueue({ instruction: '[script:sum] 2+3?', profile: 'tester' });
    const view = await turn.result({ timeoutMs: 20_000 });
    expect(view).toMatchObject({ status: 'success', deliverable: { text: '5' }, turnEpoch: 1, stepCount: 2 });
    console.log(JSON.stringify(view, null, 1));
    const h = await harness.temporal.client.workflow.getHandle(`agents/alice/turns/${turn.id}`).fetchHistory();
    console.log(h.events?.length);
    const h2 = await harness.temporal.client.workflow.getHandle(`agents/alice`).fetchHistory();
    console.log(h2.events?.length);
  });
});

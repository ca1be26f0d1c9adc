/** What an agent with an `output` delivers, from its definition to its caller. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp } from '../../../activities/app/app.ts';
import { outputOf } from '../../../client/output-of.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

const reporter = defineAgent({
  name: 'reporter',
  output: z.object({
    title: z.string().describe('one line'),
    score: z.int().refine((score) => score % 2 === 0, 'must be even'),
    sources: z.array(z.string()).default([]),
  }),
});

const submit = (values: Readonly<Record<string, JsonValue>>) => {
  const fields = Object.entries(values).map(([name, value]) => ({ name, value }));
  return { kind: 'message', toolCalls: [{ name: 'submit_result', arguments: { fields } }] } as const;
};

let harness: Harness;
let model: ScriptedServer;

beforeAll(async () => {
  harness = await openHarness('sqlite');
  model = await startScriptedModel({
    scripts: {
      report: [
        submit({ title: 7, score: 8 }),
        submit({ title: 'wind', score: 7 }),
        submit({ title: 'wind', score: 8, extra: true }),
      ],
      other: [submit({ answer: 7 })],
    },
  });
  await harness.startWorker(defineApp({ agents: [reporter] }), model);
});
afterAll(async () => {
  await harness?.close();
  await model?.close();
});

test('is checked by its schema until it fits, has its defaults, and comes typed to the caller (T28, W9)', async () => {
  const agent = harness.client.agent<typeof reporter>(`agent-${v7()}`);
  const turn = await agent.enqueue({ instruction: '[script:report] go', profile: 'reporter' });
  const { deliverable, steps } = await turn.result(WAIT);
  const errors = steps.flatMap(({ calls }) => calls).map(({ error }) => error);
  expect(errors[0]).toMatchObject({ code: 'invalid_arguments', message: expect.stringContaining('at title') });
  expect(errors[1]?.message).toContain('must be even');
  expect(errors[2]).toBeNull();
  const output = outputOf(deliverable);
  expect(output).toEqual({ title: 'wind', score: 8, sources: [] });
  expect(deliverable?.fields?.find((field) => field.name === 'score')?.value.toFixed(1)).toBe('8.0');
});

test('is what the request asks for instead, where it names fields of its own (T28)', async () => {
  const resultFields = { fields: [{ name: 'answer' }] };
  const agent = harness.client.agent(`agent-${v7()}`);
  const turn = await agent.enqueue({ instruction: '[script:other] go', profile: 'reporter', resultFields });
  expect(outputOf((await turn.result(WAIT)).deliverable)).toEqual({ answer: 7 });
});

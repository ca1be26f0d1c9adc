/** The stream of a turn, with a real worker and model server on both stores: live, late, dropped and resuming readers get the same (W16). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { defineTool } from '../../activities/app/app.ts';
import type { TurnHandle } from '../../client/api.ts';
import type { StreamPart } from '../../client/stream-parts.ts';
import type { ModelAnswer } from '../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import { testApp } from '../support/app.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';

const slow =
  'Streaming shows an answer while it is written, \u{1F600} and the rest of it follows piece by piece. '.repeat(6);

/** JSON that takes seconds to write, so that readers see it grow however busy the machine is. */
const slowlyWritten = `{"to":${' '.repeat(1_500)}3}`;

const count = defineTool({
  name: 'count',
  description: 'Counts.',
  parameters: z.object({ to: z.number() }),
  sideEffects: 'none',
  execute: ({ to }, { progress }) => {
    progress({ done: 1 });
    return { counted: to };
  },
});

/** What a reader has of a turn after these parts. */
function assembled(parts: readonly StreamPart[]) {
  const texts = new Map<number, string>();
  const order: string[] = [];
  for (const part of parts) {
    if (part.type === 'text') texts.set(part.stepIndex, (texts.get(part.stepIndex) ?? '') + part.delta);
    if (part.type === 'retracted') texts.set(part.stepIndex, '');
    if (part.type === 'step') order.push(`step ${part.stepIndex}: ${part.calls.map(({ tool }) => tool).join()}`);
    if (part.type === 'result') order.push(`result ${part.tool} ${JSON.stringify(part.result)}`);
    if (part.type === 'end') order.push(`end ${part.status}`);
  }
  return { texts: [...texts.values()], order };
}

const read = async (turn: TurnHandle, cursor?: string, most = Number.POSITIVE_INFINITY): Promise<StreamPart[]> => {
  const parts: StreamPart[] = [];
  for await (const part of turn.stream(cursor === undefined ? {} : { cursor })) {
    parts.push(part);
    if (parts.length === most) break;
  }
  return parts;
};

/** Many more than the turns of these tests have. */
const MOST_PARTS = 2_000;

/** Leaves after each few parts, and comes back with the cursor of the last one. */
async function interrupted(turn: TurnHandle, most: number): Promise<StreamPart[]> {
  const parts: StreamPart[] = [];
  while (parts.at(-1)?.type !== 'end') {
    parts.push(...(await read(turn, parts.at(-1)?.cursor, most)));
    // A reader that is given the same part again would come back for ever.
    if (parts.length > MOST_PARTS) throw new Error(`${parts.length} parts, and no end`);
  }
  return parts;
}

describe.each(scenarioStores(import.meta.url))('a turn is followed on %s', (backend) => {
  let harness: Harness;
  let model: ModelServer;
  let answers: ModelAnswer[] = [];

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startModelServer({ answer: () => answers.shift() ?? { kind: 'message', content: 'unexpected' } });
    // Far longer than a busy machine makes the model server pause.
    const times = { streamIdleTimeoutMs: 5_000 };
    const options = { apiKey: 'test', baseUrl: model.url, defaultModel: 'scripted', ...times };
    await harness.startWorker(testApp([count]), model, { model: options });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const run = (...script: ModelAnswer[]) => {
    answers = script;
    return harness.client.run('tester', { instruction: 'go' });
  };

  test('text comes while it is written, then calls, results and the end; every reader gets the same, each part once (W16)', async () => {
    const turn = await run(
      {
        kind: 'message',
        content: slow,
        reasoning: 'let me think',
        toolCalls: [{ name: 'count', arguments: slowlyWritten }],
        chunkDelayMs: 25,
      },
      { kind: 'message', content: `${slow}Done.`, chunkDelayMs: 10 },
    );
    const [live, dropping, seldom] = await Promise.all([read(turn), interrupted(turn, 1), interrupted(turn, 7)]);
    const expected = {
      texts: [slow, `${slow}Done.`],
      order: ['step 1: count', 'result count {"counted":3}', 'step 2: ', 'end success'],
    };
    for (const parts of [live, dropping, seldom]) expect(assembled(parts)).toEqual(expected);
    const beforeStep = live.slice(
      0,
      live.findIndex((part) => part.type === 'step'),
    );
    expect(beforeStep.filter((part) => part.type === 'text').length).toBeGreaterThan(5);
    expect(beforeStep.flatMap((part) => (part.type === 'reasoning' ? part.delta : [])).join('')).toBe('let me think');
    expect(beforeStep.some((part) => part.type === 'call_delta' && part.tool === 'count')).toBe(true);
    expect(live.some((part) => part.type === 'retracted')).toBe(false);
    expect(new Set(live.map((part) => part.cursor)).size).toBe(live.length);
    expect(assembled(await read(turn))).toEqual(expected);
    // Whoever has seen half of it goes on from the thoughts when the chunks are gone.
    const half = live.slice(0, 4);
    expect(await harness.store.dropChunks(0, 100)).toBeGreaterThan(0);
    expect(await harness.store.readChunks(turn.id, 0, 10)).toEqual([]);
    expect(assembled([...half, ...(await read(turn, half.at(-1)?.cursor))])).toEqual(expected);
    const late = await read(turn);
    expect(assembled(late)).toEqual(expected);
    expect(late.filter((part) => part.type === 'text')).toHaveLength(2);
  });

  test('an answer that breaks off is retracted, and the next attempt is shown once (W16)', async () => {
    const turn = await run(
      { kind: 'stall', afterChunks: 4, partial: { content: 'This will never be kept, for it breaks off.' } },
      { kind: 'message', content: slow, chunkDelayMs: 10 },
    );
    const [live, dropping] = await Promise.all([read(turn), interrupted(turn, 2)]);
    for (const parts of [live, dropping]) {
      expect(assembled(parts)).toEqual({ texts: [slow], order: ['step 1: ', 'end success'] });
      expect(parts.filter((part) => part.type === 'retracted')).toHaveLength(1);
    }
    // A late reader does not see what was retracted.
    expect((await read(turn)).filter((part) => part.type === 'retracted')).toEqual([]);
  });

  test('an answer that comes at once leaves no chunks', async () => {
    const left: number[] = [];
    // On a busy machine some take longer than chunks are gathered for.
    while (!left.includes(0) && left.length < 20) {
      const turn = await run({ kind: 'message', content: 'At once.' });
      expect(assembled(await read(turn))).toEqual({ texts: ['At once.'], order: ['step 1: ', 'end success'] });
      left.push((await harness.store.readChunks(turn.id, 0, 10)).length);
    }
    expect(left).toContain(0);
  });

  test('a cursor that is none, of another turn, or from the future, is refused', async () => {
    const turn = await run({ kind: 'message', content: 'A.' });
    const parts = await read(turn);
    const other = await run({ kind: 'message', content: 'B.' });
    await read(other);
    const [first = ''] = parts.map((part) => part.cursor);
    const future = first.replace(/^\w+/, 'zzzz');
    for (const cursor of ['', 'x', '1.2.3', first.replace(/\./g, '-'), `${'z'.repeat(12)}${first}`, future]) {
      await expect(read(turn, cursor)).rejects.toMatchObject({ code: 'invalid_request' });
    }
    expect(await read(turn, parts.at(-1)?.cursor)).toEqual([]);
    await expect(read(harness.client.turn('no-such-turn'))).rejects.toMatchObject({ code: 'turn_not_found' });
  });
});

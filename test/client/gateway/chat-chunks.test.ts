/** Parts of a stream as chunks of a UI message, where a front end would be misled by a plain translation. */
import { describe, expect, test } from '@jest/globals';
import { readUIMessageStream, type UIMessage, type UIMessageChunk, uiMessageChunkSchema } from 'ai';
import { UiMessage } from '../../../client/gateway/chat/chunks.ts';
import type { StreamBody } from '../../../client/stream-parts.ts';

const start = { agentId: 'ann', agentTurnId: 'turn' };
const text = (delta: string, stepIndex = 1): StreamBody => ({ type: 'text', stepIndex, delta });
const retracted: StreamBody = { type: 'retracted', stepIndex: 1 };
const step = (...tools: string[]): StreamBody => ({
  type: 'step',
  stepIndex: 1,
  calls: tools.map((tool) => ({ callId: tool, tool, arguments: '{}' })),
});
const approval = (tool: string, phase: 'asked' | 'approved' | 'denied' | 'unanswered'): StreamBody => ({
  type: 'approval',
  callId: tool,
  tool,
  phase,
});
const result = (tool: string): StreamBody => ({ type: 'result', callId: tool, tool, status: 'success', result: tool });
const end: StreamBody = { type: 'end', status: 'success', errorCode: null, deliverable: { text: 'It is warm.' } };

/** The chunks, each of which the AI SDK must know. */
async function chunksOf(parts: readonly StreamBody[], message = new UiMessage(start)): Promise<UIMessageChunk[]> {
  const schema = uiMessageChunkSchema();
  const chunks: unknown[] = [message.start()];
  parts.forEach((part, index) => {
    chunks.push(...message.take({ ...part, cursor: `${index}` }), ...message.pause(`${index}`));
  });
  return Promise.all(
    chunks.map(async (chunk) => {
      const read = await schema.validate?.(chunk);
      if (!read?.success) throw new Error(`${JSON.stringify(chunk)}: ${read?.error}`);
      return read.value;
    }),
  );
}

/** The message that the AI SDK makes of the parts. */
async function messageOf(parts: readonly StreamBody[]): Promise<UIMessage> {
  const chunks = await chunksOf(parts);
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  let message: UIMessage | undefined;
  for await (const each of readUIMessageStream({ stream, terminateOnError: true })) message = each;
  if (!message) throw new Error('there is no message');
  return message;
}

const texts = ({ parts }: UIMessage) =>
  parts.flatMap((part) => (part.type === 'text' ? [[part.text, part.providerMetadata?.agentturn]] : []));
const types = (chunks: readonly UIMessageChunk[]) => chunks.map(({ type }) => type);

describe('a model that is asked again', () => {
  test('says the same: it is shown once', async () => {
    const message = await messageOf([text('It is '), retracted, text('It '), text('is warm.'), step(), end]);
    expect(texts(message)).toEqual([['It is warm.', undefined]]);
  });

  test('says something else: what was shown before is marked', async () => {
    const message = await messageOf([text('It is cold'), retracted, text('It is '), text('warm.'), step(), end]);
    expect(texts(message)).toEqual([
      ['It is cold', { retracted: true }],
      ['It is warm.', undefined],
    ]);
  });

  test('says less: what was shown before is marked', async () => {
    const message = await messageOf([text('It is warm. Or cold.'), retracted, text('It is warm.'), step(), end]);
    expect(texts(message)).toEqual([
      ['It is warm. Or cold.', { retracted: true }],
      ['It is warm.', undefined],
    ]);
  });

  test('gives up after it said something', async () => {
    const message = await messageOf([text('It is'), retracted, step('forecast')]);
    expect(texts(message)).toEqual([['It is', { retracted: true }]]);
  });
});

describe('approvals', () => {
  test('the message ends when nothing goes on without an answer, and not before', async () => {
    const parts = [step('forecast', 'book'), approval('book', 'asked'), result('forecast')];
    expect(types(await chunksOf(parts)).slice(-4)).toEqual([
      'message-metadata',
      'tool-output-available',
      'finish-step',
      'finish',
    ]);
  });

  test('a call that nobody answered in time has the result that says so', async () => {
    const parts = [step('book', 'ask'), approval('book', 'asked'), approval('book', 'unanswered'), result('book')];
    const message = await messageOf(parts);
    expect(message.parts).toContainEqual(expect.objectContaining({ toolCallId: 'book', state: 'output-available' }));
  });

  test('a message that goes on knows its calls', async () => {
    const going = new UiMessage({ ...start, calls: new Map([['book', 'running'] as const]) });
    const chunks = await chunksOf([approval('book', 'approved'), result('book'), text('Booked.', 2), end], going);
    expect(types(chunks)).toEqual([
      'start',
      'tool-approval-response',
      'tool-output-available',
      'start-step',
      'text-start',
      'text-delta',
      'text-delta',
      'text-end',
      'finish-step',
      'finish',
    ]);
  });
});

test('arguments that are no JSON are shown as they were written', async () => {
  const call = { callId: 'a', tool: 'forecast', arguments: '{"city' };
  const message = await messageOf([{ type: 'step', stepIndex: 1, calls: [call] }]);
  expect(message.parts).toContainEqual(expect.objectContaining({ state: 'output-error', input: '{"city' }));
});

test('how far a tool is, and fields of a deliverable, are told', async () => {
  const fields = [{ name: 'degrees', value: 30 }];
  const progress: StreamBody = { type: 'progress', callId: 'a', tool: 'a', progress: { done: 0.5 } };
  const last: StreamBody = { type: 'end', status: 'success', errorCode: null, deliverable: { fields } };
  expect(await chunksOf([step('a'), progress])).toContainEqual(
    expect.objectContaining({ type: 'tool-output-available', preliminary: true, output: { done: 0.5 } }),
  );
  expect((await messageOf([step(), last])).parts).toContainEqual(
    expect.objectContaining({ type: 'data-deliverable', data: { degrees: 30 } }),
  );
});

test('an answer that stays cut short finishes its message as one whose length was the limit (K11)', async () => {
  const cut: StreamBody = { ...end, status: 'partial', errorCode: 'answer_truncated' };
  const finish = (chunks: readonly object[]) => chunks.find((chunk) => 'type' in chunk && chunk.type === 'finish');
  expect(finish(await chunksOf([text('It is'), cut]))).toMatchObject({ finishReason: 'length' });
  expect(finish(await chunksOf([text('It is'), end]))).toMatchObject({ finishReason: 'stop' });
});

test.each<['stopped' | 'no_worker', string]>([
  ['stopped', 'abort'],
  ['no_worker', 'error'],
])('a turn that ends as %s ends its message with %s', async (errorCode, type) => {
  const failed: StreamBody = { type: 'end', status: 'failed', errorCode, deliverable: {} };
  expect(types(await chunksOf([text('It is'), failed])).slice(-3)).toEqual(['text-end', 'finish-step', type]);
});

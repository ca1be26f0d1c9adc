/** Whatever a provider sends, a reply and its calls keep what the rest of the runtime relies on (W15). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Proposals } from '../../../activities/llm/proposals.ts';
import { REPLY_BOUNDS, ReplyBuilder, type StreamedReply } from '../../../activities/llm/reply.ts';
import { StreamFailure } from '../../../activities/llm/stream-guard.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';
import { proposalsOf } from '../../support/proposed-calls.ts';

/** Text with halves of characters, control characters and brackets; now and then a lot of it. */
const text = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.string({
      unit: fc.constantFrom('a', '"', '\\', '{', '}', '[', ':', '\ud83d', '\ude00', '\u0000', 'ß', '\\ud83d'),
      maxLength: 12,
    }),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom('x', '\u0000', '🧬', '\ud83d'), fc.integer({ min: 1, max: 100_000 }))
      .map(([c, n]) => c.repeat(n)),
  },
);
const odd = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(undefined, null, '', 0, -1, Number.POSITIVE_INFINITY, {}, []) },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
);
const orOdd = (arbitrary: fc.Arbitrary<unknown>) => fc.oneof({ weight: 4, arbitrary }, { weight: 1, arbitrary: odd });

const args = fc.oneof(
  text,
  fc.json({ maxDepth: 3 }),
  fc.constantFrom(
    '{}',
    '{"n":',
    '1}',
    '',
    '{"n":1e999}',
    '{"n":-0}',
    '{"__proto__":{"n":1}}',
    '{"fields":[{"name":"a","value":1}]}',
  ),
  fc.constantFrom(1, 100, 200, 10_000).map((depth) => `{"n":${'['.repeat(depth)}${']'.repeat(depth)}}`),
);
const toolPiece = fc.record({
  index: orOdd(fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: -1, max: 2 ** 40 }))),
  id: orOdd(fc.oneof(fc.constantFrom('a', 'b', ''), text)),
  function: orOdd(
    fc.record({
      name: orOdd(fc.oneof(fc.constantFrom('add', 'look', 'submit_result', 'skill', ''), text)),
      arguments: orOdd(args),
    }),
  ),
});
const count = orOdd(fc.oneof(fc.nat(), fc.double(), fc.constantFrom('12', -3, 2 ** 53)));
const usage = fc.record({
  prompt_tokens: count,
  completion_tokens: count,
  prompt_tokens_details: orOdd(fc.record({ cached_tokens: count })),
});
const chunk = orOdd(
  fc.record(
    {
      model: orOdd(text),
      usage: orOdd(usage),
      choices: orOdd(
        fc.array(
          orOdd(
            fc.record(
              {
                delta: orOdd(
                  fc.record(
                    {
                      content: orOdd(
                        fc.oneof(text, fc.array(orOdd(fc.record({ text: orOdd(text) })), { maxLength: 3 })),
                      ),
                      refusal: orOdd(text),
                      tool_calls: orOdd(fc.array(orOdd(toolPiece), { maxLength: 4 })),
                    },
                    { requiredKeys: [] },
                  ),
                ),
                finish_reason: orOdd(fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter', 'error')),
              },
              { requiredKeys: [] },
            ),
          ),
          { maxLength: 2 },
        ),
      ),
    },
    { requiredKeys: [] },
  ),
);

/** Some streams go on and on. */
const streams = fc
  .tuple(fc.array(chunk, { maxLength: 8 }), fc.constantFrom(...Array<number>(30).fill(1), 40))
  .map(([chunks, times]) => Array.from({ length: times }, () => chunks).flat());

const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;

function checkReply({ text: kept, refusal, calls, finishReason, model, usage: counted }: StreamedReply): void {
  const all = [kept, refusal, ...calls.flatMap((call) => [call.id, call.name, call.arguments])];
  const bytes = all.reduce((sum, part) => sum + Buffer.byteLength(JSON.stringify(part)) - 2, 0);
  expect(bytes).toBeLessThanOrEqual(REPLY_BOUNDS.bytes);
  expect(calls.length).toBeLessThanOrEqual(REPLY_BOUNDS.calls);
  expect([kept, refusal, ...calls.map((call) => call.arguments)].every((part) => part.isWellFormed())).toBe(true);
  expect(finishReason).toMatch(/^[ -~]{1,80}$/);
  expect(model).toMatch(/^[ -~]{1,200}$/);
  if (counted === null) return;
  expect([counted.input, counted.output, counted.cached].every(isCount)).toBe(true);
  expect(counted.cached).toBeLessThanOrEqual(counted.input);
}

function checkProposals({ proposed, calls }: Proposals): void {
  expect(new Set(proposed.map((call) => call.providerCallId)).size).toBe(proposed.length);
  for (const call of proposed) {
    expect(call.providerCallId).toMatch(/^[!-~]{1,128}$/);
    expect(call.name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    const read: unknown = JSON.parse(call.arguments);
    expect(typeof read === 'object' && read !== null && !Array.isArray(read)).toBe(true);
    expect(call.arguments.isWellFormed() && JSON.stringify(read).match(/\\ud[89a-f]/) === null).toBe(true);
  }
  for (const { content, result } of calls) {
    expect(Buffer.byteLength(JSON.stringify(content))).toBeLessThan(SIZES.cardBytes);
    expect(Buffer.byteLength(JSON.stringify(result ?? null))).toBeLessThan(16 * 1024);
  }
}

/** The reply; null when the stream had no end, or one by which the provider says that it gave up. */
function finished(builder: ReplyBuilder): StreamedReply | null {
  try {
    return builder.finish();
  } catch (error) {
    if (error instanceof StreamFailure) return null;
    throw error;
  }
}

describe('any stream', () => {
  test('becomes a reply within its bounds, with calls that can go back on the wire, or none (W15)', async () => {
    let finishedStreams = 0;
    await fc.assert(
      fc.asyncProperty(streams, async (chunks) => {
        const builder = new ReplyBuilder('asked-for');
        for (const one of chunks) if (!builder.add(one, 1)) break;
        const reply = finished(builder);
        if (!reply) return;
        finishedStreams += 1;
        checkReply(reply);
        checkProposals(await proposalsOf(reply));
      }),
      { numRuns: 5_000 },
    );
    expect(finishedStreams).toBeGreaterThan(500);
  });
});

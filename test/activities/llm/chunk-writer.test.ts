/** What is kept of an answer while the store cannot write it is bounded, however often that fails (W16). */
import { describe, expect, test } from '@jest/globals';
import { AnswerChunks } from '../../../activities/llm/chunk-writer.ts';
import type { ChunkBody } from '../../../workflows/contract/chunks.ts';

const PIECE = 'x'.repeat(128 * 1024);
const MOST = 512 * 1024;

const sizeOf = (chunks: readonly ChunkBody[]): number =>
  chunks.reduce((sum, chunk) => sum + ('text' in chunk ? chunk.text.length : 0), 0);

describe('an answer that cannot be written', () => {
  test('takes no more than it may keep, though it was taken and put back', () => {
    const fence = { agentId: 'a', agentTurnId: 't', turnEpoch: 1 };
    const answer = new AnswerChunks({ fence, stepIndex: 0, attempt: 1 }, () => {});
    for (let failed = 0; failed < 3; failed += 1) {
      for (let piece = 0; piece < 8; piece += 1) answer.text(PIECE);
      answer.putBack(answer.take());
    }
    expect(sizeOf(answer.take())).toBe(MOST);
    answer.text(PIECE);
    expect(sizeOf(answer.take())).toBe(PIECE.length);
  });

  test('is put back, however many pieces it has', () => {
    const fence = { agentId: 'a', agentTurnId: 't', turnEpoch: 1 };
    const answer = new AnswerChunks({ fence, stepIndex: 0, attempt: 1 }, () => {});
    for (let piece = 0; piece < MOST / 2; piece += 1) {
      answer.text('x');
      answer.reasoning('y');
    }
    const taken = answer.take();
    answer.putBack(taken);
    expect(answer.take()).toHaveLength(taken.length);
  });
});

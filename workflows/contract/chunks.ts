/**
 * Chunks: a model's answer as it is written, before its step is committed (W16). They are a side channel beside the events: no decision
 * depends on them, no history holds them, and they are dropped some time after the end of their turn. What stays is the thought.
 */
import type { Fence, Usage } from '../protocol/turn.ts';

/** What a chunk says. `at` is its place in the text of its attempt, in UTF-16 code units. */
export type ChunkBody =
  /** The first piece of the attempt has come. */
  | { readonly type: 'start' }
  | { readonly type: 'content'; readonly at: number; readonly text: string }
  /** What the model thinks before it answers, where its provider tells; no card keeps it. */
  | { readonly type: 'reasoning'; readonly text: string }
  /** A part of the arguments of the call with that place in the answer, from 0. */
  | { readonly type: 'tool_call'; readonly index: number; readonly tool: string; readonly text: string }
  /** The answer is complete; the commit of its step follows. */
  | { readonly type: 'end'; readonly usage: Usage };

/** A chunk as it is read. */
export type Chunk = ChunkBody & {
  /** Its place among the chunks of its turn, from 1; one that is written later has a higher one. */
  readonly seq: number;
  readonly stepIndex: number;
  /** When the attempt was scheduled, epoch ms by the Temporal server's clock: a later attempt at the same step supersedes an earlier one. */
  readonly attempt: number;
};

/** Chunks of one attempt at a step, in their order. */
export interface ChunkBatch {
  readonly fence: Fence;
  readonly stepIndex: number;
  readonly attempt: number;
  readonly chunks: readonly ChunkBody[];
}

/** The chunks of turns. */
export interface ChunkStore {
  /**
   * Appends the chunks of several turns, and returns for each batch whether it was written: not where the lease is over. An answer that was lost
   * on its way may leave chunks that are then written again.
   */
  appendChunks(batches: readonly ChunkBatch[]): Promise<readonly boolean[]>;
  /** Reads chunks of a turn behind that place, in order, at most `limit`. */
  readChunks(agentTurnId: string, after: number, limit: number): Promise<readonly Chunk[]>;
  /**
   * Drops the chunks of at most `limit` turns that have ended `keepMs` ago or earlier, and returns how many turns these were. Idempotent.
   */
  dropChunks(keepMs: number, limit: number): Promise<number>;
}

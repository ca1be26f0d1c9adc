/**
 * Chunks of answers that are being written (W16).
 *
 * Invariant: a chunk that is seen has all before it visible too, for the next place is the highest that is committed and one more, and of two
 * writers that took the same place one waits for the other and takes the next.
 */
import { sql } from 'kysely';
import type { Chunk, ChunkBatch, ChunkBody } from '../../../workflows/contract/chunks.ts';
import { MOST_SKEW_MS } from '../ahead.ts';
import { read, type StoreContext, type Tx, together, write } from '../context.ts';
import { inStatements } from '../prepared.ts';
import { decoded, encodedText } from '../schema/json.ts';
import type { ChunkRow } from '../schema/log-rows.ts';
import { mayAct, selectLease } from '../turns/head.ts';

/** Writers of chunks stand in a line of their own, and in nobody's way. */
const LINE = 'chunks';

/** Appends the chunks of several turns; tells for each batch whether it was written. */
export const appendChunks = (ctx: StoreContext, batches: readonly ChunkBatch[]): Promise<readonly boolean[]> =>
  write(telling(ctx), LINE, async (tx) => {
    const written: boolean[] = [];
    for (const batch of batches) written.push(await append(tx, batch));
    return written;
  });

/** Tells of a commit that it was of chunks, which somebody may be waiting to read. */
const telling = (ctx: StoreContext): StoreContext => ({ ...ctx, committed: () => ctx.committed?.('chunks') });

async function append(tx: Tx, { fence, stepIndex, attempt, chunks }: ChunkBatch): Promise<boolean> {
  const { agentTurnId } = fence;
  const selectLast = tx.db
    .selectFrom('chunks')
    .select(({ fn }) => fn.max('seq').as('seq'))
    .where('agent_turn_id', '=', agentTurnId);
  for (;;) {
    const [[lease], [last]] = await together(tx.db, selectLease(tx, fence), selectLast);
    if (!mayAct(lease, fence)) return false;
    const from = Number(last?.seq ?? 0) + 1;
    const rows = chunks.map((body, index) => ({
      agent_turn_id: agentTurnId,
      seq: from + index,
      step_index: stepIndex,
      attempt,
      body: encodedText(body),
      created_at: tx.now,
    }));
    if (await areInserted(tx, rows)) return true;
  }
}

/** Inserts all of the rows; or none, and returns false, when another writer took one of their places, whose chunk is there by then. */
async function areInserted(tx: Tx, rows: readonly ChunkRow[]): Promise<boolean> {
  const inserted: Pick<ChunkRow, 'agent_turn_id' | 'seq'>[] = [];
  for (const some of inStatements(rows)) {
    const insert = tx.db
      .insertInto('chunks')
      .values(some)
      .onConflict((conflict) => conflict.doNothing());
    inserted.push(...(await insert.returning(['agent_turn_id', 'seq']).execute()));
  }
  if (inserted.length === rows.length) return true;
  for (const { agent_turn_id: agentTurnId, seq } of inserted)
    await tx.db.deleteFrom('chunks').where('agent_turn_id', '=', agentTurnId).where('seq', '=', seq).execute();
  return false;
}

/** Reads chunks of a turn behind that place, in order. */
export const readChunks = (
  ctx: StoreContext,
  agentTurnId: string,
  after: number,
  limit: number,
): Promise<readonly Chunk[]> =>
  read(ctx, async ({ db }) => {
    const rows = await db
      .selectFrom('chunks')
      .select(['seq', 'step_index', 'attempt', 'body'])
      .where('agent_turn_id', '=', agentTurnId)
      .where('seq', '>', after)
      .orderBy('seq')
      .limit(limit)
      .execute();
    return rows.map(({ seq, step_index: stepIndex, attempt, body }) => {
      return { ...(decoded(body) as ChunkBody), seq, stepIndex, attempt };
    });
  });

/**
 * Drops the chunks of turns that ended long enough ago; returns how many turns these were. What was written by a clock that was ahead is not
 * kept until its time comes.
 */
export const dropChunks = (ctx: StoreContext, keepMs: number, limit: number): Promise<number> =>
  write(ctx, LINE, async ({ db, now }) => {
    const kept = { from: now - keepMs + 1, to: now + MOST_SKEW_MS };
    const ids: string[] = [];
    // One range in a statement: with two at once SQLite reads all chunks.
    for (const range of [sql<boolean>`created_at < ${kept.from}`, sql<boolean>`created_at > ${kept.to}`]) {
      const rows = await db
        .selectFrom('chunks')
        .select('agent_turn_id')
        // The first chunk of each turn, which an index has by age.
        .where('seq', '=', sql.lit(1))
        .where(range)
        // A join would be made by reading all turns. One that is open has no end, and is not found.
        .where(
          sql<boolean>`(select ended_at from turns where turns.agent_turn_id = chunks.agent_turn_id)
            not between ${kept.from} and ${kept.to}`,
        )
        .orderBy('created_at')
        .limit(limit)
        .execute();
      ids.push(...rows.map((row) => row.agent_turn_id));
    }
    if (ids.length === 0) return 0;
    await db
      .deleteFrom('chunks')
      .where((eb) => eb('agent_turn_id', '=', eb.fn.any(eb.val(ids))))
      .execute();
    return ids.length;
  });

/**
 * The inbox of a running turn: one row for each steer, for the budgets that operators set, and for each answer, in the order in which they
 * came. What an item says is kept where it belongs: a steer in its card, budgets with the turn, an answer with its question. The caller
 * holds the agent's head row.
 *
 * Invariants
 * 1. A turn has one row for its budgets: new ones take a new place, so that a turn that has not read the old ones reads all at once.
 * 2. Budgets are delivered by their place: a turn that asks from the same place again gets the same again.
 */
import type { Reader, Tx } from '../context.ts';
import type { InboxRow } from '../schema/rows.ts';

/** What a row is about: `ref` is the card of a steer, the call of an answer, and empty for budgets. */
export type InboxKey = Pick<InboxRow, 'agent_turn_id' | 'kind' | 'ref'>;

/** Puts an item behind all that came before, and returns its place, from 1. An item of that key that is there moves behind them. */
export async function putItem(tx: Tx, key: InboxKey): Promise<number> {
  const { last } = await tx.db
    .selectFrom('turn_inbox')
    .select((eb) => eb.fn.coalesce(eb.fn.max('seq'), eb.lit(0)).as('last'))
    .where('agent_turn_id', '=', key.agent_turn_id)
    .executeTakeFirstOrThrow();
  const item = { seq: Number(last) + 1, status: 'pending', step_index: null, created_at: tx.at } as const;
  await tx.db
    .insertInto('turn_inbox')
    .values({ ...key, ...item })
    .onConflict((conflict) => conflict.columns(['agent_turn_id', 'kind', 'ref']).doUpdateSet(item))
    .execute();
  return item.seq;
}

/** Changes the row of an item. */
export async function markItem(tx: Tx, { agent_turn_id, kind, ref }: InboxKey, to: Partial<InboxRow>): Promise<void> {
  await tx.db
    .updateTable('turn_inbox')
    .set(to)
    .where('agent_turn_id', '=', agent_turn_id)
    .where('kind', '=', kind)
    .where('ref', '=', ref)
    .execute();
}

/** The row of an item; undefined when there is none. */
export const findItem = ({ db }: Reader, { agent_turn_id, kind, ref }: InboxKey): Promise<InboxRow | undefined> =>
  db
    .selectFrom('turn_inbox')
    .selectAll()
    .where('agent_turn_id', '=', agent_turn_id)
    .where('kind', '=', kind)
    .where('ref', '=', ref)
    .executeTakeFirst();

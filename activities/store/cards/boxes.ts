/**
 * Boxes and cards that no turn writes: input written before a request, forks, replaced memory. A context box is complete when it is made
 * (T24).
 */
import { sql } from 'kysely';
import { v7 } from 'uuid';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import { contextBoxId, inputCardId, outputCardId } from '../../ids.ts';
import { type StoreContext, type Trx, write } from '../context.ts';
import type { BoxRow, HiddenReason } from '../schema/rows.ts';
import { lockHead, updateHead } from '../turns/head.ts';
import { createBox, insertCard } from './cards.ts';
import { writeUnits } from './earlier-turns.ts';

export async function writeInstructionCard(ctx: StoreContext, text: string): Promise<string> {
  const cardId = inputCardId(text);
  await write(ctx, cardId, (trx) =>
    insertCard(trx, { cardId, type: 'task.instruction', content: { text }, author: 'client' }, ctx.now()),
  );
  return cardId;
}

export async function writeOutputCard(ctx: StoreContext, value: JsonValue): Promise<string> {
  const cardId = outputCardId(JSON.stringify(value));
  await write(ctx, cardId, (trx) =>
    insertCard(trx, { cardId, type: 'tool.output', content: { value }, author: 'client' }, ctx.now()),
  );
  return cardId;
}

/** They stay in the box, and are rendered no more (K13). */
export async function hideCards(trx: Trx, boxId: string, seqs: readonly number[], reason: HiddenReason): Promise<void> {
  await trx
    .updateTable('box_cards')
    .set({ hidden_reason: reason })
    .where('box_id', '=', boxId)
    .where('seq', 'in', seqs)
    .execute();
}

export async function writeContextBox(ctx: StoreContext, texts: readonly string[]): Promise<string> {
  const boxId = contextBoxId(texts);
  const now = ctx.now();
  await write(ctx, boxId, async (trx) => {
    const box = { box_id: boxId, kind: 'context', owner_agent_id: null, last_seq: texts.length } as const;
    await createBox(trx, box, now);
    for (const [index, text] of texts.entries()) {
      const cardId = inputCardId(text, index);
      await insertCard(trx, { cardId, type: 'context.note', content: { text }, author: 'client' }, now);
      const entry = { box_id: boxId, seq: index + 1, card_id: cardId, hidden_reason: null };
      await trx
        .insertInto('box_cards')
        .values(entry)
        .onConflict((conflict) => conflict.doNothing())
        .execute();
    }
    await writeUnits(trx, boxId);
  });
  return boxId;
}

export interface Fork {
  readonly from: string;
  readonly to: string;
  readonly kind: BoxRow['kind'];
  readonly owner: string | null;
  /** Only what stands before this place in the box. */
  readonly beforeSeq?: number;
}

/** Copies a box: the same visible cards under a new owner, so that two agents never write to one box (T25). Repeating it changes nothing. */
export async function forkBox(trx: Trx, { from, to, kind, owner, beforeSeq }: Fork, now: number): Promise<void> {
  const known = await trx.selectFrom('boxes').select('box_id').where('box_id', '=', to).executeTakeFirst();
  if (known) return;
  const before = beforeSeq ?? Number.MAX_SAFE_INTEGER;
  await sql`insert into box_cards (box_id, seq, card_id, hidden_reason)
    select cast(${to} as text), row_number() over (order by seq), card_id, null from box_cards
    where box_id = ${from} and hidden_reason is null and seq < ${before}`.execute(trx);
  const { copied } = await trx
    .selectFrom('box_cards')
    .select((eb) => eb.fn.countAll<number>().as('copied'))
    .where('box_id', '=', to)
    .executeTakeFirstOrThrow();
  const row = { box_id: to, kind, owner_agent_id: owner, parent_ids: JSON.stringify([from]) };
  await createBox(trx, { ...row, last_seq: Number(copied) }, now);
  await writeUnits(trx, to);
}

/** A turn that is open goes on writing to the old box: nothing of it would be remembered, so only an idle agent changes boxes. */
export async function replaceOutputBox(
  ctx: StoreContext,
  agentId: string,
  expectedBoxId: string,
  cardIds: readonly string[],
): Promise<string> {
  const now = ctx.now();
  return write(ctx, agentId, async (trx) => {
    const head = await lockHead(trx, agentId, now);
    if (head.status !== 'idle') {
      throw new CodedError('agent_busy', `agent ${agentId} has an open turn; stop it or wait, then replace its box`);
    }
    if (head.output_box_id !== expectedBoxId) {
      const message = `agent ${agentId} remembers box ${head.output_box_id ?? '(none)'}, not ${expectedBoxId}; read it again, then replace it`;
      throw new CodedError('box_unavailable', message);
    }
    const ids = [...new Set(cardIds)];
    const boxId = v7();
    const parents = JSON.stringify([expectedBoxId]);
    const row = { box_id: boxId, kind: 'output', owner_agent_id: agentId, parent_ids: parents } as const;
    await createBox(trx, { ...row, last_seq: ids.length }, now);
    for (const [index, cardId] of ids.entries()) {
      const card = await trx.selectFrom('cards').select('card_id').where('card_id', '=', cardId).executeTakeFirst();
      if (!card) throw new CodedError('box_unavailable', `there is no card ${cardId} to put into the new box`);
      const entry = { box_id: boxId, seq: index + 1, card_id: cardId, hidden_reason: null };
      await trx.insertInto('box_cards').values(entry).execute();
    }
    await writeUnits(trx, boxId);
    await updateHead(trx, agentId, { output_box_id: boxId });
    return boxId;
  });
}

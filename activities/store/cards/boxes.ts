/**
 * Boxes and cards that no turn writes: input that is written before a request, forks, and output boxes that are replaced.
 *
 * Invariant: a context box is complete when it is made, and nothing is ever added to it (T24).
 */

import { sql } from 'kysely';
import { v7 } from 'uuid';
import { NO_BORDER } from '../../../workflows/contract/border.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import { contextBoxId, inputCardId, outputCardId } from '../../ids.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import { encoded } from '../schema/json.ts';
import type { BoxRow, HiddenReason } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { mayUse } from '../turns/at-the-border.ts';
import { lockHead, updateHead } from '../turns/head.ts';
import { rosterEntry } from '../turns/roster.ts';
import { createBox, insertCard } from './cards.ts';
import { rewriteUnits, writeUnits } from './earlier-turns.ts';

/** Writes a text as an instruction card for a later request; returns its id. */
export async function writeInstructionCard(
  ctx: StoreContext,
  text: string,
  tenant: string | null = null,
): Promise<string> {
  const cardId = inputCardId(text, 0, tenant);
  await write(ctx, cardId, (tx) =>
    insertCard(tx, { cardId, type: 'task.instruction', content: { text }, author: 'client', tenant }),
  );
  return cardId;
}

/** Writes a value as the output of a tool, for a later report; returns the id of the card (T18). */
export async function writeOutputCard(
  ctx: StoreContext,
  value: JsonValue,
  tenant: string | null = null,
): Promise<string> {
  const cardId = outputCardId(JSON.stringify(value), tenant);
  await write(ctx, cardId, (tx) =>
    insertCard(tx, { cardId, type: 'tool.output', content: { value }, author: 'client', tenant }),
  );
  return cardId;
}

/** Takes cards of a box out of view: they stay in the box, and are rendered no more (K13). */
export async function hideCards(
  tx: Tx,
  { output_box_id: boxId, agent_turn_id: by }: Pick<TurnRow, 'agent_turn_id'> & { readonly output_box_id: string },
  seqs: readonly number[],
  reason: HiddenReason,
): Promise<void> {
  await tx.db
    .updateTable('box_cards')
    .set({ hidden_reason: reason, hidden_by: by })
    .where('box_id', '=', boxId)
    .where((eb) => eb('seq', '=', eb.fn.any(eb.val(seqs))))
    .execute();
}

/**
 * Takes all cards of a turn out of view, and puts back what its summaries have taken out of view: the box shows what it showed before the turn
 * (C8). The turn is the last that wrote to the box.
 */
export async function hideTurn(
  tx: Tx,
  {
    output_box_id: boxId,
    agent_turn_id: by,
    instruction_seq: first,
  }: Pick<TurnRow, 'agent_turn_id' | 'instruction_seq'> & { readonly output_box_id: string },
): Promise<void> {
  if (first === null) return;
  const places = tx.db.updateTable('box_cards').where('box_id', '=', boxId);
  await places
    .set({ hidden_reason: 'rolled_back', hidden_by: by })
    .where('seq', '>=', first)
    .where('hidden_reason', 'is', null)
    .execute();
  const shown = await places
    .set({ hidden_reason: null, hidden_by: null })
    .where('seq', '<', first)
    .where('hidden_by', '=', by)
    .returning('seq')
    .execute();
  if (shown.length > 0) await rewriteUnits(tx, boxId);
}

/** Writes texts as cards of a new context box; returns the id of the box. */
export async function writeContextBox(
  ctx: StoreContext,
  texts: readonly string[],
  tenant: string | null = null,
): Promise<string> {
  const boxId = contextBoxId(texts, tenant);
  await write(ctx, boxId, async (tx) => {
    const isNew = await createBox(tx, { box_id: boxId, kind: 'context', owner_agent_id: null, tenant });
    if (!isNew) return;
    for (const [index, text] of texts.entries()) {
      const cardId = inputCardId(text, index, tenant);
      await insertCard(tx, { cardId, type: 'context.note', content: { text }, author: 'client', tenant });
      const entry = { box_id: boxId, seq: index + 1, card_id: cardId, hidden_reason: null };
      await tx.db
        .insertInto('box_cards')
        .values(entry)
        .onConflict((conflict) => conflict.doNothing())
        .execute();
    }
    await writeUnits(tx, boxId);
  });
  return boxId;
}

/** A copy of a box. */
export interface Fork {
  readonly from: string;
  readonly to: string;
  readonly kind: BoxRow['kind'];
  /** Whose the copy is: the one agent that writes to an output box, and the one whose memory a context box is. */
  readonly agentId: string;
  /** Copies only what stands before this place in the box; all of it when left out. */
  readonly beforeSeq?: number;
}

/**
 * Copies a box: the same visible cards under a new owner, so that two agents never write to one box (T25). Repeating it changes nothing.
 */
export async function forkBox(tx: Tx, { from, to, kind, agentId, beforeSeq }: Fork): Promise<void> {
  const known = await tx.db.selectFrom('boxes').select('box_id').where('box_id', '=', to).executeTakeFirst();
  if (known) return;
  const before = beforeSeq ?? Number.MAX_SAFE_INTEGER;
  await sql`insert into box_cards (box_id, seq, card_id, hidden_reason)
    select cast(${to} as text), row_number() over (order by seq), card_id, null from box_cards
    where box_id = ${from} and hidden_reason is null and seq < ${before}`.execute(tx.db);
  const whose = kind === 'output' ? { owner_agent_id: agentId } : { owner_agent_id: null, agent_id: agentId };
  await createBox(tx, { box_id: to, kind, ...whose, parent_ids: encoded([from]) });
  await writeUnits(tx, to);
}

/**
 * Makes a new output box of these cards. A turn that is open goes on writing to the old box, and nothing of it would be remembered: so only
 * an idle agent changes boxes. Errors: `agent_busy`, `box_unavailable`.
 */
export const replaceOutputBox = (
  ctx: StoreContext,
  agentId: string,
  expectedBoxId: string,
  cardIds: readonly string[],
): Promise<string> =>
  write(ctx, agentId, async (tx) => {
    const head = await lockHead(tx, agentId);
    if (head.status !== 'idle') {
      throw new CodedError('agent_busy', `agent ${agentId} has an open turn; stop it or wait, then replace its box`);
    }
    if (head.output_box_id !== expectedBoxId) {
      const message = `agent ${agentId} remembers box ${head.output_box_id ?? '(none)'}, not ${expectedBoxId}; read it again, then replace it`;
      throw new CodedError('box_unavailable', message);
    }
    const ids = [...new Set(cardIds)];
    const tenant = (await rosterEntry(tx, agentId))?.tenant ?? null;
    const boxId = v7();
    const box = {
      box_id: boxId,
      kind: 'output',
      owner_agent_id: agentId,
      parent_ids: encoded([expectedBoxId]),
    } as const;
    await createBox(tx, box);
    for (const [index, cardId] of ids.entries()) {
      const card = await tx.db.selectFrom('cards').select('card_id').where('card_id', '=', cardId).executeTakeFirst();
      if (!card || !(await mayUse(tx, NO_BORDER, { cardId }, tenant)))
        throw new CodedError('box_unavailable', `there is no card ${cardId} to put into the new box`);
      const entry = { box_id: boxId, seq: index + 1, card_id: cardId, hidden_reason: null };
      await tx.db.insertInto('box_cards').values(entry).execute();
    }
    await writeUnits(tx, boxId);
    await updateHead(tx, agentId, { output_box_id: boxId });
    return boxId;
  });

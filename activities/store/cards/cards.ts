/** Cards and boxes. A card is written once; a box is an ordered, append-only list of card ids with a single writer. */
import { sql } from 'kysely';
import type { Card, CardContents, CardType } from '../../../workflows/protocol/cards.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';
import { shownResult } from '../../spool.ts';
import { countTokens } from '../../tokens.ts';
import { storedJson } from '../../well-formed.ts';
import type { Trx } from '../context.ts';
import type { BoxRow, CardRow } from '../schema/rows.ts';

export interface NewCard<T extends CardType> {
  readonly cardId: string;
  readonly type: T;
  readonly content: CardContents[T];
  readonly author: string;
  readonly agentTurnId?: string;
  readonly stepIndex?: number;
  readonly callId?: string;
}

/** Inserts the card unless its id exists; returns its token count. A body over the limit is `payload_too_large`. */
export async function insertCard<T extends CardType>(trx: Trx, card: NewCard<T>, now: number): Promise<number> {
  const row = cardRow(card, now);
  await insertCardRows(trx, [row]);
  return row.token_count;
}

const insertCardRows = (trx: Trx, rows: readonly CardRow[]): Promise<unknown> =>
  trx
    .insertInto('cards')
    .values(rows)
    .onConflict((conflict) => conflict.column('card_id').doNothing())
    .execute();

function cardRow<T extends CardType>(card: NewCard<T>, now: number): CardRow {
  const content = storedJson(card.content);
  const bytes = Buffer.byteLength(content);
  if (bytes > SIZES.cardBytes) {
    throw new CodedError(
      'payload_too_large',
      `a ${card.type} card may have ${SIZES.cardBytes} bytes, this one has ${bytes}`,
    );
  }
  return {
    card_id: card.cardId,
    type: card.type,
    content,
    author: card.author,
    agent_turn_id: card.agentTurnId ?? null,
    step_index: card.stepIndex ?? null,
    call_id: card.callId ?? null,
    token_count: countTokens(shownOf(card.type, content)),
    bytes,
    created_at: now,
  };
}

/** A result that is too large is never shown whole, so only what is shown of it counts (W11). */
const shownOf = (type: CardType, content: string): string =>
  type === 'tool.result' ? shownResult(content, '', 'full', 0) : content;

/**
 * Appends the card to a box of this owner; an id already in the box keeps its place. Returns the card's sequence number.
 * A box of somebody else, a context box included, is `box_unavailable` (T24).
 */
export async function appendToBox(trx: Trx, boxId: string, cardId: string, owner: string): Promise<number> {
  const seq = await addToBox(trx, boxId, cardId, owner);
  if (seq !== null) return seq;
  const present = await trx
    .selectFrom('box_cards')
    .select('seq')
    .where('box_id', '=', boxId)
    .where('card_id', '=', cardId)
    .executeTakeFirst();
  if (present) return present.seq;
  throw new CodedError('box_unavailable', `box ${boxId} does not exist or is not ${owner}'s to write`);
}

/** Appends the card unless the box has it or is not this owner's: then null. */
export const addToBox = (trx: Trx, boxId: string, cardId: string, owner: string): Promise<number | null> =>
  addAllToBox(trx, boxId, [cardId], owner);

/** Last places of boxes whose owner's head row the transaction holds: nobody else appends to them meanwhile. */
const boxEnds = new WeakMap<Trx, Map<string, number>>();

/** What was read under the head row of the box's owner. */
export function noteBoxEnd(trx: Trx, boxId: string, lastSeq: number): void {
  const known = boxEnds.get(trx);
  if (known) known.set(boxId, lastSeq);
  else boxEnds.set(trx, new Map([[boxId, lastSeq]]));
}

/** Appends a card that is new with this transaction, and so in no box. Errors: `box_unavailable` (T24). */
export async function appendNew(trx: Trx, boxId: string, cardId: string, owner: string): Promise<number> {
  return (await appendAllNew(trx, boxId, [cardId], owner)) ?? appendToBox(trx, boxId, cardId, owner);
}

async function appendAllNew(
  trx: Trx,
  boxId: string,
  cardIds: readonly string[],
  owner: string,
): Promise<number | null> {
  const end = boxEnds.get(trx)?.get(boxId);
  if (end === undefined) return addAllToBox(trx, boxId, cardIds, owner);
  const lastSeq = end + cardIds.length;
  await trx.updateTable('boxes').set({ last_seq: lastSeq }).where('box_id', '=', boxId).execute();
  noteBoxEnd(trx, boxId, lastSeq);
  return insertPlaces(trx, boxId, end + 1, cardIds);
}

/** Appends the cards, which differ, unless the box has one of them or is not this owner's: then null. Returns the place of the first. */
async function addAllToBox(trx: Trx, boxId: string, cardIds: readonly string[], owner: string): Promise<number | null> {
  const box = await trx
    .updateTable('boxes')
    .set((eb) => ({ last_seq: eb('last_seq', '+', cardIds.length) }))
    .where('box_id', '=', boxId)
    .where('owner_agent_id', '=', owner)
    .where(sql<boolean>`not exists (
      select 1 from box_cards where box_cards.box_id = boxes.box_id and box_cards.card_id in (${sql.join(cardIds)}))`)
    .returning('last_seq')
    .executeTakeFirst();
  if (!box) return null;
  noteBoxEnd(trx, boxId, box.last_seq);
  return insertPlaces(trx, boxId, box.last_seq - cardIds.length + 1, cardIds);
}

async function insertPlaces(trx: Trx, boxId: string, first: number, cardIds: readonly string[]): Promise<number> {
  const rows = cardIds.map((cardId, at) => ({ box_id: boxId, seq: first + at, card_id: cardId, hidden_reason: null }));
  await trx.insertInto('box_cards').values(rows).execute();
  return first;
}

/** Writes a few new cards and appends them in their order; of each its place in the box and its token count. */
export async function writeNewCards(
  trx: Trx,
  boxId: string,
  cards: readonly NewCard<CardType>[],
  owner: string,
  now: number,
): Promise<readonly { readonly seq: number; readonly tokens: number }[]> {
  if (cards.length === 0) return [];
  const rows = cards.map((card) => cardRow(card, now));
  await insertCardRows(trx, rows);
  const ids = rows.map((row) => row.card_id);
  const first = new Set(ids).size === ids.length ? await appendAllNew(trx, boxId, ids, owner) : null;
  if (first !== null) return rows.map((row, at) => ({ seq: first + at, tokens: row.token_count }));
  const written: { seq: number; tokens: number }[] = [];
  for (const row of rows)
    written.push({ seq: await appendToBox(trx, boxId, row.card_id, owner), tokens: row.token_count });
  return written;
}

export async function createBox(
  trx: Trx,
  box: Pick<BoxRow, 'box_id' | 'kind' | 'owner_agent_id'> & Partial<Pick<BoxRow, 'last_seq' | 'parent_ids'>>,
  now: number,
): Promise<void> {
  await trx
    .insertInto('boxes')
    .values({ parent_ids: '[]', last_seq: 0, ...box, created_at: now })
    .onConflict((conflict) => conflict.column('box_id').doNothing())
    .execute();
}

export const toCard = (row: CardRow): Card =>
  ({
    cardId: row.card_id,
    type: row.type,
    content: JSON.parse(row.content),
    agentTurnId: row.agent_turn_id,
    stepIndex: row.step_index,
    callId: row.call_id,
    tokens: row.token_count,
  }) as Card;

/**
 * Cards and boxes.
 *
 * Invariants
 * 1. A card is written once and never changed.
 * 2. A box is an ordered list of card ids that only grows, without gaps, and has a single writer: the agent that owns it (T24).
 */
import { sql } from 'kysely';
import type { Card, CardContents, CardType } from '../../../workflows/protocol/cards.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';
import { shownResult } from '../../spool.ts';
import { countTokens } from '../../tokens.ts';
import type { Tx } from '../context.ts';
import { insertRows, prepared } from '../prepared.ts';
import { decoded, encoded, encodedText, type Json } from '../schema/json.ts';
import type { BoxRow, CardRow } from '../schema/rows.ts';

/** Whose a card is: of the turn that writes it, of the agent that it was sent to, or of the tenant of whoever wrote it as input. */
type CardOwner =
  | { readonly agentTurnId: string }
  | { readonly agentId: string; readonly agentTurnId?: undefined }
  | { readonly tenant: string | null; readonly agentId?: undefined; readonly agentTurnId?: undefined };

/** A card that is to be written. */
export type NewCard<T extends CardType> = CardContent<T> & CardOwner;

interface CardContent<T extends CardType> {
  readonly cardId: string;
  readonly type: T;
  readonly content: CardContents[T];
  readonly author: string;
  /** The step that writes the card; absent for what no step writes. */
  readonly stepIndex?: number;
  /** The call that the card is of; absent for other cards. */
  readonly callId?: string;
}

/** Inserts the card unless its id exists; returns its token count. Errors: `payload_too_large` for a content over the limit. */
export async function insertCard<T extends CardType>(tx: Tx, card: NewCard<T>): Promise<number> {
  const row = cardRow(tx, card);
  await insertCardRows(tx, [row]);
  return row.token_count;
}

/** Deletes a card that no turn has seen and no box has. */
export async function forgetCard({ db }: Tx, cardId: string): Promise<void> {
  await db.deleteFrom('cards').where('card_id', '=', cardId).execute();
}

const insertCardRows = ({ db }: Tx, rows: readonly CardRow[]): Promise<void> =>
  insertRows(db, 'cards', rows, ['card_id']);

function cardRow<T extends CardType>({ at }: Tx, card: NewCard<T>): CardRow {
  const content: Json<CardContents[CardType]> = encodedText(card.content);
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
    agent_id: 'agentId' in card ? (card.agentId ?? null) : null,
    tenant: 'tenant' in card ? card.tenant : null,
    token_count: countTokens(shownOf(card.type, content)),
    bytes,
    created_at: at,
  };
}

/** What a prompt shows of a card: a result that is too large is never shown whole, so only what is shown of it counts (W11). */
const shownOf = (type: CardType, content: string): string =>
  type === 'tool.result' ? shownResult(content, '', 'full', 0) : content;

/** A box, and the agent that writes to it. */
export interface OwnBox {
  readonly boxId: string;
  readonly owner: string;
}

/**
 * Appends the card to a box of this owner; an id already in the box keeps its place. Returns the card's place. Errors: `box_unavailable`
 * for a box of somebody else, a context box included (T24).
 */
export async function appendToBox(tx: Tx, box: OwnBox, cardId: string): Promise<number> {
  const seq = await addToBox(tx, box, cardId);
  if (seq !== null) return seq;
  const { boxId, owner } = box;
  const present = await tx.db
    .selectFrom('box_cards')
    .select('seq')
    .where('box_id', '=', boxId)
    .where('card_id', '=', cardId)
    .executeTakeFirst();
  if (present) return present.seq;
  throw new CodedError('box_unavailable', `box ${boxId} does not exist or is not ${owner}'s to write`);
}

/** Appends the card unless the box has it or is not this owner's: then null. */
export const addToBox = (tx: Tx, box: OwnBox, cardId: string): Promise<number | null> => addAllToBox(tx, box, [cardId]);

/** Notes the last place of a box, which was read under the head row of its owner: only this transaction appends to the box meanwhile. */
export function noteBoxEnd(tx: Tx, boxId: string, lastSeq: number): void {
  tx.boxEnds.set(boxId, lastSeq);
}

/** Appends a card that is new with this transaction, and so in no box. Errors: `box_unavailable` (T24). */
export async function appendNew(tx: Tx, box: OwnBox, cardId: string): Promise<number> {
  return (await appendAllNew(tx, box, [cardId])) ?? appendToBox(tx, box, cardId);
}

/** Appends cards that are in no box; null where that is refused. A box whose end is known need not be searched for the cards. */
async function appendAllNew(tx: Tx, box: OwnBox, cardIds: readonly string[]): Promise<number | null> {
  const { boxId } = box;
  const end = tx.boxEnds.get(boxId);
  if (end === undefined) return addAllToBox(tx, box, cardIds);
  return insertPlaces(tx, boxId, end, cardIds);
}

/** Appends the cards, which differ, unless the box has one of them or is not this owner's: then null. Returns the place of the first. */
async function addAllToBox(tx: Tx, { boxId, owner }: OwnBox, cardIds: readonly string[]): Promise<number | null> {
  const box = await tx.db
    .selectFrom('boxes')
    .select(sql<number>`coalesce((select max(seq) from box_cards where box_cards.box_id = boxes.box_id), 0)`.as('end'))
    .where('box_id', '=', boxId)
    .where('owner_agent_id', '=', owner)
    .where(({ eb, not, exists, selectFrom }) => {
      const has = selectFrom('box_cards')
        .select(sql.lit(1).as('one'))
        .whereRef('box_cards.box_id', '=', 'boxes.box_id');
      return not(exists(has.where('box_cards.card_id', '=', eb.fn.any(eb.val(cardIds)))));
    })
    .executeTakeFirst();
  return box ? insertPlaces(tx, boxId, box.end, cardIds) : null;
}

/** Puts the cards behind the last place of a box, which is `end`; returns the first place. */
async function insertPlaces(tx: Tx, boxId: string, end: number, cardIds: readonly string[]): Promise<number> {
  const first = end + 1;
  noteBoxEnd(tx, boxId, end + cardIds.length);
  const rows = cardIds.map((cardId, at) => ({ box_id: boxId, seq: first + at, card_id: cardId, hidden_reason: null }));
  await insertRows(tx.db, 'box_cards', rows);
  return first;
}

/** Where a card that was written stands in its box, and how large it is. */
export interface WrittenCard {
  readonly seq: number;
  readonly tokens: number;
}

/** Writes a few new cards and appends them in their order. Errors: `payload_too_large`, `box_unavailable`. */
export async function writeNewCards(
  tx: Tx,
  box: OwnBox,
  cards: readonly NewCard<CardType>[],
): Promise<readonly WrittenCard[]> {
  if (cards.length === 0) return [];
  const rows = cards.map((card) => cardRow(tx, card));
  await insertCardRows(tx, rows);
  const ids = rows.map((row) => row.card_id);
  const first = new Set(ids).size === ids.length ? await appendAllNew(tx, box, ids) : null;
  if (first !== null) return rows.map((row, at) => ({ seq: first + at, tokens: row.token_count }));
  const written: WrittenCard[] = [];
  for (const row of rows) written.push({ seq: await appendToBox(tx, box, row.card_id), tokens: row.token_count });
  return written;
}

/** A box that is to be made; without parents, and of nobody but its owner, unless it says otherwise. */
export type NewBox = Pick<BoxRow, 'box_id' | 'kind' | 'owner_agent_id'> &
  Partial<Pick<BoxRow, 'parent_ids' | 'agent_id' | 'tenant'>>;

/** Makes the box unless its id exists. */
export async function createBox(tx: Tx, box: NewBox): Promise<boolean> {
  const row = { parent_ids: encoded([]), agent_id: null, tenant: null, ...box, created_at: tx.at };
  return (await insertBox(tx.db, row).executeTakeFirst()) !== undefined;
}

const insertBox = prepared((db, box: BoxRow) =>
  db
    .insertInto('boxes')
    .values({
      box_id: box.box_id,
      kind: box.kind,
      owner_agent_id: box.owner_agent_id,
      agent_id: box.agent_id,
      tenant: box.tenant,
      parent_ids: box.parent_ids,
      created_at: box.created_at,
    })
    .onConflict((conflict) => conflict.column('box_id').doNothing())
    .returning('box_id'),
);

/** The card that a row holds. */
export const toCard = (row: CardRow): Card =>
  ({
    cardId: row.card_id,
    type: row.type,
    content: decoded(row.content),
    agentTurnId: row.agent_turn_id,
    stepIndex: row.step_index,
    callId: row.call_id,
    tokens: row.token_count,
  }) as Card;

/**
 * What a turn remembers, by size: earlier turns of the output box, and the box that came with the request (T24, K15). The sizes are
 * written down when a turn ends or a box is made, so that a lease reads a few small rows however much lies behind it.
 *
 * Invariants
 * 1. A unit is one earlier turn, so that no unit begins or ends between a call and its result.
 * 2. A card that a prompt may show is in one unit of its box; those of an open turn become one when it ends.
 * 3. However old the agent, its box has a bounded number of units and a lease carries fewer still; the oldest are one together, and none
 *    is left out.
 */
import { sql } from 'kysely';
import type { ContextUnit } from '../../../workflows/kernel/context.ts';
import type { BoxExtent } from '../../../workflows/kernel/handles.ts';
import { COLLAPSED_TOKENS, MESSAGE_TOKENS, previewTokens, snipTokens } from '../../../workflows/kernel/pressure.ts';
import type { CardType } from '../../../workflows/protocol/cards.ts';
import type { Reader, Tx } from '../context.ts';
import { insertRows, prepared } from '../prepared.ts';
import { decoded, encoded, type Json } from '../schema/json.ts';
import type { BoxCardRow, BoxUnitRow, CardRow } from '../schema/rows.ts';

/** The most units that a lease carries. */
const MOST_UNITS = 64;
/** The most units that a box keeps: beyond that the oldest are written as one, which happens once in many turns. */
const MOST_ROWS = 2 * MOST_UNITS;

/** Kinds of cards that no prompt ever shows. */
const UNSHOWN: ReadonlySet<CardType> = new Set(['tool.call', 'tool.output']);

/** Cards of a box that come and go together. */
interface Unit {
  /** The place of the first card that is in view. */
  readonly fromSeq: number;
  /** The place of the last card that is in view. */
  readonly toSeq: number;
  /** Tokens of all its cards rendered whole. */
  readonly tokens: number;
  /** Tokens of each result that can be rendered with less. */
  readonly results: readonly number[];
}

/** The part of a box that a turn remembers. */
export interface Remembered {
  readonly boxId: string;
  /** The place of the first card that is not part of it. */
  readonly beforeSeq: number;
  /** Whether the caller holds the head row of the box's owner, and may write its units anew. */
  readonly isOwn: boolean;
}

/** The units of a part of a box, oldest first, with their sizes for a window of so many tokens. */
export async function contextUnits(
  tx: Tx,
  { boxId, beforeSeq, isOwn }: Remembered,
  windowTokens: number,
): Promise<ContextUnit[]> {
  const rows = await selectUnits(tx, boxId).where('to_seq', '<', beforeSeq).execute();
  const units = bounded(rows.map(toUnit));
  const [oldest] = units;
  if (isOwn && rows.length > MOST_ROWS && oldest) await replaceUnits(tx, boxId, oldest, [oldest]);
  const snip = snipTokens(windowTokens);
  return units.map(({ fromSeq, toSeq, tokens, results }): ContextUnit => {
    const atMost = (most: number) => results.reduce((sum, size) => sum - Math.max(0, size - most), tokens);
    const shortened = [atMost(snip), atMost(previewTokens(snip)), atMost(COLLAPSED_TOKENS)] as const;
    return { boxId, fromSeq, toSeq, tokens: [tokens, ...shortened] };
  });
}

/** Makes a unit of what came into the box since its last one. The caller holds the head row of its owner, and no turn writes to it. */
export async function closeUnit(tx: Tx, boxId: string): Promise<void> {
  await insertUnits(tx, boxId, unitOf(await shownAt(tx, placesSinceUnits(tx.db, { boxId }))));
}

const placesSinceUnits = prepared((db, box: { boxId: string }) => {
  const last = sql<number>`(select coalesce(max(u.to_seq), 0) from box_units u where u.box_id = ${box.boxId})`;
  return selectPlaces({ db }, box.boxId).where('seq', '>', last);
});

/** Writes the units of a box that was put together at once, in which cards of several turns may lie anyhow. */
export async function writeUnits(tx: Tx, boxId: string): Promise<void> {
  const turns = new Map<string, ShownCard[]>();
  let turn = '';
  let before: string | null | undefined;
  for (const card of await shownAt(tx, selectPlaces(tx, boxId))) {
    // Cards of no turn are one with their neighbours of the same kind only.
    if (card.agent_turn_id !== before) turn = card.agent_turn_id ?? `at ${card.seq}`;
    before = card.agent_turn_id;
    const cards = turns.get(turn);
    if (cards) cards.push(card);
    else turns.set(turn, [card]);
  }
  await insertUnits(tx, boxId, bounded(apart([...turns.values()].flatMap(unitOf))));
}

/** Writes anew all units of a box. The caller holds the head row of its owner. */
export async function rewriteUnits(tx: Tx, boxId: string): Promise<void> {
  await tx.db.deleteFrom('box_units').where('box_id', '=', boxId).execute();
  await writeUnits(tx, boxId);
}

/** Writes anew the units in which cards of these places have left the view. */
export async function shrinkUnits(tx: Tx, { boxId, fromSeq, toSeq }: BoxExtent): Promise<void> {
  const rows = await selectUnits(tx, boxId).where('to_seq', '>=', fromSeq).where('from_seq', '<=', toSeq).execute();
  for (const unit of rows.map(toUnit)) {
    const whole = unit.fromSeq >= fromSeq && unit.toSeq <= toSeq;
    const places = selectPlaces(tx, boxId).where('seq', '>=', unit.fromSeq).where('seq', '<=', unit.toSeq);
    await replaceUnits(tx, boxId, unit, whole ? [] : unitOf(await shownAt(tx, places)));
  }
}

/** A card in its place. */
interface ShownCard extends Pick<CardRow, 'type' | 'token_count' | 'agent_turn_id'> {
  readonly seq: number;
}

/** A query for the places of a box that are in view. */
const selectPlaces = ({ db }: Pick<Reader, 'db'>, boxId: string) =>
  db
    .selectFrom('box_cards')
    .select(['seq', 'card_id'])
    .where('box_id', '=', boxId)
    .where('hidden_reason', 'is', null)
    .orderBy('seq');

/** A query for places of a box. */
interface Places {
  execute(): Promise<readonly Pick<BoxCardRow, 'seq' | 'card_id'>[]>;
}

const cardsToShow = prepared((db, { ids }: { readonly ids: readonly string[] }) =>
  db
    .selectFrom('cards')
    .select(['card_id', 'type', 'token_count', 'agent_turn_id'])
    .where((eb) => eb('card_id', '=', eb.fn.any(eb.val(ids)))),
);

/** The cards there that a prompt may show. They are found by their ids, for a planner may join a box with all cards there are. */
async function shownAt({ db }: Reader, query: Places): Promise<ShownCard[]> {
  const places = await query.execute();
  const rows = await cardsToShow(db, { ids: places.map(({ card_id }) => card_id) }).execute();
  const cards = new Map(rows.map(({ card_id, ...card }) => [card_id, card]));
  return places.flatMap(({ seq, card_id }) => {
    const card = cards.get(card_id);
    return card && !UNSHOWN.has(card.type) ? [{ seq, ...card }] : [];
  });
}

/** One unit of these cards; none of no cards. */
function unitOf(cards: readonly ShownCard[]): Unit[] {
  const [first] = cards;
  const last = cards.at(-1);
  if (!first || !last) return [];
  const tokens = cards.reduce((sum, card) => sum + MESSAGE_TOKENS + card.token_count, 0);
  const results = cards.filter((card) => card.type === 'tool.result' && card.token_count > COLLAPSED_TOKENS);
  return [{ fromSeq: first.seq, toSeq: last.seq, tokens, results: results.map((card) => card.token_count) }];
}

/** A query for the units of a box, oldest first. */
const selectUnits = ({ db }: Reader, boxId: string) =>
  db
    .selectFrom('box_units')
    .select(['from_seq', 'to_seq', 'tokens', 'results'])
    .where('box_id', '=', boxId)
    .orderBy('to_seq');

const toUnit = ({ from_seq, to_seq, tokens, results }: Omit<BoxUnitRow, 'box_id'>): Unit => ({
  fromSeq: from_seq,
  toSeq: to_seq,
  tokens,
  results: sizesIn(results),
});

/** Sizes that cannot be read count as whole: a row that somebody wrote by hand must not keep its agent from going on (T8). */
function sizesIn(results: Json<unknown>): readonly number[] {
  try {
    const sizes = decoded(results);
    return Array.isArray(sizes) ? sizes.filter((size) => typeof size === 'number') : [];
  } catch {
    return [];
  }
}

async function insertUnits(tx: Tx, boxId: string, units: readonly Unit[]): Promise<void> {
  const rows = units.map(({ fromSeq, toSeq, tokens, results }) => ({
    box_id: boxId,
    from_seq: fromSeq,
    to_seq: toSeq,
    tokens,
    results: encoded(results),
  }));
  await insertRows(tx.db, 'box_units', rows);
}

/** Writes these in place of the units that end in an extent. */
async function replaceUnits(
  tx: Tx,
  boxId: string,
  { fromSeq, toSeq }: Pick<Unit, 'fromSeq' | 'toSeq'>,
  units: readonly Unit[],
): Promise<void> {
  await tx.db
    .deleteFrom('box_units')
    .where('box_id', '=', boxId)
    .where('to_seq', '>=', fromSeq)
    .where('to_seq', '<=', toSeq)
    .execute();
  await insertUnits(tx, boxId, units);
}

/** Turns of a box that was put together by hand may lie in each other; those are one unit. */
function apart(units: readonly Unit[]): Unit[] {
  const list: Unit[] = [];
  for (const unit of units.toSorted((a, b) => a.fromSeq - b.fromSeq)) {
    const last = list.at(-1);
    if (last && unit.fromSeq <= last.toSeq) list[list.length - 1] = together(last, unit);
    else list.push(unit);
  }
  return list;
}

/** So few units that a lease can carry them: the oldest are one together. */
function bounded(units: Unit[]): Unit[] {
  const [first, ...rest] = units.slice(0, Math.max(1, units.length - MOST_UNITS + 1));
  if (!first) return units;
  return [rest.reduce(together, first), ...units.slice(rest.length + 1)];
}

const together = (a: Unit, b: Unit): Unit => ({
  fromSeq: Math.min(a.fromSeq, b.fromSeq),
  toSeq: Math.max(a.toSeq, b.toSeq),
  tokens: a.tokens + b.tokens,
  results: [...a.results, ...b.results],
});

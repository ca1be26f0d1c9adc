/**
 * What a turn remembers, by size: earlier turns of the output box, and the box that came with the request (T24, K15).
 *
 * Invariants
 * 1. A unit is one earlier turn, so that no unit begins or ends between a call and its result.
 * 2. However old the agent, a lease carries a bounded number of units; the oldest are one together.
 */
import { sql } from 'kysely';
import { COLLAPSED_TOKENS, MESSAGE_TOKENS, previewTokens, snipTokens } from '../../workflows/kernel/pressure.ts';
import type { MemoryUnit } from '../../workflows/kernel/state.ts';
import type { Trx } from './context.ts';

const MOST_UNITS = 64;

/** Kinds of cards that no prompt ever shows. */
const UNSHOWN = ['tool.call', 'tool.output'] as const;

export async function memoryUnits(
  trx: Trx,
  boxId: string,
  beforeSeq: number,
  windowTokens: number,
): Promise<MemoryUnit[]> {
  const capped = (most: number) =>
    sql<number>`sum(${MESSAGE_TOKENS} + case when cards.type = 'tool.result' and cards.token_count > ${most} then ${most} else cards.token_count end)`;
  const snip = snipTokens(windowTokens);
  const rows = await trx
    .selectFrom('box_cards')
    .innerJoin('cards', 'cards.card_id', 'box_cards.card_id')
    .select((eb) => [
      eb.fn.min('box_cards.seq').as('from_seq'),
      eb.fn.max('box_cards.seq').as('to_seq'),
      capped(Number.MAX_SAFE_INTEGER).as('full'),
      capped(snip).as('snipped'),
      capped(previewTokens(snip)).as('preview'),
      capped(COLLAPSED_TOKENS).as('collapsed'),
    ])
    .where('box_cards.box_id', '=', boxId)
    .where('box_cards.seq', '<', beforeSeq)
    .where('box_cards.hidden_reason', 'is', null)
    .where('cards.type', 'not in', UNSHOWN)
    .groupBy('cards.agent_turn_id')
    .orderBy('from_seq')
    .execute();
  const units = rows.map(
    (row): MemoryUnit => ({
      boxId,
      fromSeq: Number(row.from_seq),
      toSeq: Number(row.to_seq),
      tokens: [Number(row.full), Number(row.snipped), Number(row.preview), Number(row.collapsed)],
    }),
  );
  return bounded(apart(units));
}

/** Turns of a box that was put together by hand may lie in each other; those are one unit. */
function apart(units: readonly MemoryUnit[]): MemoryUnit[] {
  const list: MemoryUnit[] = [];
  for (const unit of units) {
    const last = list.at(-1);
    if (last && unit.fromSeq <= last.toSeq) list[list.length - 1] = together(last, unit);
    else list.push(unit);
  }
  return list;
}

function bounded(units: MemoryUnit[]): MemoryUnit[] {
  const [first, ...rest] = units.slice(0, Math.max(1, units.length - MOST_UNITS + 1));
  if (!first) return units;
  return [rest.reduce(together, first), ...units.slice(rest.length + 1)];
}

const together = (a: MemoryUnit, b: MemoryUnit): MemoryUnit => ({
  boxId: a.boxId,
  fromSeq: Math.min(a.fromSeq, b.fromSeq),
  toSeq: Math.max(a.toSeq, b.toSeq),
  tokens: [a.tokens[0] + b.tokens[0], a.tokens[1] + b.tokens[1], a.tokens[2] + b.tokens[2], a.tokens[3] + b.tokens[3]],
});

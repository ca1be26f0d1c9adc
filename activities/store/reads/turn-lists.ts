/** Turns of the whole store as they are listed, and what they spent. */

import { sql } from 'kysely';
import { shownWords } from '../../../workflows/chat/rendering.ts';
import { type Border, NO_BORDER, seesAll } from '../../../workflows/contract/border.ts';
import type { Spending, SpendingQuery, TurnPlace, TurnQuery, TurnSummary } from '../../../workflows/contract/lists.ts';
import { clip } from '../../../workflows/protocol/sizes.ts';
import { read, type StoreContext } from '../context.ts';
import { decoded } from '../schema/json.ts';
import { type Db, isAmong } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { turnInView } from './border.ts';

const ASKED_BYTES = 300;
/** Characters of an instruction's card that are read: an instruction may have a megabyte, and a page ten thousand of them. */
const HEAD_CHARACTERS = 1_000;

/** A query for turns, the newest first. */
function selectTurns(db: Db, { status, profile, agentId, since, before, limit = 100 }: TurnQuery, border: Border) {
  let turns = db
    .selectFrom('turns')
    .orderBy('turns.accepted_at', 'desc')
    .orderBy('turns.agent_turn_id', 'desc')
    .limit(limit);
  if (status !== undefined) turns = turns.where(isAmong('turns.status', status));
  if (profile !== undefined) turns = turns.where('turns.profile_name', '=', profile);
  if (agentId !== undefined) turns = turns.where('turns.agent_id', '=', agentId);
  if (!seesAll(border)) turns = turns.where(turnInView(border));
  if (since !== undefined) turns = turns.where('turns.accepted_at', '>=', since);
  if (!before) return turns;
  const place = sql.join([before.acceptedAt, before.agentTurnId]);
  return turns.where(sql<boolean>`(turns.accepted_at, turns.agent_turn_id) < (${place})`);
}

/** Lists turns, the newest first. */
export const findTurns = (
  ctx: StoreContext,
  query: TurnQuery = {},
  border: Border = NO_BORDER,
): Promise<readonly TurnSummary[]> =>
  read(ctx, async ({ db }) => {
    const turns = await selectTurns(db, query, border)
      .innerJoin('cards', 'cards.card_id', 'turns.instruction_card_id')
      .selectAll('turns')
      .select(sql<string>`substr(cards.content, 1, ${sql.lit(HEAD_CHARACTERS)})`.as('head'))
      .execute();
    return turns.map(summaryOf);
  });

const summaryOf = (turn: TurnRow & { readonly head: string }): TurnSummary => ({
  agentTurnId: turn.agent_turn_id,
  agentId: turn.agent_id,
  profile: turn.profile_name,
  status: turn.status,
  errorCode: turn.error_code,
  reason: turn.reason,
  asked: clip(shownWords(textAt(turn.head)), ASKED_BYTES),
  usage: decoded(turn.usage),
  cost: turn.step_count === 0 ? null : turn.cost,
  stepCount: turn.step_count,
  acceptedAt: turn.accepted_at,
  startedAt: turn.started_at,
  endedAt: turn.ended_at,
});

/** The text of a card of text alone, as far as the beginning of its JSON holds whole characters of it. */
function textAt(head: string): string {
  const [, body = ''] = /^\{"text":"((?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)/.exec(head) ?? [];
  return (JSON.parse(`"${body}"`) as string).toWellFormed();
}

const PAGE = 1_000;

/** Adds up what turns spent since then, read a page at a time over a connection of its own. */
export async function spending(
  ctx: StoreContext,
  { by, since, limit = 100 }: SpendingQuery,
  border: Border = NO_BORDER,
): Promise<Spending[]> {
  const sums = new Map<string, Spending>();
  for (let before: TurnPlace | undefined; ; ) {
    const page = await spentBy(ctx, { since, limit: PAGE, ...(before ? { before } : {}) }, border);
    for (const turn of page) {
      const of = by === 'agent' ? turn.agent_id : turn.profile_name;
      sums.set(of, added(sums.get(of) ?? { of, turns: 0, failed: 0, tokens: 0, cost: 0, uncosted: 0 }, turn));
    }
    const last = page.at(-1);
    if (!last || page.length < PAGE) break;
    before = { acceptedAt: last.accepted_at, agentTurnId: last.agent_turn_id };
  }
  return [...sums.values()].sort((a, b) => b.cost - a.cost || b.tokens - a.tokens).slice(0, limit);
}

const SPENT = [
  'turns.accepted_at',
  'turns.agent_turn_id',
  'turns.agent_id',
  'turns.profile_name',
  'turns.status',
  'turns.usage',
  'turns.cost',
  'turns.step_count',
] as const;

const spentBy = (ctx: StoreContext, query: TurnQuery, border: Border) =>
  read({ ...ctx, db: ctx.scanner }, ({ db }) => selectTurns(db, query, border).select(SPENT).execute());

type Spent = Pick<TurnRow, 'status' | 'usage' | 'cost' | 'step_count'>;

function added(sum: Spending, { status, usage, cost, step_count: steps }: Spent): Spending {
  const { input, output } = decoded(usage);
  return {
    ...sum,
    turns: sum.turns + 1,
    failed: sum.failed + (status === 'failed' || status === 'timeout' ? 1 : 0),
    tokens: sum.tokens + input + output,
    cost: sum.cost + (cost ?? 0),
    uncosted: sum.uncosted + (steps > 0 && cost === null ? 1 : 0),
  };
}

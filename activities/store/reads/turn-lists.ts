/** Turns of the whole store as they are listed, and what they spent. */
import { sql } from 'kysely';
import type { Spending, SpendingQuery, TurnQuery, TurnSummary } from '../../../workflows/contract/lists.ts';
import { clip } from '../../../workflows/protocol/sizes.ts';
import { read, type StoreContext } from '../context.ts';
import { decoded, type Json } from '../schema/json.ts';
import { constant } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';

const ASKED_BYTES = 300;

/** Lists turns, the newest first. */
export const findTurns = (ctx: StoreContext, query: TurnQuery = {}): Promise<readonly TurnSummary[]> =>
  read(ctx, async ({ db }) => {
    const { status, profile, agentId, since, before, limit = 100 } = query;
    let turns = db
      .selectFrom('turns')
      .innerJoin('cards', 'cards.card_id', 'turns.instruction_card_id')
      .selectAll('turns')
      .select('cards.content')
      .orderBy('accepted_at', 'desc')
      .orderBy('turns.agent_turn_id', 'desc')
      .limit(limit);
    if (status !== undefined) turns = turns.where('status', 'in', status.map(constant));
    if (profile !== undefined) turns = turns.where('profile_name', '=', profile);
    if (agentId !== undefined) turns = turns.where('agent_id', '=', agentId);
    if (since !== undefined) turns = turns.where('accepted_at', '>=', since);
    if (before) {
      const place = sql.join([before.acceptedAt, before.agentTurnId]);
      turns = turns.where(sql<boolean>`(accepted_at, turns.agent_turn_id) < (${place})`);
    }
    return (await turns.execute()).map(summaryOf);
  });

function summaryOf(turn: TurnRow & { readonly content: Json<unknown> }): TurnSummary {
  const { text } = decoded(turn.content) as { readonly text: string };
  return {
    agentTurnId: turn.agent_turn_id,
    agentId: turn.agent_id,
    profile: turn.profile_name,
    status: turn.status,
    errorCode: turn.error_code,
    reason: turn.reason,
    asked: clip(text, ASKED_BYTES),
    usage: decoded(turn.usage),
    cost: turn.step_count === 0 ? null : turn.cost,
    stepCount: turn.step_count,
    acceptedAt: turn.accepted_at,
    startedAt: turn.started_at,
    endedAt: turn.ended_at,
  };
}

const PAGE = 1_000;

/** Adds up what turns spent since then, read a page at a time over a connection of its own. */
export async function spending(ctx: StoreContext, { by, since, limit = 100 }: SpendingQuery): Promise<Spending[]> {
  const sums = new Map<string | null, Spending>();
  for (let before: TurnQuery['before']; ; ) {
    const page = await findTurns({ ...ctx, db: ctx.scanner }, { since, limit: PAGE, ...(before ? { before } : {}) });
    for (const turn of page) {
      const of = by === 'agent' ? turn.agentId : turn.profile;
      sums.set(of, added(sums.get(of) ?? { of, turns: 0, failed: 0, tokens: 0, cost: 0, uncosted: 0 }, turn));
    }
    before = page.at(-1);
    if (page.length < PAGE) break;
  }
  return [...sums.values()].sort((a, b) => b.cost - a.cost || b.tokens - a.tokens).slice(0, limit);
}

const added = (sum: Spending, { status, usage, cost, stepCount }: TurnSummary): Spending => ({
  ...sum,
  turns: sum.turns + 1,
  failed: sum.failed + (status === 'failed' || status === 'timeout' ? 1 : 0),
  tokens: sum.tokens + usage.input + usage.output,
  cost: sum.cost + (cost ?? 0),
  uncosted: sum.uncosted + (stepCount > 0 && cost === null ? 1 : 0),
});

/** Triggers: making, listing and revoking them (A9). */

import { MOST_TRIGGERS } from '../../../workflows/agent-state/triggers.ts';
import type { NewTrigger, TriggerView, WorkPage } from '../../../workflows/contract/agent-work.ts';
import { type Border, NO_BORDER } from '../../../workflows/contract/border.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { read, type StoreContext, type Tx, write } from '../context.ts';
import type { TriggerRow } from '../schema/agent-rows.ts';
import type { Db } from '../schema/rows.ts';
import { demandStart } from '../turns/at-the-border.ts';
import { lockHead, updateHead } from '../turns/head.ts';
import { agentNotFound, rosterEntry } from '../turns/roster.ts';
import { behind } from './lists.ts';

/** Writes a trigger. The caller holds the head of its agent. */
export async function insertTrigger(
  tx: Tx,
  agentId: string,
  { triggerId, name, tokenHash }: NewTrigger,
): Promise<void> {
  await tx.db
    .insertInto('triggers')
    .values({
      trigger_id: triggerId,
      agent_id: agentId,
      name,
      token_hash: tokenHash,
      hits: 0,
      last_hit_at: null,
      revoked_at: null,
      created_at: tx.at,
    })
    .execute();
  await updateHead(tx, agentId, { has_work: 1, one_shot_ended: 0 });
}

/** Makes a trigger. */
export const createTrigger = (
  ctx: StoreContext,
  agentId: string,
  trigger: NewTrigger,
  border: Border = NO_BORDER,
): Promise<TriggerView> =>
  write(ctx, agentId, async (tx) => {
    const entry = await rosterEntry(tx, agentId);
    if (!entry) throw agentNotFound(agentId);
    demandStart(border, { agentId, entry }, entry.profile);
    await lockHead(tx, agentId);
    const { count } = await tx.db
      .selectFrom('triggers')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('agent_id', '=', agentId)
      .where('revoked_at', 'is', null)
      .executeTakeFirstOrThrow();
    if (Number(count) >= MOST_TRIGGERS)
      throw new CodedError(
        'invalid_request',
        `agent ${agentId} has ${MOST_TRIGGERS} triggers, which is the most: revoke those that are not used`,
      );
    await insertTrigger(tx, agentId, trigger);
    const { triggerId, name } = trigger;
    return { triggerId, name, hits: 0, lastHitAt: null, revokedAt: null, createdAt: tx.now };
  });

/** Revokes a trigger, for good. */
export const revokeTrigger = (ctx: StoreContext, agentId: string, triggerId: string): Promise<boolean> =>
  write(ctx, agentId, async ({ db, now }) => {
    const row = await db
      .updateTable('triggers')
      .set(({ fn, ref, val }) => ({ revoked_at: fn.coalesce(ref('revoked_at'), val(now)) }))
      .where('trigger_id', '=', triggerId)
      .where('agent_id', '=', agentId)
      .returning('trigger_id')
      .executeTakeFirst();
    return row !== undefined;
  });

/** Lists triggers of an agent, the oldest first. */
export const listTriggers = (
  ctx: StoreContext,
  agentId: string,
  page: WorkPage = {},
): Promise<readonly TriggerView[]> => read(ctx, ({ db }) => triggersOf(db, agentId, page));

/** Triggers of an agent, the oldest first. */
export async function triggersOf(
  db: Db,
  agentId: string,
  { open = false, after, limit = 100 }: WorkPage,
): Promise<readonly TriggerView[]> {
  let query = db.selectFrom('triggers').selectAll().where('agent_id', '=', agentId);
  if (open) query = query.where('revoked_at', 'is', null);
  if (after !== undefined) query = query.where(behind('triggers', 'trigger_id', after));
  const rows = await query.orderBy('created_at').orderBy('trigger_id').limit(limit).execute();
  return rows.map(triggerView);
}

const triggerView = (row: TriggerRow): TriggerView => ({
  triggerId: row.trigger_id,
  name: row.name,
  hits: row.hits,
  lastHitAt: row.last_hit_at,
  revokedAt: row.revoked_at,
  createdAt: row.created_at,
});

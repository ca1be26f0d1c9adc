/** What comes for an agent between its turns: it makes a turn at once, or is kept until the agent is free (A4, A8, A9). */

import type { Came, WakeDelivery, WakeDisposition, Woken } from '../../../workflows/contract/agent-work.ts';
import { type Border, NO_BORDER } from '../../../workflows/contract/border.ts';
import type { Handover } from '../../../workflows/contract/lease.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { utf8Bytes } from '../../../workflows/protocol/sizes.ts';
import { deliveryCardId } from '../../ids.ts';
import { insertCard } from '../cards/cards.ts';
import { read, type StoreContext, type Tx, write } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import type { HeadRow } from '../schema/rows.ts';
import { demandStart } from '../turns/at-the-border.ts';
import { handOver } from '../turns/handover.ts';
import { lockHead } from '../turns/head.ts';
import { agentNotFound, type RosterEntry, rosterEntry } from '../turns/roster.ts';
import { demandRoom, isKept, keep } from './came.ts';

/** What has come, and what follows from it. */
export interface Kept {
  readonly disposition: Extract<WakeDisposition, 'woken' | 'kept'>;
  readonly handover: Handover;
}

/** Keeps what has come, and makes a turn of it where the agent is free. The caller holds the head. */
export async function comes(tx: Tx, head: HeadRow, came: Came): Promise<Kept> {
  const { agent_id: agentId } = head;
  const { head: after, place, isNew } = await keep(tx, head, came);
  const handover = await handOver(tx, after);
  const disposition = (await isKept(tx, agentId, place)) ? 'kept' : 'woken';
  const { kind, source } = came;
  // A time that comes again while the agent is busy is told of once.
  if (disposition === 'kept' && !isNew) return { disposition, handover };
  appendEvent(tx, { agent_id: agentId, agent_turn_id: null }, { type: 'wake', payload: { kind, source, disposition } });
  return { disposition, handover };
}

/** Takes what somebody has sent to a trigger, once for each key of its sender. */
export async function fireTrigger(ctx: StoreContext, tokenHash: string, delivery: WakeDelivery): Promise<Woken | null> {
  const trigger = await read(ctx, ({ db }) =>
    db
      .selectFrom('triggers')
      .select(['trigger_id', 'agent_id', 'name'])
      .where('token_hash', '=', tokenHash)
      .where('revoked_at', 'is', null)
      .executeTakeFirst(),
  );
  if (!trigger) return null;
  const { trigger_id: triggerId, agent_id: agentId, name } = trigger;
  return write(ctx, agentId, async (tx) => {
    const head = await lockHead(tx, agentId);
    await demandStarted(tx, agentId);
    if (await isRepeated(tx, triggerId, delivery)) return { agentId, ...nothing(agentId, 'duplicate') };
    // Revoked meanwhile.
    const hit = await tx.db
      .updateTable('triggers')
      .set(({ eb, ref }) => ({ hits: eb(ref('hits'), '+', 1), last_hit_at: tx.now }))
      .where('trigger_id', '=', triggerId)
      .where('revoked_at', 'is', null)
      .returning('hits')
      .executeTakeFirst();
    if (!hit) return null;
    const came = {
      kind: 'external_event',
      source: triggerId,
      reason: `trigger ${name} (${triggerId}) was hit`,
    } as const;
    return { agentId, ...(await deliver(tx, head, delivery, came, String(hit.hits))) };
  });
}

/** The source of what the system itself says. */
const BY_SYSTEM = 'system';

/** Wakes an agent as the system does. */
export const wakeAgent = (
  ctx: StoreContext,
  agentId: string,
  delivery: WakeDelivery,
  border: Border = NO_BORDER,
): Promise<Woken> =>
  write(ctx, agentId, async (tx) => {
    // Locked, one that is not there would be made.
    const entry = await demandStarted(tx, agentId);
    demandStart(border, { agentId, entry }, entry.profile);
    const head = await lockHead(tx, agentId);
    await demandStarted(tx, agentId);
    if (await isRepeated(tx, `${BY_SYSTEM}:${agentId}`, delivery)) return { agentId, ...nothing(agentId, 'duplicate') };
    const came = { kind: 'system_tick', source: BY_SYSTEM, reason: 'the agent was woken' } as const;
    return { agentId, ...(await deliver(tx, head, delivery, came, String(head.event_seq))) };
  });

/** Errors: `agent_not_found`, `agent_stopped`. */
async function demandStarted(tx: Tx, agentId: string): Promise<RosterEntry> {
  const entry = await rosterEntry(tx, agentId);
  if (!entry) throw agentNotFound(agentId);
  if (entry.lifecycle === 'stopped')
    throw new CodedError('agent_stopped', `agent ${agentId} is stopped; start it, then wake it again`);
  return entry;
}

/** Whether a delivery with this key came before; it is remembered from now on. */
async function isRepeated({ db, now }: Tx, triggerId: string, { key }: WakeDelivery): Promise<boolean> {
  if (key === undefined) return false;
  const row = await db
    .insertInto('trigger_deliveries')
    .values({ trigger_id: triggerId, delivery_key: key, created_at: now })
    .onConflict((conflict) => conflict.columns(['trigger_id', 'delivery_key']).doNothing())
    .returning('trigger_id')
    .executeTakeFirst();
  return row === undefined;
}

const nothing = <D extends WakeDisposition>(agentId: string, disposition: D) => ({
  disposition,
  handover: { agentId, next: null, more: false, settlements: [] },
});

/** What says nothing makes no turn and is no news (A4). `place` tells the deliveries from one source apart. */
async function deliver(
  tx: Tx,
  head: HeadRow,
  { text }: WakeDelivery,
  came: Pick<Came, 'kind' | 'source' | 'reason'>,
  place: string,
): Promise<Omit<Woken, 'agentId'>> {
  if (text === null || text.trim() === '') return nothing(head.agent_id, 'noted');
  demandRoom(head, utf8Bytes(text));
  const cardId = deliveryCardId(head.agent_id, came.source, place);
  await insertCard(tx, {
    cardId,
    type: 'task.instruction',
    content: { text },
    author: came.source,
    agentId: head.agent_id,
  });
  return comes(tx, head, { ...came, count: 1, cardId });
}

/** Forgets keys of deliveries that came long ago. */
export const dropDeliveries = (ctx: StoreContext, olderThanMs: number, most: number): Promise<number> =>
  write(ctx, 'deliveries', async (tx) => {
    const old = await tx.db
      .selectFrom('trigger_deliveries')
      .select(['trigger_id', 'delivery_key'])
      .where('created_at', '<', tx.now - olderThanMs)
      .orderBy('created_at')
      .limit(most)
      .execute();
    for (const { trigger_id, delivery_key } of old)
      await tx.db
        .deleteFrom('trigger_deliveries')
        .where('trigger_id', '=', trigger_id)
        .where('delivery_key', '=', delivery_key)
        .execute();
    return old.length;
  });

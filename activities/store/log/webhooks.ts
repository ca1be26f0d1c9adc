/**
 * What webhooks have been told of the log, and what is to be told.
 *
 * Invariant: a row of `webhook_cursors` stands for an agent. While `due_at` is null, everything up to the event `event_id` was told; an event
 * behind it makes the agent due.
 */
import { type RawBuilder, sql } from 'kysely';
import { type Border, NO_BORDER } from '../../../workflows/contract/border.ts';
import {
  type DueAgent,
  type FailedMark,
  type FoundEvent,
  LONGEST_PAUSE_MS,
  type SentMark,
  type Topic,
  type TopicEvent,
  type WebhookView,
} from '../../../workflows/contract/webhooks.ts';
import { MOST_SKEW_MS } from '../ahead.ts';
import { read, type StoreContext, write } from '../context.ts';
import { eventInView } from '../reads/border.ts';
import { decoded } from '../schema/json.ts';
import { isAmong } from '../schema/rows.ts';
import { holdLease, releaseLease } from '../turns/service-leases.ts';

/** The name of the lease, and of the line in which writers stand. */
const WEBHOOKS = 'webhooks';

/** Takes or renews the right to tell. */
export const holdWebhookLease = async (ctx: StoreContext, holder: string, ttlMs: number): Promise<boolean> =>
  (await holdLease(ctx, WEBHOOKS, holder, ttlMs)) !== undefined;

/** Ends the right of `holder` at once. */
export const releaseWebhookLease = (ctx: StoreContext, holder: string): Promise<void> =>
  releaseLease(ctx, WEBHOOKS, holder);

/** Makes the webhook known where it is not. */
export const openWebhook = (ctx: StoreContext, webhookId: string): Promise<number> =>
  write(ctx, WEBHOOKS, async ({ db }) => {
    const { searched_id } = await db
      .insertInto('webhooks')
      .values({
        webhook_id: webhookId,
        searched_id: sql<number>`(select coalesce(max(id), 0) from events)`,
        sent: 0,
        failed: 0,
        last_sent_at: null,
        last_failed_at: null,
        last_error: null,
      })
      .onConflict((conflict) =>
        conflict.column('webhook_id').doUpdateSet(({ ref }) => ({ sent: ref('webhooks.sent') })),
      )
      .returning('searched_id')
      .executeTakeFirstOrThrow();
    return Number(searched_id);
  });

/** Finds events with a topic behind that id. */
export const findEvents = (
  ctx: StoreContext,
  afterId: number,
  limit: number,
  border: Border = NO_BORDER,
): Promise<readonly FoundEvent[]> =>
  read(ctx, async ({ db }) => {
    const rows = await db
      .selectFrom('events')
      .select(['id', 'agent_id', 'seq', 'topic', eventInView(border).as('in_view')])
      .where('topic', 'is not', null)
      .where('id', '>', afterId)
      .orderBy('id')
      .limit(limit)
      .execute();
    return rows.flatMap(({ id, agent_id: agentId, seq, topic, in_view }) =>
      topic ? [{ id, agentId, seq, topic, inView: Boolean(in_view) }] : [],
    );
  });

/** Writes down of which agents there are events to be told. */
export async function noteFound(ctx: StoreContext, webhookId: string, found: readonly FoundEvent[]): Promise<void> {
  const agents = new Map<string, { readonly first: FoundEvent; last: FoundEvent }>();
  for (const event of found) {
    const known = agents.get(event.agentId);
    if (known) known.last = event;
    else agents.set(event.agentId, { first: event, last: event });
  }
  if (agents.size === 0) return;
  await write(ctx, WEBHOOKS, ({ db, now }) =>
    db
      .insertInto('webhook_cursors')
      .values(
        [...agents].map(([agentId, { first, last }]) => ({
          webhook_id: webhookId,
          agent_id: agentId,
          seq: first.seq - 1,
          event_id: last.id,
          due_at: now,
          failures: 0,
        })),
      )
      .onConflict((conflict) =>
        conflict
          .columns(['webhook_id', 'agent_id'])
          .doUpdateSet(({ ref }) => ({
            event_id: ref('excluded.event_id'),
            due_at: sql<number>`coalesce(webhook_cursors.due_at, excluded.due_at)`,
          }))
          .whereRef('excluded.event_id', '>', 'webhook_cursors.event_id'),
      )
      .execute(),
  );
}

/** Writes down up to where events were found, and forgets agents of which all is told. */
export async function noteSearched(ctx: StoreContext, webhookId: string, searchedId: number): Promise<void> {
  await write(ctx, WEBHOOKS, async ({ db }) => {
    await db
      .updateTable('webhooks')
      .set({ searched_id: searchedId })
      .where('webhook_id', '=', webhookId)
      .where('searched_id', '<', searchedId)
      .execute();
    await db
      .deleteFrom('webhook_cursors')
      .where('webhook_id', '=', webhookId)
      .where('due_at', 'is', null)
      .where('event_id', '<=', searchedId)
      .execute();
  });
}

/** The agents of whose events something is to be told now. */
export const dueAgents = (ctx: StoreContext, webhookId: string, limit: number): Promise<readonly DueAgent[]> =>
  read(ctx, async ({ db }) => {
    const now = ctx.now();
    const due = (await dueCursors(webhookId, sql`due_at <= ${now}`, limit).execute(db)).rows;
    if (due.length === limit) return due;
    // One that is due later than after the longest pause was written down while a clock was ahead.
    const ahead = sql`due_at > ${now + LONGEST_PAUSE_MS + MOST_SKEW_MS}`;
    return [...due, ...(await dueCursors(webhookId, ahead, limit - due.length).execute(db)).rows];
  });

/** Agents that are due at such a time, by the index of what is due: one range of it, so that nothing is sorted. */
export const dueCursors = (webhookId: string, when: RawBuilder<unknown>, limit: number): RawBuilder<DueAgent> =>
  sql`select agent_id as "agentId", seq, failures from webhook_cursors where webhook_id = ${webhookId} and ${when} order by due_at limit ${limit}`;

/** Reads the next events of an agent with one of these topics. */
export const readTopicEvents = (
  ctx: StoreContext,
  agentId: string,
  afterSeq: number,
  topics: readonly Topic[],
  limit: number,
  border: Border = NO_BORDER,
): Promise<readonly TopicEvent[]> =>
  read(ctx, async ({ db }) => {
    const rows = await db
      .selectFrom('events')
      .selectAll()
      .where('topic', 'is not', null)
      .where(isAmong('topic', topics))
      .where('agent_id', '=', agentId)
      .where('seq', '>', afterSeq)
      .where(eventInView(border))
      .orderBy('seq')
      .limit(limit)
      .execute();
    return rows.map((row) => {
      const { id, seq, type, topic } = row;
      const of = { agentId: row.agent_id, agentTurnId: row.agent_turn_id, createdAt: row.created_at };
      return { id, seq, type, topic, payload: decoded(row.payload), ...of } as TopicEvent;
    });
  });

/** Writes down what was told. */
export const noteSent = (
  ctx: StoreContext,
  { webhookId, agentId, from, event, topics, border = NO_BORDER }: SentMark,
): Promise<boolean> =>
  write(ctx, WEBHOOKS, async ({ db, now }) => {
    const seq = event?.seq ?? from;
    const more = db
      .selectFrom('events')
      .select(sql.lit(1).as('one'))
      .where('topic', 'is not', null)
      .where(isAmong('topic', topics))
      .where('agent_id', '=', agentId)
      .where('seq', '>', seq)
      .where(eventInView(border));
    const moved = await db
      .updateTable('webhook_cursors')
      .set(({ exists, eb, ref }) => ({
        seq,
        failures: 0,
        event_id: event
          ? eb.case().when('event_id', '<', event.id).then(event.id).else(ref('event_id')).end()
          : ref('event_id'),
        due_at: eb.case().when(exists(more)).then(now).else(null).end(),
      }))
      .where('webhook_id', '=', webhookId)
      .where('agent_id', '=', agentId)
      .where('seq', '=', from)
      .returning('seq')
      .executeTakeFirst();
    if (!moved || !event) return moved !== undefined;
    await db
      .updateTable('webhooks')
      .set(({ eb }) => ({ sent: eb('sent', '+', 1), last_sent_at: now }))
      .where('webhook_id', '=', webhookId)
      .execute();
    return true;
  });

/** Writes down that something could not be told. */
export async function noteFailed(
  ctx: StoreContext,
  { webhookId, agentId, from, error, delayMs }: FailedMark,
): Promise<void> {
  await write(ctx, WEBHOOKS, async ({ db, now }) => {
    await db
      .updateTable('webhook_cursors')
      .set(({ eb }) => ({ failures: eb('failures', '+', 1), due_at: now + delayMs }))
      .where('webhook_id', '=', webhookId)
      .where('agent_id', '=', agentId)
      .where('seq', '=', from)
      .execute();
    await db
      .updateTable('webhooks')
      .set(({ eb }) => ({ failed: eb('failed', '+', 1), last_failed_at: now, last_error: error }))
      .where('webhook_id', '=', webhookId)
      .execute();
  });
}

/** How webhooks stand. */
export const listWebhooks = (ctx: StoreContext): Promise<readonly WebhookView[]> =>
  read(ctx, async ({ db }) => {
    const rows = await db
      .selectFrom('webhooks')
      .selectAll()
      .select(({ selectFrom, fn }) =>
        selectFrom('webhook_cursors')
          .select(fn.countAll<number>().as('count'))
          .whereRef('webhook_cursors.webhook_id', '=', 'webhooks.webhook_id')
          .where('due_at', 'is not', null)
          .as('behind'),
      )
      .orderBy('webhook_id')
      .execute();
    return rows.map((row) => ({
      webhookId: row.webhook_id,
      sent: row.sent,
      failed: row.failed,
      agentsBehind: Number(row.behind),
      lastSentAt: row.last_sent_at,
      lastFailedAt: row.last_failed_at,
      lastError: row.last_error,
    }));
  });

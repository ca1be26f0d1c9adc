/**
 * What has come for an agent and made no turn yet (A4, A9). The caller holds the head row.
 *
 * Invariants
 * 1. What is kept is told: whatever somebody has sent is a row of its own, in the order in which it came, until a turn is made that tells it.
 * 2. What is kept has a bound: beyond it a delivery is refused, and its sender knows. What the agent has waited for is always kept.
 * 3. A time that comes again before it was told, and the end of the same turn, are one thing.
 */
import type { Came } from '../../../workflows/contract/agent-work.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { type Reader, read, type StoreContext, type Tx } from '../context.ts';
import type { WakeRow } from '../schema/agent-rows.ts';
import { type CardRow, contentOf, type HeadRow } from '../schema/rows.ts';
import { shownDeliverable } from '../turns/deliverables.ts';
import { updateHead } from '../turns/head.ts';

/** How much is kept for an agent of what others have sent. */
export const MOST_KEPT = { wakes: 1_000, bytes: 2 * 1024 * 1024 } as const;

/** One thing that has come, and its place among those of its agent. */
export interface KeptWake extends Came {
  readonly place: number;
  /** Bytes of what it has brought. */
  readonly bytes: number;
}

/** A query for what is kept for an agent, the first that came first. */
export const selectKept = ({ db }: Reader, agentId: string) =>
  db.selectFrom('wakes').selectAll().where('agent_id', '=', agentId).where('taken_by', 'is', null).orderBy('place');

/** What is kept for an agent, the first that came first. */
export async function keptFor(tx: Tx, { agent_id: agentId, came }: HeadRow): Promise<readonly KeptWake[]> {
  return came === 0 ? [] : (await selectKept(tx, agentId).execute()).map(keptWake);
}

const keptWake = ({ place, kind, source, reason, count, card_id: cardId, bytes, due }: WakeRow): KeptWake => ({
  place,
  kind,
  source,
  reason,
  count,
  cardId,
  bytes,
  ...(due === 1 ? { due: true } : {}),
});

/** How much is kept for an agent, as its head says it. */
export async function countedKept(reader: Reader, agentId: string): Promise<Pick<HeadRow, 'came' | 'came_bytes'>> {
  const kept = await selectKept(reader, agentId).execute();
  return { came: kept.length, came_bytes: sentBytes(kept) };
}

const sentBytes = (wakes: readonly Pick<KeptWake, 'kind' | 'bytes'>[]): number =>
  wakes.filter(isSent).reduce((sum, { bytes }) => sum + bytes, 0);

/** Whether somebody has sent it: each such thing is told by itself. */
const isSent = ({ kind }: Pick<Came, 'kind'>): boolean => kind === 'external_event' || kind === 'system_tick';

/** Refuses what somebody sends to an agent for which too much is kept. Errors: `inbox_full`. */
export function demandRoom({ agent_id: agentId, came, came_bytes: held }: HeadRow, bytes: number): void {
  const { wakes, bytes: most } = MOST_KEPT;
  if (came < wakes && held + bytes <= most) return;
  throw new CodedError(
    'inbox_full',
    `${came} deliveries with ${held} bytes wait until agent ${agentId} is free; it keeps ${wakes}, and ${most} bytes`,
  );
}

/** What has become of something that came: the head with it, and the place that it has. */
export interface KeptAt {
  readonly head: HeadRow;
  readonly place: number;
  /** False where it is one with something that came before. */
  readonly isNew: boolean;
}

/** Keeps what has come behind all that came before. */
export async function keep(tx: Tx, head: HeadRow, came: Came): Promise<KeptAt> {
  const { agent_id: agentId } = head;
  const before = isSent(came) || head.came === 0 ? undefined : await cameBefore(tx, agentId, came);
  if (before) {
    // A turn ends once, however often it is told.
    const count = came.kind === 'task_result' ? 1 : before.count + came.count;
    await tx.db
      .updateTable('wakes')
      .set({ count, reason: came.reason, card_id: came.cardId ?? before.card_id, due: came.due ? 1 : 0 })
      .where('agent_id', '=', agentId)
      .where('place', '=', before.place)
      .execute();
    return { head, place: before.place, isNew: false };
  }
  const place = (await lastPlace(tx, agentId)) + 1;
  const { kind, source, reason, count, cardId: card_id, due } = came;
  const bytes = card_id === null ? 0 : await cardBytes(tx, card_id);
  const wake = { agent_id: agentId, place, kind, source, reason, count, card_id, bytes, due: due ? 1 : 0 };
  await tx.db
    .insertInto('wakes')
    .values({ ...wake, taken_by: null, created_at: tx.at })
    .execute();
  const change = { came: head.came + 1, came_bytes: head.came_bytes + (isSent(came) ? bytes : 0) };
  await updateHead(tx, agentId, change);
  return { head: { ...head, ...change }, place, isNew: true };
}

/** How much a card holds; nothing where it is not there. */
async function cardBytes({ db }: Reader, cardId: string): Promise<number> {
  const card = await db.selectFrom('cards').select('bytes').where('card_id', '=', cardId).executeTakeFirst();
  return card?.bytes ?? 0;
}

const cameBefore = ({ db }: Reader, agentId: string, { kind, source }: Came): Promise<WakeRow | undefined> =>
  db
    .selectFrom('wakes')
    .selectAll()
    .where('agent_id', '=', agentId)
    .where('kind', '=', kind)
    .where('source', '=', source)
    .where('taken_by', 'is', null)
    .executeTakeFirst();

async function lastPlace({ db }: Reader, agentId: string): Promise<number> {
  const last = await db
    .selectFrom('wakes')
    .select('place')
    .where('agent_id', '=', agentId)
    .orderBy('place', 'desc')
    .limit(1)
    .executeTakeFirst();
  return last?.place ?? 0;
}

/** Whether what has that place waits for a turn that tells it. */
export async function isKept({ db }: Reader, agentId: string, place: number): Promise<boolean> {
  const row = await db
    .selectFrom('wakes')
    .select('place')
    .where('agent_id', '=', agentId)
    .where('place', '=', place)
    .where('taken_by', 'is', null)
    .executeTakeFirst();
  return row !== undefined;
}

/** Notes that a turn tells these, which are the first of all that are kept. What they brought stays, to be read on. */
export async function noteTaken(tx: Tx, head: HeadRow, told: readonly KeptWake[], agentTurnId: string): Promise<void> {
  const last = told.at(-1);
  if (!last) return;
  const { agent_id: agentId } = head;
  await tx.db
    .deleteFrom('wakes')
    .where('agent_id', '=', agentId)
    .where('place', '<=', last.place)
    .where('taken_by', 'is', null)
    .where('card_id', 'is', null)
    .execute();
  await tx.db
    .updateTable('wakes')
    .set({ taken_by: agentTurnId })
    .where('agent_id', '=', agentId)
    .where('place', '<=', last.place)
    .where('taken_by', 'is', null)
    .execute();
  await updateHead(tx, agentId, { came: head.came - told.length, came_bytes: head.came_bytes - sentBytes(told) });
}

type Brought = Pick<CardRow, 'type' | 'content'>;

/** What a card that came is, as text. */
export const broughtText = (card: Brought): string =>
  card.type === 'task.deliverable'
    ? shownDeliverable(contentOf(card, card.type))
    : contentOf(card, 'task.instruction').text;

/** Reads what came with the card, whole, once the agent was told of it. */
export async function readWake(ctx: StoreContext, { agentId }: Pick<Fence, 'agentId'>, cardId: string) {
  const find = ({ db }: Reader) =>
    db
      .selectFrom('wakes')
      .innerJoin('cards', 'cards.card_id', 'wakes.card_id')
      .select(['cards.type', 'cards.content'])
      .where('wakes.card_id', '=', cardId)
      .where('wakes.agent_id', '=', agentId)
      .where('wakes.taken_by', 'is not', null)
      .executeTakeFirst();
  const card = await read(ctx, find);
  return card ? broughtText(card) : null;
}

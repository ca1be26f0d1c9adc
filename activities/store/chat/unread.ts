/**
 * Messages that a turn was to be told and has not read (C8, T22). The caller holds the head row of the session's agent.
 *
 * Invariant: what waits is asked in the order in which it came. A message that moves goes before all that came after it, and what has no room
 * behind it any more moves on to the next turn that waits, or makes one.
 */
import type { Reader, Tx } from '../context.ts';
import type { ChatMessageRow } from '../schema/chat-rows.ts';
import { tellMessage } from './messages.ts';
import { selectSessions } from './rows.ts';
import {
  type Held,
  hasRoomFor,
  hasSeveralSenders,
  moveToFront,
  queueFor,
  waitsForMessages,
  writeMessageCard,
} from './waiting-turn.ts';

/** The messages among these steers of a turn, which have not been read, in their order. */
export async function unreadMessages(
  { db }: Reader,
  agentTurnId: string,
  cardIds: readonly string[],
): Promise<readonly ChatMessageRow[]> {
  if (cardIds.length === 0) return [];
  return db
    .selectFrom('chat_messages')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('placement', '=', 'steered')
    .where((eb) => eb('card_id', '=', eb.fn.any(eb.val(cardIds))))
    .orderBy('seq')
    .execute();
}

/** Writes down that nothing came of messages: their turn was stopped before it read them. */
export async function rejectMessages(tx: Tx, messages: readonly ChatMessageRow[], reason: string): Promise<void> {
  for (const row of messages) {
    await update(tx, row, { placement: 'rejected', reason });
    tellMessage(tx, { ...row, reason }, row.agent_turn_id, 'rejected');
  }
}

/** Deals messages out among the turns that wait, which go before everything else from then on; a turn takes so many bytes at most. */
export async function moveToWaitingTurns(tx: Tx, messages: readonly ChatMessageRow[], most: number): Promise<void> {
  const [first] = messages;
  if (!first) return;
  const { agent_id: agentId, seq } = first;
  await moveToFront(tx, agentId);
  const { turns, rows } = await waitingBehind(tx, agentId, seq);
  const all = [...messages, ...rows].sort((a, b) => a.seq - b.seq);
  const dealer = new Dealer(tx, { agentId, turns, most });
  for (const row of all) await dealer.deal(row);
}

/** What waits and is not wholly before this place: the turns in their order, the last one in any case, and their messages. */
async function waitingBehind({ db }: Reader, agentId: string, seq: number) {
  const waiting = await db
    .selectFrom('turns')
    .select((eb) => [
      'agent_turn_id',
      eb
        .selectFrom('chat_messages')
        .select((each) => each.fn.max('chat_messages.seq').as('last'))
        .whereRef('chat_messages.agent_turn_id', '=', 'turns.agent_turn_id')
        .as('last'),
    ])
    .where('agent_id', '=', agentId)
    .where(waitsForMessages)
    .orderBy('lane')
    .orderBy('accept_seq')
    .execute();
  const turns = waiting
    .filter(({ last }, at) => at === waiting.length - 1 || Number(last) > seq)
    .map(({ agent_turn_id }) => agent_turn_id);
  const rows: ChatMessageRow[] = [];
  for (const agentTurnId of turns)
    rows.push(...(await db.selectFrom('chat_messages').selectAll().where('agent_turn_id', '=', agentTurnId).execute()));
  return { turns, rows };
}

/** What messages are dealt out among. */
interface Table {
  readonly agentId: string;
  /** The turns that wait, in their order. */
  readonly turns: readonly string[];
  readonly most: number;
}

/** Deals messages out in their order. None moves to an earlier turn than the one that it is in, so that no turn is left without any. */
class Dealer {
  readonly #tx: Tx;
  readonly #table: Table;
  readonly #turns: string[];
  /** The turn that is dealt to; the one before the first at the beginning. */
  #at = -1;
  #held: Held = { count: 0, bytes: 0 };

  constructor(tx: Tx, table: Table) {
    this.#tx = tx;
    this.#table = table;
    this.#turns = [...table.turns];
  }

  async deal(row: ChatMessageRow): Promise<void> {
    const own = this.#turns.indexOf(row.agent_turn_id ?? '');
    const hasRoom = this.#at >= 0 && hasRoomFor(this.#held, row.bytes, this.#table.most);
    if (own > this.#at || !hasRoom) {
      this.#at = Math.max(own, this.#at + 1);
      this.#held = { count: 0, bytes: 0 };
    }
    this.#held = { count: this.#held.count + 1, bytes: this.#held.bytes + row.bytes };
    if (own === this.#at) return;
    const into = this.#turns[this.#at];
    const placement = into === undefined ? 'turn' : 'collected';
    const agentTurnId = into ?? (await this.#made(row));
    await update(this.#tx, row, { agent_turn_id: agentTurnId, placement });
    tellMessage(this.#tx, row, agentTurnId, placement);
  }

  /** A turn that begins with this message. */
  async #made(row: ChatMessageRow): Promise<string> {
    const { agentId } = this.#table;
    const session = await selectSessions(this.#tx).where('chat_sessions.agent_id', '=', agentId).executeTakeFirst();
    const {
      session_id: sessionId,
      profile,
      tenant,
    } = session ?? { session_id: agentId, profile: agentId, tenant: null };
    const setting = { sessionId, profile, tenant, front: true };
    const { agent_turn_id: agentTurnId } = await queueFor(this.#tx, row, setting);
    // One that was collected before has no card of its own yet.
    await writeMessageCard(this.#tx, row, await hasSeveralSenders(this.#tx, agentId), agentTurnId);
    this.#turns.push(agentTurnId);
    return agentTurnId;
  }
}

const update = (
  { db }: Tx,
  { agent_id: agentId, seq }: ChatMessageRow,
  change: Partial<Pick<ChatMessageRow, 'agent_turn_id' | 'placement' | 'reason'>>,
) => db.updateTable('chat_messages').set(change).where('agent_id', '=', agentId).where('seq', '=', seq).execute();

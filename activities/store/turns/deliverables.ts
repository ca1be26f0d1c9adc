/**
 * What a turn delivers, as the content of its card (T6, T7, T28).
 *
 * Invariant: whatever a model or a tool wrote, the content fits a card, so that every turn can end. What is too large is cut at a code
 * point and says how large it was; the whole stays in the card that it comes from.
 */
import type { DeliverableSource } from '../../../workflows/kernel/actions.ts';
import type { CardContents } from '../../../workflows/protocol/cards.ts';
import { clip, SIZES, utf8Bytes } from '../../../workflows/protocol/sizes.ts';
import type { Deliverable, Termination } from '../../../workflows/protocol/turn.ts';
import type { Reader } from '../context.ts';
import { prepared } from '../prepared.ts';
import { constant, contentOf } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';

const BLANK_ANSWER = '(the agent ended its turn without a text)';

/** What a card has besides its one long text. */
const FRAME_BYTES = 8 * 1024;

/** The text as long as a card can hold it, and how many bytes the whole has where that is less. */
function fitted(text: string): { readonly text: string; readonly wholeBytes?: number } {
  const most = SIZES.cardBytes - FRAME_BYTES;
  // A byte of the text takes up to six in a card: quotes and control characters are escaped.
  let kept = clip(text, most);
  for (let size = jsonBytes(kept); size > most; size = jsonBytes(kept))
    kept = clip(kept, Math.floor((utf8Bytes(kept) * most) / size) - 1);
  return kept === text ? { text } : { text: kept, wholeBytes: Buffer.byteLength(text) };
}

const jsonBytes = (text: string): number => Buffer.byteLength(JSON.stringify(text));

/** What a thought says. */
export interface KnownThought {
  readonly cardId: string;
  readonly text: string;
}

/** The content of the turn's deliverable card. The caller holds the head row of the turn's agent, and may know a thought. */
export async function deliverableOf(
  reader: Reader,
  turn: TurnRow,
  termination: Termination,
  source: DeliverableSource,
  known: KnownThought | null = null,
): Promise<Deliverable> {
  switch (source.from) {
    case 'thought': {
      const texts: string[] = [];
      for (const cardId of [...(source.parts ?? []), source.cardId]) {
        const thought =
          cardId === known?.cardId ? known : await cardOf(reader, turn, 'agent.thought', { card_id: cardId });
        texts.push(thought?.text ?? '');
      }
      const text = texts.join('');
      return fitted(text.trim() ? text : BLANK_ANSWER);
    }
    case 'submit_result': {
      const call = await cardOf(reader, turn, 'tool.call', { call_id: source.callId });
      // The shape was checked when the call was accepted; anything else here is a bug worth a visible failure.
      return { fields: call?.arguments.fields as unknown as Deliverable['fields'] & {} };
    }
    case 'tool_result': {
      const result = await cardOf(reader, turn, 'tool.result', { call_id: source.callId });
      const value = result?.result ?? result?.error?.message ?? '';
      return fitted(typeof value === 'string' ? value : JSON.stringify(value));
    }
    case 'fallback':
      return fallbackOf(reader, turn.agent_turn_id, termination);
  }
}

/** Of so many thoughts, the last one that says something is quoted. */
const THOUGHTS_LOOKED_AT = 5;

/** Best effort, from this turn's own cards only: an older turn's deliverable is never taken for this one's (T7). */
async function fallbackOf({ db }: Reader, agentTurnId: string, termination: Termination): Promise<Deliverable> {
  const { count } = await db
    .selectFrom('cards')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('agent_turn_id', '=', agentTurnId)
    .where('type', '=', 'tool.result')
    .executeTakeFirstOrThrow();
  const thoughts = await db
    .selectFrom('cards')
    .select('content')
    .where('agent_turn_id', '=', agentTurnId)
    .where('type', '=', 'agent.thought')
    .orderBy('step_index', 'desc')
    .limit(THOUGHTS_LOOKED_AT)
    .execute();
  const lastThought = thoughts.map((card) => contentOf(card, 'agent.thought').text).find((text) => text.trim());
  const reason = termination.reason ?? termination.errorCode ?? termination.status;
  const fallback = { reason, toolResults: Number(count) };
  if (lastThought === undefined) return { fallback };
  const { text, ...cut } = fitted(lastThought);
  return { fallback: { ...fallback, lastThought: text }, ...cut };
}

type Key = { readonly card_id: string } | { readonly call_id: string };

type CardKind = 'agent.thought' | 'tool.call' | 'tool.result';

/** The content of one card of the turn; null when there is no such card. */
async function cardOf<T extends CardKind>(
  { db }: Reader,
  { agent_turn_id: agentTurnId }: TurnRow,
  type: T,
  key: Key,
): Promise<CardContents[T] | null> {
  const query =
    'card_id' in key
      ? CONTENT[type].byCard(db, { agentTurnId, id: key.card_id })
      : CONTENT[type].byCall(db, { agentTurnId, id: key.call_id });
  const row = await query.executeTakeFirst();
  return row ? contentOf(row, type) : null;
}

const contentBy = (type: CardKind, column: 'card_id' | 'call_id') =>
  prepared((db, of: { agentTurnId: string; id: string }) =>
    db
      .selectFrom('cards')
      .select('content')
      .where('agent_turn_id', '=', of.agentTurnId)
      .where('type', '=', constant(type))
      .where(column, '=', of.id),
  );

const contentOfKind = (type: CardKind) => ({ byCard: contentBy(type, 'card_id'), byCall: contentBy(type, 'call_id') });

const CONTENT = {
  'agent.thought': contentOfKind('agent.thought'),
  'tool.call': contentOfKind('tool.call'),
  'tool.result': contentOfKind('tool.result'),
};

/** Bytes of a deliverable that the Web UI shows. */
const SHOWN_BYTES = 1_500;

/** The beginning of a deliverable as text. */
export const shownDeliverable = ({ text, fields, fallback }: Deliverable): string =>
  clip(text ?? (fields ? JSON.stringify(fields, null, 2) : (fallback?.lastThought ?? '')), SHOWN_BYTES);

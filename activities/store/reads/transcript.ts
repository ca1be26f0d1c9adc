/**
 * A turn as people read it: the cards of the turn in its output box, those that left the view included, with the questions that people were
 * asked.
 */
import type { AskedQuestion, TranscriptEntry, TranscriptPage } from '../../../workflows/contract/transcript.ts';
import { approversOf } from '../calls/approval-rows.ts';
import { type Reader, read, type StoreContext } from '../context.ts';
import { decoded } from '../schema/json.ts';
import { type ApprovalRow, type BoxCardRow, type CardRow, contentOf } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { setBudgetsOf } from '../turns/set-budgets.ts';

type PlacedCard = CardRow & Pick<BoxCardRow, 'seq' | 'hidden_reason'>;

/** Reads the transcript of a turn, a page at a time; null when the turn was never accepted. */
export const readTranscript = (
  ctx: StoreContext,
  agentTurnId: string,
  page: TranscriptPage = {},
): Promise<readonly TranscriptEntry[] | null> =>
  read(ctx, async (reader) => {
    const turn = await reader.db
      .selectFrom('turns')
      .selectAll()
      .where('agent_turn_id', '=', agentTurnId)
      .executeTakeFirst();
    if (!turn) return null;
    return turn.instruction_seq === null ? unleased(reader, turn, page) : entriesOf(reader, turn, page);
  });

/** A turn that was never leased has no conversation: its request, and how it ended, is all there is. */
async function unleased(
  { db }: Reader,
  turn: TurnRow,
  { after = 0 }: TranscriptPage,
): Promise<readonly TranscriptEntry[]> {
  const ids = [turn.instruction_card_id, turn.deliverable_card_id].filter((id) => id !== null);
  const cards = await db
    .selectFrom('cards')
    .selectAll()
    .where((eb) => eb('card_id', '=', eb.fn.any(eb.val(ids))))
    .execute();
  const entries = ids.flatMap((id, index) => {
    const card = cards.find(({ card_id }) => card_id === id);
    return card ? [entryOf(turn, { ...card, seq: index + 1, hidden_reason: null }, new Map())] : [];
  });
  return entries.filter(({ seq }) => seq > after);
}

async function entriesOf(
  reader: Reader,
  turn: TurnRow,
  { after = 0, limit = 100 }: TranscriptPage,
): Promise<readonly TranscriptEntry[]> {
  const read = await cardsOf(reader, turn, after, limit + 1);
  const cards = read.slice(0, limit);
  const [first] = cards;
  if (!first) return [];
  // A question about a budget has no card: it belongs to the page with the card that it was asked behind.
  const since = after === 0 ? 0 : first.seq;
  const until = read[limit]?.seq ?? Number.POSITIVE_INFINITY;
  const byCall = new Map((await questionsAbout(reader, turn, cards)).map((row) => [row.call_id, row]));
  const entries = cards.map((card) => entryOf(turn, card, byCall));
  for (const row of await budgetQuestions(reader, turn)) {
    const behind = row.behind_seq ?? 0;
    if (behind < since || behind >= until) continue;
    const index = entries.findLastIndex(({ seq }) => seq <= behind);
    const { seq, at } = entries[index] ?? { seq: first.seq, at: 0 };
    entries.splice(index + 1, 0, budgetEntry(turn, row, { seq, at: Math.max(at, row.created_at) }));
  }
  return entries;
}

/** The cards of the turn in the output box behind that place: from its instruction to its deliverable. */
async function cardsOf({ db }: Reader, turn: TurnRow, after: number, limit: number): Promise<readonly PlacedCard[]> {
  const { output_box_id: boxId, instruction_seq: first, instruction_card_id: instruction } = turn;
  let query = db
    .selectFrom('box_cards')
    .innerJoin('cards', 'cards.card_id', 'box_cards.card_id')
    .selectAll('cards')
    .select(['box_cards.seq', 'box_cards.hidden_reason'])
    .where('box_cards.box_id', '=', boxId ?? '')
    .where('box_cards.seq', '>=', Math.max(after + 1, first ?? 1))
    .where((eb) => eb.or([eb('cards.agent_turn_id', '=', turn.agent_turn_id), eb('cards.card_id', '=', instruction)]))
    .orderBy('box_cards.seq')
    .limit(limit);
  if (turn.deliverable_card_id !== null) {
    // What later turns wrote behind it is not read.
    query = query.where('box_cards.seq', '<=', (eb) =>
      eb
        .selectFrom('box_cards as last')
        .select('last.seq')
        .where('last.box_id', '=', boxId ?? '')
        .where('last.card_id', '=', turn.deliverable_card_id),
    );
  }
  return query.execute();
}

/** A query for questions of the turn. */
const selectQuestions = ({ db }: Reader, turn: TurnRow) =>
  db.selectFrom('approvals').selectAll().where('agent_turn_id', '=', turn.agent_turn_id);

/** The questions about the calls among these cards. */
async function questionsAbout(reader: Reader, turn: TurnRow, cards: readonly PlacedCard[]): Promise<ApprovalRow[]> {
  const callIds = cards.flatMap((card) => (card.type === 'tool.call' ? contentOf(card, card.type).callId : []));
  if (callIds.length === 0) return [];
  return selectQuestions(reader, turn)
    .where((eb) => eb('call_id', '=', eb.fn.any(eb.val(callIds))))
    .execute();
}

const budgetQuestions = (reader: Reader, turn: TurnRow): Promise<ApprovalRow[]> =>
  selectQuestions(reader, turn).where('kind', '=', 'budget').orderBy('behind_seq').orderBy('created_at').execute();

const asked = (row: ApprovalRow): AskedQuestion => ({
  status: row.status,
  reason: row.reason,
  approvers: approversOf(row),
  deadline: row.deadline,
  answeredBy: row.answered_by,
  comment: row.comment,
  answeredAt: row.answered_at,
});

const budgetEntry = (turn: TurnRow, row: ApprovalRow, place: Pick<TranscriptEntry, 'seq' | 'at'>): TranscriptEntry => ({
  kind: 'budget',
  callId: row.call_id,
  budgets: setBudgetsOf(turn),
  ...asked(row),
  ...place,
  hidden: null,
});

function entryOf(turn: TurnRow, card: PlacedCard, questions: ReadonlyMap<string, ApprovalRow>): TranscriptEntry {
  const place = { seq: card.seq, at: card.created_at, hidden: card.hidden_reason };
  const stepIndex = card.step_index ?? 0;
  switch (card.type) {
    case 'task.instruction': {
      const kind = card.card_id === turn.instruction_card_id ? 'request' : 'steer';
      return { kind, text: contentOf(card, card.type).text, ...place };
    }
    case 'agent.thought': {
      const { text, refusal } = contentOf(card, card.type);
      return { kind: 'thought', stepIndex, text, ...(refusal === undefined ? {} : { refusal }), ...place };
    }
    case 'tool.call': {
      const { callId, tool, arguments: args } = contentOf(card, card.type);
      const row = questions.get(callId);
      return { kind: 'call', stepIndex, callId, tool, arguments: args, question: row ? asked(row) : null, ...place };
    }
    case 'tool.result': {
      const { afterExecution: _, ...result } = contentOf(card, card.type);
      return { kind: 'result', ...result, ...place };
    }
    case 'task.deliverable':
      return { kind: 'deliverable', deliverable: contentOf(card, card.type), ...place };
    case 'context.summary':
      return { kind: 'summary', text: contentOf(card, card.type).text, ...place };
    case 'tool.output':
      return { kind: 'note', text: JSON.stringify(decoded(card.content)), ...place };
    default:
      return { kind: 'note', text: contentOf(card, card.type).text, ...place };
  }
}

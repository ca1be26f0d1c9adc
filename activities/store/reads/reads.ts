/** The read model. Reading writes nothing and takes no lock. */

import type { Selectable } from 'kysely';
import type { ChatIdentity } from '../../../workflows/chat/terminal.ts';
import type { BoxEntry, BoxPage, BoxView } from '../../../workflows/contract/cards.ts';
import type { AgentEvent } from '../../../workflows/contract/events.ts';
import type { ProviderOutage } from '../../../workflows/contract/steps.ts';
import type {
  CallView,
  EventFilter,
  StepView,
  StoreIdentity,
  TurnFilter,
  TurnView,
} from '../../../workflows/contract/views.ts';
import type { BoxExtent } from '../../../workflows/kernel/handles.ts';
import type { Card, ResultStatus } from '../../../workflows/protocol/cards.ts';
import { FAILURES, isFailureCode } from '../../../workflows/protocol/failures.ts';
import { utf8Bytes } from '../../../workflows/protocol/sizes.ts';
import { isTerminal } from '../../../workflows/protocol/turn.ts';
import { approversOf } from '../calls/approval-rows.ts';
import { withoutAttempt } from '../calls/provider-outages.ts';
import { toCard } from '../cards/cards.ts';
import { read, type StoreContext, together } from '../context.ts';
import { prepared } from '../prepared.ts';
import { decoded, decodedOr } from '../schema/json.ts';
import type { EventRow } from '../schema/log-rows.ts';
import { type CardRow, type ClaimRow, constant, contentOf, type Db, type StepRow } from '../schema/rows.ts';
import type { StoredRequest, TurnRow } from '../schema/turn-row.ts';
import { selectTurn } from '../turns/turns.ts';
import { missingWorkers } from './agents.ts';

/** Reads a turn with its steps and calls; null when it was never accepted. */
export const getTurn = (ctx: StoreContext, agentTurnId: string): Promise<TurnView | null> =>
  read(ctx, async (reader) => {
    const turn = await selectTurn(reader, agentTurnId).executeTakeFirst();
    return turn ? viewOf(reader.db, turn) : null;
  });

/** Lists turns of an agent, oldest first. */
export const listTurns = (
  ctx: StoreContext,
  agentId: string,
  { status, after, limit = 100, last }: TurnFilter = {},
): Promise<readonly TurnView[]> =>
  read(ctx, async ({ db }) => {
    let query = db.selectFrom('turns').selectAll().where('agent_id', '=', agentId);
    query = query.orderBy('accept_seq', last === undefined ? 'asc' : 'desc').limit(last ?? limit);
    if (status !== undefined) query = query.where('status', '=', constant(status));
    if (after !== undefined) query = query.where('accept_seq', '>', after);
    const turns = await query.execute();
    const views: TurnView[] = [];
    for (const turn of last === undefined ? turns : turns.reverse()) views.push(await viewOf(db, turn));
    return views;
  });

/** How the chat of a turn is known; null for a turn of no chat (C2). */
export function chatIdentityOf(turn: TurnRow): ChatIdentity | null {
  const { chat_id: chatId, agent_id: agentId, trace_id: traceId, correlation_id: correlationId } = turn;
  if (chatId === null) return null;
  const sessionId = decodedOr<StoredRequest | null>(turn.request, null)?.chat?.sessionId ?? agentId;
  return { sessionId, chatId, traceId: traceId ?? '', correlationId: correlationId ?? '' };
}

/** The turn as readers see it, in two round trips at most. */
async function viewOf(db: Db, turn: TurnRow): Promise<TurnView> {
  const agentTurnId = turn.agent_turn_id;
  const [steps, cards, claims] = await together(
    db,
    stepsOf(db, { agentTurnId }),
    shownCardsOf(db, { agentTurnId }),
    attemptsOf(db, { agentTurnId }),
  );
  const own = new Map(cards.map((card) => [card.card_id, card]));
  // Input that was written before the request belongs to no turn.
  const instruction =
    own.get(turn.instruction_card_id) ?? (await cardById(db, { cardId: turn.instruction_card_id }).executeTakeFirst());
  const deliverable = turn.deliverable_card_id === null ? undefined : own.get(turn.deliverable_card_id);
  const waiting = isTerminal(turn.status) ? [] : await waitingOf(db, agentTurnId);
  return {
    agentTurnId,
    agentId: turn.agent_id,
    status: turn.status,
    errorCode: turn.error_code,
    reason: turn.reason,
    cure: isFailureCode(turn.error_code) ? FAILURES[turn.error_code].cure : null,
    turnEpoch: turn.turn_epoch,
    profile: turn.profile_name,
    instruction: instruction ? contentOf(instruction, 'task.instruction').text : '',
    chat: chatIdentityOf(turn),
    deliverable: deliverable ? contentOf(deliverable, 'task.deliverable') : null,
    deliverableCardId: turn.deliverable_card_id,
    outputBoxId: turn.output_box_id,
    usage: decoded(turn.usage),
    cost: turn.step_count === 0 ? null : turn.cost,
    engine: turn.engine ? decoded(turn.engine) : null,
    stepCount: turn.step_count,
    waitingForProvider: isTerminal(turn.status) ? null : outageOf(steps.at(-1)),
    waitingForWorkers: isTerminal(turn.status) ? null : missingWorkers(turn),
    steps: stepViews(steps, callViews(cards, claims)),
    waiting: waiting.map((row) => ({
      kind: row.kind,
      callId: row.call_id,
      tool: row.tool_name,
      deadline: row.deadline,
      approvers: row.approvers === null ? [] : approversOf({ ...row, approvers: row.approvers }),
      deferred:
        row.defer_reason === null
          ? null
          : { reason: row.defer_reason, retryCount: row.retry_count ?? 0, nextRetryAt: row.next_retry_at ?? 0 },
    })),
    parent:
      turn.parent_agent_id === null || turn.parent_agent_turn_id === null
        ? null
        : { agentId: turn.parent_agent_id, agentTurnId: turn.parent_agent_turn_id, callId: turn.parent_call_id },
    depth: turn.depth,
    acceptSeq: turn.accept_seq,
    acceptedAt: turn.accepted_at,
    leasedAt: turn.leased_at,
    startedAt: turn.started_at,
    endedAt: turn.ended_at,
  };
}

/** The outage of the provider that an open turn waits out, by its last step; null when there is none. */
function outageOf(step: StepRow | undefined): ProviderOutage | null {
  return !step || step.outage === null ? null : withoutAttempt(decoded(step.outage));
}

/** What the turn waits for. */
const waitingOf = (db: Db, agentTurnId: string) =>
  db
    .selectFrom('turn_waiting')
    .leftJoin('deferred_reports as deferred', (join) =>
      join
        .onRef('deferred.agent_turn_id', '=', 'turn_waiting.agent_turn_id')
        .onRef('deferred.call_id', '=', 'turn_waiting.call_id'),
    )
    .leftJoin('approvals', (join) =>
      join
        .onRef('approvals.agent_turn_id', '=', 'turn_waiting.agent_turn_id')
        .onRef('approvals.call_id', '=', 'turn_waiting.call_id'),
    )
    .select(['turn_waiting.call_id', 'turn_waiting.kind', 'turn_waiting.tool_name', 'turn_waiting.deadline'])
    .select(['defer_reason', 'retry_count', 'next_retry_at', 'approvers', 'escalate_to', 'escalated_at'])
    .where('turn_waiting.agent_turn_id', '=', agentTurnId)
    .where('turn_waiting.status', '=', 'waiting')
    .execute();

interface OfTurn {
  readonly agentTurnId: string;
}

const cardById = prepared((db, card: { cardId: string }) =>
  db.selectFrom('cards').select('content').where('card_id', '=', card.cardId),
);

/** A query for the steps of a turn in their order. */
const stepsOf = prepared((db, of: OfTurn) =>
  db.selectFrom('agent_steps').selectAll().where('agent_turn_id', '=', of.agentTurnId).orderBy('step_index'),
);

/** A query for what a turn was asked, its calls and their results, and its deliverable. */
const shownCardsOf = prepared((db, of: OfTurn) =>
  db
    .selectFrom('cards')
    .select(['card_id', 'type', 'content'])
    .where('agent_turn_id', '=', of.agentTurnId)
    .where('type', 'in', ['task.instruction', 'tool.call', 'tool.result', 'task.deliverable']),
);

/** A query for how long the calls of a turn took, and how far their attempts are, the latest attempt last. */
const attemptsOf = prepared((db, of: OfTurn) =>
  db
    .selectFrom('dispatch_claims')
    .select(['call_id', 'duration_ms', 'progress'])
    .where('agent_turn_id', '=', of.agentTurnId)
    .orderBy('attempt'),
);

const stepViews = (steps: readonly StepRow[], calls: ReadonlyMap<string, CallView>): StepView[] =>
  steps.map((row) => ({
    stepIndex: row.step_index,
    model: row.model,
    usage: row.llm_usage ? decoded(row.llm_usage) : null,
    cost: row.llm_response_cost,
    latencyMs: row.latency_ms,
    firstTokenMs: row.first_token_ms,
    calls: decoded(row.tool_call_ids).flatMap((id) => calls.get(id) ?? []),
  }));

/** The calls by their ids. */
/** Bytes of calls whose arguments a view of their turn has. */
const SHOWN_ARGUMENTS_BYTES = 1024 * 1024;

function callViews(
  cards: readonly Pick<CardRow, 'type' | 'content'>[],
  claims: readonly Pick<ClaimRow, 'call_id' | 'duration_ms' | 'progress'>[],
): Map<string, CallView> {
  const durations = new Map(
    claims.filter((row) => row.duration_ms !== null).map((row) => [row.call_id, row.duration_ms]),
  );
  const noted = new Map(claims.map((row) => [row.call_id, row.progress]));
  const results = new Map(
    cards
      .filter((card) => card.type === 'tool.result')
      .map((card) => contentOf(card, 'tool.result'))
      .map((result) => [result.callId, result]),
  );
  let bytes = 0;
  const views = cards
    .filter((card) => card.type === 'tool.call')
    .map((card): CallView => {
      const call = contentOf(card, 'tool.call');
      bytes += utf8Bytes(card.content);
      const result = results.get(call.callId);
      const status: ResultStatus | 'open' = result?.status ?? 'open';
      const durationMs = durations.get(call.callId) ?? null;
      const progress = noted.get(call.callId) ?? null;
      return {
        callId: call.callId,
        tool: call.tool,
        arguments: bytes > SHOWN_ARGUMENTS_BYTES ? null : call.arguments,
        status,
        progress: result || progress === null ? null : decoded(progress),
        approval: result?.approval ?? null,
        error: result?.error ?? null,
        durationMs,
      };
    });
  return new Map(views.map((view) => [view.callId, view]));
}

/** Reads events of an agent or of one of its turns, oldest first. */
export const readEvents = (ctx: StoreContext, filter: EventFilter): Promise<readonly AgentEvent[]> =>
  read(ctx, async ({ db }) => {
    const query = db
      .selectFrom('events')
      .selectAll()
      .where('seq', '>', filter.afterSeq ?? 0)
      .orderBy('seq')
      .limit(filter.limit ?? 1_000);
    // By the turn alone, which is of one agent: a planner that knew the agent too might search all events of that agent.
    const { agentId, agentTurnId } = filter;
    const rows = await (agentTurnId === undefined
      ? query.where('agent_id', '=', agentId)
      : query.where('agent_turn_id', '=', agentTurnId)
    ).execute();
    return rows.map(toEvent);
  });

/** The event of a row. */
export const toEvent = (row: Selectable<EventRow>): AgentEvent =>
  ({
    id: row.id,
    agentId: row.agent_id,
    seq: row.seq,
    agentTurnId: row.agent_turn_id,
    type: row.type,
    payload: decoded(row.payload),
    createdAt: row.created_at,
  }) as AgentEvent;

/** Reads a box in its order: what is in view, or all of it. */
export const readBox = (ctx: StoreContext, boxId: string, all = false, page?: BoxPage): Promise<readonly BoxEntry[]> =>
  read(ctx, async ({ db }) => {
    let query = db
      .selectFrom('box_cards')
      .innerJoin('cards', 'cards.card_id', 'box_cards.card_id')
      .selectAll('cards')
      .select('box_cards.seq')
      .where('box_cards.box_id', '=', boxId)
      .orderBy('box_cards.seq');
    if (!all) query = query.where('box_cards.hidden_reason', 'is', null);
    if (page) query = query.where('box_cards.seq', '>', page.after).limit(page.limit);
    const rows = await query.execute();
    return rows.map(({ seq, ...row }) => ({ seq, card: toCard(row) }));
  });

/** Reads who the store is. */
export const identity = (ctx: StoreContext): Promise<StoreIdentity> =>
  read(ctx, async ({ db }) => {
    const { store_id: storeId } = await db.selectFrom('schema_version').select('store_id').executeTakeFirstOrThrow();
    return { storeId, where: ctx.where };
  });

/** Reads what a box is; null when there is none. */
export const findBox = (ctx: StoreContext, boxId: string): Promise<BoxView | null> =>
  read(ctx, async ({ db }) => {
    const box = await db
      .selectFrom('boxes')
      .select(['kind', 'owner_agent_id'])
      .where('box_id', '=', boxId)
      .executeTakeFirst();
    return box ? { kind: box.kind, ownerAgentId: box.owner_agent_id } : null;
  });

/** Reads these cards, in this order, each once. */
export const readCards = (ctx: StoreContext, cardIds: readonly string[]): Promise<readonly Card[]> =>
  read(ctx, ({ db }) => cardsOf(ctx, db, new Set(cardIds)));

/** The cards with these ids, in this order; those that were read before come from the cache. */
async function cardsOf(ctx: StoreContext, db: Db, ids: ReadonlySet<string>): Promise<readonly Card[]> {
  const cards = new Map<string, Card>();
  const unknown: string[] = [];
  for (const id of ids) {
    const card = ctx.cards.get(id);
    if (card) cards.set(id, card);
    else unknown.push(id);
  }
  for (const card of unknown.length > 0 ? await fetchCards(db, unknown) : []) {
    ctx.cards.set(card.cardId, card);
    cards.set(card.cardId, card);
  }
  return [...ids].flatMap((id) => cards.get(id) ?? []);
}

/**
 * Reads the cards of the extents in order, each once: a card that is named again stands at its last place (T24). Cards never change, so
 * those that were read before come from the cache, and a step reads only new ones (W4).
 */
export const readExtents = (ctx: StoreContext, extents: readonly BoxExtent[]): Promise<readonly Card[]> =>
  read(ctx, async ({ db }) => {
    const ids = new Set<string>();
    for (const extent of extents) {
      for (const id of await idsOf(db, extent)) {
        ids.delete(id);
        ids.add(id);
      }
    }
    return cardsOf(ctx, db, ids);
  });

/** The ids of the cards of an extent that are in view, in order. */
async function idsOf(db: Db, extent: BoxExtent): Promise<string[]> {
  return (await idsWithin(db, extent).execute()).map((row) => row.card_id);
}

const idsWithin = prepared((db, extent: BoxExtent) =>
  db
    .selectFrom('box_cards')
    .select('card_id')
    .where('box_id', '=', extent.boxId)
    .where('seq', '>=', extent.fromSeq)
    .where('seq', '<=', extent.toSeq)
    .where('hidden_reason', 'is', null)
    .orderBy('seq'),
);

const cardsById = prepared((db, { ids }: { readonly ids: readonly string[] }) =>
  db
    .selectFrom('cards')
    .selectAll()
    .where((eb) => eb('card_id', '=', eb.fn.any(eb.val(ids)))),
);

const fetchCards = async (db: Db, ids: readonly string[]): Promise<Card[]> =>
  (await cardsById(db, { ids }).execute()).map(toCard);

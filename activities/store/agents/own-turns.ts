/**
 * The turns that an agent makes by itself: for what has come for it, and for work that it can go on with (A4, A8, A10).
 *
 * Invariants
 * 1. Whether there is such a turn is decided under the head row, by what the rows say at that moment, when no turn is open and none is
 *    queued. Deciding twice decides the same.
 * 2. What has come stays on the head until the transaction that makes a turn of it: nothing is lost, and nothing counts twice.
 * 3. An agent that never had work, and for which nothing has come, costs no statement.
 */
import { v7 } from 'uuid';
import { type ClosureDecision, closureOf, type LastEnd } from '../../../workflows/agent-state/closure.ts';
import {
  type ContinuationResolution,
  continuationOf,
  endsWait,
  type TriggerKind,
} from '../../../workflows/agent-state/continuation.ts';
import { type AgentWork, NO_WORK } from '../../../workflows/agent-state/effects.ts';
import { derivePosture } from '../../../workflows/agent-state/posture.ts';
import { runnableItems, type ScheduledWorkItem, scheduled } from '../../../workflows/agent-state/work-items.ts';
import type { Came } from '../../../workflows/contract/agent-work.ts';
import type { Handover } from '../../../workflows/contract/lease.ts';
import type { Profile } from '../../../workflows/protocol/profile.ts';
import { clip } from '../../../workflows/protocol/sizes.ts';
import { isTerminal, PRIORITIES } from '../../../workflows/protocol/turn.ts';
import { instructionCardId } from '../../ids.ts';
import { insertCard } from '../cards/cards.ts';
import type { Reader, Tx } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import { decodedOr, encoded } from '../schema/json.ts';
import { constant, type HeadRow } from '../schema/rows.ts';
import type { StoredRequest, TurnRow } from '../schema/turn-row.ts';
import type { QueuedTurn } from '../schema/turn-states.ts';
import { updateHead } from '../turns/head.ts';
import { profileAt, selectProfileHead } from '../turns/profiles.ts';
import { rosterEntry } from '../turns/roster.ts';
import { insertTurn } from '../turns/turns.ts';
import { broughtText, type KeptWake, keptFor, noteTaken } from './came.ts';
import { instructionFor, takenAtOnce } from './own-instructions.ts';
import { openWork } from './work.ts';

/** Whether the agent may have a turn of its own to make, or is left with something: no statement is needed to know. */
export const mayHaveOwnTurn = ({ has_work, came }: HeadRow): boolean => has_work === 1 || came > 0;

/** What an agent has, and what that comes to. */
export interface AgentFacts {
  readonly work: AgentWork;
  readonly items: readonly ScheduledWorkItem[];
  readonly closure: ClosureDecision;
}

/** The facts of an agent that has no open turn, as they are now. `openTasks` are evidence for readers, and decide nothing. */
export async function agentFacts(reader: Reader, head: HeadRow, openTasks = 0): Promise<AgentFacts> {
  const work = head.has_work === 1 ? await openWork(reader, head) : NO_WORK;
  const items = scheduled(work.items, work.waits, work.currentId);
  const closure = closureOf({
    status: head.agent_status,
    runtimeError: null,
    lastEnd: await lastEndOf(reader, head),
    workItems: items,
    waits: work.waits,
    openTasks,
  });
  return { work, items, closure };
}

/** How the turn ended that was open last; null for an agent that has had none. */
async function lastEndOf({ db }: Reader, { last_agent_turn_id: lastId }: HeadRow): Promise<LastEnd | null> {
  if (lastId === null) return null;
  const last = await db
    .selectFrom('turns')
    .select(['agent_turn_id', 'status', 'error_code'])
    .where('agent_turn_id', '=', lastId)
    .executeTakeFirst();
  if (!last || !isTerminal(last.status)) return null;
  return { agentTurnId: last.agent_turn_id, status: last.status, errorCode: last.error_code };
}

/** The turn that an agent makes by itself, or what it is at, where it rests. */
export type OwnTurn =
  | { readonly own: QueuedTurn; readonly resting?: never }
  | { readonly own: null; readonly resting: NonNullable<Handover['resting']> };

/**
 * Queues the turn that the agent makes by itself, a bounded number of them in a row: only what comes from outside starts the count anew. An agent
 * that an operator has just started goes on with what can be gone on with, however its last turn ended. The caller holds the head, which is idle,
 * and nothing is queued.
 */
export async function queueOwnTurn(tx: Tx, head: HeadRow, isStarted = false): Promise<OwnTurn> {
  const facts = await agentFacts(tx, head);
  const came = await keptFor(tx, head);
  const isWoken = came.some((each) => resolutionOf(facts, each).modelReentry);
  const goesOn = isStarted || facts.closure.outcome === 'continuable';
  const item = isWoken || !goesOn ? undefined : await itemToContinue(tx, head, facts);
  if ((isWoken || item) && (await mayAct(tx, head, came))) {
    if (item) await noteContinued(tx, item);
    const counted = await countOwnTurn(tx, head, came);
    return { own: await queueFor(tx, counted, came, item && followUp(item)) };
  }
  await rest(tx, head, facts.closure);
  const { posture, reason } = derivePosture({
    status: head.agent_status,
    activeAgentTurnId: null,
    queuedInput: 0,
    workItems: facts.items,
    waits: facts.work.waits,
  });
  return { own: null, resting: { posture, reason: clip(reason, SHOWN_REASON_BYTES) } };
}

/** Bytes of a reason that the Web UI shows. */
const SHOWN_REASON_BYTES = 300;

/** What a thing that comes does to an agent that was left with this. */
export function resolutionOf(
  { closure: { outcome, waitingReason }, work: { waits } }: AgentFacts,
  { kind, source, due }: Pick<Came, 'kind' | 'source' | 'due'>,
): ContinuationResolution {
  const awaited = due || waits.some((wait) => endsWait(wait, kind, source));
  return continuationOf(
    { outcome, ...(waitingReason === undefined ? {} : { waitingReason }) },
    // What says nothing, and a delegated turn that goes on, are never kept.
    { kind, terminal: true, contentful: true, ...(awaited ? { awaited } : {}) },
  );
}

const followUp = ({ workItemId, objective }: ScheduledWorkItem): Came => ({
  kind: 'internal_followup',
  source: workItemId,
  reason: `work item ${workItemId} can be gone on with: ${objective}`,
  count: 1,
  cardId: null,
});

/** The work item with which the agent goes on by itself, not twice with one that did not change; undefined when there is none. */
async function itemToContinue(tx: Tx, head: HeadRow, { items }: AgentFacts): Promise<ScheduledWorkItem | undefined> {
  const rows = await tx.db
    .selectFrom('work_items')
    .select('work_item_id')
    .where('agent_id', '=', head.agent_id)
    .where('state', '=', constant('open'))
    .whereRef('continued_revision', '<', 'revision')
    .where('continued_revision', '>', INTERRUPTED)
    .execute();
  const changed = new Set(rows.map(({ work_item_id }) => work_item_id));
  return runnableItems(items).find(({ workItemId }) => changed.has(workItemId));
}

/** What no agent brings about by itself (A10). */
const OUTSIDE: ReadonlySet<TriggerKind> = new Set(['operator_input', 'external_event', 'system_tick']);

/** Whether any of these came from outside. */
export const isFromOutside = (came: readonly Pick<Came, 'kind'>[]): boolean =>
  came.some(({ kind }) => OUTSIDE.has(kind));

/** Whether the agent may make one more turn for what has come: times and its own work make no more of them in a row than its profile says. */
const mayAct = async (tx: Tx, head: HeadRow, came: readonly Came[]): Promise<boolean> =>
  isFromOutside(came) || head.autonomous_turns < (await mostOwnTurns(tx, head.agent_id));

/** Counts a turn of its own that nothing from outside has made. */
async function countOwnTurn(tx: Tx, head: HeadRow, came: readonly Came[]): Promise<HeadRow> {
  if (isFromOutside(came)) return head;
  const change = { autonomous_turns: head.autonomous_turns + 1 };
  await updateHead(tx, head.agent_id, change);
  return { ...head, ...change };
}

/** The profile of an agent that has had a turn. */
const profileOf = async (reader: Reader, agentId: string): Promise<string> =>
  (await rosterEntry(reader, agentId))?.profile ?? agentId;

/** The profile of that name; null while it cannot be read. */
async function readProfile(tx: Tx, name: string): Promise<Profile | null> {
  const head = await selectProfileHead(tx, name).executeTakeFirst();
  const current = await profileAt(tx, head).catch(() => null);
  return current?.snapshot.profile ?? null;
}

/** How many turns in a row the agent may make by itself; none while its profile cannot be read. */
const mostOwnTurns = async (tx: Tx, agentId: string): Promise<number> =>
  (await readProfile(tx, await profileOf(tx, agentId)))?.maxAutonomousTurns ?? 0;

async function noteContinued(tx: Tx, item: ScheduledWorkItem): Promise<void> {
  await tx.db
    .updateTable('work_items')
    .set({ continued_revision: item.revision })
    .where('work_item_id', '=', item.workItemId)
    .execute();
}

/** The `continued_revision` of an item that a turn was to go on with which was ended before it could. */
const INTERRUPTED = -1;

/** Writes down that work was left with which the turn was to go on: it is gone on with once somebody outside has let the agent do anything. */
export async function noteInterrupted(tx: Tx, { request }: Pick<TurnRow, 'request'>): Promise<void> {
  const came = decodedOr<StoredRequest | null>(request, null)?.came ?? [];
  const items = came.flatMap(({ kind, source }) => (kind === 'internal_followup' ? [source] : []));
  if (items.length === 0) return;
  await tx.db
    .updateTable('work_items')
    .set({ continued_revision: INTERRUPTED })
    .where((eb) => eb('work_item_id', '=', eb.fn.any(eb.val(items))))
    .where('state', '=', constant('open'))
    .execute();
}

/** Takes up what was left: the agent goes on with it when it has nothing else to do. */
export async function resumeInterrupted(tx: Tx, agentId: string): Promise<void> {
  await tx.db
    .updateTable('work_items')
    .set({ continued_revision: 0 })
    .where('agent_id', '=', agentId)
    .where('state', '=', constant('open'))
    .where('continued_revision', '=', INTERRUPTED)
    .execute();
}

/**
 * Makes a turn of what has come, as much of it as one turn is told, and of the work that the agent goes on with where that is all. What is left
 * makes the next one.
 */
async function queueFor(tx: Tx, head: HeadRow, kept: readonly KeptWake[], more?: Came): Promise<QueuedTurn> {
  const { agent_id: agentId } = head;
  const agentTurnId = v7();
  const cardId = instructionCardId(agentTurnId);
  const entry = await rosterEntry(tx, agentId);
  const profile = entry?.profile ?? agentId;
  const told = takenAtOnce(kept, (await readProfile(tx, profile))?.context.windowTokens);
  const came = [...told.map(withoutPlace), ...(more && told.length === kept.length ? [more] : [])];
  const text = instructionFor(came, await textsOf(tx, came));
  await insertCard(tx, { cardId, type: 'task.instruction', content: { text }, author: 'runtime', agentTurnId });
  await noteTaken(tx, head, told, agentTurnId);
  const before = await lineageOf(tx, head);
  return insertTurn(tx, {
    agentId,
    tenant: entry?.tenant ?? null,
    agentTurnId,
    lane: PRIORITIES.indexOf('normal'),
    instructionCardId: cardId,
    digest: '',
    depth: before?.depth ?? 0,
    profile,
    request: { priority: 'normal', came, ...(before?.correlation_id ? { correlationId: before.correlation_id } : {}) },
  });
}

/** The turn that an own one goes on from: an agent that was made by delegation stays as deep as it is. */
const lineageOf = async ({ db }: Reader, { last_agent_turn_id: lastId }: HeadRow) =>
  lastId === null
    ? undefined
    : db.selectFrom('turns').select(['depth', 'correlation_id']).where('agent_turn_id', '=', lastId).executeTakeFirst();

const withoutPlace = ({ place: _, bytes: __, ...came }: KeptWake): Came => came;

/** What each has brought, by the id of its card. A card that cannot be read brings nothing: the end of a turn must not depend on it (T8). */
async function textsOf({ db }: Reader, came: readonly Came[]): Promise<ReadonlyMap<string, string>> {
  const ids = came.flatMap(({ cardId }) => (cardId === null ? [] : [cardId]));
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('cards')
    .select(['card_id', 'type', 'content'])
    .where((eb) => eb('card_id', '=', eb.fn.any(eb.val(ids))))
    .execute();
  const readable = rows.filter(({ content }) => decodedOr<unknown>(content, null) !== null);
  return new Map(readable.map((row) => [row.card_id, broughtText(row)]));
}

/** How an agent rests that was left with this. */
export const restingAs = ({ waitingReason }: ClosureDecision): 'awaiting_task' | 'asleep' =>
  waitingReason === 'awaiting_task_result' ? 'awaiting_task' : 'asleep';

/** Writes down what the agent is left with, and that it rests, unless that is known. */
async function rest(tx: Tx, head: HeadRow, closure: ClosureDecision): Promise<void> {
  const agent_status = restingAs(closure);
  const isResting = head.agent_status === 'asleep' || head.agent_status === 'awaiting_task';
  const text = encoded(closure);
  if (head.closure === text && (!isResting || head.agent_status === agent_status)) return;
  await updateHead(tx, head.agent_id, { closure: text, ...(isResting ? { agent_status } : {}) });
  appendEvent(tx, { agent_id: head.agent_id, agent_turn_id: null }, { type: 'closure', payload: closure });
}

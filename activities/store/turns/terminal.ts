/**
 * The end of a turn, in one transaction and this order: deliverable card in the output box → turn row terminal and head idle →
 * exactly one `task` event (T6, T7).
 */
import { sql } from 'kysely';
import { isOneShotAgent } from '../../../workflows/agent-state/one-shot.ts';
import { nextStatus } from '../../../workflows/agent-state/status.ts';
import type { TurnCommit, TurnEnd } from '../../../workflows/contract/lease.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { clip } from '../../../workflows/protocol/sizes.ts';
import type { Deliverable, Termination, Usage } from '../../../workflows/protocol/turn.ts';
import { FIRST_CHECK_MS } from '../../../workflows/supervision/check.ts';
import { deliverableCardId } from '../../ids.ts';
import { dropApprovals } from '../calls/approval-rows.ts';
import { storeResult } from '../calls/results.ts';
import { hideCards, hideTurn } from '../cards/boxes.ts';
import { appendNew, insertCard } from '../cards/cards.ts';
import { tellEnd } from '../chat/steps.ts';
import type { Reader, Tx } from '../context.ts';
import { appendEdge, appendEvent, appendNotices } from '../log/events.ts';
import { prepared, updateRows } from '../prepared.ts';
import { decodedOr, encoded } from '../schema/json.ts';
import { constant, contentOf, type HeadRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import type { EndedTurn } from '../schema/turn-states.ts';
import { deliverableOf, type KnownThought, shownDeliverable } from './deliverables.ts';
import { dropSteers, requeueSteers } from './steers.ts';
import type { MaybeHeld } from './turns.ts';

/** The recorded end of a turn. */
export async function endOf({ db }: Reader, turn: EndedTurn): Promise<TurnEnd> {
  const card = await db
    .selectFrom('cards')
    .select('content')
    .where('card_id', '=', turn.deliverable_card_id)
    .executeTakeFirst();
  return {
    agentTurnId: turn.agent_turn_id,
    status: turn.status,
    errorCode: turn.error_code,
    reason: turn.reason,
    deliverableCardId: turn.deliverable_card_id,
    outputBoxId: turn.output_box_id,
    ...(card ? { deliverable: shownDeliverable(contentOf(card, 'task.deliverable')) } : {}),
  };
}

/** The end of a turn that did not commit one itself. */
export const abandoned = (termination: Termination): TurnCommit => ({
  termination,
  deliverable: { from: 'fallback' },
  engine: null,
});

const REASON_BYTES = 2_000;

const clipped = (termination: Termination): Termination =>
  termination.reason === undefined ? termination : { ...termination, reason: clip(termination.reason, REASON_BYTES) };

/** An end as this store may write it: besides what a turn commits, what it has delivered before the store lost it (C10). */
export interface StoredCommit extends TurnCommit {
  readonly delivered?: Deliverable;
}

/** A turn that has the box in which its end is written down. */
type Boxed = MaybeHeld & { readonly output_box_id: string };

/** A turn that is to end, with what the transaction knows of it. */
export interface EndingTurn extends MaybeHeld {
  /** What is to be written to its row with the end; its columns have these values already. Nothing when left out. */
  readonly unsaved?: Partial<TurnRow>;
  /** False where no step of it is open; looked at when left out. */
  readonly stepsOpen?: boolean;
  /** The thought that was written last; read where it is needed when left out. */
  readonly thought?: KnownThought | null;
}

/**
 * Writes the end of the turn. The caller holds the head row, and has checked that the turn has not ended. Errors: `protocol_violation` for
 * a turn without a box.
 */
export async function finishTurn(tx: Tx, turn: EndingTurn, commit: StoredCommit): Promise<TurnEnd> {
  const { agent_turn_id: agentTurnId, agent_id: agentId, output_box_id: boxId } = turn;
  if (boxId === null) throw new CodedError('protocol_violation', `turn ${agentTurnId} was never leased`);
  const { deliverable, hide = [], noticed = [], noticedWith } = commit;
  const termination = clipped(commit.termination);
  const { status, errorCode = null } = termination;
  const boxed = { ...turn, output_box_id: boxId };
  if (noticed.length > 0 && !(await isOpened(tx, agentTurnId, noticedWith))) appendNotices(tx, turn, noticed);
  if (hide.length > 0) await hideCards(tx, boxed, hide, 'rolled_back');
  const content = commit.delivered ?? (await deliverableOf(tx, turn, termination, deliverable, turn.thought));
  if (termination.status !== 'success') await cancelOpenCalls(tx, boxed);
  const cardId = deliverableCardId(agentTurnId);
  await insertCard(tx, { cardId, type: 'task.deliverable', content, author: agentId, agentTurnId });
  await appendNew(tx, { boxId, owner: agentId }, cardId);
  if (commit.rollBack) await hideTurn(tx, boxed);
  await endRow(tx, turn, termination, commit.engine);
  if (turn.parent_agent_turn_id !== null) await wakeWaiters(tx, agentTurnId);
  if (turn.waited !== false) await closeWaits(tx, agentTurnId);
  if (turn.stepsOpen !== false) await closeSteps(tx, turn, status === 'success' ? 'completed' : 'failed');
  await freeHead(tx, turn);
  if (turn.steered !== false) await (isStop(termination) && !commit.keepSteers ? dropSteers : requeueSteers)(tx, turn);
  if (status !== 'success' && status !== 'partial') await releaseChildren(tx, agentTurnId);
  appendEdge(tx, agentTurnId, {
    primitive: 'report',
    phase: 'response',
    kind: status,
    source_agent_id: agentId,
    source_agent_turn_id: agentTurnId,
    depth: turn.depth,
    trace_id: turn.trace_id,
  });
  if (turn.chat_id !== null) tellEnd(tx, turn, { status, errorCode, reason: termination.reason ?? null });
  const rolledBack = commit.rollBack ? { rolledBack: true as const } : {};
  const payload = { status, errorCode, deliverableCardId: cardId, outputBoxId: boxId, ...rolledBack };
  appendEvent(tx, turn, { type: 'task', payload }, { topic: 'turn.ended' });
  const reason = termination.reason ?? null;
  const words = shownDeliverable(content);
  return { agentTurnId, status, errorCode, reason, deliverableCardId: cardId, outputBoxId: boxId, deliverable: words };
}

/** Whether an attempt has opened the step; false where none is named. */
async function isOpened({ db }: Reader, agentTurnId: string, stepIndex: number | undefined): Promise<boolean> {
  if (stepIndex === undefined) return false;
  const step = await db
    .selectFrom('agent_steps')
    .select('step_index')
    .where('agent_turn_id', '=', agentTurnId)
    .where('step_index', '=', stepIndex)
    .executeTakeFirst();
  return step !== undefined;
}

/** Whether somebody ended the turn on purpose. */
const isStop = ({ status, errorCode }: Termination): boolean => status === 'canceled' || errorCode === 'stopped';

async function endRow(tx: Tx, turn: EndingTurn, termination: Termination, engine: TurnCommit['engine']): Promise<void> {
  const change = {
    ...turn.unsaved,
    status: termination.status,
    error_code: termination.errorCode ?? null,
    reason: termination.reason ?? null,
    deliverable_card_id: deliverableCardId(turn.agent_turn_id),
    engine: engine ? encoded(engine) : null,
    ended_at: tx.at,
    ...(turn.settlement === 'pending' ? { settlement: 'due' as const } : {}),
    // A parent must be told, or a workflow that did not end itself must let go: both are checked.
    check_at:
      turn.settlement === 'pending' || (engine === null && turn.turn_epoch !== null) ? tx.now + FIRST_CHECK_MS : null,
    check_every: FIRST_CHECK_MS,
    woken_at: null,
  };
  await updateRows(tx.db, 'turns', { agent_turn_id: turn.agent_turn_id }, change);
}

/** What an agent does whose turn has ended; the lease of its next turn, in the same transaction, takes it from there. */
export const RESTING = nextStatus(nextStatus('awake_running', 'end'), 'rest');

/** What the turn spent; a usage that cannot be read keeps no turn from its end, and counts as nothing. */
export const spentBy = ({ usage }: Pick<TurnRow, 'usage'>): Usage =>
  decodedOr(usage, { input: 0, output: 0, cached: 0, estimated: true });

/** A turn that never did anything leaves its agent with what the one before it did. */
export const lastTurn = ({ agent_turn_id, started_at }: TurnRow): Partial<Pick<HeadRow, 'last_agent_turn_id'>> =>
  started_at === null ? {} : { last_agent_turn_id: agent_turn_id };

const isFirstOfOneShot = ({ agent_id, accept_seq }: TurnRow): boolean => accept_seq === 1 && isOneShotAgent(agent_id);

/** A turn that was cancelled in the queue leaves the head to the one that is open. */
async function freeHead(tx: Tx, turn: TurnRow): Promise<void> {
  const { agent_id: agentId, agent_turn_id: agentTurnId, cost } = turn;
  const { input, output, cached, estimated } = spentBy(turn);
  await tx.db
    .updateTable('agent_state_head')
    .set(({ eb, ref }) => ({
      total_input: eb(ref('total_input'), '+', input),
      total_output: eb(ref('total_output'), '+', output),
      total_cached: eb(ref('total_cached'), '+', cached),
      ...(estimated ? { total_estimated: 1 } : {}),
      total_cost: cost === null ? null : eb(ref('total_cost'), '+', cost),
      status: 'idle',
      agent_status: RESTING,
      active_agent_turn_id: null,
      ...lastTurn(turn),
      ...(isFirstOfOneShot(turn) ? { one_shot_ended: sql<number>`case when has_work = 0 then 1 else 0 end` } : {}),
      waiting_tool_count: 0,
      resume_deadline: null,
      updated_at: tx.now,
    }))
    .where('agent_id', '=', agentId)
    .where('active_agent_turn_id', '=', agentTurnId)
    .execute();
}

/**
 * An agent that waits for this turn between its own is woken by the supervisor, under its own lock (A8). One that comes to wait while this
 * is committed checks soon after.
 */
async function wakeWaiters(tx: Tx, agentTurnId: string): Promise<void> {
  await tx.db
    .updateTable('waits')
    .set({ due_at: tx.now, set_at: tx.now })
    .where('resource', '=', agentTurnId)
    .where('kind', '=', constant('task'))
    .where('status', '=', constant('active'))
    .where('due_at', 'is not', null)
    .execute();
}

/** Turns that were to end with this one are due at once: the supervisor stops them, each under its own agent's lock. */
async function releaseChildren(tx: Tx, agentTurnId: string): Promise<void> {
  await tx.db
    .updateTable('turns')
    .set({ check_at: tx.now, check_every: FIRST_CHECK_MS })
    .where('parent_agent_turn_id', '=', agentTurnId)
    .where('on_parent_end', '=', 'stop')
    .where('status', 'in', ['queued', 'dispatched', 'running', 'suspended'])
    .execute();
}

/** No call is left without a result, whatever ended the turn (T21). */
async function cancelOpenCalls(tx: Tx, turn: Boxed): Promise<void> {
  const open = await tx.db
    .selectFrom('cards as call')
    .select(['call.content', 'call.step_index'])
    .where('call.agent_turn_id', '=', turn.agent_turn_id)
    .where('call.type', '=', 'tool.call')
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('cards as result')
            .select('result.card_id')
            .whereRef('result.agent_turn_id', '=', 'call.agent_turn_id')
            .whereRef('result.call_id', '=', 'call.call_id')
            .where('result.type', '=', 'tool.result'),
        ),
      ),
    )
    .orderBy('call.created_at')
    .execute();
  for (const card of open) {
    const { callId, tool } = contentOf(card, 'tool.call');
    const error = { code: 'canceled', message: 'the turn ended before this call had a result' };
    const content = { callId, tool, status: 'canceled', afterExecution: 'continue', error } as const;
    await storeResult(tx, turn, { stepIndex: card.step_index ?? 0, content });
  }
}

async function closeWaits(tx: Tx, agentTurnId: string): Promise<void> {
  await tx.db
    .updateTable('turn_waiting')
    .set({ status: 'dropped' })
    .where('agent_turn_id', '=', agentTurnId)
    .where('status', '=', 'waiting')
    .execute();
  await dropApprovals(tx, agentTurnId);
  await tx.db.deleteFrom('deferred_reports').where('agent_turn_id', '=', agentTurnId).execute();
}

async function closeSteps(
  tx: Tx,
  { agent_turn_id: agentTurnId, step_count: committed }: TurnRow,
  status: 'completed' | 'failed',
): Promise<void> {
  await endSteps(tx.db, { agentTurnId, committed, status, at: tx.at }).execute();
}

const endSteps = prepared(
  (db, of: { agentTurnId: string; committed: number; status: 'completed' | 'failed'; at: number }) =>
    db
      .updateTable('agent_steps')
      .set({ status: of.status, ended_at: of.at })
      .where('agent_turn_id', '=', of.agentTurnId)
      // Those before the step that was committed last ended as it was opened.
      .where('step_index', '>=', of.committed)
      .where('ended_at', 'is', null),
);

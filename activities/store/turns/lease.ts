/**
 * Leasing one queued turn (T1, T9).
 *
 * Invariants
 * 1. The lease raises the epoch by one and names the turn (T2).
 * 2. A turn that cannot start ends here, with its own task event (T8).
 */
import { z } from 'zod';
import type { Lease } from '../../../workflows/contract/lease.ts';
import { kernelConfig } from '../../../workflows/kernel/config.ts';
import type { ContextUnit } from '../../../workflows/kernel/state.ts';
import type { CardContents } from '../../../workflows/protocol/cards.ts';
import { type EnqueueRequest, storedRequestSchema } from '../../../workflows/protocol/enqueue.ts';
import { CodedError, type FailureCode } from '../../../workflows/protocol/failures.ts';
import type { Budgets, ProfileSnapshot, Timeouts } from '../../../workflows/protocol/profile.ts';
import { clip } from '../../../workflows/protocol/sizes.ts';
import { isTerminal } from '../../../workflows/protocol/turn.ts';
import { FIRST_CHECK_MS, firstCheckAt } from '../../../workflows/supervision/check.ts';
import { forkedBoxId, instructionCardId, outputBoxId } from '../../ids.ts';
import { countTokens } from '../../tokens.ts';
import { parseResultFields } from '../calls/result-fields.ts';
import { forkBox } from '../cards/boxes.ts';
import { addToBox, appendToBox, createBox, insertCard } from '../cards/cards.ts';
import { closeUnit, contextUnits } from '../cards/earlier-turns.ts';
import { type ProfileCache, type StoreContext, type Trx, together } from '../context.ts';
import { appendState } from '../log/events.ts';
import type { BoxRow, CardRow, HeadRow, TurnRow } from '../schema/rows.ts';
import { updateHead } from './head.ts';
import { anyProfile, profileAt, profileByHash, selectProfileHead } from './profiles.ts';
import { rosterEntry } from './roster.ts';
import { budgetsOf } from './set-budgets.ts';
import { abandoned, finishTurn } from './terminal.ts';
import { findTurn } from './turns.ts';

const TITLE_BYTES = 120;

export type LeaseAttempt =
  | { readonly kind: 'leased'; readonly lease: Lease }
  /** It could not start and has ended; the head is idle at this epoch. */
  | { readonly kind: 'rejected'; readonly turnEpoch: number }
  /** No worker has registered any profile in this store yet: nothing can be said of the one that is asked for. */
  | { readonly kind: 'too_early' };

/** The caller holds the head row, which is idle. */
export async function tryLease(
  { profiles }: StoreContext,
  trx: Trx,
  head: HeadRow,
  queued: TurnRow,
  now: number,
): Promise<LeaseAttempt> {
  const turnEpoch = head.turn_epoch + 1;
  const profileName = queued.profile_name ?? (await rosterEntry(trx, queued.agent_id))?.profile ?? queued.agent_id;
  const [[profileHead], [card]] = await together(
    trx,
    selectProfileHead(trx, profileName),
    selectInstruction(trx, queued.instruction_card_id),
  );
  const found = await profileAt(trx, profileHead, profiles).catch(unreadable);
  const [profile, unfit] = found !== null && 'reason' in found ? [null, found] : [found, null];
  if (!profile && !unfit && !(await anyProfile(trx))) return { kind: 'too_early' };
  const problem = unfit ?? (await parentProblem(trx, queued)) ?? requestProblem(queued, card);
  const turn = problem === null ? queued : { ...queued, request: '{}' };
  const { boxId, missing } = await memoryBox(trx, head, turn, now);
  const windowTokens = profile?.snapshot.profile.context.windowTokens ?? 0;
  const context = await contextOf(trx, turn, windowTokens);
  const instructionSeq = await placeInstruction(trx, boxId, turn, now);
  // What stands before the instruction, which is nothing for a new agent.
  const own = instructionSeq === 1 ? [] : await contextUnits(trx, boxId, instructionSeq, windowTokens, true);
  // Clocks of several machines differ: a lease never looks older than the end of the turn before it.
  const leasedAt = Math.max(now, head.updated_at);
  const leased: Partial<TurnRow> = {
    status: 'dispatched',
    turn_epoch: turnEpoch,
    output_box_id: boxId,
    instruction_seq: instructionSeq,
    earlier: JSON.stringify([...own, ...context.found]),
    profile_name: profileName,
    profile_hash: profile?.hash ?? null,
    worker_target: profile?.snapshot.profile.workerTarget ?? null,
    leased_at: leasedAt,
    ...(profile ? firstCheck(leasedAt, profile.snapshot.profile.timeouts) : {}),
    ...(profile && turn.parent_call_id === null ? given(turn, profile.snapshot.profile.budgets) : {}),
  };
  await trx.updateTable('turns').set(leased).where('agent_turn_id', '=', turn.agent_turn_id).execute();
  const nextHead: HeadRow = {
    ...head,
    status: 'dispatched',
    turn_epoch: turnEpoch,
    active_agent_turn_id: turn.agent_turn_id,
    output_box_id: boxId,
    waiting_tool_count: 0,
    resume_deadline: null,
    updated_at: now,
  };
  const { accept_seq: _a, event_seq: _e, agent_id: _i, ...change } = nextHead;
  await updateHead(trx, turn.agent_id, change);
  const refused = problem ?? refusal(profileName, profile !== null, [...missing, ...context.missing]);
  const made = refused ?? (await leaseOf(trx, { ...turn, ...leased }, profiles, card).catch(unreadable));
  if ('reason' in made) {
    const status = made.code === 'canceled' ? 'canceled' : 'failed';
    const termination = { status, errorCode: made.code, reason: made.reason } as const;
    await finishTurn(trx, { ...turn, ...leased }, abandoned(termination), now);
    await closeUnit(trx, boxId);
    return { kind: 'rejected', turnEpoch };
  }
  appendState(trx, nextHead, now);
  return { kind: 'leased', lease: made };
}

const firstCheck = (leasedAt: number, timeouts: Timeouts): Partial<TurnRow> => ({
  check_at: firstCheckAt(leasedAt, timeouts),
  check_every: FIRST_CHECK_MS,
  ends_by: timeouts.turnMs === undefined ? null : leasedAt + timeouts.turnMs,
});

/** To a turn from outside: what its budgets say. A delegated one was given its share when it was made (K20). */
function given(turn: TurnRow, ofProfile: Budgets): Partial<TurnRow> {
  const { maxTokens, maxCost = null } = budgetsOf(turn, ofProfile);
  return { given_tokens: maxTokens, given_cost: maxCost };
}

/**
 * The box this turn remembers and writes to: the one it asked for, else the agent's own. A box of somebody else is forked, so that no
 * two agents write to one (T25). One that is not there ends the turn, which is then written down in the agent's own box.
 */
async function memoryBox(
  trx: Trx,
  head: HeadRow,
  turn: TurnRow,
  now: number,
): Promise<{ readonly boxId: string; readonly missing: readonly string[] }> {
  const owner = turn.agent_id;
  const { outputBoxId: asked } = JSON.parse(turn.request) as EnqueueRequest;
  const box = asked === undefined ? undefined : await findBox(trx, asked);
  if (box?.owner_agent_id === owner && box.kind === 'output') return { boxId: box.box_id, missing: [] };
  if (box) {
    const boxId = forkedBoxId(box.box_id, turn.agent_turn_id);
    await forkBox(trx, { from: box.box_id, to: boxId, kind: 'output', owner }, now);
    return { boxId, missing: [] };
  }
  const boxId = head.output_box_id ?? outputBoxId(owner);
  if (head.output_box_id === null) await createBox(trx, { box_id: boxId, kind: 'output', owner_agent_id: owner }, now);
  return { boxId, missing: asked === undefined ? [] : [asked] };
}

/**
 * The instruction joins the box as its newest card (T24). A card that is in it already, because an earlier turn had the same, stays with the
 * answer it got there; this turn gets a copy of its own.
 */
async function placeInstruction(trx: Trx, boxId: string, turn: TurnRow, now: number): Promise<number> {
  const { instruction_card_id: cardId, agent_turn_id: agentTurnId, agent_id: agentId } = turn;
  const seq = await addToBox(trx, boxId, cardId, agentId);
  if (seq !== null) return seq;
  const present = await trx
    .selectFrom('box_cards')
    .innerJoin('cards', 'cards.card_id', 'box_cards.card_id')
    .select(['cards.content', 'cards.author'])
    .where('box_cards.box_id', '=', boxId)
    .where('box_cards.card_id', '=', cardId)
    .executeTakeFirst();
  if (!present) return appendToBox(trx, boxId, cardId, agentId);
  const { author } = present;
  const content = JSON.parse(present.content) as CardContents['task.instruction'];
  const copyId = instructionCardId(agentTurnId);
  await insertCard(trx, { cardId: copyId, type: 'task.instruction', content, author, agentTurnId }, now);
  return appendToBox(trx, boxId, copyId, agentId);
}

const findBox = (trx: Trx, boxId: string): Promise<BoxRow | undefined> =>
  trx.selectFrom('boxes').selectAll().where('box_id', '=', boxId).executeTakeFirst();

const selectInstruction = (trx: Trx, cardId: string) =>
  trx.selectFrom('cards').select(['type', 'content', 'token_count']).where('card_id', '=', cardId);

type InstructionRow = Pick<CardRow, 'type' | 'content' | 'token_count'>;

const instructionSchema = z.object({ text: z.string() });

interface LeaseRefusal {
  readonly code: FailureCode;
  readonly reason: string;
}

/**
 * What was written by hand, or by a program with a mistake, cannot be read: that ends the one turn which needs it, and not the transaction,
 * which may be the end of the turn before (T8). Errors: those of the database, after which nothing more can be written.
 */
function unreadable(error: unknown): LeaseRefusal {
  const isOfRows = error instanceof SyntaxError || error instanceof TypeError || error instanceof CodedError;
  if (!isOfRows) throw error;
  return { code: 'internal_error', reason: `what the store holds of it cannot be read: ${error.message}` };
}

/** A turn that was to end with its parent's, which has ended without success while it was queued, is not started. */
async function parentProblem(
  trx: Trx,
  { on_parent_end, parent_agent_turn_id: parentId }: TurnRow,
): Promise<LeaseRefusal | null> {
  if (on_parent_end !== 'stop' || parentId === null) return null;
  const status = (await findTurn(trx, parentId))?.status ?? 'success';
  if (!isTerminal(status) || status === 'success' || status === 'partial') return null;
  return { code: 'canceled', reason: 'the turn that waited for it has ended' };
}

/** A row that another version, or somebody by hand, wrote in a way that cannot be run (T8). */
function requestProblem(turn: TurnRow, card: InstructionRow | undefined): LeaseRefusal | null {
  const refused = (reason: string): LeaseRefusal => ({ code: 'invalid_request', reason });
  const cardId = turn.instruction_card_id;
  if (card?.type !== 'task.instruction') return refused(`its instruction card ${cardId} is not in the store`);
  if (!instructionSchema.safeParse(parsedOrNull(card.content)).success)
    return refused(`its instruction card ${cardId} has no text`);
  const { error } = storedRequestSchema.safeParse(parsedOrNull(turn.request));
  return error ? refused(`its stored request is malformed: ${z.prettifyError(error)}`) : null;
}

function parsedOrNull(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

function refusal(profileName: string, profileKnown: boolean, missingBoxes: readonly string[]): LeaseRefusal | null {
  if (!profileKnown) {
    return {
      code: 'profile_not_found',
      reason: `no profile named ${profileName} is registered; start a worker whose app defines it`,
    };
  }
  const [box] = missingBoxes;
  return box === undefined ? null : { code: 'box_unavailable', reason: `box ${box} does not exist` };
}

/** Of the box that came with the request; or its id when it is not there. */
async function contextOf(
  trx: Trx,
  { context_box_id: boxId }: TurnRow,
  windowTokens: number,
): Promise<{ readonly found: readonly ContextUnit[]; readonly missing: readonly string[] }> {
  if (boxId === null) return { found: [], missing: [] };
  const box = await trx.selectFrom('boxes').select('last_seq').where('box_id', '=', boxId).executeTakeFirst();
  if (!box) return { found: [], missing: [boxId] };
  const found = box.last_seq === 0 ? [] : await contextUnits(trx, boxId, box.last_seq + 1, windowTokens, false);
  return { found, missing: [] };
}

/** What the turn's workflow is started with, from the rows of its lease; `instruction` where the caller has read it. */
export async function leaseOf(
  trx: Trx,
  turn: TurnRow,
  profiles: ProfileCache,
  instruction?: InstructionRow,
): Promise<Lease> {
  const { turn_epoch, profile_hash, profile_name, worker_target, output_box_id, instruction_seq, earlier } = turn;
  if (
    turn_epoch === null ||
    !profile_hash ||
    !profile_name ||
    !worker_target ||
    !output_box_id ||
    instruction_seq === null
  ) {
    throw new CodedError('protocol_violation', `turn ${turn.agent_turn_id} has no complete lease`);
  }
  const snapshot = await profileByHash(trx, profile_hash, profiles);
  const request = JSON.parse(turn.request) as EnqueueRequest;
  const card = instruction ?? (await selectInstruction(trx, turn.instruction_card_id).executeTakeFirstOrThrow());
  const { text } = JSON.parse(card.content) as { text: string };
  const { fields } = parseResultFields(request.resultFields, snapshot);
  const kernel = kernelConfig(
    snapshot,
    fields,
    fixedTokens(snapshot) + countTokens((request.criteria ?? []).join('\n')),
  );
  return {
    agentId: turn.agent_id,
    agentTurnId: turn.agent_turn_id,
    turnEpoch: turn_epoch,
    profileName: profile_name,
    profileHash: profile_hash,
    workerTarget: worker_target,
    // Budgets may have been set while the turn was queued (K9).
    kernel: { ...kernel, budgets: budgetsOf(turn, kernel.budgets) },
    timeouts: snapshot.profile.timeouts,
    outputBoxId: output_box_id,
    earlier: JSON.parse(earlier ?? '[]') as ContextUnit[],
    instructionSeq: instruction_seq,
    instructionTokens: card.token_count,
    ...(snapshot.profile.maxHistoryEvents === undefined ? {} : { maxEvents: snapshot.profile.maxHistoryEvents }),
    title: snapshot.profile.privateTitles ? `a turn of ${profile_name}` : titleOf(text),
  };
}

const titleOf = (text: string): string => clip(text.replace(/\s+/g, ' ').trim().toWellFormed(), TITLE_BYTES);

const counted = new WeakMap<ProfileSnapshot, number>();

/** Of what every prompt of the profile has: its instructions and tools, the built-in ones roughly. */
function fixedTokens(snapshot: ProfileSnapshot): number {
  const known = counted.get(snapshot);
  if (known !== undefined) return known;
  const { profile, tools } = snapshot;
  const offered = tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
  const skills = profile.skills.map(({ name, description }) => ({ name, description }));
  const texts = [profile.instructions, JSON.stringify(offered), JSON.stringify(skills)];
  const tokens = texts.reduce((sum, text) => sum + countTokens(text), BUILTIN_TOKENS);
  counted.set(snapshot, tokens);
  return tokens;
}

/** Measured: `submit_result`, `read_result`, and the delegation tools where they are offered. */
const BUILTIN_TOKENS = 700;

/**
 * Leasing one queued turn (T1, T9).
 *
 * Invariants
 * 1. The lease raises the epoch by one and names the turn (T2).
 * 2. A turn that cannot start ends here, with its own task event (T8).
 * 3. What cannot be read of a turn, its profile or its instruction ends that turn and not the transaction, which may be the end of the turn
 *    before it (T8).
 */
import { z } from 'zod';
import { nextStatus } from '../../../workflows/agent-state/status.ts';
import type { Lease } from '../../../workflows/contract/lease.ts';
import { kernelConfig } from '../../../workflows/kernel/config.ts';
import type { ContextUnit } from '../../../workflows/kernel/context.ts';
import { storedRequestSchema } from '../../../workflows/protocol/enqueue.ts';
import { CodedError, type FailureCode } from '../../../workflows/protocol/failures.ts';
import type { Budgets, ProfileSnapshot, Timeouts } from '../../../workflows/protocol/profile.ts';
import { clip } from '../../../workflows/protocol/sizes.ts';
import { isTerminal, type Termination } from '../../../workflows/protocol/turn.ts';
import { FIRST_CHECK_MS, firstCheckAt } from '../../../workflows/supervision/check.ts';
import { forkedBoxId, instructionCardId, outputBoxId } from '../../ids.ts';
import { countTokens } from '../../tokens.ts';
import { resultFieldsOf } from '../calls/result-fields.ts';
import { forkBox } from '../cards/boxes.ts';
import { addToBox, appendToBox, createBox, insertCard } from '../cards/cards.ts';
import { closeUnit, contextUnits } from '../cards/earlier-turns.ts';
import { type Reader, type Tx, together } from '../context.ts';
import { appendState } from '../log/events.ts';
import { decoded, encoded, type Json } from '../schema/json.ts';
import { type BoxRow, type CardRow, contentOf, type HeadRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { leased, type Turn } from '../schema/turn-states.ts';
import { sharedRefusal } from './chosen-profile.ts';
import { updateHead } from './head.ts';
import { anyProfile, type CurrentProfile, profileAt, profileByHash, selectProfileHead } from './profiles.ts';
import { budgetsOf } from './set-budgets.ts';
import { abandoned, finishTurn } from './terminal.ts';
import { findTurn } from './turns.ts';

const TITLE_BYTES = 120;

/** What leasing a turn has come to. */
export type LeaseAttempt =
  | { readonly kind: 'leased'; readonly lease: Lease }
  /** The turn could not start and has ended; the head is idle at this epoch. */
  | { readonly kind: 'rejected'; readonly turnEpoch: number }
  /** No worker has registered any profile in this store yet: nothing can be said of the one that is asked for. */
  | { readonly kind: 'too_early' };

/** Leases the turn, or ends it where it cannot start. The caller holds the head row, which is idle. */
export async function tryLease(tx: Tx, head: HeadRow, queued: Turn): Promise<LeaseAttempt> {
  const [[profileHead], [card]] = await together(
    tx.db,
    selectProfileHead(tx, queued.profile_name),
    selectInstruction(tx, queued.instruction_card_id),
  );
  const found = await profileAt(tx, profileHead).catch(unreadable);
  const [profile, unfit] = found !== null && 'reason' in found ? [null, found] : [found, null];
  if (!profile && !unfit && !(await anyProfile(tx))) return { kind: 'too_early' };
  const problem =
    unfit ?? sharedProblem(queued, profile) ?? (await parentProblem(tx, queued)) ?? requestProblem(queued, card);
  const windowTokens = profile?.snapshot.profile.context.windowTokens ?? 0;
  const boxes = await prepareBoxes(tx, head, queued, { windowTokens, isReadable: problem === null });
  const turn = await dispatch(tx, head, queued, { profile, boxes });
  const refused = problem ?? refusal(queued.profile_name, profile !== null, boxes.missing);
  const made = refused ?? (await leaseOf(tx, turn, card).catch(unreadable));
  if ('reason' in made) {
    const status = made.code === 'canceled' ? 'canceled' : 'failed';
    const termination: Termination = { status, errorCode: made.code, reason: made.reason };
    await finishTurn(tx, turn, abandoned(termination));
    await closeUnit(tx, boxes.boxId);
    return { kind: 'rejected', turnEpoch: turn.turn_epoch };
  }
  appendState(tx, { agent_id: head.agent_id, ...headOf(tx, turn) });
  return { kind: 'leased', lease: made };
}

/** The boxes of a turn that is leased. */
interface Boxes {
  /** The output box, which the turn reads and writes to. */
  readonly boxId: string;
  /** The place of the instruction in the output box. */
  readonly instructionSeq: number;
  /** Cards of turns before this one, then those of the box that came with the request. */
  readonly earlier: readonly ContextUnit[];
  /** Boxes that the request names and that are not there. */
  readonly missing: readonly string[];
}

/** How the boxes are to be read. */
interface Reading {
  /** The window of the model; 0 where the profile is not known. */
  readonly windowTokens: number;
  /** Whether the request can be read; of one that cannot, the agent's own box takes what is written down of its end. */
  readonly isReadable: boolean;
}

/** Finds or makes the boxes of the turn, and puts its instruction last into the output box (T24). */
async function prepareBoxes(tx: Tx, head: HeadRow, turn: Turn, { windowTokens, isReadable }: Reading): Promise<Boxes> {
  const asked = isReadable ? decoded(turn.request).outputBoxId : undefined;
  const { boxId, missing } = await outputBoxOf(tx, head, turn, asked);
  const context = await contextOf(tx, turn, windowTokens);
  const instructionSeq = await placeInstruction(tx, boxId, turn);
  // What stands before the instruction, which is nothing for a new agent.
  const before = { boxId, beforeSeq: instructionSeq, isOwn: true };
  const own = instructionSeq === 1 ? [] : await contextUnits(tx, before, windowTokens);
  return { boxId, instructionSeq, earlier: [...own, ...context.found], missing: [...missing, ...context.missing] };
}

/**
 * The output box of the turn: the one that it asks for, else the agent's own. A box of somebody else is forked, so that no
 * two agents write to one (T25). One that is not there ends the turn, which is then written down in the agent's own box.
 */
async function outputBoxOf(
  tx: Tx,
  head: HeadRow,
  turn: Turn,
  asked: string | undefined,
): Promise<Pick<Boxes, 'boxId' | 'missing'>> {
  const owner = turn.agent_id;
  const box = asked === undefined ? undefined : await findBox(tx, asked);
  if (box?.owner_agent_id === owner && box.kind === 'output') return { boxId: box.box_id, missing: [] };
  if (box) {
    const boxId = forkedBoxId(box.box_id, turn.agent_turn_id);
    await forkBox(tx, { from: box.box_id, to: boxId, kind: 'output', owner });
    return { boxId, missing: [] };
  }
  const boxId = head.output_box_id ?? outputBoxId(owner);
  if (head.output_box_id === null) await createBox(tx, { box_id: boxId, kind: 'output', owner_agent_id: owner });
  return { boxId, missing: asked === undefined ? [] : [asked] };
}

const findBox = ({ db }: Reader, boxId: string): Promise<BoxRow | undefined> =>
  db.selectFrom('boxes').selectAll().where('box_id', '=', boxId).executeTakeFirst();

/** The units of the box that came with the request; or its id when it is not there. */
async function contextOf(
  tx: Tx,
  { context_box_id: boxId }: Turn,
  windowTokens: number,
): Promise<{ readonly found: readonly ContextUnit[]; readonly missing: readonly string[] }> {
  if (boxId === null) return { found: [], missing: [] };
  const box = await tx.db.selectFrom('boxes').select('last_seq').where('box_id', '=', boxId).executeTakeFirst();
  if (!box) return { found: [], missing: [boxId] };
  if (box.last_seq === 0) return { found: [], missing: [] };
  return {
    found: await contextUnits(tx, { boxId, beforeSeq: box.last_seq + 1, isOwn: false }, windowTokens),
    missing: [],
  };
}

/**
 * The instruction joins the box as its newest card (T24). A card that is in it already, because an earlier turn had the same, stays with
 * the answer it got there; this turn gets a copy of its own.
 */
async function placeInstruction(tx: Tx, boxId: string, turn: Turn): Promise<number> {
  const { instruction_card_id: cardId, agent_turn_id: agentTurnId, agent_id: owner } = turn;
  const box = { boxId, owner };
  const seq = await addToBox(tx, box, cardId);
  if (seq !== null) return seq;
  const present = await tx.db
    .selectFrom('box_cards')
    .innerJoin('cards', 'cards.card_id', 'box_cards.card_id')
    .select(['cards.content', 'cards.author'])
    .where('box_cards.box_id', '=', boxId)
    .where('box_cards.card_id', '=', cardId)
    .executeTakeFirst();
  if (!present) return appendToBox(tx, box, cardId);
  const { author } = present;
  // One that cannot be read ends this turn, and not the transaction; the card itself stays as it is.
  const content = instructionSchema.safeParse(decodedOrNull(present.content)).data ?? { text: '' };
  const copyId = instructionCardId(agentTurnId);
  await insertCard(tx, { cardId: copyId, type: 'task.instruction', content, author, agentTurnId });
  return appendToBox(tx, box, copyId);
}

/** What a lease is made of. */
interface Dispatching {
  /** Null when the profile is not known, or cannot be read: then the turn ends at once. */
  readonly profile: CurrentProfile | null;
  readonly boxes: Boxes;
}

/** A turn that is at the head of its agent, also one that ends at once because it cannot start. */
type DispatchedRow = TurnRow & { readonly turn_epoch: number; readonly output_box_id: string };

/** Writes the lease to the row of the turn and to the head. */
async function dispatch(tx: Tx, head: HeadRow, queued: Turn, { profile, boxes }: Dispatching): Promise<DispatchedRow> {
  // Clocks of several machines differ: a lease never looks older than the end of the turn before it.
  const leasedAt = Math.max(tx.now, head.updated_at);
  const definition = profile?.snapshot.profile;
  const lease = {
    status: 'dispatched',
    turn_epoch: head.turn_epoch + 1,
    output_box_id: boxes.boxId,
    instruction_seq: boxes.instructionSeq,
    earlier: encoded(boxes.earlier),
    profile_hash: profile?.hash ?? null,
    worker_target: definition?.workerTarget ?? null,
    leased_at: leasedAt,
    ...(definition ? firstCheck(leasedAt, definition.timeouts) : {}),
    ...(definition && queued.parent_call_id === null ? given(queued, definition.budgets) : {}),
  } as const;
  await tx.db.updateTable('turns').set(lease).where('agent_turn_id', '=', queued.agent_turn_id).execute();
  const turn = { ...queued, ...lease };
  const agent_status = nextStatus(head.agent_status, 'lease');
  await updateHead(tx, turn.agent_id, { ...headOf(tx, turn), agent_status, one_shot_ended: 0 });
  return turn;
}

/** The head of an agent whose turn is dispatched. */
const headOf = ({ now }: Tx, turn: DispatchedRow) =>
  ({
    status: 'dispatched',
    turn_epoch: turn.turn_epoch,
    active_agent_turn_id: turn.agent_turn_id,
    output_box_id: turn.output_box_id,
    waiting_tool_count: 0,
    resume_deadline: null,
    updated_at: now,
  }) as const;

/** When a turn is checked first after its lease, and when its whole time is up. */
const firstCheck = (leasedAt: number, timeouts: Timeouts) => ({
  check_at: firstCheckAt(leasedAt, timeouts),
  check_every: FIRST_CHECK_MS,
  ends_by: timeouts.turnMs === undefined ? null : leasedAt + timeouts.turnMs,
});

/** What a turn from outside may spend: what its budgets say. A delegated one was given its share when it was made (K20). */
function given(turn: Turn, ofProfile: Budgets) {
  const { maxTokens, maxCost = null } = budgetsOf(turn, ofProfile);
  return { given_tokens: maxTokens, given_cost: maxCost };
}

/** A query for the instruction card of a turn. */
const selectInstruction = ({ db }: Reader, cardId: string) =>
  db.selectFrom('cards').select(['type', 'content', 'token_count']).where('card_id', '=', cardId);

type InstructionRow = Pick<CardRow, 'type' | 'content' | 'token_count'>;

const instructionSchema = z.object({ text: z.string() });

/** Why a turn cannot start. */
interface LeaseRefusal {
  readonly code: FailureCode;
  readonly reason: string;
}

/**
 * The refusal of a turn whose rows cannot be read, which ends that one turn. Errors: those of the database, after which nothing more can be
 * written.
 */
function unreadable(error: unknown): LeaseRefusal {
  const isOfRows = error instanceof SyntaxError || error instanceof TypeError || error instanceof CodedError;
  if (!isOfRows) throw error;
  return { code: 'internal_error', reason: `what the store holds of it cannot be read: ${error.message}` };
}

/** A request that was accepted before any profile was known may turn out to be for an agent that is named like its profile. */
function sharedProblem({ agent_id: agentId }: Turn, profile: CurrentProfile | null): LeaseRefusal | null {
  const refused = profile && sharedRefusal(agentId, profile.snapshot.profile);
  return refused && { code: refused.code, reason: refused.message };
}

/** A turn that was to end with its parent's is not started when that has ended without success; null for all others. */
async function parentProblem(
  reader: Reader,
  { on_parent_end, parent_agent_turn_id: parentId }: Turn,
): Promise<LeaseRefusal | null> {
  if (on_parent_end !== 'stop' || parentId === null) return null;
  const status = (await findTurn(reader, parentId))?.status ?? 'success';
  if (!isTerminal(status) || status === 'success' || status === 'partial') return null;
  return { code: 'canceled', reason: 'the turn that waited for it has ended' };
}

/** Why a row that somebody wrote by hand, or a program with a mistake, cannot be run; null when it can (T8). */
function requestProblem(turn: Turn, card: InstructionRow | undefined): LeaseRefusal | null {
  const refused = (reason: string): LeaseRefusal => ({ code: 'invalid_request', reason });
  const cardId = turn.instruction_card_id;
  if (card?.type !== 'task.instruction') return refused(`its instruction card ${cardId} is not in the store`);
  if (!instructionSchema.safeParse(decodedOrNull(card.content)).success)
    return refused(`its instruction card ${cardId} has no text`);
  const { error } = storedRequestSchema.safeParse(decodedOrNull(turn.request));
  return error ? refused(`its stored request is malformed: ${z.prettifyError(error)}`) : null;
}

function decodedOrNull(json: Json<unknown>): unknown {
  try {
    return decoded(json);
  } catch {
    return null;
  }
}

/** Why a turn whose rows can be read cannot start; null when it can. */
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

/**
 * What the turn's workflow is started with, from the rows of its lease; `instruction` where the caller has read it. Errors:
 * `protocol_violation` when a part of the lease is missing; `profile_not_found`, `store_corrupt`.
 */
export async function leaseOf(reader: Reader, row: TurnRow, instruction?: InstructionRow): Promise<Lease> {
  const turn = leased(row);
  const snapshot = await profileByHash(reader, turn.profile_hash);
  const request = decoded(turn.request);
  const card = instruction ?? (await selectInstruction(reader, turn.instruction_card_id).executeTakeFirstOrThrow());
  const { text } = contentOf(card, 'task.instruction');
  const fields = resultFieldsOf(request, snapshot);
  const criteria = countTokens((request.criteria ?? []).join('\n'));
  const kernel = kernelConfig(snapshot, fields, fixedTokens(snapshot) + criteria);
  return {
    agentId: turn.agent_id,
    agentTurnId: turn.agent_turn_id,
    turnEpoch: turn.turn_epoch,
    profileName: turn.profile_name,
    profileHash: turn.profile_hash,
    workerTarget: turn.worker_target,
    // Budgets may have been set while the turn was queued (K9).
    kernel: { ...kernel, budgets: budgetsOf(turn, kernel.budgets) },
    timeouts: snapshot.profile.timeouts,
    outputBoxId: turn.output_box_id,
    earlier: decoded(turn.earlier),
    instructionSeq: turn.instruction_seq,
    instructionTokens: card.token_count,
    ...(snapshot.profile.burst ? { burst: snapshot.profile.burst } : {}),
    ...(snapshot.profile.maxHistoryEvents === undefined ? {} : { maxEvents: snapshot.profile.maxHistoryEvents }),
    title: snapshot.profile.privateTitles ? `a turn of ${turn.profile_name}` : titleOf(text),
    ...(snapshot.profile.privateTitles ? { privateTitles: true as const } : {}),
    ...(turn.parent_agent_id === null || turn.parent_agent_turn_id === null
      ? {}
      : { parent: { agentId: turn.parent_agent_id, agentTurnId: turn.parent_agent_turn_id } }),
  };
}

/** The first words of an instruction, on one line. */
const titleOf = (text: string): string => clip(text.replace(/\s+/g, ' ').trim().toWellFormed(), TITLE_BYTES);

const counted = new WeakMap<ProfileSnapshot, number>();

/** Tokens of what every prompt of the profile has: its instructions and tools, the built-in ones roughly. */
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

/** Tokens of the built-in tools, as measured: `submit_result`, `read_result`, and the delegation tools where they are offered. */
const BUILTIN_TOKENS = 700;

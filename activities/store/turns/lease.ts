import { nextStatus } from '../../../workflows/agent-state/status.ts';
import { snippetResidency } from '../../../workflows/chat/bounds.ts';
import { shownWords } from '../../../workflows/chat/rendering.ts';
import type { Lease } from '../../../workflows/contract/lease.ts';
import { kernelConfig } from '../../../workflows/kernel/config.ts';
import type { ContextUnit } from '../../../workflows/kernel/context.ts';
import type { Budgets, ProfileSnapshot, Timeouts } from '../../../workflows/protocol/profile.ts';
import { clip } from '../../../workflows/protocol/sizes.ts';
import type { Termination } from '../../../workflows/protocol/turn.ts';
import { FIRST_CHECK_MS, firstCheckAt } from '../../../workflows/supervision/check.ts';
import { forkedBoxId, instructionCardId, outputBoxId } from '../../ids.ts';
import { countTokens } from '../../tokens.ts';
import { resultFieldsOf } from '../calls/result-fields.ts';
import { forkBox } from '../cards/boxes.ts';
import { addToBox, appendNew, appendToBox, createBox, insertCard, noteBoxEnd } from '../cards/cards.ts';
import { closeUnit, contextUnits } from '../cards/earlier-turns.ts';
import { tellStep } from '../chat/steps.ts';
import { chatVersion, contextHash, remembered } from '../chat/understanding.ts';
import { withItsMessages } from '../chat/waiting-turn.ts';
import { type Reader, type Tx, together } from '../context.ts';
import { appendState } from '../log/events.ts';
import { insertRows, updateRows } from '../prepared.ts';
import { decoded, encoded } from '../schema/json.ts';
import { type BoxRow, contentOf, type HeadRow, type ProfileHeadRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { leased, type Turn } from '../schema/turn-states.ts';
import { updateHead } from './head.ts';
import {
  decodedOrNull,
  type InstructionRow,
  inputProblem,
  instructionSchema,
  parentProblem,
  refusal,
  requestProblem,
  selectInstruction,
  sharedProblem,
  unreadable,
} from './lease-refusals.ts';
import { anyProfile, type CurrentProfile, profileAt, profileByHash, selectProfileHead } from './profiles.ts';
import { budgetsOf } from './set-budgets.ts';
import { abandoned, finishTurn } from './terminal.ts';

const TITLE_BYTES = 120;

/** What leasing a turn has come to. */
export type LeaseAttempt =
  | { readonly kind: 'leased'; readonly lease: Lease }
  /** The turn could not start and has ended; the head is idle at this epoch. */
  | { readonly kind: 'rejected'; readonly turnEpoch: number }
  /** No worker has registered any profile in this store yet: nothing can be said of the one that is asked for. */
  | { readonly kind: 'too_early' };

/** What the caller of a lease knows. */
export interface Leasing {
  /** The policy of the profile does not judge what the turn is asked, because it was judged before. */
  readonly unjudged?: boolean;
  /** The row of the turn is new and not written yet. */
  readonly unwritten?: boolean;
  /** What the turn needs to start, where the caller has read or written it. */
  readonly needs?: Needs | undefined;
}

/** What a turn needs to start; what is undefined is not there. */
export interface Needs {
  /** The version of its profile. */
  readonly profileHead: Pick<ProfileHeadRow, 'hash'> | undefined;
  readonly instruction: InstructionRow | undefined;
}

/** Leases the turn, or ends it where it cannot start. The caller holds the head row, which is idle. */
export async function tryLease(
  tx: Tx,
  head: HeadRow,
  first: Turn,
  { unjudged = false, unwritten = false, needs }: Leasing = {},
): Promise<LeaseAttempt> {
  const asked = await withItsMessages(tx, first).catch(unreadable);
  const [queued, unasked] = 'reason' in asked && 'code' in asked ? [first, asked] : [asked as Turn, null];
  const { profileHead, instruction: card } = (queued === first && needs) || (await needsOf(tx, queued));
  const found = await profileFor(tx, queued, profileHead).catch(unreadable);
  const [profile, unfit] = found !== null && 'reason' in found ? [null, found] : [found, null];
  if (!profile && !unfit && !(await anyProfile(tx))) {
    if (unwritten) await insertRows(tx.db, 'turns', [queued]);
    return { kind: 'too_early' };
  }
  const problem =
    unasked ??
    unfit ??
    sharedProblem(queued, profile) ??
    (await parentProblem(tx, queued)) ??
    requestProblem(queued, card) ??
    (unjudged ? null : inputProblem(profile, card));
  const boxes = await prepareBoxes(tx, head, queued, { profile, isReadable: problem === null });
  const turn = await dispatch(tx, head, queued, { profile, boxes, unwritten });
  const refused = problem ?? refusal(queued.profile_name, profile !== null, boxes.missing);
  const made = refused ?? (await leaseOf(tx, turn, card).catch(unreadable));
  if ('reason' in made) {
    const status = made.code === 'canceled' ? 'canceled' : 'failed';
    const termination: Termination = { status, errorCode: made.code, reason: made.reason };
    if (turn.chat_id !== null) await tellReceipt(tx, turn);
    await finishTurn(tx, turn, abandoned(termination));
    await closeUnit(tx, boxes.boxId);
    return { kind: 'rejected', turnEpoch: turn.turn_epoch };
  }
  appendState(tx, { agent_id: head.agent_id, ...headOf(tx, turn) });
  if (turn.chat_id !== null) await tellBeginning(tx, turn, made, boxes);
  return { kind: 'leased', lease: made };
}

/** Reads what a turn needs to start. */
async function needsOf(tx: Tx, { profile_name, instruction_card_id }: Turn): Promise<Needs> {
  const [[profileHead], [instruction]] = await together(
    tx.db,
    selectProfileHead(tx, profile_name),
    selectInstruction(tx, instruction_card_id),
  );
  return { profileHead, instruction };
}

/** The profile that the turn gets: one of a chat with the bounds of chats. */
async function profileFor(tx: Tx, turn: Turn, head: Parameters<typeof profileAt>[1]): Promise<CurrentProfile | null> {
  const current = await profileAt(tx, head);
  return current && turn.chat_id !== null ? chatVersion(tx, current) : current;
}

/** Tells that the turn of a chat has begun, and with what (C3). */
async function tellBeginning(tx: Tx, turn: DispatchedRow, lease: Lease, { earlier, trimmed }: Boxes): Promise<void> {
  const card = await selectInstruction(tx, turn.instruction_card_id).executeTakeFirstOrThrow();
  const request = contentOf(card, 'task.instruction').text;
  const objective = titleOf(shownWords(request));
  await tellReceipt(tx, turn);
  tellStep(tx, turn, {
    step: 'understand',
    contextHash: contextHash({ profileHash: lease.profileHash, objective, request, units: earlier }),
    objective: lease.privateTitles ? lease.title : objective,
    sources: {
      turns: earlier.length,
      toolSnippets: earlier.filter(({ tokens: [all, , , least] }) => all > least).length,
    },
    trimmed,
  });
}

/** Tells that the turn of a chat has its messages and the lease of its session, whether it can start or not (C3). */
async function tellReceipt(tx: Tx, turn: DispatchedRow): Promise<void> {
  const { count } = await tx.db
    .selectFrom('chat_messages')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('agent_turn_id', '=', turn.agent_turn_id)
    .executeTakeFirstOrThrow();
  tellStep(tx, turn, { step: 'receive', turnEpoch: turn.turn_epoch, messages: Number(count) });
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
  /** How many units of earlier turns are left out, because the turn is one of a chat that remembers so many messages (C7). */
  readonly trimmed: number;
}

/** How the boxes are to be read. */
interface Reading {
  /** Null where it is not known. */
  readonly profile: CurrentProfile | null;
  /** Whether the request can be read; of one that cannot, the agent's own box takes what is written down of its end. */
  readonly isReadable: boolean;
}

/** Finds or makes the boxes of the turn, and puts its instruction last into the output box (T24). */
async function prepareBoxes(tx: Tx, head: HeadRow, turn: Turn, { profile, isReadable }: Reading): Promise<Boxes> {
  const windowTokens = profile?.snapshot.profile.context.windowTokens ?? 0;
  const asked = isReadable ? decoded(turn.request).outputBoxId : undefined;
  const { boxId, missing } = await outputBoxOf(tx, head, turn, asked);
  const context = await contextOf(tx, turn, windowTokens);
  const instructionSeq = await placeInstruction(tx, boxId, turn);
  // What stands before the instruction, which is nothing for a new agent.
  const before = { boxId, beforeSeq: instructionSeq, isOwn: true };
  const own = instructionSeq === 1 ? [] : await contextUnits(tx, before, windowTokens);
  const { units, trimmed } =
    profile && turn.chat_id !== null ? remembered(own, profile.snapshot.profile) : { units: own, trimmed: 0 };
  const earlier = [...units, ...context.found];
  return { boxId, instructionSeq, earlier, missing: [...missing, ...context.missing], trimmed };
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
    await forkBox(tx, { from: box.box_id, to: boxId, kind: 'output', agentId: owner });
    return { boxId, missing: [] };
  }
  const boxId = head.output_box_id ?? outputBoxId(owner);
  if (head.output_box_id === null) {
    const made = await createBox(tx, { box_id: boxId, kind: 'output', owner_agent_id: owner });
    if (made) noteBoxEnd(tx, boxId, 0);
  }
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
  if (!(await findBox(tx, boxId))) return { found: [], missing: [boxId] };
  const whole = { boxId, beforeSeq: Number.MAX_SAFE_INTEGER, isOwn: false };
  return { found: await contextUnits(tx, whole, windowTokens), missing: [] };
}

/**
 * The instruction joins the box as its newest card (T24). A card that is in it already, because an earlier turn had the same, stays with
 * the answer it got there; this turn gets a copy of its own.
 */
async function placeInstruction(tx: Tx, boxId: string, turn: Turn): Promise<number> {
  const { instruction_card_id: cardId, agent_turn_id: agentTurnId, agent_id: owner } = turn;
  const box = { boxId, owner };
  // Nothing is in a new box.
  const seq = await (tx.boxEnds.get(boxId) === 0 ? appendNew(tx, box, cardId) : addToBox(tx, box, cardId));
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
  /** Whether the row of the turn is yet to be written. */
  readonly unwritten: boolean;
}

/** A turn that is at the head of its agent, also one that ends at once because it cannot start. */
type DispatchedRow = TurnRow & { readonly turn_epoch: number; readonly output_box_id: string };

/** Writes the lease to the row of the turn and to the head. */
async function dispatch(
  tx: Tx,
  head: HeadRow,
  queued: Turn,
  { profile, boxes, unwritten }: Dispatching,
): Promise<DispatchedRow> {
  const definition = profile?.snapshot.profile;
  const lease = {
    status: 'dispatched',
    turn_epoch: head.turn_epoch + 1,
    output_box_id: boxes.boxId,
    instruction_seq: boxes.instructionSeq,
    earlier: encoded(boxes.earlier),
    profile_hash: profile?.hash ?? null,
    worker_target: definition?.workerTarget ?? null,
    leased_at: tx.at,
    ...(definition ? firstCheck(tx.now, definition.timeouts) : {}),
    ...(definition && queued.parent_call_id === null ? given(queued, definition.budgets) : {}),
  } as const;
  const turn = { ...queued, ...lease };
  if (unwritten) await insertRows(tx.db, 'turns', [turn]);
  else await updateRows(tx.db, 'turns', { agent_turn_id: turn.agent_turn_id }, lease);
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
    // An attempt of an earlier lease is refused by its epoch.
    acting: null,
    updated_at: now,
  }) as const;

/** When a turn is checked first after its lease, and when its whole time is up. */
const firstCheck = (from: number, timeouts: Timeouts) => ({
  check_at: firstCheckAt(from, timeouts),
  check_every: FIRST_CHECK_MS,
  ends_by: timeouts.turnMs === undefined ? null : from + timeouts.turnMs,
});

/** What a turn from outside may spend: what its budgets say. A delegated one was given its share when it was made (K20). */
function given(turn: Turn, ofProfile: Budgets) {
  const { maxTokens, maxCost = null } = budgetsOf(turn, ofProfile);
  return { given_tokens: maxTokens, given_cost: maxCost };
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
  const { windowTokens } = snapshot.profile.context;
  const snippets = turn.chat_id === null ? undefined : snippetResidency(snapshot.profile.chat, windowTokens);
  return {
    agentId: turn.agent_id,
    agentTurnId: turn.agent_turn_id,
    turnEpoch: turn.turn_epoch,
    profileName: turn.profile_name,
    profileHash: turn.profile_hash,
    workerTarget: turn.worker_target,
    // Budgets may have been set while the turn was queued (K9).
    kernel: { ...kernel, budgets: budgetsOf(turn, kernel.budgets), ...(snippets ? { snippets } : {}) },
    timeouts: snapshot.profile.timeouts,
    outputBoxId: turn.output_box_id,
    earlier: decoded(turn.earlier),
    instructionSeq: turn.instruction_seq,
    instructionTokens: card.token_count,
    ...(snapshot.profile.burst ? { burst: snapshot.profile.burst } : {}),
    ...(snapshot.profile.parallelCalls === undefined ? {} : { parallelCalls: snapshot.profile.parallelCalls }),
    ...(snapshot.profile.maxHistoryEvents === undefined ? {} : { maxEvents: snapshot.profile.maxHistoryEvents }),
    title: snapshot.profile.privateTitles
      ? `a turn of ${turn.profile_name}`
      : titleOf(turn.chat_id === null ? text : shownWords(text)),
    ...(snapshot.profile.privateTitles ? { privateTitles: true as const } : {}),
    ...(request.chat ? { chat: { sessionId: request.chat.sessionId, chatId: request.chat.chatId } } : {}),
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

/**
 * A turn hands work to another agent (T26, T27, W12): claim, new turn, and the call's own result or wait, in one transaction.
 *
 * Order: the calling agent's head and the target's are locked in the order of their ids, so that two agents that ask each other at once
 * do not deadlock; calls that wait take one more lock first, since a circle of them may have any length.
 */
import type { Delegation, DelegationOutcome, DelegationTarget } from '../../../workflows/contract/delegation.ts';
import type { Handover } from '../../../workflows/contract/lease.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { Budgets, DelegationPolicy } from '../../../workflows/protocol/profile.ts';
import { DEFAULT_SUSPEND_TIMEOUT_MS, SIZES } from '../../../workflows/protocol/sizes.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import {
  delegatedAgentId,
  delegatedTurnId,
  forkedBoxId,
  instructionCardId,
  outputBoxId,
  stepCardId,
} from '../../ids.ts';
import { callOf, findResult, type StoredCall } from '../calls/call-cards.ts';
import { insertClaims } from '../calls/claims.ts';
import { findCounted } from '../calls/recounting.ts';
import { storeResult } from '../calls/results.ts';
import { startWaiting, suspendedUntil } from '../calls/waiting-set.ts';
import { forkBox } from '../cards/boxes.ts';
import { insertCard } from '../cards/cards.ts';
import { type Reader, type StoreContext, type Tx, write } from '../context.ts';
import { appendEdge } from '../log/events.ts';
import { decoded } from '../schema/json.ts';
import type { HeadRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import type { WithLease } from '../schema/turn-states.ts';
import { admissionRefusal } from './accept.ts';
import { unregistered } from './chosen-profile.ts';
import { handOver } from './handover.ts';
import { lockHead, updateHead } from './head.ts';
import { leaseOf } from './lease.ts';
import { currentProfile, profileByHash } from './profiles.ts';
import type { Refusal } from './refusal.ts';
import { enrol, rosterEntry } from './roster.ts';
import { shareOf } from './tree-budgets.ts';
import { fencedTurn, findTurn, insertTurn, type Locked, type Share, turnOf } from './turns.ts';
import { wouldWaitForItself } from './waits-for.ts';

/** The lane of requests of normal priority. */
const NORMAL_LANE = 1;

/** The turn that delegates, under its agent's head row, and its call. */
interface Caller extends Locked<WithLease> {
  readonly call: StoredCall;
}

/** Where the work goes, once it is known that it may. */
interface Target {
  readonly agentId: string;
  readonly profile: string;
  /** The agent of whose output box a clone starts with a copy; null for an agent that starts with nothing, or with its own box. */
  readonly original: string | null;
  /** Whether it is made for this work. */
  readonly isNew: boolean;
  /** Whether the caller's agent is told when the turn ends and no call waits for it (A11). */
  readonly isReported: boolean;
  /** The budgets of that profile, and those of the caller's. */
  readonly budgets: { readonly target: Budgets; readonly caller: Budgets };
}

/** Carries out a delegation call. */
export const delegate = (ctx: StoreContext, fence: Fence, delegation: Delegation): Promise<DelegationOutcome> =>
  write(ctx, namesOf(fence, delegation), async (tx) => {
    const { callId, target: wanted } = delegation;
    if (delegation.waitMs !== undefined) await tx.lockWaits();
    const known = wanted.strategy === 'reuse' ? await rosterEntry(tx, wanted.agentId) : undefined;
    if (known && wanted.strategy === 'reuse' && wanted.agentId < fence.agentId) await lockHead(tx, wanted.agentId);
    const { head, turn } = await fencedTurn(tx, fence);
    const done = await doneBefore(tx, { head, turn }, callId);
    if (done) return done;
    const call = await callOf(tx, fence.agentTurnId, callId);
    await insertClaims(tx, fence.agentTurnId, [delegation]);
    const caller = { turn, head, call };
    const target = await targetOf(tx, turn, delegation);
    const made = 'code' in target ? target : await makeTurn(tx, caller, target, delegation);
    if ('code' in made) {
      const { settled } = await storeResult(tx, turn, { stepIndex: call.stepIndex, content: failed(call, made) });
      return { call: { kind: 'settled', settled }, handover: null };
    }
    return { call: await callAfter(tx, caller, delegation), handover: made };
  });

/**
 * The line of delegations that wait, which take one lock. It sorts behind all agents, so it is not held while a caller stands in line for
 * an agent.
 */
const WAITS = '\uffff';

const namesOf = ({ agentId }: Fence, { target, waitMs }: Delegation): readonly string[] => [
  agentId,
  ...(target.strategy === 'reuse' ? [target.agentId] : []),
  ...(waitMs === undefined ? [] : [WAITS]),
];

/** What another attempt at the call has done, null when there was none; a turn that has not started gives its lease again. */
async function doneBefore(tx: Tx, locked: Locked<WithLease>, callId: string): Promise<DelegationOutcome | null> {
  const settled = await findResult(tx, locked.turn, callId);
  const waiting = settled ? undefined : await findCounted(tx, locked, callId);
  if (!settled && !waiting) return null;
  const made = await findTurn(tx, delegatedTurnId(callId));
  const call = settled ? ({ kind: 'settled', settled } as const) : suspendedUntil(tx, waiting?.deadline ?? tx.now);
  if (!made) return { call, handover: null };
  const next = made.status === 'dispatched' ? await leaseOf(tx, made) : null;
  const settlements = made.settlement === 'due' ? [made.agent_turn_id] : [];
  return { call, handover: { agentId: made.agent_id, next, more: false, settlements } };
}

/** Where the work goes, or why it may not go there. */
async function targetOf(tx: Tx, turn: WithLease, { callId, target }: Delegation): Promise<Target | Refusal> {
  const { delegationPolicy: policy, budgets: own } = (await profileByHash(tx, turn.profile_hash)).profile;
  const named = target.strategy === 'new' ? target.profile : await profileOfAgent(tx, turn, target.agentId);
  if (named === null) {
    return {
      code: 'agent_not_found',
      message: `there is no agent ${nameOf(target)}; make one with target_strategy new`,
    };
  }
  const profile = await currentProfile(tx, named);
  if (!profile) return unregistered(tx, named);
  if (!allows(policy, named, profile.snapshot.profile.tags)) {
    const allowed = [...(policy?.profiles ?? []), ...(policy?.tags ?? []).map((tag) => `any with tag ${tag}`)];
    const message = `delegation to profile ${named} is not allowed; allowed: ${allowed.join(', ') || 'none'}`;
    return { code: 'delegation_denied', message };
  }
  const budgets = { target: profile.snapshot.profile.budgets, caller: own };
  const isReported = policy?.onEnd === 'wake';
  if (target.strategy === 'reuse')
    return { agentId: target.agentId, profile: named, original: null, isNew: false, isReported, budgets };
  const original = target.strategy === 'clone' ? target.agentId : null;
  return {
    agentId: delegatedAgentId(named, callId, turn.tenant),
    profile: named,
    original,
    isNew: true,
    isReported,
    budgets,
  };
}

/** The target in words. */
const nameOf = (target: DelegationTarget): string => (target.strategy === 'new' ? target.profile : target.agentId);

/** The profile of an agent of the same tenant; null for any other, as for one that is not there. */
async function profileOfAgent(reader: Reader, { tenant }: TurnRow, agentId: string): Promise<string | null> {
  const entry = await rosterEntry(reader, agentId);
  return entry?.tenant === tenant ? entry.profile : null;
}

const allows = (policy: DelegationPolicy | undefined, profile: string, tags: readonly string[]): boolean =>
  policy !== undefined && (policy.profiles.includes(profile) || policy.tags.some((tag) => tags.includes(tag)));

/** Accepts the new turn, and leases it when its agent is idle; a refusal writes nothing but what the caller makes of it. */
async function makeTurn(tx: Tx, caller: Caller, target: Target, delegation: Delegation): Promise<Handover | Refusal> {
  const { turn, call } = caller;
  const depth = turn.depth + 1;
  if (depth >= SIZES.maxDepth) {
    return {
      code: 'recursion_depth_exceeded',
      message: `delegation is ${depth} deep; at most ${SIZES.maxDepth - 1} is allowed`,
    };
  }
  const awaited = delegation.waitMs !== undefined;
  if (awaited && (await wouldWaitForItself(tx, turn.agent_id, target.agentId))) {
    const message = `agent ${target.agentId} waits, itself or through others, for ${turn.agent_id}: it would never answer`;
    return { code: 'delegation_cycle', message };
  }
  const { stepIndex } = call;
  const { target: budgets, caller: own } = target.budgets;
  const share = await shareOf(tx, turn, own, { stepIndex, maxTokens: delegation.maxTokens, budgets });
  if ('code' in share) return share;
  const context = await contextOf(tx, caller, delegation);
  if ('code' in context) return context;
  const head = await lockHead(tx, target.agentId);
  const refused = (await takenRefusal(tx, turn, target)) ?? (await admissionRefusal(tx, head));
  if (refused) return refused;
  const { root_agent_id: rootAgentId = turn.agent_id } = (await rosterEntry(tx, turn.agent_id)) ?? {};
  const parent = { agentId: turn.agent_id, rootAgentId };
  const { agent_status } = await enrol(tx, head, { profile: target.profile, parent, tenant: turn.tenant });
  if (agent_status !== head.agent_status) await updateHead(tx, target.agentId, { agent_status });
  if (target.original !== null) await inheritBox(tx, target.original, head, delegation.callId);
  await queueChild(tx, caller, { target, share, contextBoxId: context.boxId }, delegation);
  // Locked anew, for its box may be another one by now.
  return handOver(tx, await lockHead(tx, target.agentId));
}

/** Why a new agent cannot be made: somebody else has made one of its id. Null when it can, and for one that is there to be used again. */
async function takenRefusal(tx: Tx, turn: WithLease, { agentId, isNew }: Target): Promise<Refusal | null> {
  const entry = isNew ? await rosterEntry(tx, agentId) : undefined;
  if (!entry || entry.parent_agent_id === turn.agent_id) return null;
  return { code: 'delegation_denied', message: `agent ${agentId} is there already, and was not made by this agent` };
}

/** The turn that is to be made. */
interface Child {
  readonly target: Target;
  readonly share: Share;
  /** Undefined when it reads nothing besides its instruction. */
  readonly contextBoxId: string | undefined;
}

/** Writes the instruction and queues the new turn. */
async function queueChild(
  tx: Tx,
  { turn, call }: Caller,
  { target, share, contextBoxId }: Child,
  delegation: Delegation,
): Promise<void> {
  const { callId, instruction, waitMs, onParentEnd } = delegation;
  const { agentId, profile } = target;
  const agentTurnId = delegatedTurnId(callId);
  const cardId = instructionCardId(agentTurnId);
  const author = turn.agent_id;
  await insertCard(tx, { cardId, type: 'task.instruction', content: { text: instruction }, author, agentTurnId });
  const { traceparent } = decoded(turn.request);
  const request = {
    priority: 'normal',
    ...(delegation.target.strategy === 'reuse' ? {} : { profile }),
    ...(contextBoxId === undefined ? {} : { contextBoxId }),
    ...(turn.correlation_id === null ? {} : { correlationId: turn.correlation_id }),
    ...(traceparent === undefined ? {} : { traceparent }),
  } as const;
  const { stepIndex } = call;
  const awaited = waitMs !== undefined;
  const { isReported } = target;
  const origin = { turn, depth: turn.depth + 1, stepIndex, callId, awaited, isReported, onParentEnd, share };
  const queue = { lane: NORMAL_LANE, instructionCardId: cardId, digest: '' };
  await insertTurn(tx, { agentId, tenant: turn.tenant, agentTurnId, ...queue, origin, profile, request });
}

/** What the new turn reads besides its instruction: what the caller remembers up to this step, or a box that is the caller's (T25). */
async function contextOf(
  tx: Tx,
  { turn, call }: Caller,
  { callId, contextBoxId: asked, includeHistory }: Delegation,
): Promise<{ readonly boxId?: string } | Refusal> {
  const from = asked ?? (includeHistory ? turn.output_box_id : undefined);
  if (from === undefined) return {};
  const box = await tx.db.selectFrom('boxes').selectAll().where('box_id', '=', from).executeTakeFirst();
  if (!box) return { code: 'box_unavailable', message: `box ${from} does not exist` };
  if (box.owner_agent_id !== turn.agent_id && from !== turn.context_box_id) {
    return { code: 'unauthorized_box', message: `box ${from} belongs neither to this agent nor to this turn` };
  }
  if (box.kind === 'context') return { boxId: from };
  const to = forkedBoxId(from, callId);
  const beforeSeq = await placeOf(tx, from, stepCardId(turn.agent_turn_id, call.stepIndex, 'agent.thought'));
  const before = beforeSeq === undefined ? {} : { beforeSeq };
  await forkBox(tx, { from, to, kind: 'context', agentId: turn.agent_id, ...before });
  return { boxId: to };
}

/** The place of a card in a box; undefined when it is not in the box. */
async function placeOf({ db }: Reader, boxId: string, cardId: string): Promise<number | undefined> {
  const row = await db
    .selectFrom('box_cards')
    .select('seq')
    .where('box_id', '=', boxId)
    .where('card_id', '=', cardId)
    .executeTakeFirst();
  return row?.seq;
}

/** Gives a new agent a copy of another one's output box. */
async function inheritBox(tx: Tx, original: string, head: HeadRow, callId: string): Promise<void> {
  const source = await tx.db
    .selectFrom('agent_state_head')
    .select('output_box_id')
    .where('agent_id', '=', original)
    .executeTakeFirst();
  if (!source?.output_box_id || head.output_box_id !== null) return;
  const to = forkedBoxId(source.output_box_id, callId);
  await forkBox(tx, { from: source.output_box_id, to, kind: 'output', agentId: head.agent_id });
  await updateHead(tx, head.agent_id, { output_box_id: to });
}

/** What becomes of the call: it waits for the new turn, or has its result at once. */
async function callAfter(
  tx: Tx,
  { turn, head, call }: Caller,
  { callId, waitMs }: Delegation,
): Promise<DelegationOutcome['call']> {
  const child = await turnOf(tx, delegatedTurnId(callId));
  if (waitMs === undefined) {
    const content = await started(tx, child, call);
    return {
      kind: 'settled',
      settled: (await storeResult(tx, turn, { stepIndex: call.stepIndex, content })).settled,
    };
  }
  const { profile } = await profileByHash(tx, turn.profile_hash);
  const deadline = tx.now + (waitMs ?? profile.suspendTimeoutMs ?? DEFAULT_SUSPEND_TIMEOUT_MS);
  await startWaiting(tx, { head, turn }, call, { kind: 'join', deadline });
  appendEdge(tx, callId, {
    primitive: 'join',
    phase: 'request',
    kind: call.content.tool,
    source_agent_id: turn.agent_id,
    source_agent_turn_id: turn.agent_turn_id,
    source_step_index: call.stepIndex,
    target_agent_id: child.agent_id,
    target_agent_turn_id: child.agent_turn_id,
    call_id: callId,
    depth: child.depth,
    trace_id: child.trace_id,
  });
  return suspendedUntil(tx, deadline);
}

/** The result of a call that does not wait. */
async function started({ db }: Reader, child: TurnRow, { content }: StoredCall): Promise<ToolResultContent> {
  const { callId, tool } = content;
  const head = await db
    .selectFrom('agent_state_head')
    .select('output_box_id')
    .where('agent_id', '=', child.agent_id)
    .executeTakeFirstOrThrow();
  const result: JsonObject = {
    status: 'accepted',
    agent_id: child.agent_id,
    agent_turn_id: child.agent_turn_id,
    max_tokens: child.given_tokens,
    context_box_id: child.context_box_id,
    output_box_id: head.output_box_id ?? outputBoxId(child.agent_id),
  };
  return { callId, tool, status: 'success', afterExecution: 'continue', result };
}

/** The result of a call that is refused. */
const failed = ({ content }: StoredCall, { code, message }: Refusal): ToolResultContent => ({
  callId: content.callId,
  tool: content.tool,
  status: 'failed',
  afterExecution: 'continue',
  error: { code, message, kind: 'recoverable' },
});

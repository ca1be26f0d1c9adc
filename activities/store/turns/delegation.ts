/**
 * A turn hands work to another agent (T26, T27, W12): claim, new turn, and the call's own result or wait, in one transaction.
 *
 * Order: the calling agent's head and the target's are locked in the order of their ids, so that two agents that ask each other at once
 * do not deadlock; calls that wait take one more lock first, since a circle of them may have any length.
 */

import type { Delegation, DelegationOutcome, DelegationTarget } from '../../../workflows/contract/delegation.ts';
import type { Handover } from '../../../workflows/contract/lease.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { EnqueueRequest } from '../../../workflows/protocol/enqueue.ts';
import type { FailureCode } from '../../../workflows/protocol/failures.ts';
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
import { storeResult } from '../calls/results.ts';
import { findWaiting, startWaiting, suspendedUntil } from '../calls/waiting-set.ts';
import { forkBox } from '../cards/boxes.ts';
import { insertCard } from '../cards/cards.ts';
import { type ProfileCache, type StoreContext, type Trx, write } from '../context.ts';
import { appendEdge } from '../log/events.ts';
import type { HeadRow, TurnRow } from '../schema/rows.ts';
import { admissionRefusal } from './accept.ts';
import { handOver } from './handover.ts';
import { fenced, lockHead, updateHead } from './head.ts';
import { leaseOf } from './lease.ts';
import { currentProfile, profileByHash } from './profiles.ts';
import type { Refusal } from './refusal.ts';
import { enrol, rosterEntry } from './roster.ts';
import { shareOf } from './tree-budgets.ts';
import { insertTurn, type Share, turnOf } from './turns.ts';
import { wouldWaitForItself } from './waits-for.ts';

const NORMAL_LANE = 1;

interface Caller {
  readonly turn: TurnRow;
  readonly head: HeadRow;
  readonly call: StoredCall;
}

/** Where the work goes, once it is known that it may. */
interface Target {
  readonly agentId: string;
  readonly profile: string;
  /** The agent whose memory a clone starts with. */
  readonly original: string | null;
  /** Of that profile, and of the caller's. */
  readonly budgets: { readonly target: Budgets; readonly caller: Budgets };
}

export async function delegate(ctx: StoreContext, fence: Fence, delegation: Delegation): Promise<DelegationOutcome> {
  const now = ctx.now();
  return write(ctx, namesOf(fence, delegation), async (trx) => {
    const { callId, target: wanted } = delegation;
    if (delegation.waitMs !== undefined) await ctx.lockWaits?.(trx);
    const known = wanted.strategy === 'reuse' ? await rosterEntry(trx, wanted.agentId) : undefined;
    if (known && wanted.strategy === 'reuse' && wanted.agentId < fence.agentId)
      await lockHead(trx, wanted.agentId, now);
    const head = await fenced(trx, fence, now);
    const turn = await turnOf(trx, fence.agentTurnId);
    const done = await doneBefore(ctx, trx, turn, callId, now);
    if (done) return done;
    const call = await callOf(trx, fence.agentTurnId, callId);
    await insertClaims(trx, fence.agentTurnId, [delegation], now);
    const caller = { turn, head, call };
    const target = await targetOf(trx, turn, delegation, ctx.profiles);
    const made = 'code' in target ? target : await makeTurn(ctx, trx, caller, target, delegation, now);
    if ('code' in made) {
      const { settled } = await storeResult(trx, turn, call.stepIndex, failed(call, made), now);
      return { call: { kind: 'settled', settled }, handover: null };
    }
    return { call: await callAfter(trx, caller, delegation, ctx.profiles, now), handover: made };
  });
}

/** Delegations that wait take one lock for all of them. Sorts behind all agents: it is not kept from others while an agent is waited for. */
const WAITS = '\uffff';

const namesOf = ({ agentId }: Fence, { target, waitMs }: Delegation): readonly string[] => [
  agentId,
  ...(target.strategy === 'reuse' ? [target.agentId] : []),
  ...(waitMs === undefined ? [] : [WAITS]),
];

/** Another attempt of the call finds what the first one did; a turn that has not started gives its lease again. */
async function doneBefore(
  { profiles }: StoreContext,
  trx: Trx,
  turn: TurnRow,
  callId: string,
  now: number,
): Promise<DelegationOutcome | null> {
  const settled = await findResult(trx, turn, callId);
  const waiting = settled ? undefined : await findWaiting(trx, turn.agent_turn_id, callId);
  if (!settled && !waiting) return null;
  const made = await trx
    .selectFrom('turns')
    .selectAll()
    .where('agent_turn_id', '=', delegatedTurnId(callId))
    .executeTakeFirst();
  const call = settled ? ({ kind: 'settled', settled } as const) : suspendedUntil(waiting?.deadline ?? now, now);
  if (!made) return { call, handover: null };
  const next = made.status === 'dispatched' ? await leaseOf(trx, made, profiles) : null;
  const settlements = made.settlement === 'due' ? [made.agent_turn_id] : [];
  return { call, handover: { agentId: made.agent_id, next, more: false, settlements } };
}

async function targetOf(
  trx: Trx,
  turn: TurnRow,
  { callId, target }: Delegation,
  profiles: ProfileCache,
): Promise<Target | Refusal> {
  const { delegationPolicy: policy, budgets: own } = (await profileByHash(trx, turn.profile_hash ?? '', profiles))
    .profile;
  const named = target.strategy === 'new' ? target.profile : await profileOfAgent(trx, target.agentId);
  if (named === null) {
    return {
      code: 'agent_not_found',
      message: `there is no agent ${nameOf(target)}; make one with target_strategy new`,
    };
  }
  const profile = await currentProfile(trx, named, profiles);
  if (!profile) return { code: 'profile_not_found', message: `no profile named ${named} is registered` };
  if (!allows(policy, named, profile.snapshot.profile.tags)) {
    const allowed = [...(policy?.profiles ?? []), ...(policy?.tags ?? []).map((tag) => `any with tag ${tag}`)];
    const message = `delegation to profile ${named} is not allowed; allowed: ${allowed.join(', ') || 'none'}`;
    return { code: 'delegation_denied', message };
  }
  const budgets = { target: profile.snapshot.profile.budgets, caller: own };
  if (target.strategy === 'reuse') return { agentId: target.agentId, profile: named, original: null, budgets };
  const original = target.strategy === 'clone' ? target.agentId : null;
  return { agentId: delegatedAgentId(named, callId), profile: named, original, budgets };
}

const nameOf = (target: DelegationTarget): string => (target.strategy === 'new' ? target.profile : target.agentId);

async function profileOfAgent(trx: Trx, agentId: string): Promise<string | null> {
  const entry = await rosterEntry(trx, agentId);
  return entry ? (entry.profile ?? agentId) : null;
}

const allows = (policy: DelegationPolicy | undefined, profile: string, tags: readonly string[]): boolean =>
  policy !== undefined && (policy.profiles.includes(profile) || policy.tags.some((tag) => tags.includes(tag)));

/** Accepts the new turn, and leases it when its agent is idle; a refusal writes nothing but what the caller makes of it. */
async function makeTurn(
  ctx: StoreContext,
  trx: Trx,
  { turn, call }: Caller,
  target: Target,
  delegation: Delegation,
  now: number,
): Promise<Handover | Refusal> {
  const depth = turn.depth + 1;
  if (depth >= SIZES.maxDepth) {
    return {
      code: 'recursion_depth_exceeded',
      message: `delegation is ${depth} deep; at most ${SIZES.maxDepth - 1} is allowed`,
    };
  }
  const awaited = delegation.waitMs !== undefined;
  if (awaited && (await wouldWaitForItself(trx, turn.agent_id, target.agentId))) {
    const message = `agent ${target.agentId} waits, itself or through others, for ${turn.agent_id}: it would never answer`;
    return { code: 'delegation_cycle', message };
  }
  const { stepIndex } = call;
  const { target: budgets, caller } = target.budgets;
  const share = await shareOf(trx, turn, caller, { stepIndex, maxTokens: delegation.maxTokens, budgets });
  if ('code' in share) return share;
  const context = await contextOf(trx, turn, call, delegation, now);
  if ('code' in context) return context;
  const head = await lockHead(trx, target.agentId, now);
  const refused = await admissionRefusal(ctx, trx, head);
  if (refused) return refused;
  await enrol(trx, target.agentId, target.profile, turn.agent_id, now);
  if (target.original !== null) await inheritMemory(trx, target.original, head, delegation.callId, now);
  await queueChild(trx, { turn, depth, stepIndex, share }, target, context.boxId, delegation, now);
  return handOver(ctx, trx, await lockHead(trx, target.agentId, now), now);
}

async function queueChild(
  trx: Trx,
  from: { readonly turn: TurnRow; readonly depth: number; readonly stepIndex: number; readonly share: Share },
  { agentId, profile }: Target,
  contextBoxId: string | undefined,
  { callId, target, instruction, waitMs, onParentEnd }: Delegation,
  now: number,
): Promise<void> {
  const { turn } = from;
  const agentTurnId = delegatedTurnId(callId);
  const cardId = instructionCardId(agentTurnId);
  const author = turn.agent_id;
  await insertCard(trx, { cardId, type: 'task.instruction', content: { text: instruction }, author, agentTurnId }, now);
  const { traceparent } = JSON.parse(turn.request) as EnqueueRequest;
  const request = {
    priority: 'normal',
    ...(target.strategy === 'reuse' ? {} : { profile }),
    ...(contextBoxId === undefined ? {} : { contextBoxId }),
    ...(turn.correlation_id === null ? {} : { correlationId: turn.correlation_id }),
    ...(traceparent === undefined ? {} : { traceparent }),
  } as const;
  const origin = { ...from, callId, awaited: waitMs !== undefined, onParentEnd };
  await insertTurn(
    trx,
    { agentId, agentTurnId, lane: NORMAL_LANE, instructionCardId: cardId, digest: '', origin, request },
    now,
  );
}

/** What the new turn reads besides its instruction: what the caller remembers up to this step, or a box that is the caller's (T25). */
async function contextOf(
  trx: Trx,
  turn: TurnRow,
  { stepIndex }: StoredCall,
  { callId, contextBoxId: asked, includeHistory }: Delegation,
  now: number,
): Promise<{ readonly boxId?: string } | Refusal> {
  const from = asked ?? (includeHistory ? (turn.output_box_id ?? undefined) : undefined);
  if (from === undefined) return {};
  const box = await trx.selectFrom('boxes').selectAll().where('box_id', '=', from).executeTakeFirst();
  if (!box) return { code: 'box_unavailable', message: `box ${from} does not exist` };
  if (box.owner_agent_id !== turn.agent_id && from !== turn.context_box_id) {
    return { code: 'unauthorized_box', message: `box ${from} belongs neither to this agent nor to this turn` };
  }
  if (box.kind === 'context') return { boxId: from };
  const to = forkedBoxId(from, callId);
  const beforeSeq = await placeOf(trx, from, stepCardId(turn.agent_turn_id, stepIndex, 'agent.thought'));
  await forkBox(
    trx,
    { from, to, kind: 'context', owner: null, ...(beforeSeq === undefined ? {} : { beforeSeq }) },
    now,
  );
  return { boxId: to };
}

async function placeOf(trx: Trx, boxId: string, cardId: string): Promise<number | undefined> {
  const row = await trx
    .selectFrom('box_cards')
    .select('seq')
    .where('box_id', '=', boxId)
    .where('card_id', '=', cardId)
    .executeTakeFirst();
  return row?.seq;
}

async function inheritMemory(trx: Trx, original: string, head: HeadRow, callId: string, now: number): Promise<void> {
  const source = await trx
    .selectFrom('agent_state_head')
    .select('output_box_id')
    .where('agent_id', '=', original)
    .executeTakeFirst();
  if (!source?.output_box_id || head.output_box_id !== null) return;
  const to = forkedBoxId(source.output_box_id, callId);
  await forkBox(trx, { from: source.output_box_id, to, kind: 'output', owner: head.agent_id }, now);
  await updateHead(trx, head.agent_id, { output_box_id: to });
}

/** The call waits for the new turn, or has its result at once. */
async function callAfter(
  trx: Trx,
  { turn, head, call }: Caller,
  { callId, waitMs }: Delegation,
  profiles: ProfileCache,
  now: number,
): Promise<DelegationOutcome['call']> {
  const child = await turnOf(trx, delegatedTurnId(callId));
  if (waitMs === undefined) {
    const result = await started(trx, child, call);
    return { kind: 'settled', settled: (await storeResult(trx, turn, call.stepIndex, result, now)).settled };
  }
  const { profile } = await profileByHash(trx, turn.profile_hash ?? '', profiles);
  const deadline = now + (waitMs ?? profile.suspendTimeoutMs ?? DEFAULT_SUSPEND_TIMEOUT_MS);
  await startWaiting(trx, head, call, 'join', deadline, now);
  const edge = { primitive: 'join', phase: 'request', kind: call.content.tool } as const;
  const source = { source_agent_id: turn.agent_id, source_agent_turn_id: turn.agent_turn_id };
  const target = { target_agent_id: child.agent_id, target_agent_turn_id: child.agent_turn_id };
  const more = { source_step_index: call.stepIndex, call_id: callId, depth: child.depth, trace_id: child.trace_id };
  appendEdge(trx, callId, { ...edge, ...source, ...target, ...more }, now);
  return suspendedUntil(deadline, now);
}

async function started(trx: Trx, child: TurnRow, { content }: StoredCall): Promise<ToolResultContent> {
  const { callId, tool } = content;
  const head = await trx
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

const failed = (
  { content }: StoredCall,
  { code, message }: { code: FailureCode; message: string },
): ToolResultContent => ({
  callId: content.callId,
  tool: content.tool,
  status: 'failed',
  afterExecution: 'continue',
  error: { code, message, kind: 'recoverable' },
});

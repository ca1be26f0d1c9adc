/** The store: every method of the contract, on whichever backend the context brings. */
import type { Store } from '../../workflows/contract/store.ts';
import { answerApproval, askApprovals } from './calls/approvals.ts';
import { claimCall, readCall, refuseCalls, settleCall, suspendCall } from './calls/calls.ts';
import { checkLease } from './calls/claims.ts';
import { reportResult, resolveWaiting } from './calls/reports.ts';
import { readResult } from './calls/results.ts';
import { closeStep, commitStep, openStep } from './calls/steps.ts';
import { replaceOutputBox, writeContextBox, writeInstructionCard, writeOutputCard } from './cards/boxes.ts';
import { commitSummary, findSummary } from './cards/summaries.ts';
import type { StoreContext } from './context.ts';
import { listEdges } from './log/edges.ts';
import { listApprovals } from './reads/approval-views.ts';
import { violationPages, violations } from './reads/invariants.ts';
import { getAgent, getTurn, listAgents, listTurns, readBox, readEvents, readExtents } from './reads/reads.ts';
import { turnStatusReader } from './reads/turn-status.ts';
import { accept, recordDropped } from './turns/accept.ts';
import { setBudgets, setLifecycle, steerTurn, stopTurn } from './turns/control.ts';
import { delegate } from './turns/delegation.ts';
import { settleDelegation } from './turns/delegation-reports.ts';
import { commitTurn, reapTurn } from './turns/endings.ts';
import { leaseNext } from './turns/handover.ts';
import { readProfile, registerProfiles } from './turns/profiles.ts';
import {
  countOpenTurns,
  dueTurns,
  holdSupervisorLease,
  listOpenTurns,
  makeDue,
  noteListed,
  releaseSupervisorLease,
  scheduleCheck,
} from './turns/supervision.ts';
import { readBudgets } from './turns/tree-budgets.ts';

/** Enough to see that something is wrong. */
const FINDINGS = 1_000;

/** What only the backend can do: tell that something changed and what its clock shows, and close. */
export type Backend = Pick<Store, 'changed' | 'clockAheadMs' | 'close'>;

export const createStore = (ctx: StoreContext, backend: Backend): Store => ({
  accept: (input) => accept(ctx, input),
  recordDropped: (agentId, messageId, drop) => recordDropped(ctx, agentId, messageId, drop),
  stopTurn: (agentTurnId, reason) => stopTurn(ctx, agentTurnId, reason),
  steerTurn: (agentTurnId, text, key) => steerTurn(ctx, agentTurnId, text, key),
  setLifecycle: (agentId, lifecycle, reason) => setLifecycle(ctx, agentId, lifecycle, reason),
  reportResult: (agentTurnId, report) => reportResult(ctx, agentTurnId, report),
  writeInstructionCard: (text) => writeInstructionCard(ctx, text),
  writeOutputCard: (value) => writeOutputCard(ctx, value),
  writeContextBox: (texts) => writeContextBox(ctx, texts),
  registerProfiles: (snapshots, registration) => registerProfiles(ctx, snapshots, registration),
  leaseNext: (agentId) => leaseNext(ctx, agentId),
  readProfile: (hash) => readProfile(ctx, hash),
  holdSupervisorLease: (holder, ttlMs) => holdSupervisorLease(ctx, holder, ttlMs),
  noteListed: (holder, listedUntil) => noteListed(ctx, holder, listedUntil),
  releaseSupervisorLease: (holder) => releaseSupervisorLease(ctx, holder),
  dueTurns: (limit) => dueTurns(ctx, limit),
  scheduleCheck: (turn, next) => scheduleCheck(ctx, turn, next),
  makeDue: (agentTurnIds) => makeDue(ctx, agentTurnIds),
  reapTurn: (seen, termination) => reapTurn(ctx, seen, termination),
  countOpenTurns: () => countOpenTurns(ctx),
  listOpenTurns: (afterId, limit) => listOpenTurns(ctx, afterId, limit),
  openStep: (fence, stepIndex, profileHash, begun) => openStep(ctx, fence, stepIndex, profileHash, begun),
  commitStep: (fence, commit) => commitStep(ctx, fence, commit),
  closeStep: (fence, stepIndex, noticed) => closeStep(ctx, fence, stepIndex, noticed),
  findSummary: (fence, hide) => findSummary(ctx, fence, hide),
  commitSummary: (fence, commit) => commitSummary(ctx, fence, commit),
  readCall: (fence, callId) => readCall(ctx, fence, callId),
  readResult: (fence, callId) => readResult(ctx, fence, callId),
  readExtents: (extents) => readExtents(ctx, extents),
  claimCall: (fence, claim) => claimCall(ctx, fence, claim),
  checkLease: (fence, attempt) => checkLease(ctx, fence, attempt),
  delegate: (fence, delegation) => delegate(ctx, fence, delegation),
  settleCall: (fence, result) => settleCall(ctx, fence, result),
  suspendCall: (fence, callId, waitMs) => suspendCall(ctx, fence, callId, waitMs),
  refuseCalls: (fence, refusals) => refuseCalls(ctx, fence, refusals),
  askApprovals: (fence, requests) => askApprovals(ctx, fence, requests),
  answerApproval: (agentTurnId, answer) => answerApproval(ctx, agentTurnId, answer),
  listApprovals: (filter) => listApprovals(ctx, filter),
  setBudgets: (agentTurnId, budgets) => setBudgets(ctx, agentTurnId, budgets),
  readBudgets: (fence) => readBudgets(ctx, fence),
  resolveWaiting: (fence, callIds) => resolveWaiting(ctx, fence, callIds),
  commitTurn: (fence, commit) => commitTurn(ctx, fence, commit),
  settleDelegation: (agentTurnId) => settleDelegation(ctx, agentTurnId),
  replaceOutputBox: (agentId, expected, cardIds) => replaceOutputBox(ctx, agentId, expected, cardIds),
  getTurn: (agentTurnId) => getTurn(ctx, agentTurnId),
  getTurnStatus: turnStatusReader(ctx),
  listAgents: (page) => listAgents(ctx, page),
  getAgent: (agentId) => getAgent(ctx, agentId),
  listTurns: (agentId, filter) => listTurns(ctx, agentId, filter),
  listEdges: (agentTurnId) => listEdges(ctx, agentTurnId),
  readEvents: (filter) => readEvents(ctx, filter),
  readBox: (boxId, all) => readBox(ctx, boxId, all),
  violations: (limit = FINDINGS) => violations(ctx, limit),
  violationPages: () => violationPages(ctx),
  changed: (timeoutMs, only) => backend.changed(timeoutMs, only),
  clockAheadMs: () => backend.clockAheadMs(),
  close: () => backend.close(),
});

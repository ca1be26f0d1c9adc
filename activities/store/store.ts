/** The store: every interface of the contract, on whichever backend the context brings. */
import type { SummaryStore } from '../../workflows/contract/agent-summary.ts';
import type { WakeStore, WorkStore } from '../../workflows/contract/agent-work.ts';
import type { ApprovalStore } from '../../workflows/contract/approvals.ts';
import type { CallStore } from '../../workflows/contract/calls.ts';
import type { CardStore } from '../../workflows/contract/cards.ts';
import type { ChatStore } from '../../workflows/contract/chat.ts';
import type { ChunkStore } from '../../workflows/contract/chunks.ts';
import type { ControlStore } from '../../workflows/contract/control.ts';
import type { DelegationStore } from '../../workflows/contract/delegation.ts';
import type { JournalStore } from '../../workflows/contract/journal.ts';
import type { LeaseStore } from '../../workflows/contract/lease.ts';
import type { ListStore } from '../../workflows/contract/lists.ts';
import type { ProfileStore } from '../../workflows/contract/profiles.ts';
import type { StepStore } from '../../workflows/contract/steps.ts';
import type { Backend, Store } from '../../workflows/contract/store.ts';
import type { SupervisorStore } from '../../workflows/contract/supervision.ts';
import type { ReadStore } from '../../workflows/contract/views.ts';
import type { WebhookStore } from '../../workflows/contract/webhooks.ts';
import { readWake } from './agents/came.ts';
import { dueWakes, fireWake, putOffWake } from './agents/due-wakes.ts';
import { readWork } from './agents/effects.ts';
import { cancelTimer, listTimers, listWaits, listWorkItems } from './agents/lists.ts';
import { rebuildAgent } from './agents/rebuild.ts';
import { createTrigger, listTriggers, revokeTrigger } from './agents/triggers.ts';
import { dropDeliveries, fireTrigger, wakeAgent } from './agents/wakes.ts';
import { bind } from './bind.ts';
import { bordered } from './bordered.ts';
import { answerApproval, askApprovals } from './calls/approvals.ts';
import { readCall, readResult } from './calls/call-cards.ts';
import { claimCall, noteProgress, refuseCalls, suspendCall } from './calls/calls.ts';
import { checkLease } from './calls/claims.ts';
import { openStep, readLedSteps } from './calls/openings.ts';
import { noteOutage } from './calls/provider-outages.ts';
import { recountWaits } from './calls/recounting.ts';
import { reportResult } from './calls/reports.ts';
import { resolveWaiting } from './calls/resolving.ts';
import { compareResult } from './calls/result-comparison.ts';
import { settleCall, settleCallAndOpen } from './calls/settling.ts';
import { closeStep, commitStep } from './calls/steps.ts';
import { replaceOutputBox, writeContextBox, writeInstructionCard, writeOutputCard } from './cards/boxes.ts';
import { commitSummary, findSummary } from './cards/summaries.ts';
import { readJournal } from './chat/journal.ts';
import { getSession, listMessages, listSessions } from './chat/reads.ts';
import { restoreSession } from './chat/restore.ts';
import { sendMessage } from './chat/send.ts';
import type { StoreContext } from './context.ts';
import { appendChunks, dropChunks, readChunks } from './log/chunks.ts';
import { listEdges } from './log/edges.ts';
import {
  dueAgents,
  findEvents,
  holdWebhookLease,
  listWebhooks,
  noteFailed,
  noteFound,
  noteSearched,
  noteSent,
  openWebhook,
  readTopicEvents,
  releaseWebhookLease,
} from './log/webhooks.ts';
import { agentSummary } from './reads/agent-summary.ts';
import { countAgents, getAgent, listAgents } from './reads/agents.ts';
import { listApprovals } from './reads/approval-views.ts';
import { sees } from './reads/border.ts';
import { listInbox } from './reads/inbox.ts';
import { violationPages, violations } from './reads/invariants.ts';
import { findBox, getTurn, identity, listTurns, readBox, readCards, readEvents, readExtents } from './reads/reads.ts';
import { readTranscript } from './reads/transcript.ts';
import { findTurns, spending } from './reads/turn-lists.ts';
import { turnStatusReader } from './reads/turn-status.ts';
import { accept, recordDropped } from './turns/accept.ts';
import { breakOffTurn, setBudgets, setLifecycle, steerTurn, stopTurn } from './turns/control.ts';
import { delegate } from './turns/delegation.ts';
import { commitStepAndEnd, commitTurn, reapTurn } from './turns/endings.ts';
import { leaseNext } from './turns/handover.ts';
import { listProfiles, readProfile, registerProfiles } from './turns/profiles.ts';
import { settleDelegation } from './turns/settlements.ts';
import {
  countOpenTurns,
  dueTurns,
  holdSupervisorLease,
  listOpenTurns,
  makeDue,
  noteListed,
  releaseSupervisorLease,
  scheduleCheck,
  supervisedUntil,
} from './turns/supervision.ts';
import { readInbox } from './turns/tree-budgets.ts';

const leases = (ctx: StoreContext): LeaseStore =>
  bind(ctx, { accept, recordDropped, leaseNext, checkLease, commitTurn, commitStepAndEnd });

const steps = (ctx: StoreContext): StepStore =>
  bind(ctx, {
    openStep,
    commitStep,
    commitStepAndEnd,
    readLedSteps,
    closeStep,
    noteOutage,
    findSummary,
    commitSummary,
    readInbox,
  });

const calls = (ctx: StoreContext): CallStore =>
  bind(ctx, {
    claimCall,
    settleCall,
    settleCallAndOpen,
    noteProgress,
    suspendCall,
    refuseCalls,
    reportResult,
    compareResult,
    resolveWaiting,
    readCall,
    readResult,
  });

const work = (ctx: StoreContext): WorkStore =>
  bind(ctx, { readWork, readWake, dueWakes, fireWake, putOffWake, dropDeliveries });

const wakes = (ctx: StoreContext): WakeStore & SummaryStore =>
  bind(ctx, {
    agentSummary,
    rebuildAgent,
    listWorkItems,
    listWaits,
    listTimers,
    cancelTimer,
    listTriggers,
    createTrigger,
    revokeTrigger,
    fireTrigger,
    wakeAgent,
  });

const approvals = (ctx: StoreContext): ApprovalStore => bind(ctx, { askApprovals, answerApproval, listApprovals });

const delegations = (ctx: StoreContext): DelegationStore => bind(ctx, { delegate, settleDelegation });

const cards = (ctx: StoreContext): CardStore =>
  bind(ctx, {
    writeInstructionCard,
    writeOutputCard,
    writeContextBox,
    replaceOutputBox,
    findBox,
    readBox,
    readCards,
    readExtents,
  });

const profiles = (ctx: StoreContext): ProfileStore => bind(ctx, { registerProfiles, listProfiles, readProfile });

const control = (ctx: StoreContext): ControlStore =>
  bind(ctx, { stopTurn, breakOffTurn, steerTurn, setBudgets, setLifecycle });

const chats = (ctx: StoreContext): ChatStore & JournalStore =>
  bind(ctx, { sendMessage, listMessages, getSession, listSessions, restoreSession, readJournal });

const supervision = (ctx: StoreContext): SupervisorStore =>
  bind(ctx, {
    holdSupervisorLease,
    noteListed,
    releaseSupervisorLease,
    supervisedUntil,
    dueTurns,
    scheduleCheck,
    makeDue,
    recountWaits,
    reapTurn,
    countOpenTurns,
    listOpenTurns,
  });

const views = (ctx: StoreContext): ReadStore => ({
  ...bind(ctx, {
    getTurn,
    readTranscript,
    listTurns,
    getAgent,
    listAgents,
    countAgents,
    listEdges,
    readEvents,
    violations,
    violationPages,
    identity,
  }),
  getTurnStatus: turnStatusReader(ctx),
});

const borders = (ctx: StoreContext) => bind(ctx, { sees });

const lists = (ctx: StoreContext): ListStore => bind(ctx, { findTurns, spending, listInbox });

const chunks = (ctx: StoreContext): ChunkStore => bind(ctx, { appendChunks, readChunks, dropChunks });

const webhooks = (ctx: StoreContext): WebhookStore =>
  bind(ctx, {
    holdWebhookLease,
    releaseWebhookLease,
    openWebhook,
    findEvents,
    noteFound,
    noteSearched,
    dueAgents,
    readTopicEvents,
    noteSent,
    noteFailed,
    listWebhooks,
  });

/** The whole store, of what the context brings for all methods and the backend for its own. */
export const createStore = (ctx: StoreContext, backend: Backend): Store => {
  const store = { ...methodsOf(ctx), ...backend };
  const unbordered = { ...store, ...borders(ctx) };
  return { ...store, within: (border) => bordered(unbordered, border) };
};

const methodsOf = (ctx: StoreContext): Omit<Store, 'within' | keyof Backend> => ({
  ...leases(ctx),
  ...steps(ctx),
  ...calls(ctx),
  ...approvals(ctx),
  ...delegations(ctx),
  ...cards(ctx),
  ...profiles(ctx),
  ...control(ctx),
  ...chats(ctx),
  ...supervision(ctx),
  ...views(ctx),
  ...lists(ctx),
  ...chunks(ctx),
  ...webhooks(ctx),
  ...work(ctx),
  ...wakes(ctx),
});

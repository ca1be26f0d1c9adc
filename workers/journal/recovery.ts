/**
 * Recovery from journals: what they have left open is closed once, and their sessions go on, also where the store or the Temporal server is gone
 * (C10).
 *
 * Invariants
 * 1. The store decides, where it has the session: each step of a recovery is one of its transactions or a repetition of one. So two recoveries
 *    at once, or one that ended at any point and is run again, give each turn one end.
 * 2. A turn whose workflow runs is left alone.
 */
import type { Client } from '@temporalio/client';
import type { TurnWorkflows } from '../../client/turn-workflows.ts';
import type { Handover } from '../../workflows/contract/lease.ts';
import type { Store } from '../../workflows/contract/store.ts';
import type { AgentView } from '../../workflows/contract/views.ts';
import { CodedError, type FailureCode } from '../../workflows/protocol/failures.ts';
import { sessionAgentId } from '../../workflows/protocol/ids.ts';
import type { Termination } from '../../workflows/protocol/turn.ts';
import { workflowFacts } from '../supervision/facts.ts';
import { sideBySide } from '../supervision/side-by-side.ts';
import type { FolderJournal } from './folder-journal.ts';
import { RECOVERED, type RecoveryOptions, readHistory } from './history.ts';
import { corrupt, SessionReader } from './session-file.ts';

/** What a recovery works with. */
export interface RecoveryDeps {
  readonly journal: FolderJournal;
  readonly store: Store;
  readonly temporal: Client;
  /** With the same journal: it has the end of a turn before the next one starts. */
  readonly workflows: TurnWorkflows;
  readonly options?: RecoveryOptions;
}

/** What was done about a session. */
export interface RecoveredSession {
  readonly sessionId: string;
  /** Whether the store had lost it. */
  readonly restored: boolean;
  /** The turn that was closed as a failure; null where none was. */
  readonly closedTurnId: string | null;
  /** The turn that the session goes on with, or that runs; null where nothing is to be done. */
  readonly nextTurnId: string | null;
}

/** A session that could not be recovered. */
export interface UnrecoveredSession {
  readonly sessionId: string;
  readonly code: FailureCode;
  readonly message: string;
  readonly cure: string;
}

/** What a recovery has come to. */
export interface Recovery {
  readonly sessions: readonly RecoveredSession[];
  readonly failed: readonly UnrecoveredSession[];
}

/** Recovers all sessions of a journal; one that cannot be recovered keeps no other from it. Errors: `journal_unavailable`. */
export async function recover(deps: RecoveryDeps): Promise<Recovery> {
  const sessions: RecoveredSession[] = [];
  const failed: UnrecoveredSession[] = [];
  const recoverOne = async (sessionId: string): Promise<boolean> => {
    try {
      sessions.push(await recoverSession(deps, sessionId));
      return true;
    } catch (error) {
      const coded =
        error instanceof CodedError ? error : new CodedError('internal_error', String(error), { cause: error });
      failed.push({ sessionId, code: coded.code, message: coded.message, cure: coded.cure });
      return false;
    }
  };
  await sideBySide(await deps.journal.sessionIds(), async () => true, recoverOne);
  const byId = <T extends { readonly sessionId: string }>(list: T[]) =>
    list.sort((a, b) => (a.sessionId < b.sessionId ? -1 : 1));
  return { sessions: byId(sessions), failed: byId(failed) };
}

/** Recovers one session. Errors: `journal_corrupt`, `journal_unavailable`, `profile_not_found`, those of store and server. */
async function recoverSession(deps: RecoveryDeps, sessionId: string): Promise<RecoveredSession> {
  const { store, journal, workflows } = deps;
  const agentId = await agentOf(journal.folder, sessionId);
  const written = (await store.getSession(agentId)) === null ? await restore(deps, sessionId) : null;
  // What the store says of its turns: also of one that another recovery has closed.
  await recorded(deps, agentId);
  const { closedTurnId, handover } = written ?? (await closeOpenTurn(deps, agentId));
  if (handover) await workflows.handOver(handover);
  const { activeAgentTurnId = null } = (await store.getAgent(agentId)) ?? {};
  return { sessionId, restored: written !== null, closedTurnId, nextTurnId: activeAgentTurnId };
}

/** Brings the journal up; one that is damaged is written anew beside what is left of it, if that is wanted. */
async function recorded({ store, journal, options }: RecoveryDeps, agentId: string): Promise<void> {
  try {
    await journal.record(agentId);
  } catch (error) {
    const session = await store.getSession(agentId);
    if (!options?.upToDamage || !session || !(error instanceof CodedError) || error.code !== 'journal_corrupt')
      throw error;
    await journal.rebuild(session);
  }
}

/** A session whose open turn was seen to. */
interface SeenTo {
  readonly closedTurnId: string | null;
  /** What is to be carried out for its agent to go on; null where a turn runs. */
  readonly handover: Handover | null;
}

/** The agent of the session whose journal this is. Errors: `journal_corrupt`. */
async function agentOf(folder: string, sessionId: string): Promise<string> {
  const reader = await SessionReader.open(folder, sessionId);
  try {
    const first = await reader?.first();
    if (first?.line.sessionId === sessionId) return sessionAgentId(first.line.of, first.line.chatId);
    const what = first ? `it is the journal of session ${first.line.sessionId}` : 'line 1 cannot be read: it is torn';
    throw corrupt(reader?.path ?? sessionId, what);
  } finally {
    await reader?.close();
  }
}

/** Writes a session that the store has lost, with its open turn closed; null where another recovery was first. */
async function restore({ store, journal, options }: RecoveryDeps, sessionId: string): Promise<SeenTo | null> {
  const { session, openTurnId } = await readHistory(journal.folder, sessionId, options);
  const { restored, handover } = await store.restoreSession(session);
  return restored ? { closedTurnId: openTurnId, handover } : null;
}

/** How a turn ends that nothing works on any more. */
const CLOSED: Termination = { status: 'failed', errorCode: 'report_missing', reason: RECOVERED };

/** A turn that moves while it is looked at has somebody who works on it, or has ended. */
const TRIES = 5;

/** Closes the open turn of an agent unless its workflow runs, or has only not begun: then it is started. */
async function closeOpenTurn({ store, temporal }: RecoveryDeps, agentId: string): Promise<SeenTo> {
  for (let tries = 0; tries < TRIES; tries += 1) {
    const agent = await store.getAgent(agentId);
    const open = agent && openTurnOf(agent);
    if (!open) break;
    const { kind } = await workflowFacts(temporal, open);
    if (kind === 'running') return { closedTurnId: null, handover: null };
    // Nothing was done for it yet, so that nothing is lost: its lease is given again.
    if (kind === 'missing' && open.status === 'dispatched') break;
    const handover = await store.reapTurn(open, CLOSED);
    if (handover) return { closedTurnId: open.agentTurnId, handover };
  }
  return { closedTurnId: null, handover: await store.leaseNext(agentId) };
}

/** The open turn of an agent as it is seen now; null for one that is idle. */
const openTurnOf = ({ agentId, activeAgentTurnId: agentTurnId, turnEpoch, status, updatedAt }: AgentView) =>
  agentTurnId === null || status === 'idle' ? null : { agentId, agentTurnId, turnEpoch, status, progressAt: updatedAt };

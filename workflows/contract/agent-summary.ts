/** What an agent is at, as it is assembled when somebody asks: nothing is decided by it (A5). Times are in epoch ms by the store's clock. */
import type { ClosureDecision } from '../agent-state/closure.ts';
import type { AgentPosture } from '../agent-state/posture.ts';
import type { AgentStatus } from '../agent-state/status.ts';
import type { ActiveTimer } from '../agent-state/timers.ts';
import type { ScheduledWorkItem } from '../agent-state/work-items.ts';
import type { TurnStatus, Usage } from '../protocol/turn.ts';
import type { TriggerView, WaitView } from './agent-work.ts';
import type { AgentView } from './views.ts';

/** A turn of an agent in a list. */
export interface TurnLine {
  readonly agentTurnId: string;
  readonly status: TurnStatus;
  /** Null while it has not ended, and when it succeeded. */
  readonly errorCode: string | null;
  readonly acceptedAt: number;
  /** Null while it has not ended. */
  readonly endedAt: number | null;
}

/** A turn that another agent does for this one, and what that agent is at. */
export interface ChildSummary {
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly status: TurnStatus;
  readonly agentStatus: AgentStatus;
}

/** The summary of an agent. Later versions of the runtime only add to it. */
export interface AgentSummary {
  readonly version: 1;
  readonly identity: {
    readonly agentId: string;
    /** `child`: another agent has made it by delegation. */
    readonly kind: 'named' | 'child';
    readonly visibility: 'public' | 'private';
    readonly ownership: 'self_owned' | 'parent_supervised';
    /** Null for an agent that a request from outside made. */
    readonly parentAgentId: string | null;
    /** The profile of its turns where a request names none: that of its first request. */
    readonly profile: string;
    readonly createdAt: number;
  };
  readonly agent: {
    readonly status: AgentStatus;
    /** Turns that are queued. */
    readonly pending: number;
    /** Turns that it ever accepted. */
    readonly turnIndex: number;
    /** The open turn; null when there is none. */
    readonly currentTurn: Pick<TurnLine, 'agentTurnId' | 'status'> | null;
    /** The lease: how far the open turn is, and what it waits for. */
    readonly head: Pick<
      AgentView,
      'status' | 'turnEpoch' | 'outputBoxId' | 'waitingToolCount' | 'resumeDeadline' | 'waitingForWorkers'
    >;
    /** The work item that it has picked; null for none. */
    readonly currentWorkItemId: string | null;
    /** Turns that it has made by itself since something came from outside (A10). */
    readonly autonomousTurns: number;
    /** What has come for it and made no turn yet. */
    readonly came: number;
    /** The `seq` of its last event: what was read is followed from there on. */
    readonly eventSeq: number;
  };
  readonly schedulingPosture: AgentPosture;
  readonly lifecycle: {
    readonly acceptsExternalMessages: boolean;
    /** What an operator may do about what it is at; null when nothing is to be done. */
    readonly operatorHint: string | null;
  };
  readonly model: {
    /** As its profile names it; null where the worker's default is taken, and while no profile is known. */
    readonly name: string | null;
    /** Of all its turns, the open one included. */
    readonly usage: Usage;
    /** Of all its turns; null as soon as the cost of a step is not known. */
    readonly cost: number | null;
  };
  /** Null while a turn is open or queued. */
  readonly closure: ClosureDecision | null;
  readonly execution: {
    /** Null while no turn is open. */
    readonly workerTarget: string | null;
    /** Of the open turn; null while none is. */
    readonly workflowId: string | null;
  };
  /** Delegated turns that have not ended, the newest first, at most 20. */
  readonly activeChildren: readonly ChildSummary[];
  /** At most 100. */
  readonly activeWaits: readonly WaitView[];
  readonly activeTimers: readonly ActiveTimer[];
  readonly activeExternalTriggers: readonly TriggerView[];
  /** Those that are open, in the order in which they are gone on with, at most 100. */
  readonly workItems: readonly ScheduledWorkItem[];
  /** The newest first, at most 10. */
  readonly recentTurns: readonly TurnLine[];
  /** When something was last written of its head. */
  readonly updatedAt: number;
  /** When all of this was read. */
  readonly readAt: number;
}

/** Summaries of agents. */
export interface SummaryStore {
  /** What an agent is at, with all that shows it; null when it never accepted a turn. */
  agentSummary(agentId: string): Promise<AgentSummary | null>;
  /**
   * Builds anew, from the rows that decide, what is kept of an agent to be read quickly: counts, sums, times, its status. Returns the names of
   * the columns that were wrong; null for an agent that is not there. Idempotent.
   */
  rebuildAgent(agentId: string): Promise<readonly string[] | null>;
}

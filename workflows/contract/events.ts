/** The event log: facts, written in the transaction that makes them true. Per agent, `seq` rises without gaps. */
import type { ClosureDecision } from '../agent-state/closure.ts';
import type { ContinuationResolution, TriggerKind } from '../agent-state/continuation.ts';
import type { WorkEffect } from '../agent-state/effects.ts';
import type { WaitKind, WaitStatus } from '../agent-state/waits.ts';
import type { ChatStepFact } from '../chat/step.ts';
import type { QueuePolicy } from '../protocol/chat.ts';
import type { FailureCode } from '../protocol/failures.ts';
import type { JsonValue } from '../protocol/json.ts';
import type { HeadStatus, TerminalStatus } from '../protocol/turn.ts';
import type { Notice } from './notices.ts';
import type { ProviderOutage } from './steps.ts';

/** The agent's head has another status, or its turn does something else. */
export interface StateEvent {
  readonly type: 'state';
  readonly payload: {
    readonly status: HeadStatus;
    readonly turnEpoch: number;
    /** What the turn is at; absent when the status says all there is. */
    readonly activity?: 'thinking' | 'executing_tool' | 'awaiting_tool_result' | 'waiting_for_workers';
    /** The tool that is executed, the first of several. */
    readonly currentTool?: string;
    readonly waitingToolCount: number;
    /** The nearest deadline of the waiting calls, epoch ms; null when none waits. */
    readonly resumeDeadline: number | null;
  };
}

/** A step was started, has its thought, or is over. */
export interface StepEvent {
  readonly type: 'step';
  readonly payload: {
    readonly stepIndex: number;
    readonly phase: 'started' | 'executing' | 'completed' | 'failed';
    /** The tools that the step calls; present once it has its thought. */
    readonly tools?: readonly string[];
    /** The card of the thought; present once there is one. */
    readonly cardIds?: readonly string[];
    readonly errorCode?: FailureCode;
  };
}

/**
 * The provider has failed the model call of a step, which is tried again (W14). Written with the first failure of a step, and when the reason
 * changes.
 */
export interface ProviderEvent {
  readonly type: 'provider';
  readonly payload: Pick<ProviderOutage, 'code' | 'message' | 'nextTryAt'> & { readonly stepIndex: number };
}

/** A call is at work and says how far it is, has its result or waits, or a report about it was kept or dropped. */
export interface CallEvent {
  readonly type: 'call';
  readonly payload: {
    readonly callId: string;
    readonly tool: string;
    readonly phase: 'progress' | 'settled' | 'suspended' | 'deferred' | 'dropped';
    /** The status of the result, or of the report. */
    readonly status?: string;
    /** Why the report was deferred or dropped. */
    readonly reason?: string;
    /** How far the tool says it is, at most `SIZES.progressBytes` of JSON; present in the phase `progress`. */
    readonly progress?: JsonValue;
    /** Until when the call waits, epoch ms. */
    readonly deadline?: number;
    /** The card of the result. */
    readonly cardId?: string;
    /** How long the tool ran; absent for a result that no tool of ours brought. */
    readonly durationMs?: number;
  };
}

/** A question to people, about a call or an exhausted budget (K7, K9). */
export interface ApprovalEvent {
  readonly type: 'approval';
  readonly payload: {
    readonly callId: string;
    readonly tool: string;
    readonly phase: 'asked' | 'escalated' | 'approved' | 'denied' | 'unanswered';
    /** Why it is asked, or what answered it. */
    readonly reason?: string;
    /** Who answered; absent for an answer without a name. */
    readonly by?: string;
    /** Until when it waits, epoch ms. */
    readonly deadline?: number;
  };
}

/** A message has come for a session, and this is where it went (C8). It holds no content: that is in its row. */
export interface MessageEvent {
  readonly type: 'message';
  readonly payload: {
    readonly eventId: string;
    readonly chatId: string;
    /** Its place among all messages of the session, from 1. */
    readonly seq: number;
    readonly policy: QueuePolicy;
    /** `turn`: it has made a turn. `collected`: a turn that waits has it too. `steered`: the open turn is told. */
    readonly placement: 'turn' | 'collected' | 'steered' | 'rejected';
    /** Why it was rejected. */
    readonly reason?: string;
  };
}

/** A step of a chat turn (C3). */
export interface ChatStepEvent {
  readonly type: 'chat_step';
  readonly payload: ChatStepFact;
}

/** What the kernel did on its own account; written with the step, or the end, that follows (K4). */
export interface NoticeEvent {
  readonly type: 'notice';
  readonly payload: Notice;
}

/** The end of a turn, of which there is one per turn (T6). It holds no content: the deliverable is read from its card. */
export interface TaskEvent {
  readonly type: 'task';
  readonly payload: {
    readonly status: TerminalStatus;
    /** Null when the turn succeeded. */
    readonly errorCode: string | null;
    readonly deliverableCardId: string;
    readonly outputBoxId: string;
    /** Present where its cards are left out of what its agent remembers (C8). */
    readonly rolledBack?: true;
  };
}

/** A message that had no effect: of a foreign client, because it could not be used; a steer, because its turn was stopped. */
export interface DroppedEvent {
  readonly type: 'dropped';
  readonly payload: { readonly what: 'enqueue' | 'tool_result' | 'steer'; readonly reason: string };
}

/** A call of a turn has changed work or waits, as its turn was committed (A7). */
export interface WorkEvent {
  readonly type: 'work';
  readonly payload: {
    readonly change: WorkEffect['type'];
    readonly workItemId?: string;
    readonly waitId?: string;
    readonly timerId?: string;
    readonly triggerId?: string;
    /** False when it did not fit any more, because the work had been changed meanwhile. */
    readonly applied: boolean;
  };
}

/** Something has come for an agent (A4). */
export interface WakeEvent {
  readonly type: 'wake';
  readonly payload: {
    readonly kind: TriggerKind;
    /** The id of what it comes from. */
    readonly source: string;
    /** `kept`: it is there for the next turn that the agent makes by itself. */
    readonly disposition: 'woken' | 'kept';
  };
}

/** A wait is over (A8). */
export interface WaitEvent {
  readonly type: 'wait';
  readonly payload: {
    readonly waitId: string;
    readonly kind: WaitKind;
    readonly phase: Exclude<WaitStatus, 'active'>;
    /** The id of what ended it, or `deadline`. */
    readonly by: string;
  };
}

/** What an agent is left with that has no turn to make, and by which facts (A3). */
export interface ClosureEvent {
  readonly type: 'closure';
  readonly payload: ClosureDecision;
}

/** How a turn goes on from what its agent was left with (A4). */
export interface ContinuationEvent {
  readonly type: 'continuation';
  readonly payload: ContinuationResolution & {
    /** The ids of what has come. */
    readonly sources: readonly string[];
  };
}

/** What an event says, by its type. */
export type EventBody =
  | StateEvent
  | StepEvent
  | ProviderEvent
  | CallEvent
  | ApprovalEvent
  | NoticeEvent
  | MessageEvent
  | ChatStepEvent
  | TaskEvent
  | DroppedEvent
  | WorkEvent
  | WakeEvent
  | WaitEvent
  | ClosureEvent
  | ContinuationEvent;

/** An event as it is read from the log. */
export type AgentEvent = EventBody & {
  /** Rises over all agents of the store, with gaps. */
  readonly id: number;
  readonly agentId: string;
  /** The place of the event among those of its agent, from 1 and without gaps. */
  readonly seq: number;
  /** Null for an event that is of the agent and of no turn. */
  readonly agentTurnId: string | null;
  /** Epoch ms by the store's clock. */
  readonly createdAt: number;
};

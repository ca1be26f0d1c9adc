/** The event log: facts, written in the transaction that makes them true. Per agent, `seq` rises without gaps. */
import type { FailureCode } from '../protocol/failures.ts';
import type { HeadStatus, TerminalStatus } from '../protocol/turn.ts';
import type { Notice } from './notices.ts';

export interface StateEvent {
  readonly type: 'state';
  readonly payload: {
    readonly status: HeadStatus;
    readonly turnEpoch: number;
    readonly activity?: 'thinking' | 'executing_tool' | 'awaiting_tool_result' | 'waiting_for_workers';
    readonly currentTool?: string;
    readonly waitingToolCount: number;
    readonly resumeDeadline: number | null;
  };
}

export interface StepEvent {
  readonly type: 'step';
  readonly payload: {
    readonly stepIndex: number;
    readonly phase: 'started' | 'executing' | 'completed' | 'failed';
    readonly tools?: readonly string[];
    readonly cardIds?: readonly string[];
    readonly errorCode?: FailureCode;
  };
}

export interface CallEvent {
  readonly type: 'call';
  readonly payload: {
    readonly callId: string;
    readonly tool: string;
    readonly phase: 'settled' | 'suspended' | 'deferred' | 'dropped';
    readonly status?: string;
    readonly reason?: string;
    readonly deadline?: number;
    readonly cardId?: string;
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
    readonly reason?: string;
    readonly by?: string;
    readonly deadline?: number;
  };
}

/** What the kernel did on its own account; written with the step, or the end, that follows (K4). */
export interface NoticeEvent {
  readonly type: 'notice';
  readonly payload: Notice;
}

/** The terminal event, one per turn (T6). No derived content: the deliverable is read from its card. */
export interface TaskEvent {
  readonly type: 'task';
  readonly payload: {
    readonly status: TerminalStatus;
    readonly errorCode: string | null;
    readonly deliverableCardId: string;
    readonly outputBoxId: string;
  };
}

/** A foreign client's message that nobody can use. */
export interface DroppedEvent {
  readonly type: 'dropped';
  readonly payload: { readonly what: 'enqueue' | 'tool_result'; readonly reason: string };
}

export type EventBody = StateEvent | StepEvent | CallEvent | ApprovalEvent | NoticeEvent | TaskEvent | DroppedEvent;

export type AgentEvent = EventBody & {
  readonly id: number;
  readonly agentId: string;
  readonly seq: number;
  readonly agentTurnId: string | null;
  readonly createdAt: number;
};

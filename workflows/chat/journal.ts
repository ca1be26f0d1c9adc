/**
 * The lines of the journal of a session (C9): what was said to it, which turns it had and how each of them ended, with all that is needed to
 * write the session anew where the store has lost it.
 *
 * Invariant: a line says what one event of the log says, under the number of that event, and never changes: the same log gives the same lines.
 */
import type { MessageEnvelope, QueuePolicy } from '../protocol/chat.ts';
import type { Deliverable, TerminalStatus } from '../protocol/turn.ts';
import type { ChatTerminal } from './terminal.ts';

/** The first line: whose journal it is, and which store's log it says. */
export interface SessionLine {
  readonly seq: 0;
  readonly type: 'session';
  readonly version: 1;
  readonly storeId: string;
  readonly sessionId: string;
  /** The agent that was named when the session was begun. */
  readonly of: string;
  readonly chatId: string;
  /** The profile of its turns. */
  readonly profile: string;
  /** Whose its agent is; absent for one of the operators. */
  readonly tenant?: string | undefined;
  /** When it was begun, epoch ms by the store's clock. */
  readonly at: number;
}

/** The place of a line. */
interface LinePlace {
  /** The number of the event that the line says. */
  readonly seq: number;
  /** When that was, epoch ms by the store's clock. */
  readonly at: number;
}

/** A message has come, and this is where it went. */
export interface MessageLine extends LinePlace {
  readonly type: 'message';
  /** Its place among all messages of the session, from 1. */
  readonly messageSeq: number;
  readonly policy: QueuePolicy;
  readonly placement: 'turn' | 'collected' | 'steered' | 'rejected';
  /** The turn that it went into; null where it was rejected. */
  readonly turnId: string | null;
  /** Why it was rejected. */
  readonly reason?: string | undefined;
  readonly message: MessageEnvelope;
}

/** A turn has begun. */
export interface BeginningLine extends LinePlace {
  readonly type: 'turn';
  readonly turnId: string;
  readonly epoch: number;
  readonly contextHash: string;
  readonly traceId: string;
  readonly correlationId: string;
  /** The messages that it begins with, in their order. */
  readonly eventIds: readonly string[];
}

/** A turn has ended. */
export interface TerminalLine extends LinePlace {
  readonly type: 'terminal';
  readonly turnId: string;
  /** Null for a turn that was cancelled while it waited. */
  readonly epoch: number | null;
  readonly status: ChatTerminal['status'];
  /** The status of the turn itself. */
  readonly outcome: TerminalStatus;
  readonly failure?: ChatTerminal['failure'];
  readonly deliverable: Deliverable | null;
  readonly traceId: string;
  readonly correlationId: string;
  /** All messages that it took, those that it was steered by too, in their order. */
  readonly eventIds: readonly string[];
  /** Messages that it was not told of before it was stopped. */
  readonly rejected?: readonly { readonly eventId: string; readonly reason: string }[] | undefined;
  /** Its cards are left out of what the session remembers. */
  readonly rolledBack?: true | undefined;
  /** It was closed by recovery. */
  readonly recovered?: true | undefined;
}

/** A line of a journal behind its first one. */
export type JournalLine = MessageLine | BeginningLine | TerminalLine;

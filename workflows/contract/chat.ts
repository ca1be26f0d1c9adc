/** Chat sessions and their messages (C1, C2, C8): a session is an agent, and a message goes into one of its turns, or is rejected. */

import type { MessageEnvelope, MessagePayload, QueuePolicy, Sender } from '../protocol/chat.ts';
import type { RefusedRequest } from '../protocol/enqueue.ts';
import type { Deliverable, TerminalStatus } from '../protocol/turn.ts';
import type { Border } from './border.ts';
import type { Handover } from './lease.ts';

/**
 * How far a message is (C8). `queued`: it waits for the turn it has made. `collected`: it waits together with others. `steered`: the open turn
 * is told before its next model call. `processing`: its turn works on it. `done`: its turn has ended. `rejected`: nothing came of it.
 */
export type MessageStatus = 'queued' | 'collected' | 'steered' | 'processing' | 'done' | 'rejected';

/** A message that is to be sent. */
export interface SendMessage {
  /** The agent that is talked to: with the chat's id it makes the id of the session's agent (C2). */
  readonly agentId: string;
  /** The profile of the session's agent; the one that is named like the agent when left out. */
  readonly profile?: string;
  /** What becomes of the message while a turn is active; as the profile says when left out. */
  readonly policy?: QueuePolicy;
  readonly message: MessageEnvelope;
}

/** A message as it stands. */
export interface MessageView {
  readonly eventId: string;
  readonly chatId: string;
  /** Its place among all messages of the session, from 1. */
  readonly seq: number;
  readonly sender: Sender;
  readonly payload: MessagePayload;
  /** The policy that decided about it. */
  readonly policy: QueuePolicy;
  readonly status: MessageStatus;
  /** The turn that it is in; null for a message that was rejected before any turn had it. */
  readonly agentTurnId: string | null;
  /** Why it was rejected; null for others. */
  readonly reason: string | null;
  readonly traceId: string;
  readonly correlationId: string;
  readonly causationId: string | null;
  /** When its sender says that it was written, epoch ms. */
  readonly timestampMs: number;
  /** When it was accepted, epoch ms by the store's clock. */
  readonly acceptedAt: number;
}

/** A message that was accepted, or rejected by its own policy; and what follows from it. */
export interface MessageSent {
  readonly kind: 'sent';
  readonly message: MessageView;
  readonly session: SessionView;
  /** Whether the message was known by its key, so that this is the answer about that time. */
  readonly duplicate: boolean;
  /** The turn that was ended for it; null where none was. */
  readonly endedTurnId: string | null;
  /** Null where nothing follows. */
  readonly handover: Handover | null;
  /** In so many ms the turn of the message may begin: until then it collects; 0 where it need not wait. */
  readonly waitMs: number;
}

/** A chat session. */
export interface SessionView {
  readonly sessionId: string;
  /** The agent whose turns are those of the session. */
  readonly agentId: string;
  /** The agent that was named when it was begun. */
  readonly of: string;
  readonly chatId: string;
  /** The profile of its turns, where a message names no other. */
  readonly profile: string;
  /** Whose it is; null for one of the operators. */
  readonly tenant: string | null;
  /** How many messages it has. */
  readonly lastSeq: number;
  readonly createdAt: number;
  /** When its last message was accepted. */
  readonly updatedAt: number;
}

/** Which messages of a session are listed. */
export interface MessagePage {
  /** Lists messages whose `seq` is above this one. */
  readonly after?: number;
  /** The most messages to list; 100 when left out. */
  readonly limit?: number;
  /** Lists so many of the last ones, instead of `limit` from the oldest on. */
  readonly last?: number;
  /** Only those of this turn. */
  readonly agentTurnId?: string;
}

/** Which sessions are listed. */
export interface SessionPage {
  /** Lists sessions behind this agent id. */
  readonly after?: string;
  /** The most sessions to list; 100 when left out. */
  readonly limit?: number;
  /** Only those of this agent, as it was named when they were begun. */
  readonly of?: string;
}

/** A turn of a session as a journal has it (C9). */
export interface RestoredTurn {
  readonly agentTurnId: string;
  /** The epoch of its lease; null for one that was cancelled while it waited. */
  readonly turnEpoch: number | null;
  /** The place of the last message that had come when it was leased, or when it was cancelled. */
  readonly messagesBefore: number;
  /** The messages that it took, in their order; each is `done` with it. */
  readonly eventIds: readonly string[];
  readonly traceId: string;
  readonly correlationId: string;
  readonly status: TerminalStatus;
  readonly errorCode: string | null;
  readonly reason: string | null;
  /** What it delivered; null where nothing is known. */
  readonly deliverable: Deliverable | null;
  /** Whether its cards are left out of what the session remembers. */
  readonly rolledBack: boolean;
}

/** A session as a journal has it (C9). */
export interface RestoredSession {
  readonly sessionId: string;
  readonly of: string;
  readonly chatId: string;
  readonly profile: string;
  /** Whose its agent is; null for one of the operators. */
  readonly tenant: string | null;
  /** In their order. */
  readonly messages: readonly RestoredMessage[];
  /** Its turns, in the order in which they ended. */
  readonly turns: readonly RestoredTurn[];
}

/** A message as a journal has it. */
export interface RestoredMessage {
  readonly seq: number;
  readonly policy: QueuePolicy;
  readonly message: MessageEnvelope;
  /** Why it was rejected; null for others. */
  readonly rejected: string | null;
}

/** What restoring a session has come to. */
export interface Restored {
  /** False when the store had the session already: then nothing was written. */
  readonly restored: boolean;
  /** Messages that no turn had taken: they make the next turn. */
  readonly waiting: number;
  readonly handover: Handover | null;
}

/** Chat sessions (C1, C2, C8). */
export interface ChatStore {
  /**
   * Takes a message for a session, in one transaction that also ends the open turn and leases the next one where the message asks for it.
   * Idempotent by the message's `idempotencyKey`: the same message again gives what became of it. Refused, as a value, as a request is
   * (`accept`), and with `invalid_input` for a session id that belongs to another chat. A message is in one turn, or rejected.
   */
  sendMessage(input: SendMessage, border?: Border): Promise<MessageSent | RefusedRequest>;
  /** Lists messages of a session in their order; none for a session that is not there. */
  listMessages(agentId: string, page?: MessagePage): Promise<readonly MessageView[]>;
  /** Reads a session by its agent; null when there is none. */
  getSession(agentId: string): Promise<SessionView | null>;
  /** Lists sessions by their agents. */
  listSessions(page?: SessionPage, border?: Border): Promise<readonly SessionView[]>;
  /**
   * Writes a session that the store does not have, from a journal: its agent, its messages, its turns that have ended, and what it remembers of
   * them (C10). Idempotent: a session that is there stays as it is. Errors: `profile_not_found`.
   */
  restoreSession(session: RestoredSession): Promise<Restored>;
}

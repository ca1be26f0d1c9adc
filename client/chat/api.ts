/** What a client can do in a chat, whatever way it reaches the system (C1, C2, C8). */
import type { ChatTerminal } from '../../workflows/chat/terminal.ts';
import type { MessagePage, MessageView, SessionView } from '../../workflows/contract/chat.ts';
import type { MessageEvent } from '../../workflows/contract/events.ts';
import type { MessageEnvelopeInput, MessagePayload, QueuePolicy, Sender } from '../../workflows/protocol/chat.ts';
import type { Fields } from '../../workflows/protocol/output.ts';
import type { AgentHandle, AgentOptions, ResultOptions, StreamOptions, TurnHandle } from '../api.ts';
import type { StreamPart } from '../stream-parts.ts';

/** What is said of a message besides its words. */
export interface SendOptions {
  /** What becomes of it while a turn is active; as the profile says when left out (C8). */
  readonly policy?: QueuePolicy;
  /** Who writes it; `user` when left out. */
  readonly sender?: Sender | string;
  /** A caller that got no answer sends the message again with the same key, and it counts once. */
  readonly key?: string;
  /** The session's own id, for its first message; that of its agent when left out. */
  readonly sessionId?: string;
  readonly traceId?: string;
  readonly correlationId?: string;
  readonly causationId?: string;
}

/** A message that was taken. */
export interface SentMessage<Output extends object = Fields> {
  /** The message as it stood then: its status says whether it runs, waits, steers or was rejected. */
  readonly message: MessageView;
  readonly session: SessionView;
  /** Whether it had come before with the same key: sent by the caller, or by a client that got no answer and sent it again. */
  readonly duplicate: boolean;
  /** The turn that was ended for it; null where none was. */
  readonly endedTurnId: string | null;
  /** The turn that has it; null when it was rejected. */
  readonly turn: TurnHandle<Output> | null;
  /**
   * The one end of the turn that the message comes to be in: a steer that its turn did not read is in the next one (C4). Errors: `agent_busy`
   * for a message that was rejected, `result_wait_timeout`.
   */
  terminal(options?: ResultOptions): Promise<ChatTerminal>;
}

/** A part of a session's stream: a message has come, or its turn goes on. A reader that comes back with the cursor gets what follows. */
export type SessionPart =
  | ({ readonly type: 'message'; readonly agentTurnId: string | null } & MessageEvent['payload'] & {
        readonly cursor: string;
      })
  | ({ readonly agentTurnId: string } & StreamPart);

/** One chat with an agent, whether a message was sent or not; `Output` is what its turns deliver. */
export interface ChatHandle<Output extends object = Fields> {
  readonly chatId: string;
  /** The agent whose turns are those of the session. */
  readonly agent: AgentHandle<Output>;
  /**
   * Sends a message. Errors: `invalid_input`, which names the field; `profile_not_found`, `idempotency_conflict`, `inbox_full`, `agent_stopped`,
   * `temporal_unreachable`.
   */
  send(said: string | MessagePayload, options?: SendOptions): Promise<SentMessage<Output>>;
  /** Sends a message whose envelope the caller has completed (C1). Errors: those of `send`. */
  deliver(envelope: MessageEnvelopeInput, options?: Pick<SendOptions, 'policy'>): Promise<SentMessage<Output>>;
  /** The session; null before its first message. */
  get(): Promise<SessionView | null>;
  /** Its messages in their order, each with how far it is. */
  messages(page?: MessagePage): Promise<readonly MessageView[]>;
  /** The session as it happens: its messages, and the stream of each of its turns, for as long as the reader wants them. */
  stream(options?: StreamOptions): AsyncGenerator<SessionPart, void>;
}

/** What is said of a chat besides who takes part in it. */
export type ChatOptions = AgentOptions;

/** Which sessions are looked for. */
export interface ChatQuery {
  /** Those of this agent. */
  readonly agentId?: string;
}

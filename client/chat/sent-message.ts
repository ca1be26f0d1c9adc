/** A message that was taken, and the end of the turn that it comes to be in. */
import { type ChatTerminal, terminalOf } from '../../workflows/chat/terminal.ts';
import type { MessagePage, MessageView, SessionView } from '../../workflows/contract/chat.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { ResultOptions, TurnHandle } from '../api.ts';
import type { SentMessage } from './api.ts';

/** What a store or a gateway answers when it has taken a message. */
export type Acceptance = Pick<SentMessage, 'message' | 'session' | 'duplicate' | 'endedTurnId'>;

/** What a message and its turn are read with. */
export interface MessageReader<Output extends object> {
  messages(page: MessagePage): Promise<readonly MessageView[]>;
  turn(agentTurnId: string): TurnHandle<Output>;
}

/** A message that was taken, as the caller of `send` is given it. */
export function sentMessage<Output extends object>(
  { message, session, duplicate, endedTurnId }: Acceptance,
  { messages, turn }: MessageReader<Output>,
): SentMessage<Output> {
  const { agentTurnId, seq } = message;
  const find = async (): Promise<MessageView> => (await messages({ after: seq - 1, limit: 1 }))[0] ?? message;
  return {
    message,
    session,
    duplicate,
    endedTurnId,
    turn: agentTurnId === null ? null : turn(agentTurnId),
    terminal: (options) => terminalOfMessage({ session, find, turn }, options),
  };
}

/** What the end of a message is found with. */
interface MessageFinder<Output extends object> extends Pick<MessageReader<Output>, 'turn'> {
  readonly session: Pick<SessionView, 'sessionId'>;
  /** The message as it stands. */
  find(): Promise<MessageView>;
}

/** Waits for the end of the turn that has the message; one that its turn has not read is in another turn by then (C8). */
async function terminalOfMessage<Output extends object>(
  { find, turn, session: { sessionId } }: MessageFinder<Output>,
  { timeoutMs = Number.POSITIVE_INFINITY }: ResultOptions = {},
): Promise<ChatTerminal> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const { agentTurnId, status, reason, eventId, chatId, traceId, correlationId } = await find();
    if (status === 'rejected' || agentTurnId === null)
      throw new CodedError('agent_busy', `message ${eventId} was rejected: ${reason ?? 'the session was busy'}`, {
        cure: 'Send another message when the session is free, or with a policy that waits or ends the turn.',
      });
    const view = await turn(agentTurnId).result({ timeoutMs: Math.max(0, deadline - performance.now()) });
    if ((await find()).agentTurnId !== agentTurnId) continue;
    // A message may steer a turn that the agent was given otherwise: then its own ids say which chat the end belongs to.
    const terminal = terminalOf({ ...view, chat: view.chat ?? { sessionId, chatId, traceId, correlationId } });
    if (terminal) return terminal;
    throw new CodedError('internal_error', `turn ${agentTurnId} of message ${eventId} has ended as ${view.status}`);
  }
}

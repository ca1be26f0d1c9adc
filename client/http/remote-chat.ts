/** One chat, as a client of a gateway sees it (C2). */
import type { MessagePage, MessageView, SessionView } from '../../workflows/contract/chat.ts';
import type { MessageEnvelope, MessageEnvelopeInput, MessagePayload } from '../../workflows/protocol/chat.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { Fields } from '../../workflows/protocol/output.ts';
import type { AgentHandle, StreamOptions, TurnHandle } from '../api.ts';
import type { ChatHandle, ChatOptions, SendOptions, SentMessage, SessionPart } from '../chat/api.ts';
import { checkedDelivery, envelopeIn, envelopeOf } from '../chat/envelope.ts';
import { type Acceptance, sentMessage } from '../chat/sent-message.ts';
import type { GatewayConnection } from './gateway-connection.ts';

/** What the handle of a chat is made of. */
export interface RemoteChatOptions<Output extends object> extends ChatOptions {
  readonly gateway: GatewayConnection;
  /** The agent that is talked to. */
  readonly of: string;
  readonly chatId: string;
  readonly agent: AgentHandle<Output>;
  readonly turn: (agentTurnId: string) => TurnHandle<Output>;
}

/** A chat that is reached by a gateway. */
export class RemoteChat<Output extends object = Fields> implements ChatHandle<Output> {
  readonly chatId: string;
  readonly agent: AgentHandle<Output>;
  readonly #options: RemoteChatOptions<Output>;
  readonly #path: string;

  constructor(options: RemoteChatOptions<Output>) {
    this.chatId = options.chatId;
    this.agent = options.agent;
    this.#options = options;
    this.#path = `/v1/agents/${encodeURIComponent(options.of)}/chats/${encodeURIComponent(options.chatId)}`;
  }

  async send(said: string | MessagePayload, options: SendOptions = {}): Promise<SentMessage<Output>> {
    return this.#take(envelopeOf(this.chatId, said, options), options);
  }

  async deliver(
    envelope: MessageEnvelopeInput,
    options: Pick<SendOptions, 'policy'> = {},
  ): Promise<SentMessage<Output>> {
    return this.#take(envelopeIn(this.chatId, envelope), options);
  }

  async get(): Promise<SessionView | null> {
    try {
      return await this.#options.gateway.get<SessionView>(this.#path);
    } catch (error) {
      if (error instanceof CodedError && error.code === 'agent_not_found') return null;
      throw error;
    }
  }

  messages(page: MessagePage = {}): Promise<readonly MessageView[]> {
    return this.#options.gateway.items(`${this.#path}/messages`, { ...page });
  }

  stream({ cursor, signal }: StreamOptions = {}): AsyncGenerator<SessionPart, void> {
    return this.#options.gateway.events(`${this.#path}/stream`, cursor, signal);
  }

  async #take(message: MessageEnvelope, { policy }: Pick<SendOptions, 'policy'>): Promise<SentMessage<Output>> {
    const { gateway, of, profile, turn } = this.#options;
    const path = `/v1/agents/${encodeURIComponent(of)}/messages`;
    const body = { ...message, ...checkedDelivery({ policy, profile }) };
    const sent = await gateway.sendKeyed<Acceptance>(path, body);
    return sentMessage(sent, { messages: (page) => this.messages(page), turn });
  }
}

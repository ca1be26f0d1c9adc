/** One chat, as a client that reaches the store sees it. What it acknowledges is in the store first (C2). */
import { setTimeout as sleep } from 'node:timers/promises';
import type { MessagePage, MessageSent, MessageView, SessionView } from '../../workflows/contract/chat.ts';
import type { SessionJournal } from '../../workflows/contract/journal.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import type { MessageEnvelope, MessageEnvelopeInput, MessagePayload } from '../../workflows/protocol/chat.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { Fields } from '../../workflows/protocol/output.ts';
import type { AgentHandle, StreamOptions, TurnHandle } from '../api.ts';
import type { TurnWorkflows } from '../turn-workflows.ts';
import type { ChatHandle, ChatOptions, SendOptions, SentMessage, SessionPart } from './api.ts';
import { checkedDelivery, envelopeIn, envelopeOf } from './envelope.ts';
import { sentMessage } from './sent-message.ts';
import { followSession } from './session-stream.ts';

/** What the handle of a chat is made of. */
export interface StoredChatOptions<Output extends object> extends ChatOptions {
  readonly store: ClientStore;
  readonly workflows: TurnWorkflows;
  readonly journal: SessionJournal | undefined;
  /** Whether the caller sees a part of the store alone. */
  readonly isBordered: boolean;
  /** The agent that is talked to. */
  readonly of: string;
  readonly chatId: string;
  /** The agent of the session. */
  readonly agent: AgentHandle<Output>;
  readonly turn: (agentTurnId: string) => TurnHandle<Output>;
}

/** A chat whose rows this process can read and write. */
export class StoredChat<Output extends object = Fields> implements ChatHandle<Output> {
  readonly chatId: string;
  readonly agent: AgentHandle<Output>;
  readonly #options: StoredChatOptions<Output>;

  constructor(options: StoredChatOptions<Output>) {
    this.chatId = options.chatId;
    this.agent = options.agent;
    this.#options = options;
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

  get(): Promise<SessionView | null> {
    return this.#options.store.getSession(this.agent.id);
  }

  messages(page: MessagePage = {}): Promise<readonly MessageView[]> {
    return this.#options.store.listMessages(this.agent.id, page);
  }

  stream(options: StreamOptions = {}): AsyncGenerator<SessionPart, void> {
    return followSession(this.#options.store, { agentId: this.agent.id, ...options });
  }

  async #take(message: MessageEnvelope, { policy }: Pick<SendOptions, 'policy'>): Promise<SentMessage<Output>> {
    const { store, journal, of, profile, turn } = this.#options;
    if (journal) await this.#demandWritable(journal, message.sessionId);
    const sent = await store.sendMessage({ agentId: of, message, ...checkedDelivery({ policy, profile }) });
    if (sent.kind === 'refused') throw new CodedError(sent.code, sent.message);
    await this.#carryOn(sent);
    return sentMessage(sent, { messages: (page) => this.messages(page), turn });
  }

  /** The turn that was ended lets go, and the next one starts: at once, or when it has waited for further messages. */
  /** Who sees a part of the store alone is told neither of journals of others nor where they are. */
  async #demandWritable(journal: SessionJournal, sessionId: string | undefined): Promise<void> {
    const { store, isBordered } = this.#options;
    if (!isBordered) return journal.demandWritable(this.agent.id, sessionId);
    const session = await store.getSession(this.agent.id);
    if (!session && sessionId !== undefined && sessionId !== this.agent.id) return;
    await journal.demandWritable(this.agent.id).catch((error: unknown) => {
      if (!(error instanceof CodedError) || !error.code.startsWith('journal_')) throw error;
      throw new CodedError(
        error.code,
        `the session of chat ${this.chatId} takes no message: its journal cannot be gone on with`,
      );
    });
  }

  async #carryOn({ endedTurnId, handover, waitMs }: MessageSent): Promise<void> {
    const { workflows, journal } = this.#options;
    const ended = endedTurnId === null ? null : { agentId: this.agent.id, agentTurnId: endedTurnId };
    await workflows.stopped(handover, ended);
    // With a handover it has been written.
    if (handover === null) await journal?.record(this.agent.id);
    // Where this process is gone by then, the supervisor does it.
    if (waitMs > 0) void this.#startLater(waitMs).catch(() => {});
  }

  async #startLater(waitMs: number): Promise<void> {
    const { store, workflows } = this.#options;
    await sleep(waitMs, undefined, { ref: false });
    await workflows.handOver(await store.leaseNext(this.agent.id));
  }
}

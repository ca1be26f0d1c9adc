/** The client of who may reach the store and Temporal. */
import type { Client } from '@temporalio/client';
import { wakeTokenHash } from '../activities/wake-tokens.ts';
import type { WakeDelivery } from '../workflows/contract/agent-work.ts';
import type { ApprovalFilter, ApprovalView } from '../workflows/contract/approvals.ts';
import { agentIdFor, type Border, checkedTenant, NO_BORDER, narrowed, seesAll } from '../workflows/contract/border.ts';
import type { SessionView } from '../workflows/contract/chat.ts';
import type { SessionJournal } from '../workflows/contract/journal.ts';
import type {
  InboxEntry,
  InboxQuery,
  Spending,
  SpendingQuery,
  TurnQuery,
  TurnSummary,
} from '../workflows/contract/lists.ts';
import type { ClientStore } from '../workflows/contract/store.ts';
import type { AgentView } from '../workflows/contract/views.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { isUserId, USER_ID_PATTERN } from '../workflows/protocol/ids.ts';
import type { JsonValue } from '../workflows/protocol/json.ts';
import type { OutputOf } from '../workflows/protocol/output.ts';
import { StoredAgent } from './agent-handle.ts';
import { everyAgent } from './agent-pages.ts';
import type { AgentHandle, AgentOptions, AgentQuery, RunInput, TriggerAck, TurnHandle } from './api.ts';
import type { ChatHandle, ChatOptions, ChatQuery } from './chat/api.ts';
import { StoredChat } from './chat/chat-handle.ts';
import { sessionAgent } from './chat/envelope.ts';
import { journalBeside } from './chat/journal-beside.ts';
import { everySession } from './chat/session-pages.ts';
import type { ClientApi } from './client-api.ts';
import { triggerDelivery } from './deliveries.ts';
import { runAgentId } from './run-agent.ts';
import { type ApproverCheck, StoredTurn } from './turn-handle.ts';
import { everyTurn } from './turn-pages.ts';
import { TurnWorkflows } from './turn-workflows.ts';

/** What a client is made of; whoever opened them closes both. */
export interface AgentClientOptions {
  readonly temporal: Client;
  readonly store: ClientStore;
  /**
   * Asked before an answer to a question is recorded, besides the rule about approvers; false refuses the answer. Left out, the name that an
   * answer gives is believed (K7).
   */
  readonly verifyApprover?: ApproverCheck;
  /** Keeps journals of chat sessions: it has what this client sends, and how it ends turns (C9). None are kept when left out. */
  readonly journal?: SessionJournal | undefined;
  /** Told why a journal could not be written now; what is missing is written later, and nothing fails by it. */
  readonly journalFailed?: ((error: unknown) => void) | undefined;
}

/** The client of a process that reaches the store and Temporal by itself. */
export class AgentClient implements ClientApi {
  readonly #options: AgentClientOptions;
  readonly #border: Border;
  /** What the caller sees of the store; workflows are started for whatever follows in it. */
  readonly #store: ClientStore;
  readonly #journal: SessionJournal | undefined;
  readonly #workflows: TurnWorkflows;

  constructor(options: AgentClientOptions, border: Border = NO_BORDER) {
    this.#options = options;
    this.#border = border;
    this.#store = options.store.within(border);
    this.#journal = options.journal && journalBeside(options.journal, options.journalFailed);
    this.#workflows = new TurnWorkflows(options.temporal, options.store, this.#journal);
  }

  forTenant(tenant: string): AgentClient {
    return this.within({ tenant: checkedTenant(tenant), anyProfile: true });
  }

  /** The same client for a caller that sees no more than what is within the border. */
  within(border: Border): AgentClient {
    return new AgentClient(this.#options, narrowed(this.#border, border));
  }

  agent<Agent = unknown>(name: string, options: AgentOptions = {}): AgentHandle<OutputOf<Agent>> {
    const agentId = agentIdFor(this.#border.tenant, name);
    if (!isUserId(agentId))
      throw new CodedError('invalid_request', `agent id ${JSON.stringify(agentId)} does not match ${USER_ID_PATTERN}`);
    const turn = (id: string, ack: TurnHandle['ack']) => this.#turn<OutputOf<Agent>>(id, ack);
    return new StoredAgent(this.#store, this.#workflows, { ...options, id: agentId }, turn);
  }

  run<Agent = unknown>(profile: string, input: RunInput): Promise<TurnHandle<OutputOf<Agent>>> {
    return this.agent<Agent>(runAgentId(profile, input.idempotencyKey)).enqueue({ ...input, profile });
  }

  chat<Agent = unknown>(name: string, chatId: string, options: ChatOptions = {}): ChatHandle<OutputOf<Agent>> {
    const agentId = agentIdFor(this.#border.tenant, name);
    return new StoredChat<OutputOf<Agent>>({
      ...options,
      store: this.#store,
      workflows: this.#workflows,
      journal: this.#journal,
      isBordered: !seesAll(this.#border),
      of: agentId,
      chatId,
      agent: this.agent<Agent>(sessionAgent(agentId, chatId)),
      turn: (id) => this.#turn(id),
    });
  }

  chats({ agentId }: ChatQuery = {}): AsyncGenerator<SessionView, void> {
    return everySession(this.#store, agentId === undefined ? {} : { of: agentId });
  }

  turn<Agent = unknown>(agentTurnId: string): TurnHandle<OutputOf<Agent>> {
    return this.#turn(agentTurnId);
  }

  approvals(filter: ApprovalFilter = {}): Promise<readonly ApprovalView[]> {
    return this.#store.listApprovals(filter);
  }

  inbox(query: InboxQuery = {}): Promise<readonly InboxEntry[]> {
    return this.#store.listInbox(query);
  }

  turns(query: Omit<TurnQuery, 'before'> = {}): AsyncGenerator<TurnSummary, void> {
    return everyTurn(this.#store, query);
  }

  spending(query: SpendingQuery): Promise<readonly Spending[]> {
    return this.#store.spending(query);
  }

  listAgents(filter: AgentQuery = {}): AsyncGenerator<AgentView, void> {
    return everyAgent(this.#store, filter);
  }

  countAgents(filter: AgentQuery = {}): Promise<number> {
    return this.#store.countAgents(filter);
  }

  async fireTrigger(token: string, delivery: WakeDelivery): Promise<TriggerAck> {
    const woken = await this.#store.fireTrigger(wakeTokenHash(token), triggerDelivery(delivery));
    if (!woken)
      throw new CodedError(
        'trigger_unknown',
        'no trigger in use has this token: it was cut or changed on the way, or its trigger was revoked',
      );
    await this.#workflows.handOver(woken.handover);
    return { disposition: woken.disposition };
  }

  writeInstruction(text: string): Promise<string> {
    return this.#store.writeInstructionCard(text);
  }

  writeResult(value: JsonValue): Promise<string> {
    return this.#store.writeOutputCard(value);
  }

  writeContext(texts: readonly string[]): Promise<string> {
    return this.#store.writeContextBox(texts);
  }

  #turn<Output extends object>(id: string, ack?: TurnHandle['ack']): TurnHandle<Output> {
    return new StoredTurn<Output>(
      { ...this.#options, facts: this.#options.store, store: this.#store },
      this.#workflows,
      id,
      ack,
    );
  }
}

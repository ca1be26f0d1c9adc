/** The client of who may reach a gateway, and neither the store nor Temporal: in Node and in browsers. */
import type { ActiveTimer } from '../../workflows/agent-state/timers.ts';
import type { ScheduledWorkItem } from '../../workflows/agent-state/work-items.ts';
import type { AgentSummary } from '../../workflows/contract/agent-summary.ts';
import type { WaitView, WakeAck, WakeDelivery, WorkPage } from '../../workflows/contract/agent-work.ts';
import type { ApprovalAck, ApprovalFilter, ApprovalView } from '../../workflows/contract/approvals.ts';
import { checkedTenant } from '../../workflows/contract/border.ts';
import type { TurnNode } from '../../workflows/contract/call-tree.ts';
import type { SessionView } from '../../workflows/contract/chat.ts';
import type { SteerAck, StopAck } from '../../workflows/contract/control.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type {
  InboxEntry,
  InboxQuery,
  Spending,
  SpendingQuery,
  TurnQuery,
  TurnSummary,
} from '../../workflows/contract/lists.ts';
import type { TranscriptEntry } from '../../workflows/contract/transcript.ts';
import type { AgentView, TurnFilter, TurnView } from '../../workflows/contract/views.ts';
import type { EnqueueAck, EnqueueInput } from '../../workflows/protocol/enqueue.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { isUserId, USER_ID_PATTERN } from '../../workflows/protocol/ids.ts';
import type { JsonValue } from '../../workflows/protocol/json.ts';
import type { Fields, OutputOf } from '../../workflows/protocol/output.ts';
import type { BudgetChange } from '../../workflows/protocol/profile.ts';
import type { ReportAck } from '../../workflows/protocol/tool-result.ts';
import { isTerminal } from '../../workflows/protocol/turn.ts';
import type {
  AgentHandle,
  AgentOptions,
  AgentQuery,
  AgentTriggers,
  AnswerInput,
  EventsOptions,
  ResultOptions,
  RunInput,
  StallOptions,
  SteerOptions,
  StreamOptions,
  ToolResultInput,
  TriggerAck,
  TurnHandle,
  WakeInput,
} from '../api.ts';
import type { ChatHandle, ChatOptions, ChatQuery } from '../chat/api.ts';
import { sessionAgent } from '../chat/envelope.ts';
import type { ClientApi } from '../client-api.ts';
import { triggerDelivery } from '../deliveries.ts';
import { runAgentId } from '../run-agent.ts';
import type { Stall } from '../stalls.ts';
import type { StreamPart } from '../stream-parts.ts';
import { type GatewayAddress, GatewayConnection, type GatewayQuery } from './gateway-connection.ts';
import { RemoteChat } from './remote-chat.ts';

/** The client of a gateway. Besides what is said there, each method may throw `gateway_unreachable`, `unauthenticated`, `permission_denied`. */
export class AgentHttpClient implements ClientApi {
  readonly #address: GatewayAddress;
  readonly #gateway: GatewayConnection;

  constructor(address: GatewayAddress) {
    this.#address = address;
    this.#gateway = new GatewayConnection(address);
  }

  forTenant(tenant: string): AgentHttpClient {
    return new AgentHttpClient({ ...this.#address, tenant: checkedTenant(tenant) });
  }

  agent<Agent = unknown>(agentId: string, options: AgentOptions = {}): AgentHandle<OutputOf<Agent>> {
    if (!isUserId(agentId))
      throw new CodedError('invalid_request', `agent id ${JSON.stringify(agentId)} does not match ${USER_ID_PATTERN}`);
    return new RemoteAgent(this.#gateway, agentId, options.profile);
  }

  run<Agent = unknown>(profile: string, input: RunInput): Promise<TurnHandle<OutputOf<Agent>>> {
    return this.agent<Agent>(runAgentId(profile, input.idempotencyKey)).enqueue({ ...input, profile });
  }

  chat<Agent = unknown>(agentId: string, chatId: string, options: ChatOptions = {}): ChatHandle<OutputOf<Agent>> {
    return new RemoteChat<OutputOf<Agent>>({
      ...options,
      gateway: this.#gateway,
      of: agentId,
      chatId,
      agent: this.agent<Agent>(sessionAgent(agentId, chatId)),
      turn: (id) => this.turn<Agent>(id),
    });
  }

  async *chats({ agentId }: ChatQuery = {}): AsyncGenerator<SessionView, void> {
    for await (const page of this.#gateway.pages<SessionView>('/v1/chats', { agentId, limit: 200 }, 'after'))
      yield* page;
  }

  turn<Agent = unknown>(agentTurnId: string): TurnHandle<OutputOf<Agent>> {
    return new RemoteTurn(this.#gateway, agentTurnId);
  }

  async approvals({ after, limit = 1_000, ...query }: ApprovalFilter = {}): Promise<readonly ApprovalView[]> {
    const place = after && `${after.createdAt}:${after.agentTurnId}:${after.callId}`;
    return this.#items('/v1/approvals', { ...query, after: place, limit });
  }

  async inbox({ agentId, after, limit = 100 }: InboxQuery = {}): Promise<readonly InboxEntry[]> {
    const place = after && `${after.createdAt}:${after.agentTurnId}:${after.callId}`;
    return this.#items('/v1/inbox', { agentId, after: place, limit });
  }

  async *turns(query: Omit<TurnQuery, 'before'> = {}): AsyncGenerator<TurnSummary, void> {
    const { limit = Number.POSITIVE_INFINITY, status, profile, agentId, since } = query;
    let left = limit;
    const asked = { status: status?.join(','), profile, agentId, since, limit: Math.min(left, 200) };
    if (left <= 0) return;
    for await (const page of this.#gateway.pages<TurnSummary>('/v1/turns', asked, 'before')) {
      yield* page.slice(0, left);
      left -= page.length;
      if (left <= 0) return;
    }
  }

  async spending({ by, since, limit = 100 }: SpendingQuery): Promise<readonly Spending[]> {
    return this.#items('/v1/spending', { by, since, limit });
  }

  async *listAgents(filter: AgentQuery = {}): AsyncGenerator<AgentView, void> {
    const query = { ...agentSearch(filter), limit: 1_000 };
    for await (const page of this.#gateway.pages<AgentView>('/v1/agents', query, 'after')) yield* page;
  }

  async countAgents(filter: AgentQuery = {}): Promise<number> {
    const query = { ...agentSearch(filter), count: true, limit: 1 };
    return (await this.#gateway.get<{ total: number }>('/v1/agents', query)).total;
  }

  async fireTrigger(token: string, delivery: WakeDelivery): Promise<TriggerAck> {
    const { text, key } = triggerDelivery(delivery);
    const headers = key === undefined ? {} : { 'idempotency-key': key };
    return this.#gateway.send('POST', `/v1/wake/${encodeURIComponent(token)}`, text ?? undefined, headers);
  }

  async writeInstruction(text: string): Promise<string> {
    return (await this.#gateway.send<{ cardId: string }>('POST', '/v1/cards', { text })).cardId;
  }

  async writeResult(value: JsonValue): Promise<string> {
    return (await this.#gateway.send<{ cardId: string }>('POST', '/v1/cards', { value })).cardId;
  }

  async writeContext(texts: readonly string[]): Promise<string> {
    return (await this.#gateway.send<{ boxId: string }>('POST', '/v1/boxes', { texts })).boxId;
  }

  #items<T>(path: string, query: GatewayQuery): Promise<readonly T[]> {
    return this.#gateway.items(path, query);
  }
}

const agentSearch = ({ posture, agentStatus, profile, oneShot }: AgentQuery) => ({
  posture,
  status: agentStatus,
  profile,
  oneShot,
});

class RemoteAgent<Output extends object = Fields> implements AgentHandle<Output> {
  readonly id: string;
  readonly triggers: AgentTriggers;
  readonly #gateway: GatewayConnection;
  readonly #profile: string | undefined;
  readonly #path: string;

  constructor(gateway: GatewayConnection, id: string, profile: string | undefined) {
    this.id = id;
    this.#gateway = gateway;
    this.#profile = profile;
    this.#path = `/v1/agents/${encodeURIComponent(id)}`;
    this.triggers = remoteTriggers(gateway, `${this.#path}/triggers`);
  }

  async enqueue(input: EnqueueInput): Promise<TurnHandle<Output>> {
    const { profile = this.#profile } = input;
    const request = profile === undefined ? input : { ...input, profile };
    const { agentTurnId, position, status, duplicate } = await this.#gateway.send<EnqueueAck>(
      'POST',
      `${this.#path}/turns`,
      request,
    );
    return new RemoteTurn(this.#gateway, agentTurnId, { agentTurnId, position, status, duplicate });
  }

  stop(reason?: string): Promise<{ readonly stoppedTurnId: string | null }> {
    return this.#gateway.send('POST', `${this.#path}/stop`, reason === undefined ? {} : { reason });
  }

  async start(): Promise<void> {
    await this.#gateway.send('POST', `${this.#path}/start`, {});
  }

  async replaceOutputBox(expectedBoxId: string, cardIds: readonly string[]): Promise<string> {
    const body = { expectedBoxId, cardIds };
    return (await this.#gateway.send<{ boxId: string }>('PUT', `${this.#path}/boxes`, body)).boxId;
  }

  async get(): Promise<AgentSummary | null> {
    try {
      return await this.#gateway.get<AgentSummary>(this.#path);
    } catch (error) {
      if (error instanceof CodedError && error.code === 'agent_not_found') return null;
      throw error;
    }
  }

  wake({ reason, key }: WakeInput): Promise<WakeAck> {
    return this.#gateway.send('POST', `${this.#path}/wake`, key === undefined ? { reason } : { reason, key });
  }

  workItems(page: WorkPage = {}): Promise<readonly ScheduledWorkItem[]> {
    return itemsOf(this.#gateway, `${this.#path}/work-items`, page);
  }

  waits(page: WorkPage = {}): Promise<readonly WaitView[]> {
    return itemsOf(this.#gateway, `${this.#path}/waits`, page);
  }

  timers(): Promise<readonly ActiveTimer[]> {
    return itemsOf(this.#gateway, `${this.#path}/timers`, {});
  }

  async cancelTimer(timerId: string): Promise<boolean> {
    const path = `${this.#path}/timers/${encodeURIComponent(timerId)}`;
    return (await this.#gateway.send<{ cancelled: boolean }>('DELETE', path)).cancelled;
  }

  turns({ status, after, limit, last }: TurnFilter = {}): Promise<readonly TurnView<Output>[]> {
    return this.#gateway.items(`${this.#path}/turns`, { status, after, limit, last });
  }

  events({ afterSeq, signal }: EventsOptions = {}): AsyncGenerator<AgentEvent, void> {
    return this.#gateway.events(`${this.#path}/events`, lastIdOf(afterSeq), signal);
  }
}

const remoteTriggers = (gateway: GatewayConnection, path: string): AgentTriggers => ({
  list: (page = {}) => itemsOf(gateway, path, page),
  create: ({ name }) => gateway.send('POST', path, { name }),
  revoke: async (triggerId) =>
    (await gateway.send<{ revoked: boolean }>('DELETE', `${path}/${encodeURIComponent(triggerId)}`)).revoked,
});

const itemsOf = <T>(gateway: GatewayConnection, path: string, page: WorkPage): Promise<readonly T[]> =>
  gateway.items(path, { ...page });

const lastIdOf = (afterSeq: number | undefined): string | undefined =>
  afterSeq === undefined || afterSeq === 0 ? undefined : String(afterSeq);

/** How long one request waits for the end of a turn. */
const WAIT_S = 20;

class RemoteTurn<Output extends object = Fields> implements TurnHandle<Output> {
  readonly id: string;
  readonly ack: EnqueueAck | undefined;
  readonly #gateway: GatewayConnection;
  readonly #path: string;

  constructor(gateway: GatewayConnection, id: string, ack?: EnqueueAck) {
    this.id = id;
    this.ack = ack;
    this.#gateway = gateway;
    this.#path = `/v1/turns/${encodeURIComponent(id)}`;
  }

  get(): Promise<TurnView<Output>> {
    return this.#gateway.get(this.#path);
  }

  async result({ timeoutMs = Number.POSITIVE_INFINITY }: ResultOptions = {}): Promise<TurnView<Output>> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const leftS = Math.max(0, Math.ceil((deadline - performance.now()) / 1_000));
      const turn: TurnView<Output> = await this.#gateway.get(this.#path, { waitSeconds: Math.min(leftS, WAIT_S) });
      if (isTerminal(turn.status)) return turn;
      if (performance.now() >= deadline)
        throw new CodedError(
          'result_wait_timeout',
          `turn ${this.id} is ${turn.status} after ${timeoutMs} ms; it goes on`,
        );
    }
  }

  async stall({ queuedMs }: StallOptions = {}): Promise<Stall | null> {
    return (await this.#gateway.get<{ stall: Stall | null }>(`${this.#path}/stall`, { queuedMs })).stall;
  }

  tree(): Promise<TurnNode> {
    return this.#gateway.get(`${this.#path}/tree`);
  }

  async *transcript(): AsyncGenerator<TranscriptEntry, void> {
    for await (const page of this.#gateway.pages<TranscriptEntry>(`${this.#path}/transcript`, {}, 'after')) yield* page;
  }

  events({ afterSeq, signal }: EventsOptions = {}): AsyncGenerator<AgentEvent, void> {
    return this.#gateway.events(`${this.#path}/events`, lastIdOf(afterSeq), signal);
  }

  stream({ cursor, signal }: StreamOptions = {}): AsyncGenerator<StreamPart, void> {
    return this.#gateway.events(`${this.#path}/stream`, cursor, signal);
  }

  stop(reason?: string): Promise<StopAck> {
    return this.#gateway.send('POST', `${this.#path}/stop`, reason === undefined ? {} : { reason });
  }

  interrupt(reason?: string): Promise<StopAck> {
    return this.#gateway.send('POST', `${this.#path}/interrupt`, reason === undefined ? {} : { reason });
  }

  rollback(reason?: string): Promise<StopAck> {
    return this.#gateway.send('POST', `${this.#path}/rollback`, reason === undefined ? {} : { reason });
  }

  steer(text: string, { key }: SteerOptions = {}): Promise<SteerAck> {
    return this.#gateway.send('POST', `${this.#path}/steer`, key === undefined ? { text } : { text, key });
  }

  toolResult({ callId, ...report }: ToolResultInput): Promise<ReportAck> {
    return this.#gateway.send('POST', `${this.#path}/tool-results/${encodeURIComponent(callId)}`, report);
  }

  /** The answer is recorded as the one whom the token names; another name in `by` is refused with `permission_denied`. */
  answer(answer: AnswerInput): Promise<ApprovalAck> {
    return this.#gateway.send('POST', `${this.#path}/approvals`, answer);
  }

  async setBudgets(budgets: BudgetChange): Promise<void> {
    await this.#gateway.send('PUT', `${this.#path}/budgets`, budgets);
  }
}

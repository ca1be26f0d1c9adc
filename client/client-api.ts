/**
 * The whole of what a client of AgentTurn can do, whatever way it reaches the system: `AgentClient` goes to the store and to Temporal itself, and
 * `AgentHttpClient` does the same over HTTP.
 *
 * Invariant: what a method acknowledges is in the store, and is never lost (T3).
 */
import type { WakeDelivery } from '../workflows/contract/agent-work.ts';
import type { ApprovalFilter, ApprovalView } from '../workflows/contract/approvals.ts';
import type { Border } from '../workflows/contract/border.ts';
import type { SessionView } from '../workflows/contract/chat.ts';
import type {
  InboxEntry,
  InboxQuery,
  Spending,
  SpendingQuery,
  TurnQuery,
  TurnSummary,
} from '../workflows/contract/lists.ts';
import type { AgentView } from '../workflows/contract/views.ts';
import type { JsonValue } from '../workflows/protocol/json.ts';
import type { OutputOf } from '../workflows/protocol/output.ts';
import type { AgentHandle, AgentOptions, AgentQuery, RunInput, TriggerAck, TurnHandle } from './api.ts';
import type { ChatHandle, ChatOptions, ChatQuery } from './chat/api.ts';

/** The whole of what a client can do. */
export interface ClientApi {
  /**
   * A client for one tenant: it sees the agents of that tenant and no others, and those that it makes are the tenant's, with all that they
   * make. Their ids begin with the tenant's name and `~`, which may be left out here. Errors: `invalid_request` for a name that is none.
   */
  forTenant(tenant: string): ClientApi;
  /**
   * A handle for one agent: one memory, which exists from its first request on. `profile` is what its requests get that name none; it is
   * needed unless the agent had a request before, or is the one agent of a `singleton` profile of its name. `agent<typeof weather>(id)`, with
   * what `defineAgent` returned, types what its turns deliver. Errors: `invalid_request` for an id that is not one.
   */
  agent<Agent = unknown>(agentId: string, options?: AgentOptions): AgentHandle<OutputOf<Agent>>;
  /**
   * One turn of a new agent of that profile, which remembers nothing before and is never used again. With an idempotency key, the same call
   * gives the same turn. Typed like that of an agent. Errors: those of `AgentHandle.enqueue`.
   */
  run<Agent = unknown>(profile: string, input: RunInput): Promise<TurnHandle<OutputOf<Agent>>>;
  /**
   * A handle for one chat with an agent: a session with a memory of its own, whose messages are collected into turns. `agentId` is the agent that
   * is talked to, or the name of a profile; `profile` is that of the session's turns, else that of the agent, else the one named like it.
   * Errors: `invalid_input` for ids that are none, or too long together.
   */
  chat<Agent = unknown>(agentId: string, chatId: string, options?: ChatOptions): ChatHandle<OutputOf<Agent>>;
  /** Chat sessions by their agents, read page by page: all, or those of one agent. */
  chats(query?: ChatQuery): AsyncGenerator<SessionView, void>;
  /** A handle for a turn of that id, typed like that of an agent. Whether there is such a turn, its methods say. */
  turn<Agent = unknown>(agentTurnId: string): TurnHandle<OutputOf<Agent>>;
  /**
   * What waits for people, oldest first, at most `limit` (1,000): of all agents, of one agent, or of one turn and all it delegated (K7).
   * The last one of a page is the next page's `after`.
   */
  approvals(filter?: ApprovalFilter): Promise<readonly ApprovalView[]>;
  /** What waits for somebody outside, oldest first: approvals, larger budgets, results of tools that suspend. */
  inbox(query?: InboxQuery): Promise<readonly InboxEntry[]>;
  /** Turns of all agents, the newest first, read page by page: of a status, a profile, an agent, since a time. */
  turns(query?: Omit<TurnQuery, 'before'>): AsyncGenerator<TurnSummary, void>;
  /** What the turns since then spent, by agent or by profile, those that cost most first. */
  spending(query: SpendingQuery): Promise<readonly Spending[]>;
  /** Agents by id, read page by page: those of a posture, a status, a profile; without one-shot agents that have ended, unless asked for. */
  listAgents(filter?: AgentQuery): AsyncGenerator<AgentView, void>;
  /** How many agents `listAgents` would list, exactly. */
  countAgents(filter?: AgentQuery): Promise<number>;
  /**
   * What somebody outside does who has the token of a trigger and nothing else: wakes its agent, and is not told which one that is. With a key,
   * the same delivery counts once. Errors: `trigger_unknown`, `agent_stopped`, `invalid_request`, `payload_too_large` (64 KiB).
   */
  fireTrigger(token: string, delivery: WakeDelivery): Promise<TriggerAck>;
  /** Writes an instruction of more than 32 KiB; returns the id to pass as `instructionCardId` (T4). */
  writeInstruction(text: string): Promise<string>;
  /** Writes the output of a tool as a card; returns the id to pass as `toolResultCardId` (T18). */
  writeResult(value: JsonValue): Promise<string>;
  /** Writes cards that a turn may read and not write; returns the id to pass as `contextBoxId` (T24). */
  writeContext(texts: readonly string[]): Promise<string>;
}

/** A client that can be given to callers who see a part of it. */
export interface BorderedClient extends ClientApi {
  /** The same client for a caller that sees no more than what is within the border. */
  within(border: Border): ClientApi;
}

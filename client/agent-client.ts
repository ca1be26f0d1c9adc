/**
 * The SDK: enqueue a request, await its one result, answer its suspended calls.
 *
 * Invariant: whatever a method acknowledges is in the store first; Temporal is told afterwards and may be told again (T3).
 */
import type { Client } from '@temporalio/client';
import { z } from 'zod';
import {
  type ApprovalAck,
  type ApprovalAnswer,
  type ApprovalFilter,
  type ApprovalView,
  approvalAnswerSchema,
  budgetChangeSchema,
} from '../workflows/contract/approvals.ts';
import type { SteerAck, StopAck } from '../workflows/contract/control.ts';
import type { AgentEvent } from '../workflows/contract/events.ts';
import type { ClientStore } from '../workflows/contract/store.ts';
import type { AgentView, TurnFilter, TurnView } from '../workflows/contract/views.ts';
import {
  type EnqueueAck,
  type EnqueueInput,
  enqueueRequestSchema,
  idempotencyKeySchema,
} from '../workflows/protocol/enqueue.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { isUserId, USER_ID_PATTERN } from '../workflows/protocol/ids.ts';
import type { JsonValue } from '../workflows/protocol/json.ts';
import type { BudgetChange } from '../workflows/protocol/profile.ts';
import { SIZES, utf8Bytes } from '../workflows/protocol/sizes.ts';
import { type ReportAck, toolResultReportSchema } from '../workflows/protocol/tool-result.ts';
import { isTerminal } from '../workflows/protocol/turn.ts';
import { everyAgent } from './agent-pages.ts';
import { followEvents } from './event-tail.ts';
import { TurnWorkflows } from './turn-workflows.ts';

export interface AgentClientOptions {
  readonly temporal: Client;
  readonly store: ClientStore;
  /**
   * Whether it is really the one who answers a question, and may: `by` is what the caller of `answer` says. Asked before the answer is
   * recorded, besides the rule about approvers; false refuses it. Left out: the name is believed (K7).
   */
  readonly verifyApprover?: (by: string | undefined, approval: ApprovalView) => boolean | Promise<boolean>;
}

const steerSchema = z.object({
  text: z
    .string()
    .min(1)
    .refine((text) => utf8Bytes(text) <= SIZES.instructionBytes, {
      error: `must be at most ${SIZES.instructionBytes} bytes`,
    }),
  key: idempotencyKeySchema.optional(),
});

/** How long to wait for a change before looking again anyway. */
const LOOK_AGAIN_MS = 1_000;

export interface EventsOptions {
  /** The `seq` that was handled last. */
  readonly afterSeq?: number;
  /** Ends the iteration without an error. */
  readonly signal?: AbortSignal;
}

export class AgentClient {
  readonly #options: AgentClientOptions;

  constructor(options: AgentClientOptions) {
    this.#options = options;
  }

  /** Errors: `invalid_request` for an id that is not one. */
  agent(agentId: string): AgentHandle {
    if (isUserId(agentId)) return new AgentHandle(this.#options, agentId);
    throw new CodedError('invalid_request', `agent id ${JSON.stringify(agentId)} does not match ${USER_ID_PATTERN}`);
  }

  turn(agentTurnId: string): TurnHandle {
    return new TurnHandle(this.#options, agentTurnId);
  }

  /**
   * What waits for people, oldest first, at most `limit` (1,000): of all agents, of one agent, or of one turn and all it delegated (K7).
   * The last one of a page is the next page's `after`.
   */
  approvals(filter: ApprovalFilter = {}): Promise<readonly ApprovalView[]> {
    return this.#options.store.listApprovals(filter);
  }

  /** All agents by id, read page by page. */
  listAgents(): AsyncGenerator<AgentView, void> {
    return everyAgent(this.#options.store);
  }

  /** For instructions over 32 KiB: returns the id to pass as `instructionCardId`. */
  writeInstruction(text: string): Promise<string> {
    return this.#options.store.writeInstructionCard(text);
  }

  /** The output of a tool as a card, for a report by its id: returns what to pass as `toolResultCardId` (T18). */
  writeResult(value: JsonValue): Promise<string> {
    return this.#options.store.writeOutputCard(value);
  }

  /** Cards a turn may read and not write: returns the id to pass as `contextBoxId` (T24). */
  writeContext(texts: readonly string[]): Promise<string> {
    return this.#options.store.writeContextBox(texts);
  }
}

export class AgentHandle {
  readonly #options: AgentClientOptions;
  readonly id: string;

  constructor(options: AgentClientOptions, id: string) {
    this.#options = options;
    this.id = id;
  }

  /**
   * Queues one turn. With an idempotency key, the same call gives the same turn, however often (T2).
   * Errors: `invalid_request`, `idempotency_conflict`, `inbox_full`, `temporal_unreachable`.
   */
  async enqueue(input: EnqueueInput): Promise<TurnHandle> {
    const parsed = enqueueRequestSchema.safeParse(input);
    if (!parsed.success) throw new CodedError('invalid_request', z.prettifyError(parsed.error));
    const { store } = this.#options;
    const outcome = await store.accept({ agentId: this.id, request: parsed.data });
    if (outcome.kind === 'refused') throw new CodedError(outcome.code, outcome.message);
    const { kind: _, lease, ...ack } = outcome;
    if (lease) await workflowsOf(this.#options).start(lease);
    return new TurnHandle(this.#options, ack.agentTurnId, ack);
  }

  /** Refuses requests from now on and ends the active turn; what is queued stays. Repeating it changes nothing (T10). */
  async stop(reason = 'stopped by a client'): Promise<{ readonly stoppedTurnId: string | null }> {
    const { stoppedTurnId, handover } = await this.#options.store.setLifecycle(this.id, 'stopped', reason);
    const active = stoppedTurnId === null ? null : { agentId: this.id, agentTurnId: stoppedTurnId };
    await workflowsOf(this.#options).stopped(handover, active);
    return { stoppedTurnId };
  }

  /** Accepts again, and runs what is queued. */
  async start(): Promise<void> {
    const { handover } = await this.#options.store.setLifecycle(this.id, 'started', '');
    await workflowsOf(this.#options).handOver(handover);
  }

  /**
   * Makes the agent remember exactly these cards, in a new box, if it still remembers `expectedBoxId` (`get()`); returns the new box (T25).
   * Errors: `agent_busy` while a turn is open, `box_unavailable`.
   */
  replaceMemory(expectedBoxId: string, cardIds: readonly string[]): Promise<string> {
    return this.#options.store.replaceOutputBox(this.id, expectedBoxId, cardIds);
  }

  /** Null for an agent this store has never heard of. */
  get(): Promise<AgentView | null> {
    return this.#options.store.getAgent(this.id);
  }

  /** Oldest first, at most `limit` (100); the `acceptSeq` of a page's last turn is the next page's `after`. */
  turns(filter: TurnFilter = {}): Promise<readonly TurnView[]> {
    return this.#options.store.listTurns(this.id, filter);
  }

  /** The agent's events from `afterSeq` on, each once, in order, for as long as the reader wants them. */
  events(options: EventsOptions = {}): AsyncGenerator<AgentEvent, void> {
    return followEvents(this.#options.store, { agentId: this.id, ...options });
  }
}

export interface SteerOptions {
  /** Whoever got no answer sends the message again with the same key, and it counts once. */
  readonly key?: string;
}

export class TurnHandle {
  readonly #options: AgentClientOptions;
  readonly id: string;
  /** What enqueue answered; undefined for a handle made from an id. */
  readonly ack: EnqueueAck | undefined;

  constructor(options: AgentClientOptions, id: string, ack?: EnqueueAck) {
    this.#options = options;
    this.id = id;
    this.ack = ack;
  }

  /** Errors: `turn_not_found`. */
  async get(): Promise<TurnView> {
    const view = await this.#options.store.getTurn(this.id);
    if (view) return view;
    throw new CodedError(
      'turn_not_found',
      `no turn ${this.id} in this store; agentturn agents ls shows the agents it has`,
    );
  }

  /** The ended turn, with its deliverable, however it ended. Errors: `turn_not_found`, `result_wait_timeout` (the turn goes on). */
  async result({ timeoutMs = Number.POSITIVE_INFINITY }: { timeoutMs?: number } = {}): Promise<TurnView> {
    const { store } = this.#options;
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const left = deadline - Date.now();
      // Begun before the look, so that a commit between the two is not slept through.
      const change = store.changed(Math.min(Math.max(left, 0), LOOK_AGAIN_MS), 'turn_ended');
      change.catch(() => {});
      const status = await store.getTurnStatus(this.id);
      if (status === null || isTerminal(status)) return this.get();
      if (left <= 0)
        throw new CodedError('result_wait_timeout', `turn ${this.id} is ${status} after ${timeoutMs} ms; it goes on`);
      await change;
    }
  }

  /** The turn's events from `afterSeq` on, each once, in order, up to and with its `task` event. Errors: `turn_not_found`. */
  async *events(options: EventsOptions = {}): AsyncGenerator<AgentEvent, void> {
    const { agentId } = await this.get();
    yield* followEvents(this.#options.store, { agentId, agentTurnId: this.id, ...options });
  }

  /** Ends the turn now, queued or running; the ACK is final and its `task` event is written (T8, T21). */
  async stop(reason = 'stopped by a client'): Promise<StopAck> {
    const { handover, ...ack } = await this.#options.store.stopTurn(this.id, reason);
    const active = ack.ack === 'stopped' && ack.agentId ? { agentId: ack.agentId, agentTurnId: this.id } : null;
    await workflowsOf(this.#options).stopped(handover, active);
    return ack;
  }

  /**
   * A message for the running turn: shown to the model before its next call, or run as the next turn if this one ends first (T22).
   * Errors: `invalid_request`, `inbox_full` (too many that it has not read), `idempotency_conflict`.
   */
  async steer(text: string, { key }: SteerOptions = {}): Promise<SteerAck> {
    const parsed = steerSchema.safeParse({ text, key });
    if (!parsed.success) throw new CodedError('invalid_request', `a steer: ${z.prettifyError(parsed.error)}`);
    return this.#options.store.steerTurn(this.id, parsed.data.text, parsed.data.key);
  }

  /** Answers a suspended call. The ACK is final; a repeated one is `duplicate` and changes nothing (T14). */
  async toolResult(report: z.input<typeof toolResultReportSchema>): Promise<ReportAck> {
    const parsed = toolResultReportSchema.safeParse(report);
    if (!parsed.success) throw new CodedError('invalid_request', z.prettifyError(parsed.error));
    const { wake, ...ack } = await this.#options.store.reportResult(this.id, parsed.data);
    if (wake) await workflowsOf(this.#options).wake(ack.agentId ?? '', this.id, parsed.data.callId);
    return ack;
  }

  /**
   * Answers a question of this turn: a call that needs approval, or a budget that is used up. The ACK is final (K7, K9).
   * Errors: `invalid_request`, `approval_refused` (not an approver, or arguments that do not fit the schema or the rules),
   * `budget_refused`.
   */
  async answer(answer: z.input<typeof approvalAnswerSchema>): Promise<ApprovalAck> {
    const parsed = approvalAnswerSchema.safeParse(answer);
    if (!parsed.success) throw new CodedError('invalid_request', z.prettifyError(parsed.error));
    if (!(await this.#isVerified(parsed.data))) return { ack: 'unknown' };
    const ack = await this.#options.store.answerApproval(this.id, parsed.data);
    if (ack.ack === 'applied') await workflowsOf(this.#options).wake(ack.agentId ?? '', this.id, parsed.data.callId);
    return ack;
  }

  /** False when there is no such question yet: one that comes a moment later has not been shown to who verifies. Errors: `approval_refused`. */
  async #isVerified({ callId, by }: ApprovalAnswer): Promise<boolean> {
    const { store, verifyApprover } = this.#options;
    if (!verifyApprover) return true;
    const [approval] = await store.listApprovals({ agentTurnId: this.id, callId, all: true, limit: 1 });
    if (!approval) return false;
    if (await verifyApprover(by, approval)) return true;
    throw new CodedError(
      'approval_refused',
      `${by ?? 'an answer without a name'} could not be verified as an approver`,
    );
  }

  /**
   * New budgets, effective before the next model call; those left out stay (K9). Errors: `invalid_request`, `turn_not_found`,
   * `budget_refused` where a delegated turn would get more than the turn it works for has left.
   */
  async setBudgets(budgets: BudgetChange): Promise<void> {
    const parsed = budgetChangeSchema.safeParse(budgets);
    if (!parsed.success) throw new CodedError('invalid_request', `budgets: ${z.prettifyError(parsed.error)}`);
    const found = await this.#options.store.setBudgets(this.id, parsed.data);
    if (!found) throw new CodedError('turn_not_found', `turn ${this.id} has ended, or was never there`);
    const workflows = workflowsOf(this.#options);
    if (found.changed) await workflows.tellLimits(found.agentId, this.id);
    if (found.answered) await workflows.wake(found.agentId, this.id);
  }
}

const workflowsOf = ({ temporal, store }: AgentClientOptions): TurnWorkflows => new TurnWorkflows(temporal, store);

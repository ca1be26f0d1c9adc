/** One turn, as a client that reaches the store sees it. What it acknowledges is in the store first; Temporal is told afterwards, and may be told again (T3). */

import type { Client } from '@temporalio/client';
import { z } from 'zod';
import {
  type ApprovalAck,
  type ApprovalAnswer,
  type ApprovalView,
  approvalAnswerSchema,
  budgetChangeSchema,
} from '../workflows/contract/approvals.ts';
import type { TurnNode } from '../workflows/contract/call-tree.ts';
import type { BreakOff, SteerAck, StopAck } from '../workflows/contract/control.ts';
import type { AgentEvent } from '../workflows/contract/events.ts';
import type { ClientStore } from '../workflows/contract/store.ts';
import type { TranscriptEntry } from '../workflows/contract/transcript.ts';
import type { TurnView } from '../workflows/contract/views.ts';
import { type EnqueueAck, idempotencyKeySchema } from '../workflows/protocol/enqueue.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import type { Fields } from '../workflows/protocol/output.ts';
import type { BudgetChange } from '../workflows/protocol/profile.ts';
import { SIZES, utf8Bytes } from '../workflows/protocol/sizes.ts';
import { type ReportAck, toolResultReportSchema } from '../workflows/protocol/tool-result.ts';
import { isTerminal } from '../workflows/protocol/turn.ts';
import type {
  AnswerInput,
  EventsOptions,
  ResultOptions,
  StallOptions,
  SteerOptions,
  StreamOptions,
  ToolResultInput,
  TurnHandle,
} from './api.ts';
import { readCallTree } from './call-tree.ts';
import { followEvents } from './event-tail.ts';
import { noTurn } from './no-turn.ts';
import { findStall, type Stall, type StallReader } from './stalls.ts';
import type { StreamPart } from './stream-parts.ts';
import { everyEntry } from './transcript-pages.ts';
import { followStream } from './turn-stream.ts';
import type { TurnWorkflows } from './turn-workflows.ts';

const steerSchema = z.object({
  text: z
    .string()
    .min(1)
    .refine((text) => utf8Bytes(text) <= SIZES.instructionBytes, {
      error: `must be at most ${SIZES.instructionBytes} bytes`,
    }),
  key: idempotencyKeySchema.optional(),
});

/** How long to wait for a change before the store is asked again anyway. */
const ASK_AGAIN_MS = 1_000;

/** Whether the caller who answers a question is the one that `by` names, and may answer it. */
export type ApproverCheck = (by: string | undefined, approval: ApprovalView) => boolean | Promise<boolean>;

/** What the handle of a turn is made of. */
export interface StoredTurnOptions {
  /** What the caller sees of the store. */
  readonly store: ClientStore;
  /** What the agent of a turn is at, also where the caller sees no more of the agent than this turn. */
  readonly facts: StallReader;
  readonly temporal: Client;
  readonly verifyApprover?: ApproverCheck;
}

/** A turn whose rows this process can read and write. */
export class StoredTurn<Output extends object = Fields> implements TurnHandle<Output> {
  readonly id: string;
  readonly ack: EnqueueAck | undefined;
  readonly #store: ClientStore;
  readonly #facts: StallReader;
  readonly #temporal: Client;
  readonly #workflows: TurnWorkflows;
  readonly #verifyApprover: ApproverCheck | undefined;

  constructor(
    { store, facts, temporal, verifyApprover }: StoredTurnOptions,
    workflows: TurnWorkflows,
    id: string,
    ack?: EnqueueAck,
  ) {
    this.id = id;
    this.ack = ack;
    this.#store = store;
    this.#facts = facts;
    this.#temporal = temporal;
    this.#workflows = workflows;
    this.#verifyApprover = verifyApprover;
  }

  async get(): Promise<TurnView<Output>> {
    const view = await this.#store.getTurn(this.id);
    // The schema of the agent was applied when the fields were submitted; whoever named its type says that it is this agent's.
    if (view) return view as unknown as TurnView<Output>;
    throw noTurn(this.id);
  }

  async result({ timeoutMs = Number.POSITIVE_INFINITY }: ResultOptions = {}): Promise<TurnView<Output>> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const left = deadline - performance.now();
      // Begun before the status is read, so that a commit between the two is not slept through.
      const change = this.#store.changed(Math.min(Math.max(left, 0), ASK_AGAIN_MS), 'turn_ended');
      change.catch(() => {});
      const status = await this.#store.getTurnStatus(this.id);
      if (status === null || isTerminal(status)) return this.get();
      if (left <= 0)
        throw new CodedError('result_wait_timeout', `turn ${this.id} is ${status} after ${timeoutMs} ms; it goes on`);
      await change;
    }
  }

  async stall({ queuedMs }: StallOptions = {}): Promise<Stall | null> {
    if ((await this.#store.getTurnStatus(this.id)) === null) return null;
    return findStall(this.#facts, this.#temporal, this.id, queuedMs);
  }

  async tree(): Promise<TurnNode> {
    const tree = await readCallTree(this.#store, this.id);
    if (tree) return tree;
    throw noTurn(this.id);
  }

  async *transcript(): AsyncGenerator<TranscriptEntry, void> {
    await this.get();
    yield* everyEntry(this.#store, this.id);
  }

  async *events(options: EventsOptions = {}): AsyncGenerator<AgentEvent, void> {
    const { agentId } = await this.get();
    yield* followEvents(this.#store, { agentId, agentTurnId: this.id, ...options });
  }

  async *stream(options: StreamOptions = {}): AsyncGenerator<StreamPart, void> {
    const { agentId } = await this.get();
    yield* followStream(this.#store, { agentId, agentTurnId: this.id, ...options });
  }

  async stop(reason = 'stopped by a client'): Promise<StopAck> {
    const { handover, ...ack } = await this.#store.stopTurn(this.id, reason);
    const active = ack.ack === 'stopped' && ack.agentId ? { agentId: ack.agentId, agentTurnId: this.id } : null;
    await this.#workflows.stopped(handover, active);
    return ack;
  }

  interrupt(reason = 'interrupted by a client'): Promise<StopAck> {
    return this.#breakOff({ reason });
  }

  rollback(reason = 'taken back by a client'): Promise<StopAck> {
    return this.#breakOff({ reason, rollback: true });
  }

  async #breakOff(how: BreakOff): Promise<StopAck> {
    const { handover, ...ack } = await this.#store.breakOffTurn(this.id, how);
    const active = ack.ack === 'stopped' && ack.agentId ? { agentId: ack.agentId, agentTurnId: this.id } : null;
    await this.#workflows.stopped(handover, active);
    return ack;
  }

  async steer(text: string, { key }: SteerOptions = {}): Promise<SteerAck> {
    const parsed = steerSchema.safeParse({ text, key });
    if (!parsed.success) throw new CodedError('invalid_request', `a steer: ${z.prettifyError(parsed.error)}`);
    return this.#store.steerTurn(this.id, parsed.data.text, parsed.data.key);
  }

  async toolResult(report: ToolResultInput): Promise<ReportAck> {
    const parsed = toolResultReportSchema.safeParse(report);
    if (!parsed.success) throw new CodedError('invalid_request', z.prettifyError(parsed.error));
    const { wake, ...ack } = await this.#store.reportResult(this.id, parsed.data);
    if (wake) await this.#workflows.wake(ack.agentId ?? '', this.id, parsed.data.callId);
    return ack;
  }

  async answer(answer: AnswerInput): Promise<ApprovalAck> {
    const parsed = approvalAnswerSchema.safeParse(answer);
    if (!parsed.success) throw new CodedError('invalid_request', z.prettifyError(parsed.error));
    if (!(await this.#isVerified(parsed.data))) return { ack: 'unknown' };
    const ack = await this.#store.answerApproval(this.id, parsed.data);
    if (ack.ack === 'applied') await this.#workflows.wake(ack.agentId ?? '', this.id, parsed.data.callId);
    return ack;
  }

  /** False when there is no such question yet: one that comes a moment later has not been shown to who verifies. Errors: `approval_refused`. */
  async #isVerified({ callId, by }: ApprovalAnswer): Promise<boolean> {
    if (!this.#verifyApprover) return true;
    const [approval] = await this.#store.listApprovals({ agentTurnId: this.id, callId, all: true, limit: 1 });
    if (!approval) return false;
    if (await this.#verifyApprover(by, approval)) return true;
    throw new CodedError(
      'approval_refused',
      `${by ?? 'an answer without a name'} could not be verified as an approver`,
    );
  }

  async setBudgets(budgets: BudgetChange): Promise<void> {
    const parsed = budgetChangeSchema.safeParse(budgets);
    if (!parsed.success) throw new CodedError('invalid_request', `budgets: ${z.prettifyError(parsed.error)}`);
    const found = await this.#store.setBudgets(this.id, parsed.data);
    if (!found) {
      const status = await this.#store.getTurnStatus(this.id);
      if (status === null) throw noTurn(this.id);
      throw new CodedError(
        'turn_ended',
        `turn ${this.id} has ended as ${status}: only a turn that goes on has budgets`,
      );
    }
    if (found.changed) await this.#workflows.wake(found.agentId, this.id);
  }
}

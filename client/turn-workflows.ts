/**
 * What a client does to the workflows of turns: start them, wake them, make them let go. They carry ids only; the store holds what it is
 * about, so that each of these may be lost or done twice.
 */
import {
  type Client,
  isGrpcServiceError,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowHandle,
  WorkflowNotFoundError,
} from '@temporalio/client';
import type { SessionJournal } from '../workflows/contract/journal.ts';
import type { Handover, Lease } from '../workflows/contract/lease.ts';
import type { ClientStore } from '../workflows/contract/store.ts';
import { wakeSignal } from '../workflows/messages/messages.ts';
import { AGENT_ID, AGENT_TURN_ID, PROFILE } from '../workflows/messages/search-attributes.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { targetQueue, turnWorkflowId } from '../workflows/protocol/ids.ts';
import { clip } from '../workflows/protocol/sizes.ts';
import type { Fence } from '../workflows/protocol/turn.ts';
import type { agentTurn } from '../workflows/turn/turn.ts';

const CALL_MS = 10_000;
/** How long one process ends turns that cannot start; the supervisor goes on with the rest. */
const HANDOVER_MS = 3_000;
const SUMMARY_BYTES = 200;

/** What the Web UI says beside the current details of each turn. */
const ABOUT_A_TURN = [
  'A turn runs one request for an agent: model calls and tool calls in turn, until it delivers one result.',
  '**Current Details** say what it does and what it waits for, and by which command that is answered; press R for the latest.',
  'The whole conversation is in the store: `agentturn turn show TURN --full`.',
  'Other turns of the agent: the list of workflows with the filter ``AgentId = "…"``. It is safe to cancel or terminate this workflow.',
].join('\n\n');

/** Starts and signals workflows, over one Temporal client and one store. */
export class TurnWorkflows {
  readonly #temporal: Client;
  readonly #store: Pick<ClientStore, 'leaseNext' | 'settleDelegation'>;
  readonly #journal: SessionJournal | undefined;

  /** `journal`: where this process writes down what became of a session before it hands the agent over. */
  constructor(
    temporal: Client,
    store: Pick<ClientStore, 'leaseNext' | 'settleDelegation'>,
    journal?: SessionJournal | undefined,
  ) {
    this.#temporal = temporal;
    this.#store = store;
    this.#journal = journal;
  }

  /** Starts the workflow that the lease names; one that runs, or has run, is left alone (T29). Errors: `temporal_unreachable`. */
  start(lease: Lease): Promise<void> {
    const { agentId, agentTurnId, workerTarget, profileName, title } = lease;
    return this.#reaching(async () => {
      try {
        await this.#temporal.workflow.start<typeof agentTurn>('agentTurn', {
          workflowId: turnWorkflowId(agentId, agentTurnId),
          workflowIdReusePolicy: 'REJECT_DUPLICATE',
          workflowIdConflictPolicy: 'USE_EXISTING',
          taskQueue: targetQueue(workerTarget),
          args: [lease],
          staticDetails: ABOUT_A_TURN,
          staticSummary: clip(`${agentId}: ${title}`, SUMMARY_BYTES),
          typedSearchAttributes: [
            { key: AGENT_ID, value: agentId },
            { key: AGENT_TURN_ID, value: agentTurnId },
            { key: PROFILE, value: profileName },
          ],
        });
      } catch (error) {
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      }
    });
  }

  /** Tells a turn that the store holds something for it; `callId` names the call it may wait for, for whoever reads the history. */
  wake(agentId: string, agentTurnId: string, callId?: string): Promise<void> {
    const body = callId === undefined ? {} : { callId };
    return this.#telling(agentId, agentTurnId, (workflow) => workflow.signal(wakeSignal, body));
  }

  /** Makes a turn that the store has ended let go of what it still runs: its workflow is cancelled. */
  cancel(agentId: string, agentTurnId: string): Promise<void> {
    return this.#telling(agentId, agentTurnId, (workflow) => workflow.cancel());
  }

  /** After a stop: the turn that was active lets go, and the agent goes on. Both are tried. Errors: as those of `handOver`. */
  async stopped(handover: Handover | null, active: Pick<Fence, 'agentId' | 'agentTurnId'> | null): Promise<void> {
    const letGo = active ? this.cancel(active.agentId, active.agentTurnId) : Promise.resolve();
    const goOn = handover ? this.handOver(handover) : Promise.resolve();
    const failed = (await Promise.allSettled([letGo, goOn])).find((outcome) => outcome.status === 'rejected');
    if (failed) throw failed.reason;
  }

  /**
   * Carries out what follows from a transaction: writes the journal, starts what it leased, tells the parents that wait. All of it is tried
   * before the first error is thrown: a worker waits for the journal itself. Errors: `temporal_unreachable`, those of store and journal.
   */
  async handOver(handover: Handover): Promise<void> {
    const deadline = performance.now() + HANDOVER_MS;
    const errors: unknown[] = [];
    const trying = (work: Promise<void>) => work.catch((error: unknown) => void errors.push(error));
    let step = handover;
    if (this.#journal) await trying(this.#journal.record(handover.agentId));
    for (;;) {
      const { agentId, next, more, settlements } = step;
      await Promise.all(
        [...(next ? [this.start(next)] : []), ...settlements.map((id) => this.#tellParent(id))].map(trying),
      );
      if (!more || performance.now() > deadline) break;
      step = await this.#store.leaseNext(agentId);
    }
    if (errors.length > 0) throw errors[0];
  }

  /** Once: whoever comes second finds the answer recorded, and wakes nobody (T30). */
  async #tellParent(agentTurnId: string): Promise<void> {
    const report = await this.#store.settleDelegation(agentTurnId);
    if (report?.wake) await this.wake(report.agentId, report.agentTurnId, report.callId);
    if (report?.handover) await this.handOver(report.handover);
  }

  /** A workflow that is closed needs to be told of nothing. */
  #telling(agentId: string, agentTurnId: string, tell: (workflow: WorkflowHandle) => Promise<unknown>): Promise<void> {
    return this.#reaching(async () => {
      try {
        await tell(this.#temporal.workflow.getHandle(turnWorkflowId(agentId, agentTurnId)));
      } catch (error) {
        if (!(error instanceof WorkflowNotFoundError)) throw error;
      }
    });
  }

  async #reaching(call: () => Promise<void>): Promise<void> {
    try {
      await this.#temporal.withDeadline(Date.now() + CALL_MS, call);
    } catch (error) {
      const reason = isGrpcServiceError(error) ? error.details : String(error);
      throw new CodedError(
        'temporal_unreachable',
        `the request is in the store, but Temporal could not be told of it (${reason}); it runs when Temporal is back, and repeating it with the same idempotency key is safe`,
        { cause: error },
      );
    }
  }
}

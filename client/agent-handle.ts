/** One agent, as a client that reaches the store sees it. */

import { z } from 'zod';
import type { ActiveTimer } from '../workflows/agent-state/timers.ts';
import type { ScheduledWorkItem } from '../workflows/agent-state/work-items.ts';
import type { AgentSummary } from '../workflows/contract/agent-summary.ts';
import type { WaitView, WakeAck, WorkPage } from '../workflows/contract/agent-work.ts';
import type { AgentEvent } from '../workflows/contract/events.ts';
import type { ClientStore } from '../workflows/contract/store.ts';
import type { TurnFilter, TurnView } from '../workflows/contract/views.ts';
import { type EnqueueAck, type EnqueueInput, enqueueRequestSchema } from '../workflows/protocol/enqueue.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import type { Fields } from '../workflows/protocol/output.ts';
import { StoredTriggers } from './agent-triggers.ts';
import type { AgentHandle, AgentOptions, EventsOptions, TurnHandle, WakeInput } from './api.ts';
import { wakeDelivery } from './deliveries.ts';
import { followEvents } from './event-tail.ts';
import type { TurnWorkflows } from './turn-workflows.ts';

/** An agent whose rows this process can read and write. */
export class StoredAgent<Output extends object = Fields> implements AgentHandle<Output> {
  readonly id: string;
  readonly triggers: StoredTriggers;
  readonly #profile: string | undefined;
  readonly #store: ClientStore;
  readonly #workflows: TurnWorkflows;
  readonly #turn: (id: string, ack: EnqueueAck) => TurnHandle<Output>;

  constructor(
    store: ClientStore,
    workflows: TurnWorkflows,
    { id, profile }: AgentOptions & { readonly id: string },
    turn: (id: string, ack: EnqueueAck) => TurnHandle<Output>,
  ) {
    this.id = id;
    this.triggers = new StoredTriggers(store, id);
    this.#profile = profile;
    this.#store = store;
    this.#workflows = workflows;
    this.#turn = turn;
  }

  async enqueue(input: EnqueueInput): Promise<TurnHandle<Output>> {
    const { profile = this.#profile } = input;
    const parsed = enqueueRequestSchema.safeParse(profile === undefined ? input : { ...input, profile });
    if (!parsed.success) throw new CodedError('invalid_request', z.prettifyError(parsed.error));
    const outcome = await this.#store.accept({ agentId: this.id, request: parsed.data });
    if (outcome.kind === 'refused') throw new CodedError(outcome.code, outcome.message);
    const { kind: _, lease, ...ack } = outcome;
    if (lease) await this.#workflows.start(lease);
    return this.#turn(ack.agentTurnId, ack);
  }

  async stop(reason = 'stopped by a client'): Promise<{ readonly stoppedTurnId: string | null }> {
    const { stoppedTurnId, handover } = await this.#store.setLifecycle(this.id, 'stopped', reason);
    const active = stoppedTurnId === null ? null : { agentId: this.id, agentTurnId: stoppedTurnId };
    await this.#workflows.stopped(handover, active);
    return { stoppedTurnId };
  }

  async start(): Promise<void> {
    const { handover } = await this.#store.setLifecycle(this.id, 'started', '');
    await this.#workflows.handOver(handover);
  }

  replaceOutputBox(expectedBoxId: string, cardIds: readonly string[]): Promise<string> {
    return this.#store.replaceOutputBox(this.id, expectedBoxId, cardIds);
  }

  get(): Promise<AgentSummary | null> {
    return this.#store.agentSummary(this.id);
  }

  async wake(input: WakeInput): Promise<WakeAck> {
    const { handover, ...ack } = await this.#store.wakeAgent(this.id, wakeDelivery(input));
    await this.#workflows.handOver(handover);
    return ack;
  }

  workItems(page: WorkPage = {}): Promise<readonly ScheduledWorkItem[]> {
    return this.#store.listWorkItems(this.id, page);
  }

  waits(page: WorkPage = {}): Promise<readonly WaitView[]> {
    return this.#store.listWaits(this.id, page);
  }

  timers(): Promise<readonly ActiveTimer[]> {
    return this.#store.listTimers(this.id);
  }

  cancelTimer(timerId: string): Promise<boolean> {
    return this.#store.cancelTimer(this.id, timerId);
  }

  async turns(filter: TurnFilter = {}): Promise<readonly TurnView<Output>[]> {
    return (await this.#store.listTurns(this.id, filter)) as unknown as readonly TurnView<Output>[];
  }

  events(options: EventsOptions = {}): AsyncGenerator<AgentEvent, void> {
    return followEvents(this.#store, { agentId: this.id, ...options });
  }
}

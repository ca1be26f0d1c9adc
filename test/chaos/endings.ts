/** What clients and operators do to turns: stops, floods of one message, and what Temporal lets anybody do to a turn's workflow. */

import type { Client } from '@temporalio/client';
import type { AgentClient } from '../../client/agent-client.ts';
import { everyAgent } from '../../client/agent-pages.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import type { Floods } from './floods.ts';
import type { Ledger, OutsideFault } from './ledger.ts';
import { patiently } from './patience.ts';
import type { Random } from './random.ts';
import type { Tail } from './tail.ts';

export interface EndingDeps {
  readonly client: AgentClient;
  readonly store: ClientStore;
  readonly temporal: Client;
  readonly namespace: string;
  readonly ledger: Ledger;
  readonly tail: Tail;
  readonly floods: Floods;
  readonly random: Random;
}

const WEIGHTS = { stop: 4, agent_stop: 2, flood: 4, terminate: 4, cancel: 3, reset: 5, delete: 3, revive: 2 };

/** temporal.api.enums.v1.EventType */
const WORKFLOW_TASK_COMPLETED = 7;

export class Endings {
  readonly #deps: EndingDeps;
  readonly #stopped = new Set<string>();
  #count = 0;

  constructor(deps: EndingDeps) {
    this.#deps = deps;
  }

  async inject(): Promise<void> {
    const kind = this.#deps.random.weighted(WEIGHTS);
    if (kind === 'stop') return this.#stopTurn();
    if (kind === 'agent_stop') return this.#stopAgent();
    if (kind === 'flood') return this.#deps.floods.begin(this.#deps.random);
    if (kind === 'revive') return this.#reviveTurn();
    return this.#hitTurn(kind);
  }

  /** Agents stopped by this run are started again, whatever it takes. */
  async startAll(): Promise<void> {
    for (const agentId of this.#stopped) await this.#start(agentId);
  }

  async #stopTurn(): Promise<void> {
    const { client, ledger, tail, random } = this.#deps;
    const active = (await this.#active()).map((turn) => turn.agentTurnId);
    const agentTurnId = random.pick(random.chance(0.7) ? active : tail.openTurns());
    if (agentTurnId === undefined) return;
    const reason = this.#reason();
    const ack = await patiently(ledger, 'stop', () => client.turn(agentTurnId).stop(reason));
    ledger.fault('stop turn', `${agentTurnId}: ${ack?.ack}`);
  }

  async #stopAgent(): Promise<void> {
    const { client, ledger, tail, random } = this.#deps;
    const agentId = random.pick(tail.agentIds().filter((id) => tail.open(id) > 0));
    if (agentId === undefined) return;
    const reason = this.#reason();
    this.#stopped.add(agentId);
    await patiently(ledger, 'stop the agent', () => client.agent(agentId).stop(reason));
    ledger.fault('stop agent', agentId);
    setTimeout(() => void this.#start(agentId).catch(() => {}), random.int(500, 4_000)).unref();
  }

  async #start(agentId: string): Promise<void> {
    const { client, ledger } = this.#deps;
    await patiently(ledger, 'start the agent', () => client.agent(agentId).start());
    this.#stopped.delete(agentId);
  }

  #reason(): string {
    this.#count += 1;
    const reason = `chaos stop ${this.#count}`;
    this.#deps.ledger.stopReasons.add(reason);
    return reason;
  }

  async #hitTurn(kind: OutsideFault): Promise<void> {
    const { ledger, random } = this.#deps;
    const turn = random.pick(await this.#active());
    if (!turn) return;
    ledger.hitTurn(turn.agentTurnId, kind);
    await this.#do(kind, turnWorkflowId(turn.agentId, turn.agentTurnId));
    ledger.fault(`${kind} turn`, `${turn.agentId} ${turn.agentTurnId}`);
  }

  /** Resets the workflow of a turn that has ended: nothing may come of it. */
  async #reviveTurn(): Promise<void> {
    const { ledger, tail, random } = this.#deps;
    const open = new Set(tail.openTurns());
    const turn = random.pick([...ledger.acked.values()].filter(({ agentTurnId }) => !open.has(agentTurnId)));
    if (!turn) return;
    await this.#do('reset', turnWorkflowId(turn.agentId, turn.agentTurnId));
    ledger.fault('reset ended turn', `${turn.agentId} ${turn.agentTurnId}`);
  }

  async #active(): Promise<{ agentId: string; agentTurnId: string }[]> {
    const active: { agentId: string; agentTurnId: string }[] = [];
    for await (const { agentId, activeAgentTurnId: agentTurnId } of everyAgent(this.#deps.store))
      if (agentTurnId !== null) active.push({ agentId, agentTurnId });
    return active;
  }

  async #do(kind: OutsideFault, workflowId: string): Promise<void> {
    const { temporal, namespace, random } = this.#deps;
    const handle = temporal.workflow.getHandle(workflowId);
    if (kind === 'terminate') await handle.terminate('chaos');
    if (kind === 'cancel') await handle.cancel();
    if (kind === 'delete') {
      await temporal.workflowService.deleteWorkflowExecution({ namespace, workflowExecution: { workflowId } });
    }
    if (kind !== 'reset') return;
    const { events } = await handle.fetchHistory();
    const tasks = (events ?? []).filter((event) => event.eventType === WORKFLOW_TASK_COMPLETED);
    const task = random.pick(tasks);
    if (!task?.eventId) return;
    await temporal.workflowService.resetWorkflowExecution({
      namespace,
      workflowExecution: { workflowId },
      workflowTaskFinishEventId: task.eventId,
      requestId: crypto.randomUUID(),
      reason: 'chaos',
    });
  }
}

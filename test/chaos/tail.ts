/** Follows the events of every agent, each once and in order: which turns are open, and which calls wait for an answer. */
import { setTimeout as sleep } from 'node:timers/promises';
import { delegatedAgentId, delegatedTurnId } from '../../activities/ids.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import { DELEGATE_ASYNC, isDelegation } from '../../workflows/protocol/builtins.ts';
import { type Ledger, MADE_BY } from './ledger.ts';
import { noting } from './patience.ts';
import { delegatedProfile } from './work.ts';

const EVERY_MS = 150;
const PAGE = 500;

interface Followed {
  seq: number;
  readonly open: Set<string>;
  readonly ended: Set<string>;
}

export class Tail {
  readonly #store: ClientStore;
  readonly #ledger: Ledger;
  readonly #onEvent: (event: AgentEvent) => void;
  readonly #agents = new Map<string, Followed>();
  #running = true;
  #loop: Promise<void> = Promise.resolve();

  constructor(store: ClientStore, ledger: Ledger, onEvent: (event: AgentEvent) => void) {
    this.#store = store;
    this.#ledger = ledger;
    this.#onEvent = onEvent;
  }

  start(): void {
    this.#loop = this.#run();
  }

  async stop(): Promise<void> {
    this.#running = false;
    await this.#loop;
  }

  /** How many acked turns of the agent have not ended yet. */
  open(agentId: string): number {
    return this.#agents.get(agentId)?.open.size ?? 0;
  }

  openTurns(): readonly string[] {
    return [...this.#agents.values()].flatMap(({ open }) => [...open]);
  }

  agentIds(): readonly string[] {
    return [...this.#agents.keys()];
  }

  expect(agentId: string, agentTurnId: string): void {
    const agent = this.follow(agentId);
    if (!agent.ended.has(agentTurnId)) agent.open.add(agentTurnId);
  }

  follow(agentId: string): Followed {
    const known = this.#agents.get(agentId) ?? { seq: 0, open: new Set<string>(), ended: new Set<string>() };
    this.#agents.set(agentId, known);
    return known;
  }

  async #run(): Promise<void> {
    while (this.#running) {
      for (const [agentId, agent] of this.#agents) {
        await noting(this.#ledger, 'reading events', () => this.#read(agentId, agent));
      }
      await sleep(EVERY_MS);
    }
  }

  /** What a turn delegates has ids made of its call: an agent and a turn that nobody else announces. */
  #expectDelegated({ type, payload }: AgentEvent): void {
    if (type !== 'call' || !isDelegation(payload.tool)) return;
    if (payload.phase !== 'suspended' && !(payload.tool === DELEGATE_ASYNC && payload.status === 'success')) return;
    const { tool, callId } = payload;
    const made = { agentId: delegatedAgentId(delegatedProfile(tool), callId), agentTurnId: delegatedTurnId(callId) };
    this.#ledger.acked.set(made.agentTurnId, made);
    this.#ledger.count(`${MADE_BY}${tool}`);
    this.expect(made.agentId, made.agentTurnId);
  }

  async #read(agentId: string, agent: Followed): Promise<void> {
    for (const event of await this.#store.readEvents({ agentId, afterSeq: agent.seq, limit: PAGE })) {
      if (event.seq !== agent.seq + 1) {
        this.#ledger.problem({ check: 'events_skipped', agentId, detail: `${event.seq} after ${agent.seq}` });
      }
      agent.seq = event.seq;
      if (event.type === 'task' && event.agentTurnId !== null) {
        if (agent.ended.has(event.agentTurnId)) {
          const detail = 'a second task event was read';
          this.#ledger.problem({ check: 'several_task_events', agentId, agentTurnId: event.agentTurnId, detail });
        }
        agent.ended.add(event.agentTurnId);
        agent.open.delete(event.agentTurnId);
      }
      this.#expectDelegated(event);
      this.#onEvent(event);
    }
  }
}

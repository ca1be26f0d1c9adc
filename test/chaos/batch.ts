/** The clients of an acceptance run: so many agents, each asked so many times, each time by another client, and then no more. */
import type { AgentClient } from '../../client/agent-client.ts';
import type { EnqueueInput } from '../../workflows/protocol/enqueue.ts';
import type { Ledger } from './ledger.ts';
import { noting, patiently } from './patience.ts';
import { randomOf } from './random.ts';
import type { Tail } from './tail.ts';
import { requestOf } from './work.ts';

export interface BatchDeps {
  readonly clients: readonly AgentClient[];
  readonly ledger: Ledger;
  readonly tail: Tail;
  readonly seed: number;
  readonly turnsPerAgent: number;
}

interface Asked {
  readonly agentId: string;
  readonly request: EnqueueInput;
}

export class Batch {
  readonly #deps: BatchDeps;
  #running = true;
  #done = false;
  #loops: Promise<void>[] = [];

  constructor(deps: BatchDeps) {
    this.#deps = deps;
  }

  start(agents: number): void {
    const { clients } = this.#deps;
    const requests = this.#requests(agents);
    this.#loops = clients.map((client, index) => this.#ask(client, requests[index] ?? []));
    Promise.all(this.#loops).then(
      () => {
        this.#done = true;
      },
      // Awaited in stop().
      () => {},
    );
  }

  /** Whether every request has its answer. */
  get done(): boolean {
    return this.#done;
  }

  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#loops);
  }

  /** By client. All agents are asked once, then all of them again, so that an agent hears several clients at the same time. */
  #requests(agents: number): readonly (readonly Asked[])[] {
    const { clients, seed, turnsPerAgent } = this.#deps;
    const random = randomOf(seed, 'batch');
    const byClient: Asked[][] = clients.map(() => []);
    for (let round = 0; round < turnsPerAgent; round += 1) {
      for (let agent = 0; agent < agents; agent += 1) {
        const agentId = `b${agent}`;
        const request = requestOf(random, `Turn ${round} of ${agentId}.`, { short: agent % 2 === 0 });
        byClient[(agent + round) % clients.length]?.push({
          agentId,
          request: { ...request, idempotencyKey: `key-${round}` },
        });
      }
    }
    return byClient;
  }

  async #ask(client: AgentClient, requests: readonly Asked[]): Promise<void> {
    const { ledger, tail } = this.#deps;
    for (const { agentId, request } of requests) {
      if (!this.#running) return;
      await noting(ledger, 'a request', async () => {
        const turn = await patiently(ledger, 'enqueue', () => client.agent(agentId).enqueue(request));
        if (!turn) return;
        ledger.count('enqueues acked');
        ledger.acked.set(turn.id, { agentTurnId: turn.id, agentId });
        tail.expect(agentId, turn.id);
      });
    }
  }
}

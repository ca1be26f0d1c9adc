/**
 * A poisoned queue: a burst of requests that nobody can run, because the box that they name is not there, at one agent, with good ones before, between
 * and behind them. Each of the bad ones must end by itself, and none may hold up a good one. Each burst has an agent of its own, whose turns
 * the other faults hit like any others.
 */
import type { AgentClient } from '../../client/agent-client.ts';
import type { EnqueueInput } from '../../workflows/protocol/enqueue.ts';
import type { Ledger } from './ledger.ts';
import { noting, patiently } from './patience.ts';
import type { Random } from './random.ts';
import type { Tail } from './tail.ts';
import { profileNamed } from './work.ts';

/** No run makes a box of this id. */
const MISSING_BOX = '0197d6a0-0000-7000-8000-000000000000';
/** How the instruction of a request begins that nobody can run. */
export const POISONED = 'Bad request';

const SIZE = [60, 200] as const;
const SIDE_BY_SIDE = 8;
/** Of the requests between the first and the last one. */
const GOOD = 0.03;

export interface PoisonDeps {
  readonly client: AgentClient;
  readonly ledger: Ledger;
  readonly tail: Tail;
}

export class Poison {
  readonly #deps: PoisonDeps;
  readonly #pending = new Set<Promise<void>>();
  #count = 0;

  constructor(deps: PoisonDeps) {
    this.#deps = deps;
  }

  /** Begins one; it takes its time beside other faults. */
  begin(random: Random): void {
    this.#count += 1;
    const agentId = `poison-${this.#count}`;
    const requests = requestsOf(agentId, random);
    this.#deps.ledger.fault('poisoned queue', `${requests.length} requests to ${agentId}`);
    const done = noting(this.#deps.ledger, 'a poisoned queue', () => this.#send(agentId, requests)).finally(() =>
      this.#pending.delete(done),
    );
    this.#pending.add(done);
  }

  /** Resolves when every request of every burst has its answer. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  /** The first one is taken before the burst, which finds the agent at work; the last one behind it. */
  async #send(agentId: string, [first, ...others]: readonly EnqueueInput[]): Promise<void> {
    const last = others.pop();
    if (!first || !last) return;
    await this.#enqueue(agentId, first);
    const left = [...others].reverse();
    const work = async () => {
      for (let next = left.pop(); next; next = left.pop()) await this.#enqueue(agentId, next);
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, work));
    await this.#enqueue(agentId, last);
  }

  async #enqueue(agentId: string, request: EnqueueInput): Promise<void> {
    const { client, ledger, tail } = this.#deps;
    const turn = await patiently(ledger, 'enqueue', () => client.agent(agentId).enqueue(request));
    if (!turn) return;
    ledger.acked.set(turn.id, { agentTurnId: turn.id, agentId });
    tail.expect(agentId, turn.id);
  }
}

function requestsOf(agentId: string, random: Random): readonly EnqueueInput[] {
  const size = random.int(...SIZE);
  return Array.from({ length: size }, (_, index) => {
    const isGood = index === 0 || index === size - 1 || random.chance(GOOD);
    const plan = index === 0 ? 'slow_safe:3000' : 'note:0';
    const instruction = isGood
      ? `[plan ${plan}] Good request ${index} of ${agentId}.`
      : `${POISONED} ${index} of ${agentId}.`;
    const request = { instruction, profile: profileNamed({}), idempotencyKey: `key-${index}` };
    return isGood ? request : { ...request, contextBoxId: MISSING_BOX };
  });
}

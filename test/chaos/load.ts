/** The clients that ask: each agent gets turns as long as it has few enough open, some asked for twice, some steered, some by Temporal alone. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentClient } from '../../client/agent-client.ts';
import type { TurnHandle } from '../../client/api.ts';
import type { EnqueueInput } from '../../workflows/protocol/enqueue.ts';
import type { Foreign } from './foreign.ts';
import type { Ledger } from './ledger.ts';
import { codeOf, noting, patiently } from './patience.ts';
import { type Random, randomOf } from './random.ts';
import type { Tail } from './tail.ts';
import { type ChaosRequest, hostilePart, hostileRequestOf, requestOf, type Traits } from './work.ts';

const MAX_OPEN = 5;
/** After so many turns a client goes on with a new agent: what an agent remembers grows with each. */
const TURNS_PER_AGENT = 30;
const FULL_PAUSE_MS = 150;
/** Share of the requests that come from a foreign client. */
const FOREIGN = 0.08;
/** Share of the requests of which the model answers a step in a hostile way. */
const HOSTILE = 0.08;

export interface LoadDeps {
  readonly client: AgentClient;
  readonly foreign: Foreign;
  readonly ledger: Ledger;
  readonly tail: Tail;
  readonly seed: number;
}

export class Load {
  readonly #deps: LoadDeps;
  #running = true;
  #loops: Promise<void>[] = [];

  constructor(deps: LoadDeps) {
    this.#deps = deps;
  }

  start(agents: number): void {
    this.#loops = Array.from({ length: agents }, (_, slot) => this.#loop(slot));
  }

  /** Resolves when every request under way has its answer. */
  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#loops);
  }

  async #loop(slot: number): Promise<void> {
    const random = randomOf(this.#deps.seed, `load ${slot}`);
    for (let index = 0; this.#running; index += 1) {
      const agentId = `a${slot}-${Math.floor(index / TURNS_PER_AGENT)}`;
      while (this.#running && this.#deps.tail.open(agentId) >= MAX_OPEN) await sleep(FULL_PAUSE_MS);
      await noting(this.#deps.ledger, 'a request', () => this.#ask(agentId, slot, index, random));
      await sleep(random.int(0, 400));
    }
  }

  async #ask(agentId: string, slot: number, index: number, random: Random): Promise<void> {
    const { ledger, foreign } = this.#deps;
    const request = anyRequest(random, `Turn ${index} of ${agentId}.`, traitsOf(slot));
    const idempotencyKey = `key-${index}`;
    if (random.chance(FOREIGN)) return foreign.send(agentId, { ...request, idempotencyKey }, random);
    const keyed: EnqueueInput = random.chance(0.8) ? { ...request, idempotencyKey } : request;
    const twice = random.chance(0.1);
    const first = this.#enqueue(agentId, keyed);
    if (keyed.idempotencyKey === undefined) {
      await first;
      return;
    }
    // Two clients with one key at the same instant, or one that asks again later.
    const second = twice ? this.#enqueue(agentId, keyed) : undefined;
    const turn = await first;
    const same = await second;
    if (turn && same && turn.id !== same.id) {
      ledger.problem({ check: 'one_key_two_turns', agentId, agentTurnId: turn.id, detail: `and ${same.id}` });
    }
    if (!turn) return;
    if (random.chance(0.1)) await this.#repeat(agentId, turn, keyed, random);
    // A message that its turn did not take becomes a turn that is answered like the one before it.
    if (random.chance(0.06) && !hostilePart(request.instruction)) await this.#steer(agentId, turn, index, random);
  }

  /** Without a key nobody can ask again, so a failure leaves the turn unacked. */
  async #enqueue(agentId: string, request: EnqueueInput): Promise<TurnHandle | undefined> {
    const { client, ledger, tail } = this.#deps;
    const call = () => client.agent(agentId).enqueue(request);
    try {
      const turn = request.idempotencyKey ? await patiently(ledger, 'enqueue', call) : await call();
      if (!turn) return undefined;
      ledger.count('enqueues acked');
      if (turn.ack?.duplicate) ledger.count('enqueues answered duplicate');
      ledger.acked.set(turn.id, { agentTurnId: turn.id, agentId });
      tail.expect(agentId, turn.id);
      return turn;
    } catch (error) {
      if (codeOf(error) !== 'agent_stopped') throw error;
      ledger.count('enqueues refused agent_stopped');
      return undefined;
    }
  }

  async #repeat(agentId: string, turn: TurnHandle, request: EnqueueInput, random: Random): Promise<void> {
    const { client, ledger } = this.#deps;
    await sleep(random.int(0, 500));
    const again = await patiently(ledger, 'enqueue again', () => client.agent(agentId).enqueue(request));
    if (again && (again.id !== turn.id || again.ack?.duplicate !== true)) {
      const detail = `the same key gave ${again.id}, duplicate ${again.ack?.duplicate}`;
      ledger.problem({ check: 'one_key_two_turns', agentId, agentTurnId: turn.id, detail });
    }
    try {
      const other = { ...request, instruction: `${request.instruction} But different.` };
      const conflict = await patiently(ledger, 'conflict', () => client.agent(agentId).enqueue(other));
      if (conflict) ledger.problem({ check: 'conflict_accepted', agentId, detail: conflict.id });
    } catch (error) {
      if (codeOf(error) !== 'idempotency_conflict') throw error;
      ledger.count('conflicting keys refused');
    }
  }

  /** One in four is sent by two clients at once. */
  async #steer(agentId: string, turn: TurnHandle, index: number, random: Random): Promise<void> {
    const { ledger, tail } = this.#deps;
    const text = `Steer ${index} of ${agentId}: and be careful.`;
    const send = () => patiently(ledger, 'steer', () => turn.steer(text, { key: `steer-${index}` }));
    const acks = await Promise.all(Array.from({ length: random.chance(0.25) ? 2 : 1 }, send));
    const places = new Set<number>();
    for (const answer of acks) {
      if (!answer) continue;
      ledger.count(`steers ${answer.ack}`);
      if (answer.seq !== undefined) places.add(answer.seq);
    }
    if (places.size > 1) {
      const detail = `one message has the places ${[...places].join(', ')}`;
      ledger.problem({ check: 'steer_twice', agentId, agentTurnId: turn.id, detail });
    }
    if (places.size > 0) ledger.steers.push({ agentId, text });
    tail.follow(agentId);
  }
}

/** The runs of every second agent's turns are short, every third works without bursts; for one in five nobody counts tokens, another one is hasty. */
const traitsOf = (slot: number): Traits => ({
  short: slot % 2 === 0,
  uncounted: slot % 5 === 2,
  hasty: slot % 5 === 4,
  single: slot % 3 === 1,
});

const anyRequest = (random: Random, label: string, traits: Traits): ChaosRequest =>
  random.chance(HOSTILE) ? hostileRequestOf(random, label, traits) : requestOf(random, label, traits);

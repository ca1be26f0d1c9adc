/**
 * Agents that live on between their turns: each plans some work, goes on by itself, waits, is woken by whoever has its trigger, twice each
 * time, and asked to go on where a fault has ended its turn. A life is over when all of its work is completed.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { newWakeToken, wakeTokenHash } from '../../activities/wake-tokens.ts';
import type { AgentClient } from '../../client/agent-client.ts';
import type { TurnWorkflows } from '../../client/turn-workflows.ts';
import type { WakeDisposition } from '../../workflows/contract/agent-work.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import type { Ledger } from './ledger.ts';
import { LIVING_PROFILE, lifeOf } from './living-model.ts';
import { noting, patiently } from './patience.ts';
import { type Random, randomOf } from './random.ts';
import type { Tail } from './tail.ts';

/** Of so many agents that are asked, one more lives. */
const SHARE = 4;
const LOOK_EVERY_MS = 300;
/** A life that takes longer has lost something. */
const LONGEST_MS = 240_000;

/** What a life has come to, for the verdict. */
export interface Life {
  readonly agentId: string;
  readonly pieces: number;
  /** Deliveries that were taken, by their keys. */
  readonly taken: Set<string>;
  isOver: boolean;
}

export interface LivingDeps {
  readonly client: AgentClient;
  readonly store: ClientStore;
  readonly workflows: TurnWorkflows;
  readonly ledger: Ledger;
  readonly tail: Tail;
  readonly seed: number;
}

export class Living {
  readonly #deps: LivingDeps;
  readonly lives: Life[] = [];
  #running = true;
  #loops: Promise<void>[] = [];

  constructor(deps: LivingDeps) {
    this.#deps = deps;
  }

  start(agents: number): void {
    this.#loops = Array.from({ length: Math.ceil(agents / SHARE) }, (_, slot) => this.#loop(slot));
  }

  /** Begins no further life; resolves when those that have begun are over. */
  async settled(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#loops);
  }

  async #loop(slot: number): Promise<void> {
    const { ledger, seed } = this.#deps;
    const random = randomOf(seed, `living ${slot}`);
    for (let index = 0; this.#running; index += 1) {
      const life: Life = { agentId: `l${slot}-${index}`, pieces: random.int(1, 3), taken: new Set(), isOver: false };
      await noting(ledger, 'a life', () => this.#live(life, random));
    }
  }

  async #live(life: Life, random: Random): Promise<void> {
    const { ledger, store } = this.#deps;
    const { agentId, pieces } = life;
    if (!(await this.#ask(agentId, lifeOf(pieces, `of ${agentId}`), 'first'))) return;
    this.lives.push(life);
    const tokenHash = wakeTokenHash(newWakeToken());
    const trigger = { triggerId: `trigger-${agentId}`, name: 'chaos', tokenHash };
    if (!(await patiently(ledger, 'a trigger', () => store.createTrigger(agentId, trigger)))) return;
    const until = Date.now() + LONGEST_MS;
    for (let round = 0; Date.now() < until; round += 1) {
      await sleep(LOOK_EVERY_MS + random.int(0, LOOK_EVERY_MS));
      const posture = await this.#look(life);
      if (posture === null) continue;
      if (posture === 'idle') {
        life.isOver = true;
        ledger.count('lives');
        return;
      }
      if (posture === 'has_runnable_work' || posture === 'waiting_for_operator')
        await this.#ask(agentId, lifeOf(0, `${round} of ${agentId}`), `go-on-${round}`);
      if (posture === 'waiting_for_external' || random.chance(0.1)) await this.#hit(life, tokenHash, `hit-${round}`);
    }
    ledger.problem({ check: 'life_not_over', agentId, detail: (await this.#look(life)) ?? 'it is at work' });
  }

  /** What the agent is at, where nothing is under way; `idle` once all of its work is there and completed. */
  async #look({ agentId, pieces }: Life): Promise<string | null> {
    const { ledger, store } = this.#deps;
    const summary = await patiently(ledger, 'a summary', () => store.agentSummary(agentId));
    if (!summary) return null;
    const { posture } = summary.schedulingPosture;
    if (posture === 'active_turn' || posture === 'has_queued_input' || posture === 'blocked') return null;
    if (posture !== 'idle') return posture;
    // Whoever ended the first turn has ended its plan too.
    const items = await patiently(ledger, 'work items', () => store.listWorkItems(agentId));
    if (items && items.length < pieces)
      await this.#ask(agentId, lifeOf(pieces, `again, of ${agentId}`), `again-${summary.agent.turnIndex}`);
    return items && items.length >= pieces ? 'idle' : null;
  }

  async #ask(agentId: string, instruction: string, idempotencyKey: string): Promise<boolean> {
    const { client, ledger, tail } = this.#deps;
    const request = { instruction, profile: LIVING_PROFILE, idempotencyKey };
    const turn = await patiently(ledger, 'enqueue', () => client.agent(agentId).enqueue(request));
    if (!turn) return false;
    ledger.acked.set(turn.id, { agentTurnId: turn.id, agentId });
    tail.expect(agentId, turn.id);
    return true;
  }

  /** Each delivery comes twice, at the same time or one after the other. */
  async #hit(life: Life, tokenHash: string, key: string): Promise<void> {
    const both = await Promise.all([this.#deliver(tokenHash, key), this.#deliver(tokenHash, key)]);
    const again = await this.#deliver(tokenHash, key);
    const { ledger } = this.#deps;
    const counted = [...both, again].filter((how) => how === 'woken' || how === 'kept');
    if (counted.length > 0) life.taken.add(key);
    if (counted.length > 1)
      ledger.problem({ check: 'delivered_twice', agentId: life.agentId, detail: `${key}: ${counted.join(', ')}` });
  }

  async #deliver(tokenHash: string, key: string): Promise<WakeDisposition | undefined> {
    const { store, workflows, ledger } = this.#deps;
    const woken = await patiently(ledger, 'a delivery', () => store.fireTrigger(tokenHash, { text: key, key }));
    if (!woken) return undefined;
    ledger.count(`deliveries ${woken.disposition}`);
    // Where the start is lost, the supervisor makes it.
    await patiently(ledger, 'a start', () => workflows.handOver(woken.handover));
    return woken.disposition;
  }
}

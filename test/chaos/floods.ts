/**
 * Floods: the same message, hundreds of times, at one turn that waits. What is repeated must add nothing to the turn's history. Each flood
 * has an agent and a turn of its own, whose calls nobody else answers; the other faults hit it like any other turn.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { AgentClient } from '../../client/agent-client.ts';
import type { TurnHandle } from '../../client/api.ts';
import type { TurnView } from '../../workflows/contract/views.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { isTerminal } from '../../workflows/protocol/turn.ts';
import type { Foreign, ForeignInput } from './foreign.ts';
import type { Ledger } from './ledger.ts';
import { noting, patiently } from './patience.ts';
import type { Random } from './random.ts';
import type { Tail } from './tail.ts';
import { profileNamed } from './work.ts';

export interface FloodDeps {
  readonly client: AgentClient;
  readonly temporal: Client;
  readonly foreign: Foreign;
  readonly ledger: Ledger;
  readonly tail: Tail;
}

/** What is repeated: the request by our client and by a foreign one, a result, a heartbeat, the same budgets, a steer, the stop of the ended turn. */
const KINDS = { enqueue: 1, foreign: 1, report: 1, heartbeat: 1, budgets: 1, steer: 1, stop: 1 };
type Kind = keyof typeof KINDS;

const LIMITS = { maxSteps: 60 };
const REPEATS = 200;
const SIDE_BY_SIDE = 10;
/** What a history may grow by while nothing new is said. */
const MOST_NEW_EVENTS = 10;
/** A stopped turn's workflow closes: a signal, its tasks, the marker of its last look at the store, its end. */
const CLOSING_EVENTS = 15;
const PATIENCE_MS = 60_000;
const RELEASE_MS = 150_000;
const LOOK_EVERY_MS = 300;
/** A history that has not changed for so many looks, without a task under way, stays as it is. */
const QUIET_LOOKS = 5;

interface Target {
  readonly turn: TurnHandle;
  readonly request: ForeignInput;
  readonly agentId: string;
  /** The call that has its result, and the one that waits. */
  readonly answered: string;
  readonly waiting: string;
}

interface Length {
  readonly runId: string;
  readonly events: number;
}

export class Floods {
  /** The place of the steer that is repeated, by turn. */
  readonly #places = new Map<string, number>();
  readonly #deps: FloodDeps;
  readonly #pending = new Set<Promise<void>>();
  #count = 0;

  constructor(deps: FloodDeps) {
    this.#deps = deps;
  }

  /** Begins one; it takes its time beside other faults. */
  begin(random: Random): void {
    this.#count += 1;
    const agentId = `flood-${this.#count}`;
    const kind = random.weighted(KINDS);
    const done = noting(this.#deps.ledger, `a flood (${kind})`, () => this.#flood(agentId, kind)).finally(() =>
      this.#pending.delete(done),
    );
    this.#pending.add(done);
  }

  /** Resolves when every flood that was begun is over. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  async #flood(agentId: string, kind: Kind): Promise<void> {
    const { client, ledger, tail } = this.#deps;
    const profile = profileNamed({});
    const request = { instruction: `[plan hold:0,hold:0] Flood of ${agentId}.`, profile, idempotencyKey: 'flood' };
    const turn = await patiently(ledger, 'enqueue', () => client.agent(agentId).enqueue(request));
    if (!turn) return;
    ledger.acked.set(turn.id, { agentTurnId: turn.id, agentId });
    tail.expect(agentId, turn.id);
    try {
      const target = await this.#prepared(agentId, turn, request);
      if (target) await this.#repeat(target, kind);
    } finally {
      await this.#release(turn);
    }
  }

  /** Null when the turn came to nothing that can be flooded: other faults hit it too. */
  async #prepared(agentId: string, turn: TurnHandle, request: ForeignInput): Promise<Target | null> {
    const { ledger } = this.#deps;
    const view = await this.#until(turn, ({ waiting }) => waiting.length === 2);
    const [answered, waiting] = view?.waiting.map(({ callId }) => callId) ?? [];
    if (answered === undefined || waiting === undefined) return null;
    await patiently(ledger, 'budgets', () => turn.setBudgets(LIMITS).catch(ignoreEnded));
    const report = { callId: answered, status: 'success', result: {} } as const;
    await patiently(ledger, 'a tool result', () => turn.toolResult(report));
    return { turn, request, agentId, answered, waiting };
  }

  async #repeat(target: Target, kind: Kind): Promise<void> {
    const { ledger } = this.#deps;
    const { turn } = target;
    const before = await this.#quietLength(target);
    if (!before) return;
    const reason = `chaos stop of ${target.agentId}`;
    if (kind === 'stop') {
      ledger.stopReasons.add(reason);
      await patiently(ledger, 'stop', () => turn.stop(reason));
    }
    const left = Array.from({ length: REPEATS }, (_, index) => index);
    const work = async () => {
      while (left.pop() !== undefined) await patiently(ledger, 'a repeat', () => this.#send(target, kind, reason));
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, work));
    ledger.fault('flood', `${REPEATS} times ${kind} at ${turn.id}`);
    const after = await this.#quietLength(target);
    const view = await patiently(ledger, 'a look at the turn', () => turn.get());
    const isAsPlanned = kind === 'stop' ? view?.reason === reason : view?.status === 'suspended';
    if (!after || !isAsPlanned || ledger.hitsOf(turn.id).length > 0) return;
    const most = MOST_NEW_EVENTS + (kind === 'stop' ? CLOSING_EVENTS : 0);
    ledger.count(`floods survived (${kind})`);
    if (after.runId === before.runId && after.events - before.events <= most) return;
    const detail = `${REPEATS} times ${kind}: run ${before.runId} with ${before.events} events became ${after.runId} with ${after.events}`;
    ledger.problem({ check: 'flood_in_history', agentId: target.agentId, agentTurnId: turn.id, detail });
  }

  async #send({ turn, request, agentId, answered, waiting }: Target, kind: Kind, reason: string): Promise<void> {
    const { client, foreign, ledger } = this.#deps;
    switch (kind) {
      case 'enqueue': {
        const same = await client.agent(agentId).enqueue(request);
        if (same.id === turn.id) return;
        return ledger.problem({ check: 'one_key_two_turns', agentId, agentTurnId: turn.id, detail: `and ${same.id}` });
      }
      case 'foreign':
        return foreign.toAcceptor(agentId, request);
      case 'report':
        return void (await turn.toolResult({ callId: answered, status: 'success', result: {} }));
      case 'heartbeat':
        return void (await turn.toolResult({ callId: waiting, status: 'running' }));
      case 'budgets':
        return turn.setBudgets(LIMITS).catch(ignoreEnded);
      case 'steer': {
        const text = `Steer of ${agentId}.`;
        const { ack, seq } = await turn.steer(text, { key: 'flood' });
        if (ack === 'accepted' && !ledger.steers.some((known) => known.text === text))
          ledger.steers.push({ agentId, text });
        if (ack !== 'accepted' || seq === undefined) return;
        const place = this.#places.get(turn.id) ?? seq;
        this.#places.set(turn.id, place);
        if (seq === place) return;
        return ledger.problem({
          check: 'steer_twice',
          agentId,
          agentTurnId: turn.id,
          detail: `its place was ${place}, then ${seq}`,
        });
      }
      case 'stop':
        return void (await turn.stop(reason));
    }
  }

  /** What waits in the turn is answered, so that it can end; one that does not end all the same the verdict finds. */
  async #release(turn: TurnHandle): Promise<void> {
    const { ledger } = this.#deps;
    for (const deadline = Date.now() + RELEASE_MS; Date.now() < deadline; await sleep(LOOK_EVERY_MS)) {
      const view = await patiently(ledger, 'a look at the turn', () => turn.get());
      if (!view || isTerminal(view.status)) return;
      for (const { callId } of view.waiting) {
        await patiently(ledger, 'a tool result', () => turn.toolResult({ callId, status: 'success', result: {} }));
      }
    }
  }

  async #until(turn: TurnHandle, holds: (view: TurnView) => boolean): Promise<TurnView | null> {
    for (const deadline = Date.now() + PATIENCE_MS; Date.now() < deadline; await sleep(LOOK_EVERY_MS)) {
      const view = await patiently(this.#deps.ledger, 'a look at the turn', () => turn.get());
      if (!view || isTerminal(view.status)) return null;
      if (holds(view)) return view;
    }
    return null;
  }

  /** Once the workflow has done what it has to do; null when it goes on and on, or is gone. */
  async #quietLength({ agentId, turn }: Target): Promise<Length | null> {
    const handle = this.#deps.temporal.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    let last: Length = { runId: '', events: 0 };
    let looks = 0;
    for (const deadline = Date.now() + PATIENCE_MS; Date.now() < deadline; await sleep(LOOK_EVERY_MS)) {
      try {
        const { runId, historyLength, raw } = await handle.describe();
        const isSame = runId === last.runId && historyLength === last.events;
        looks = isSame && !raw.pendingWorkflowTask && !raw.pendingActivities?.length ? looks + 1 : 0;
        last = { runId, events: historyLength };
        if (looks >= QUIET_LOOKS) return last;
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return null;
        looks = 0;
      }
    }
    return null;
  }
}

/** Budgets of a turn that another fault has ended. */
function ignoreEnded(error: unknown): void {
  if (!(error instanceof Error && 'code' in error && error.code === 'turn_not_found')) throw error;
}

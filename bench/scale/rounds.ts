/** What a turn, an operator and a supervisor ask of a store, each timed by itself. */
import { callId as callIdOf } from '../../activities/ids.ts';
import type { Lease } from '../../workflows/contract/lease.ts';
import type { StepCommit } from '../../workflows/contract/steps.ts';
import type { Store } from '../../workflows/contract/store.ts';
import type { CardContents } from '../../workflows/protocol/cards.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import { timed } from '../numbers.ts';
import { PROFILE } from '../workload.ts';

/** Milliseconds of each operation, in the order in which they were first met. */
export type Timings = Map<string, number[]>;

/** As `agents ls` asks without `--limit`. */
const PAGE = 100;
const LAST_TURNS = 10;
/** As many as the supervisor asks for. */
const IN_ONE_PASS = 200;
const LEASE_MS = 10_000;
const ATTEMPT = { run: 'run', activity: 1, attempt: 1, scheduledAt: 1 };
const HOUR_MS = 3_600_000;

export class Rounds {
  readonly #store: Store;
  readonly timings: Timings = new Map();
  /** The operations of turns, which write. */
  readonly writes = new Set<string>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Two turns of an idle agent: the second is accepted while the first is open, and leased by its end. */
  async turns(agentId: string, kind = ''): Promise<void> {
    const store = this.#store;
    const request = { instruction: 'Say what was said before.', profile: PROFILE, priority: 'normal' } as const;
    const accept = async () => {
      const accepted = await store.accept({ agentId, request });
      if (accepted.kind === 'accepted') return accepted;
      throw new Error(accepted.message);
    };
    const { lease } = await this.#timeOfTurn(`accept and lease${kind}`, accept);
    if (!lease) throw new Error(`agent ${agentId} is not idle`);
    const fence = fenceOf(lease);
    await this.#timeOfTurn(`open a step${kind}`, () =>
      store.openStep(fence, { stepIndex: 1, profileHash: lease.profileHash }),
    );
    await this.#timeOfTurn(`commit a step with a call${kind}`, () => store.commitStep(fence, stepOf(lease, 1, true)));
    await this.#call(fence, kind);
    await this.#timeOfTurn(`accept behind an open turn${kind}`, accept);
    const next = await this.#timeOfTurn(`commit a turn, lease the next${kind}`, () => this.#commit(fence));
    if (!next) throw new Error(`agent ${agentId} has no second turn`);
    await this.#ask(next, kind);
    await this.#timeOfTurn(`commit a turn${kind}`, () => this.#commit(fenceOf(next)));
  }

  async #call(fence: Fence, kind: string): Promise<void> {
    const callId = callIdOf(fence.agentTurnId, 1, 0);
    const claim = { callId, first: true, by: ATTEMPT, repeatable: false };
    await this.#timeOfTurn(`claim a call${kind}`, () => this.#store.claimCall(fence, claim));
    const content = { callId, tool: 'produce', status: 'success', afterExecution: 'continue', result: 'x' } as const;
    const result = { callId, attempt: 1, content, durationMs: 1 };
    await this.#timeOfTurn(`settle a call${kind}`, () => this.#store.settleCall(fence, result));
  }

  /** A call that waits for an answer from outside. */
  async #ask(lease: Lease, kind: string): Promise<void> {
    const store = this.#store;
    const fence = fenceOf(lease);
    await store.openStep(fence, { stepIndex: 1, profileHash: lease.profileHash });
    await store.commitStep(fence, stepOf(lease, 1, true));
    const callId = callIdOf(fence.agentTurnId, 1, 0);
    await this.#timeOfTurn(`suspend a call${kind}`, () => store.suspendCall(fence, callId, HOUR_MS));
    const report = { callId, status: 'success', result: 'x' } as const;
    await this.#timeOfTurn(`report a result${kind}`, () => store.reportResult(fence.agentTurnId, report));
    await this.#timeOfTurn(`resolve what waits${kind}`, () => store.resolveWaiting(fence, [callId]));
  }

  async #commit(fence: Fence): Promise<Lease | null> {
    const termination = { status: 'success' } as const;
    const engine = { historyEvents: 18, historyBytes: 9_000, actions: 3 };
    return (await this.#store.commitTurn(fence, { termination, deliverable: { from: 'fallback' }, engine })).handover
      .next;
  }

  /** The store's part of a pass in which nothing is due. */
  async supervise(): Promise<void> {
    await this.#time('a pass of the supervisor', async () => {
      await this.#store.holdSupervisorLease('bench', LEASE_MS);
      await this.#store.dueTurns(IN_ONE_PASS);
      await this.#store.dueWakes(IN_ONE_PASS);
      await this.#store.countOpenTurns();
    });
  }

  /** Looks that may have to pass over agents that are not wanted. */
  async search(agentId: string): Promise<void> {
    await this.#time('`agents ls --posture idle`, a page', () =>
      this.#store.listAgents({ after: agentId, limit: PAGE, posture: 'idle' }),
    );
    await this.#time('agents, counted', () => this.#store.countAgents());
  }

  async read(agentId: string): Promise<void> {
    const store = this.#store;
    await this.#time('`agents ls`, a page', () => store.listAgents({ after: agentId, limit: PAGE }));
    await this.#time('`approvals`, a page', () => store.listApprovals({ limit: PAGE }));
    const [turn] = await this.#time('`agents get`', async () => {
      await store.agentSummary(agentId);
      return store.listTurns(agentId, { last: LAST_TURNS });
    });
    const { agentTurnId = '' } = turn ?? {};
    await this.#time('`turn show`', () => store.getTurn(agentTurnId));
    await this.#time('events of a turn', () => store.readEvents({ agentId, agentTurnId }));
  }

  #timeOfTurn<T>(what: string, work: () => Promise<T>): Promise<T> {
    this.writes.add(what);
    return this.#time(what, work);
  }

  async #time<T>(what: string, work: () => Promise<T>): Promise<T> {
    const answers: T[] = [];
    const ms = await timed(async () => answers.push(await work()));
    const known = this.timings.get(what);
    if (known) known.push(ms);
    else this.timings.set(what, [ms]);
    return answers[0] as T;
  }
}

const fenceOf = ({ agentId, agentTurnId, turnEpoch }: Lease): Fence => ({ agentId, agentTurnId, turnEpoch });

function stepOf({ agentTurnId }: Lease, stepIndex: number, calls: boolean): StepCommit {
  const callId = callIdOf(agentTurnId, stepIndex, 0);
  const content: CardContents['tool.call'] = { callId, tool: 'produce', arguments: { index: 0, bytes: 1 } };
  return {
    stepIndex,
    steerIds: [],
    note: null,
    thought: { text: 'I look it up.', toolCalls: [] },
    calls: calls ? [{ index: 0, digest: 'd', content }] : [],
    usage: { input: 900, output: 60, cached: 0 },
    model: 'scripted',
    finishReason: 'stop',
    cost: 0.001,
    latencyMs: 700,
    firstTokenMs: 200,
  };
}

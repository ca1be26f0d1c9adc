/** One store opened twice, as two processes would, with a clock of its own and the moves that most tests begin with. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import { v7 } from 'uuid';
import type { App } from '../../../activities/app/app.ts';
import { callId as callIdOf } from '../../../activities/ids.ts';
import { openPostgresStore } from '../../../activities/store/postgres/open.ts';
import { openSqliteStore } from '../../../activities/store/sqlite/open.ts';
import type { Delegation, DelegationOutcome, DelegationTarget } from '../../../workflows/contract/delegation.ts';
import type { AgentEvent } from '../../../workflows/contract/events.ts';
import type { Accepted, Handover, Lease, TurnCommit, TurnEnd } from '../../../workflows/contract/lease.ts';
import type { NewCall, StepCommit, StepOutcomeRecord } from '../../../workflows/contract/steps.ts';
import type { Store } from '../../../workflows/contract/store.ts';
import type { DueTurn } from '../../../workflows/contract/supervision.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { type EnqueueInput, enqueueRequestSchema, type RefusedRequest } from '../../../workflows/protocol/enqueue.ts';
import type { ActivityAttempt, EngineUsage, Fence, Termination } from '../../../workflows/protocol/turn.ts';
import { testApp } from '../../support/app.ts';
import { freshSchemaUrl, hasPostgres } from '../../support/postgres.ts';

export interface StoreOptions {
  readonly maxQueuedTurns?: number;
  /** How long a call may wait for its turn among others; the store's default when absent. */
  readonly waitMs?: number;
}

/** Opens the same empty store for each call: two handles are two processes. */
export type OpenStore = (now: () => number, options?: StoreOptions) => Promise<Store>;

/** For how long the process may stand still in a transaction, on a machine that others keep busy. */
const STANDSTILL_MS = 60_000;

/** A backend, with a way to make an empty store. */
type NamedStore = readonly [name: string, fresh: () => OpenStore];

const SQLITE: NamedStore = [
  'SQLite',
  () => {
    const path = join(mkdtempSync(join(tmpdir(), 'agentturn-sqlite-')), 'store.db');
    return (now, options) => openSqliteStore({ path, now, ...options });
  },
];

const POSTGRES: NamedStore = [
  'PostgreSQL',
  () => {
    const url = freshSchemaUrl().then((fresh) => `${fresh}&idle_in_transaction_session_timeout=${STANDSTILL_MS}`);
    return async (now, options) => openPostgresStore({ url: await url, now, ...options });
  },
];

/** Both backends; without a server SQLite alone. */
export const STORES: readonly NamedStore[] = hasPostgres ? [SQLITE, POSTGRES] : [SQLITE];

export const SUCCESS: TurnCommit = {
  termination: { status: 'success' },
  deliverable: { from: 'fallback' },
  engine: null,
};

/** What a workflow that commits its own end says of itself. */
export const ENGINE: EngineUsage = { historyEvents: 40, historyBytes: 9_000, actions: 5 };

/** How a turn whose workflow is gone is ended. */
export const LOST: Termination = { status: 'failed', errorCode: 'worker_lost', reason: 'gone' };

/** The attempt of that number at an activity, each scheduled a second after the one before it. */
export const nth = (number: number): ActivityAttempt => ({
  run: 'run',
  activity: 1,
  attempt: number,
  scheduledAt: number * 1_000,
});

export const fenceOf = ({ agentId, agentTurnId, turnEpoch }: Lease): Fence => ({ agentId, agentTurnId, turnEpoch });

/** An agent's handover when nothing is to be done. */
export const nothing = (agentId: string): Handover => ({ agentId, next: null, more: false, settlements: [] });

export const newAgent = (): string => `agent-${v7()}`;

export const result = (callId: string, more: Partial<ToolResultContent> = {}): ToolResultContent => ({
  callId,
  tool: 't',
  status: 'success',
  afterExecution: 'continue',
  result: 1,
  ...more,
});

/** When everything that is ever due is due. */
const END_OF_TIME = 1e15;

export class StoreBench {
  readonly #open: () => OpenStore;
  readonly #app: App;
  #steps = 0;
  now = 1_000_000;
  store!: Store;
  /** Opens it once more, with another clock. */
  another!: OpenStore;
  other!: Store;
  /** Looks at one time after the other. */
  #watcher!: Store;
  #watcherNow = 0;
  #looking: Promise<unknown> = Promise.resolve();

  /** Opens before all tests of the block and closes after them. */
  constructor(open: () => OpenStore, app = testApp([])) {
    this.#open = open;
    this.#app = app;
    beforeAll(() => this.open());
    afterAll(() => this.close());
  }

  async open(): Promise<void> {
    const open = this.#open();
    this.another = open;
    this.store = await open(() => this.now);
    this.other = await open(() => this.now);
    this.#watcher = await open(() => this.#watcherNow);
    await this.store.registerProfiles([...this.#app.agents.values()]);
  }

  async close(): Promise<void> {
    await this.store?.close();
    await this.other?.close();
    await this.#watcher?.close();
  }

  accept(agentId: string, input: Partial<EnqueueInput> = {}, on = this.store): Promise<Accepted | RefusedRequest> {
    const request = enqueueRequestSchema.parse({ instruction: 'do it', profile: 'tester', ...input });
    return on.accept({ agentId, request });
  }

  async accepted(agentId: string, input: Partial<EnqueueInput> = {}): Promise<string> {
    return (await this.#taken(agentId, input)).agentTurnId;
  }

  /** The lease of the agent's turn that has not started. */
  async leased(agentId: string): Promise<Lease> {
    const { next } = await this.store.leaseNext(agentId);
    if (!next) throw new Error(`agent ${agentId} has nothing to start`);
    return next;
  }

  /** A request to an idle agent, leased. */
  async started(agentId: string, input: Partial<EnqueueInput> = {}): Promise<Lease> {
    const { agentTurnId, lease } = await this.#taken(agentId, input);
    if (lease?.agentTurnId !== agentTurnId) throw new Error(`agent ${agentId} is not idle`);
    return lease;
  }

  async #taken(agentId: string, input: Partial<EnqueueInput>): Promise<Accepted> {
    const outcome = await this.accept(agentId, input);
    if (outcome.kind !== 'accepted') throw new Error(outcome.message);
    return outcome;
  }

  /** The turn as the supervisor finds it at that time; undefined when it is not due then. */
  dueAt(at: number, agentTurnId: string): Promise<DueTurn | undefined> {
    const look = this.#looking.then(async () => {
      this.#watcherNow = at;
      return (await this.#watcher.dueTurns(1_000_000)).find((turn) => turn.agentTurnId === agentTurnId);
    });
    this.#looking = look.catch(() => {});
    return look;
  }

  due(agentTurnId: string): Promise<DueTurn | undefined> {
    return this.dueAt(this.now, agentTurnId);
  }

  /** In how many ms the turn becomes due; null when it never does. */
  async dueIn(agentTurnId: string): Promise<number | null> {
    const turn = await this.dueAt(END_OF_TIME, agentTurnId);
    return turn ? turn.checkAt - this.now : null;
  }

  /** One step with these calls; returns what the kernel is told. */
  async think(
    lease: Lease,
    stepIndex: number,
    tools: readonly string[] = [],
    more: Partial<NewCall> = {},
    commit: Partial<StepCommit> = {},
  ): Promise<StepOutcomeRecord> {
    const fence = fenceOf(lease);
    await this.store.openStep(fence, { stepIndex, profileHash: lease.profileHash });
    return this.store.commitStep(fence, {
      stepIndex,
      steerIds: [],
      note: null,
      thought: { text: `thought ${stepIndex}`, toolCalls: [] },
      calls: tools.map((tool, index) => ({
        index,
        digest: `${tool}-${stepIndex}`,
        content: { callId: callIdOf(lease.agentTurnId, stepIndex, index), tool, arguments: {} },
        ...more,
      })),
      usage: { input: 10, output: 2, cached: 0 },
      model: 'm',
      finishReason: 'stop',
      cost: 0.5,
      latencyMs: 1,
      firstTokenMs: 1,
      ...commit,
    });
  }

  /** One step that an attempt has opened before. */
  committed(lease: Lease, stepIndex: number, commit: Partial<StepCommit> = {}): Promise<StepOutcomeRecord> {
    return this.store.commitStep(fenceOf(lease), {
      stepIndex,
      steerIds: [],
      note: null,
      thought: { text: 'x', toolCalls: [] },
      calls: [],
      usage: { input: 1, output: 1, cached: 0 },
      model: 'm',
      finishReason: 'stop',
      cost: null,
      latencyMs: 1,
      firstTokenMs: null,
      ...commit,
    });
  }

  /** A call of a new step, suspended until a second from now. */
  async suspended(lease: Lease, stepIndex = 1, windowMs = 1_000): Promise<string> {
    const { calls } = await this.think(lease, stepIndex, ['ask']);
    const callId = calls[0]?.callId ?? '';
    await this.store.suspendCall(fenceOf(lease), callId, windowMs);
    return callId;
  }

  /** A call of a new step that hands work to another agent; it waits for it when `waitMs` is given. */
  async delegated(
    lease: Lease,
    target: DelegationTarget,
    more: Partial<Delegation> = {},
  ): Promise<DelegationOutcome & { readonly delegation: Delegation }> {
    this.#steps += 1;
    const { calls } = await this.think(lease, this.#steps, [
      more.waitMs === undefined ? 'delegate_async' : 'ask_expert',
    ]);
    const callId = calls[0]?.callId ?? '';
    const base = { callId, attempt: 1, target, instruction: 'look into it', onParentEnd: 'continue' } as const;
    const delegation: Delegation = { ...base, ...more };
    return { delegation, ...(await this.store.delegate(fenceOf(lease), delegation)) };
  }

  async ended(lease: Lease, commit: TurnCommit = SUCCESS): Promise<TurnEnd> {
    return (await this.store.commitTurn(fenceOf(lease), commit)).ended;
  }

  /** Ends a turn over its head, as it is seen now. */
  async reaped(lease: Lease, termination = LOST): Promise<Handover> {
    const head = await this.store.getAgent(lease.agentId);
    if (!head || head.status === 'idle') throw new Error('no turn is open');
    const seen = { ...fenceOf(lease), status: head.status, progressAt: head.updatedAt };
    const handover = await this.store.reapTurn(seen, termination);
    if (!handover) throw new Error('it has moved');
    return handover;
  }

  eventsOf(agentId: string): Promise<readonly AgentEvent[]> {
    return this.store.readEvents({ agentId });
  }

  async tasksOf(agentId: string): Promise<AgentEvent[]> {
    return (await this.eventsOf(agentId)).filter((event) => event.type === 'task');
  }

  async cardsOf(boxId: string): Promise<string[]> {
    return (await this.store.readBox(boxId)).map(({ card }) => card.cardId);
  }
}

/** One store opened twice, as two processes would, with a clock of its own and the moves that most tests begin with. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import { v7 } from 'uuid';
import type { App } from '../../../activities/app.ts';
import { callId as callIdOf } from '../../../activities/store/ids.ts';
import { openPostgresStore } from '../../../activities/store/postgres/open.ts';
import { openSqliteStore } from '../../../activities/store/sqlite/open.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { type AcceptOutcome, type EnqueueInput, enqueueRequestSchema } from '../../../workflows/protocol/enqueue.ts';
import type { AgentEvent } from '../../../workflows/protocol/events.ts';
import type { Lease, StepOutcomeRecord, Store, TurnCommit, TurnEnd } from '../../../workflows/protocol/store.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { testApp } from '../../support/app.ts';
import { freshSchemaUrl } from '../../support/postgres.ts';

/** Opens the same empty store for each call: two handles are two processes. */
export type OpenStore = (now: () => number) => Promise<Store>;

/** Both backends, each with a way to make an empty store. */
export const STORES: readonly (readonly [name: string, fresh: () => OpenStore])[] = [
  [
    'SQLite',
    () => {
      const path = join(mkdtempSync(join(tmpdir(), 'agentturn-sqlite-')), 'store.db');
      return (now) => openSqliteStore({ path, now });
    },
  ],
  [
    'PostgreSQL',
    () => {
      const url = freshSchemaUrl();
      return async (now) => openPostgresStore({ url: await url, now });
    },
  ],
];

export const SUCCESS: TurnCommit = {
  termination: { status: 'success' },
  deliverable: { from: 'fallback' },
  engine: null,
};

export const fenceOf = ({ agentId, agentTurnId, turnEpoch }: Lease): Fence => ({ agentId, agentTurnId, turnEpoch });

export const newAgent = (): string => `agent-${v7()}`;

export const result = (callId: string, more: Partial<ToolResultContent> = {}): ToolResultContent => ({
  callId,
  tool: 't',
  status: 'success',
  afterExecution: 'continue',
  result: 1,
  ...more,
});

export class StoreBench {
  readonly #open: () => OpenStore;
  readonly #app: App;
  now = 1_000_000;
  store!: Store;
  other!: Store;

  /** Opens before all tests of the block and closes after them. */
  constructor(open: () => OpenStore, app = testApp([])) {
    this.#open = open;
    this.#app = app;
    beforeAll(() => this.open());
    afterAll(() => this.close());
  }

  async open(): Promise<void> {
    const open = this.#open();
    this.store = await open(() => this.now);
    this.other = await open(() => this.now);
    await this.store.registerProfiles([...this.#app.agents.values()]);
  }

  async close(): Promise<void> {
    await this.store?.close();
    await this.other?.close();
  }

  accept(agentId: string, input: Partial<EnqueueInput> = {}, on = this.store): Promise<AcceptOutcome> {
    const request = enqueueRequestSchema.parse({ instruction: 'do it', profile: 'tester', ...input });
    return on.accept({ agentId, request });
  }

  async accepted(agentId: string, input: Partial<EnqueueInput> = {}): Promise<string> {
    const outcome = await this.accept(agentId, input);
    if (outcome.kind !== 'accepted') throw new Error(outcome.message);
    return outcome.agentTurnId;
  }

  async leased(agentId: string): Promise<Lease> {
    const outcome = await this.store.leaseNext(agentId);
    if (outcome.kind !== 'leased') throw new Error(`expected a lease, got ${outcome.kind}`);
    return outcome.lease;
  }

  async started(agentId: string, input: Partial<EnqueueInput> = {}): Promise<Lease> {
    await this.accepted(agentId, input);
    return this.leased(agentId);
  }

  /** One step with these calls; returns what the kernel is told. */
  async think(lease: Lease, stepIndex: number, tools: readonly string[] = []): Promise<StepOutcomeRecord> {
    const fence = fenceOf(lease);
    await this.store.openStep(fence, stepIndex, lease.profileHash);
    return this.store.commitStep(fence, {
      stepIndex,
      steerIds: [],
      note: null,
      thought: { text: `thought ${stepIndex}`, toolCalls: [] },
      calls: tools.map((tool, index) => ({
        index,
        digest: `${tool}-${stepIndex}`,
        content: { callId: callIdOf(lease.agentTurnId, stepIndex, index), tool, arguments: {} },
      })),
      usage: { input: 10, output: 2, cached: 0 },
      model: 'm',
      finishReason: 'stop',
      cost: 0.5,
      latencyMs: 1,
      firstTokenMs: 1,
    });
  }

  /** A call of a new step, suspended until a second from now. */
  async suspended(lease: Lease, stepIndex = 1, windowMs = 1_000): Promise<string> {
    const { calls } = await this.think(lease, stepIndex, ['ask']);
    const callId = calls[0]?.callId ?? '';
    await this.store.suspendCall(fenceOf(lease), callId, this.now + windowMs);
    return callId;
  }

  ended(lease: Lease, commit: TurnCommit = SUCCESS): Promise<TurnEnd> {
    return this.store.commitTurn(fenceOf(lease), commit);
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

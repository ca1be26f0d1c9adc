/**
 * A turn that runs in bursts, without a server: the workflow's half of a burst, the attempts at its activity, and a store that dies at one of
 * its calls, as the process that makes it would.
 */

import type { Info } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import PQueue from 'p-queue';
import { v7 } from 'uuid';
import type { App } from '../../../activities/app/app.ts';
import type { BurstDeps } from '../../../activities/burst/burst.ts';
import { runSteps } from '../../../activities/burst/run-steps.ts';
import { ChunkWriter } from '../../../activities/llm/chunk-writer.ts';
import { openAiModel } from '../../../activities/llm/openai.ts';
import { endingTeller, turnCommitter } from '../../../activities/store-activities.ts';
import type { ModelServer } from '../../../workers/model-server/wire.ts';
import type { BurstInput, BurstItem, BurstOutcome } from '../../../workflows/contract/burst.ts';
import type { Lease, TurnEnd } from '../../../workflows/contract/lease.ts';
import type { Notice } from '../../../workflows/contract/notices.ts';
import type { Store } from '../../../workflows/contract/store.ts';
import type { KernelAction } from '../../../workflows/kernel/actions.ts';
import type { Handle } from '../../../workflows/kernel/handles.ts';
import { initialState } from '../../../workflows/kernel/state.ts';
import { type EnqueueInput, enqueueRequestSchema } from '../../../workflows/protocol/enqueue.ts';
import { type AfterBurst, afterBurst, runBurst } from '../../../workflows/turn/burst.ts';
import { whole } from '../../../workflows/turn/burst-items.ts';
import { TurnKernel } from '../../../workflows/turn/kernel.ts';
import type { TurnParts } from '../../../workflows/turn/parts.ts';

/** Where a process stops: right before or right after its n-th call of the store, from 0. */
export interface Place {
  readonly when: 'before' | 'after';
  readonly at: number;
}

/** A call of the store that a process made. */
export interface Called {
  readonly name: string;
  /** Of a claim or a result: the call that it is about. */
  readonly callId?: string;
  /** Whether the store has done it. */
  isDone: boolean;
}

/** The process is gone: what it still tries comes to nothing. */
class Dead extends Error {}

/** One process: it notes its calls of the store, and stops at one, for good or for a while. */
class Process {
  readonly called: Called[] = [];
  isDead = false;
  readonly store: Store;
  /** Resolves when it stands still. */
  readonly still = Promise.withResolvers<'still'>();
  readonly #awake = Promise.withResolvers<void>();
  readonly #place: Place | undefined;
  readonly #dies: boolean;

  constructor(store: Store, place: Place | undefined, dies: boolean) {
    this.#place = place;
    this.#dies = dies;
    this.store = new Proxy(store, { get: (target, name) => this.#method(target, String(name)) });
  }

  wake(): void {
    this.#awake.resolve();
  }

  #method(target: Store, name: string): unknown {
    const run = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>;
    return async (...args: unknown[]) => {
      const { callId } = Object(args[1]) as { readonly callId?: string };
      const called: Called = { name, ...(callId === undefined ? {} : { callId }), isDone: false };
      const at = this.called.push(called) - 1;
      await this.#stop('before', at);
      const result = await run(...args);
      called.isDone = true;
      await this.#stop('after', at);
      return result;
    };
  }

  async #stop(when: Place['when'], at: number): Promise<void> {
    if (this.#place?.at === at && this.#place.when === when) {
      if (this.#dies) this.isDead = true;
      else {
        this.still.resolve('still');
        await this.#awake.promise;
      }
    }
    if (this.isDead) throw new Dead();
  }
}

/** What befalls the attempts at the bursts of a turn, each of which is a process. */
export interface Scene {
  /** Where the processes of the turn's first attempts die, one each; those without a place live. */
  readonly deaths?: readonly (Place | undefined)[];
  /** Where a process stands still, until the next one is over: by its number among those of the turn, from 0. */
  readonly frozen?: Place & { readonly process: number };
  /** The attempts, by their numbers among those of the turn, whose worker runs another kernel than the workflow. */
  readonly otherKernel?: ReadonlySet<number>;
  /** What happens between two attempts. */
  readonly between?: (turn: BurstTurn) => Promise<void>;
  /** What happens before the first process goes on; what it returns, after it has ended. */
  readonly waking?: () => Promise<() => Promise<void>>;
}

/** What the processes of a turn have that is not as usual. */
type MoreDeps = Partial<Pick<BurstDeps, 'slots' | 'isStopping'>>;

/** A leased turn, and its workflow as far as bursts go. */
export class BurstTurn {
  readonly lease: Lease;
  readonly store: Store;
  readonly kernel: TurnKernel;
  /** All that the bursts brought. */
  readonly items: BurstItem[] = [];
  /** The calls of the store that each attempt made. */
  readonly attempts: (readonly Called[])[] = [];
  /** After how long the attempts that failed asked for another one, in ms. */
  readonly pauses: unknown[] = [];
  /** What the input of the next burst is to say of the inbox. */
  #read = 0;
  #action: KernelAction;
  readonly #app: App;
  readonly #more: MoreDeps;
  #scheduled = 0;
  #aheadMs = 0;
  #activities = 0;
  /** What the workflow says to the next burst. */
  #again = false;
  readonly #model: Pick<ModelServer, 'url'>;

  constructor(store: Store, app: App, model: Pick<ModelServer, 'url'>, lease: Lease, more: MoreDeps) {
    this.store = store;
    this.#more = more;
    this.#app = app;
    this.#model = model;
    this.lease = lease;
    const noticed: readonly Notice[] = [];
    this.kernel = new TurnKernel({ state: initialState(lease.kernel), noticed }, { observed() {}, notice() {} });
    const { outputBoxId, earlier, instructionSeq, instructionTokens } = lease;
    const instruction: Handle = [instructionSeq, 'user', instructionTokens];
    this.#action = this.kernel.feed({ type: 'start', nowMs: Date.now(), outputBoxId, earlier, instruction });
  }

  /** What the kernel of the workflow asks for. */
  get action(): KernelAction {
    return this.#action;
  }

  /** One burst. */
  async burst(scene: Scene = {}): Promise<AfterBurst> {
    const action = this.#action;
    if (action.type === 'await' || action.type === 'done') throw new Error(`a burst cannot perform ${action.type}`);
    const parts = this.#parts(scene);
    const after = afterBurst(parts, action, await runBurst(parts, action, this.#again));
    this.#again = after.again;
    this.#action = after.next;
    return after;
  }

  /** Bursts until the turn has ended or waits. */
  async run(scene: Scene = {}): Promise<TurnEnd | null> {
    while (this.#action.type !== 'await' && this.#action.type !== 'done') {
      const { end, suspended, apart } = await this.burst(scene);
      if (end) return end;
      if (suspended || apart) return null;
    }
    return null;
  }

  #parts(scene: Scene): TurnParts {
    const { agentId, agentTurnId, turnEpoch } = this.lease;
    const read = () => this.#read;
    const note = ({ items = [] }: { readonly items?: readonly { readonly seq: number }[] }) => {
      this.#read = Math.max(this.#read, ...items.map(({ seq }) => seq));
    };
    const parts = {
      lease: this.lease,
      fence: { agentId, agentTurnId, turnEpoch },
      kernel: this.kernel,
      inbox: {
        get mark() {
          return read() > 0 ? { inboxRead: read() } : {};
        },
        noteRead: note,
      },
      meter: {
        burst: () => ({ runSteps: (input: BurstInput) => this.#activity(input, scene) }),
        usageAfterBurst: { historyEvents: 1, historyBytes: 1, actions: 1 },
      },
      display: { thought() {}, call() {} },
      status: {},
    };
    return parts as unknown as TurnParts;
  }

  /** When an attempt is scheduled: no two at the same time. */
  #now(): number {
    this.#scheduled += 1;
    return Date.now() + this.#aheadMs + this.#scheduled;
  }

  /** The server's clock is set back. */
  setBack(ms: number): void {
    this.#aheadMs -= ms;
  }

  /** The attempts at one activity, each in a process of its own. */
  async #activity(input: BurstInput, scene: Scene): Promise<BurstOutcome> {
    const asked = throughJson(input);
    const scheduledTimestampMs = this.#now();
    this.#activities += 1;
    const activityId = `${this.#activities}`;
    let asleep: { readonly process: Process; readonly outcome: Promise<unknown> } | undefined;
    for (let attempt = 1; ; attempt += 1) {
      const number = this.attempts.length;
      const isFrozen = scene.frozen?.process === number;
      const place = isFrozen ? scene.frozen : scene.deaths?.[number];
      const process = new Process(this.store, place, !isFrozen);
      this.attempts.push(process.called);
      const kernel = scene.otherKernel?.has(number) ? 'of another version' : asked.kernel;
      const outcome = this.#attempt(
        process,
        { ...asked, kernel },
        {
          activityId,
          attempt,
          scheduledTimestampMs,
          currentAttemptScheduledTimestampMs: attempt === 1 ? scheduledTimestampMs : this.#now(),
        },
      );
      const came = await Promise.race([process.still.promise, settled(outcome)]);
      if (came === 'still') asleep = { process, outcome };
      else if (asleep) {
        const after = await scene.waking?.();
        asleep.process.wake();
        await settled(asleep.outcome);
        await after?.();
        asleep = undefined;
      }
      if (came !== 'still' && !process.isDead) {
        if (came.status === 'rejected') {
          const { reason } = came;
          if (!(reason instanceof ApplicationFailure) || reason.nonRetryable) throw reason;
          this.pauses.push(reason.nextRetryDelay);
          continue;
        }
        this.items.push(...whole(throughJson(came.value.items)));
        return throughJson(came.value);
      }
      await scene.between?.(this);
    }
  }

  #attempt({ store }: Process, input: BurstInput, info: Partial<Info>): Promise<BurstOutcome> {
    const times = { startToCloseTimeoutMs: 24 * 3_600_000, heartbeatTimeoutMs: 20_000 };
    const logger = new DefaultLogger('ERROR', () => {});
    const environment = new MockActivityEnvironment({ ...info, ...times }, { logger });
    const workflows = { handOver: async () => {} };
    const model = openAiModel({ apiKey: 'key-of-the-worker', baseUrl: this.#model.url, defaultModel: 'scripted' });
    const commitTurn = turnCommitter({ store, workflows });
    const run = runSteps({
      store,
      app: this.#app,
      model,
      chunks: new ChunkWriter(store),
      workflows,
      commitTurn,
      tellEnding: endingTeller({ workflows }),
      slots: new PQueue({ concurrency: 200 }),
      ...this.#more,
    });
    return environment.run<[BurstInput], BurstOutcome, typeof run>(run, input);
  }
}

const settled = async <T>(outcome: Promise<T>): Promise<PromiseSettledResult<T>> => {
  const [came] = await Promise.allSettled([outcome]);
  return came;
};

/** A turn of a new agent of the profile. */
export async function burstTurn(
  store: Store,
  app: App,
  model: Pick<ModelServer, 'url'>,
  request: EnqueueInput,
  more: MoreDeps = {},
): Promise<BurstTurn> {
  const agentId = `agent-${v7()}`;
  const outcome = await store.accept({ agentId, request: enqueueRequestSchema.parse(request) });
  if (outcome.kind === 'refused' || !outcome.lease) throw new Error('expected a lease');
  return new BurstTurn(store, app, model, outcome.lease, more);
}

const throughJson = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

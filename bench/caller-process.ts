/** The callers of the bench, in a process of their own, so that their processor time is not that of the process that measures. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AgentClient } from '../client/agent-client.ts';
import { connectClient } from '../client/connect.ts';
import { openStore } from '../workers/open-store.ts';
import { serveParent } from './child.ts';
import { timed } from './numbers.ts';
import { enqueue, runFloor, runTurn } from './turns.ts';
import { COMPARED, type Compared } from './workload.ts';

export interface CallerArgument {
  readonly address: string;
  readonly namespace: string;
  readonly storeUrl: string;
}

export interface CallerTask {
  /**
   * `floor` runs bare workflows, `fresh` runs turns of new agents, `standing` runs turns of agents that are kept, all until their results
   * are here; `enqueue` queues turns of new agents and waits for the acknowledgements only.
   */
  readonly call: 'floor' | 'fresh' | 'standing' | 'enqueue';
  readonly work: Compared;
  /** How many callers work side by side. Each makes one call after the other. */
  readonly callers: number;
  /** No caller begins a call after this time; the calls that have begun are finished. */
  readonly ms: number;
  /** How long a caller waits after a call. */
  readonly pauseMs: number;
}

export interface CallerTimes {
  /** The duration of each call in milliseconds. */
  readonly tookMs: readonly number[];
  /** From the start of the first call to the end of the last. */
  readonly seconds: number;
}

/** An agent remembers its earlier turns, so its prompts grow: after so many turns a caller goes on with another agent. */
const TURNS_PER_AGENT = 15;

type Calls = Readonly<Record<CallerTask['call'], (caller: number, work: Compared) => Promise<unknown>>>;

async function start({ storeUrl, ...address }: CallerArgument): Promise<{ calls: Calls; stop(): Promise<void> }> {
  const temporal = await connectClient(address);
  const store = await openStore(storeUrl);
  const access = { temporal, client: new AgentClient({ temporal: temporal.client, store }) };
  const standingTurns = new Map<string, number>();
  const calls: Calls = {
    floor: (_, work) => runFloor(access, COMPARED[work]),
    fresh: (_, work) => runTurn(access, `fresh-${crypto.randomUUID()}`, COMPARED[work]),
    standing: (caller, work) => {
      const name = `standing-${work}-${caller}`;
      const turns = standingTurns.get(name) ?? 0;
      standingTurns.set(name, turns + 1);
      return runTurn(access, `${name}-${Math.floor(turns / TURNS_PER_AGENT)}`, COMPARED[work]);
    },
    enqueue: (_, work) => enqueue(access, `enqueue-${crypto.randomUUID()}`, COMPARED[work]),
  };
  const stop = async () => {
    await store.close();
    await temporal.connection.close();
  };
  return { calls, stop };
}

async function run(calls: Calls, { call, work, callers, ms, pauseMs }: CallerTask): Promise<CallerTimes> {
  const tookMs: number[] = [];
  const startedAt = performance.now();
  const loop = async (caller: number) => {
    while (performance.now() - startedAt < ms) {
      tookMs.push(await timed(() => calls[call](caller, work)));
      if (pauseMs > 0) await sleep(pauseMs);
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, caller) => loop(caller)));
  return { tookMs, seconds: (performance.now() - startedAt) / 1_000 };
}

await serveParent(
  async (argument) => ({ served: await start(argument as CallerArgument), value: null }),
  ({ calls }, task) => run(calls, task as CallerTask),
);

/** A leased turn in a real store, and a place to run its activities without a worker. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger, type LogEntry } from '@temporalio/worker';
import { v7 } from 'uuid';
import type { App } from '../../../activities/app/app.ts';
import { openSqliteStore } from '../../../activities/store/sqlite/open.ts';
import type { CallModelInput } from '../../../workflows/contract/activities.ts';
import type { Lease } from '../../../workflows/contract/lease.ts';
import type { Store } from '../../../workflows/contract/store.ts';
import { type EnqueueInput, enqueueRequestSchema } from '../../../workflows/protocol/enqueue.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';

export interface LeasedTurn {
  readonly store: Store;
  readonly storePath: string;
  readonly lease: Lease;
  readonly fence: Fence;
  close(): Promise<void>;
}

export async function leaseTurn(app: App, request: Partial<EnqueueInput> = {}): Promise<LeasedTurn> {
  const storePath = join(mkdtempSync(join(tmpdir(), 'agentturn-activity-')), 'store.db');
  const store = await openSqliteStore({ path: storePath });
  await store.registerProfiles([...app.agents.values()]);
  const agentId = `agent-${v7()}`;
  const input = enqueueRequestSchema.parse({ instruction: 'do it', profile: 'tester', ...request });
  const outcome = await store.accept({ agentId, request: input });
  if (outcome.kind === 'refused') throw new Error(outcome.message);
  const { lease } = outcome;
  if (!lease) throw new Error(`expected a lease, but the turn is ${outcome.status}`);
  const fence = { agentId, agentTurnId: lease.agentTurnId, turnEpoch: lease.turnEpoch };
  return { store, storePath, lease, fence, close: () => store.close() };
}

/** The input of the model call of a step; its plan is all that is in the output box. */
export function modelInput(
  { lease, fence }: LeasedTurn,
  more: Partial<CallModelInput['request']> = {},
): CallModelInput {
  const own = { boxId: lease.outputBoxId, fromSeq: 1, toSeq: 1_000_000 };
  const request = { type: 'call_llm', stepIndex: 1, plan: { ranges: [own] }, room: 100_000, ...more } as const;
  return { ...fence, profileHash: lease.profileHash, request };
}

/** The timeouts of a tool activity, as `workflows/contract/activities.ts` sets them. */
const TIMES = { startToCloseTimeoutMs: 24 * 3_600_000, heartbeatTimeoutMs: 20_000 };

/** Where one attempt of an activity runs; its log lines are kept, not printed. */
export class Attempt extends MockActivityEnvironment {
  readonly logged: readonly LogEntry[];

  constructor(number = 1) {
    const logged: LogEntry[] = [];
    const scheduled = { scheduledTimestampMs: 1, currentAttemptScheduledTimestampMs: number };
    super(
      { attempt: number, ...scheduled, ...TIMES },
      { logger: new DefaultLogger('WARN', (entry) => void logged.push(entry)) },
    );
    this.logged = logged;
  }

  of<Input, Output>(activity: (input: Input) => Promise<Output>, input: Input): Promise<Output> {
    return this.run<[Input], Output, (input: Input) => Promise<Output>>(activity, input);
  }
}

/** Runs one attempt of an activity. */
export const attempt = <Input, Output>(
  activity: (input: Input) => Promise<Output>,
  input: Input,
  number = 1,
): Promise<Output> => new Attempt(number).of(activity, input);

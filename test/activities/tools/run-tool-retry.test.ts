/** A tool that is executed again within its call. */
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { CancelledFailure } from '@temporalio/common';
import SqliteDatabase from 'better-sqlite3';
import type { ToolDefinition } from '../../../activities/app/app.ts';
import type { ToolContext } from '../../../activities/tool.ts';
import { Attempt, attempt } from '../llm/leased-turn.ts';
import { type Call, call, closeCalls, work } from './proposed-call.ts';

afterEach(async () => {
  jest.restoreAllMocks();
  await closeCalls();
});

interface Scene {
  readonly on: Call;
  readonly seen: readonly ToolContext[];
  /** Resolves when the tool is executed for the first time. */
  readonly started: Promise<void>;
}

/** A call whose tool does in each execution what `outcomes` says, the last of it for ever. */
async function retried(
  outcomes: readonly (() => unknown)[],
  retry: ToolDefinition['retry'],
  more: Partial<ToolDefinition> = {},
): Promise<Scene> {
  const seen: ToolContext[] = [];
  const started = Promise.withResolvers<void>();
  const execute = (_: object, context: ToolContext) => {
    seen.push(context);
    started.resolve();
    return outcomes[Math.min(seen.length, outcomes.length) - 1]?.() as null;
  };
  const { parameters: _, ...options } = more;
  const on = await call(work(execute, { sideEffects: 'idempotent', ...(retry ? { retry } : {}), ...options }));
  return { on, seen, started: started.promise };
}

const fails = (message: string) => () => Promise.reject(new Error(message));
const hangs = () => new Promise(() => {});
const soon = { initialMs: 1 };

const claimsOf = ({ turn }: Call): unknown[] => {
  const database = new SqliteDatabase(turn.storePath, { readonly: true });
  try {
    return database.prepare('select attempt, outcome from dispatch_claims').all();
  } finally {
    database.close();
  }
};

describe('a tool with retry', () => {
  test('that fails is executed again until it succeeds, under one claim, and with the same key (W10, T20)', async () => {
    const { on, seen } = await retried([fails('one'), fails('two'), () => 'at last'], { attempts: 5, ...soon });
    expect(await attempt(on.run, on.input)).toMatchObject({ settled: { status: 'success' } });
    expect(await on.result()).toMatchObject({ result: 'at last' });
    expect(seen.map(({ attempt, execution }) => [attempt, execution])).toEqual([
      [1, 1],
      [1, 2],
      [1, 3],
    ]);
    expect(new Set(seen.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    expect(claimsOf(on)).toEqual([{ attempt: 1, outcome: 'success' }]);
  });

  test('that fails every time has the last failure as its result (T20)', async () => {
    const { on, seen } = await retried([fails('one'), fails('two')], { attempts: 2, ...soon });
    await attempt(on.run, on.input);
    expect(await on.result()).toMatchObject({ status: 'failed', error: { code: 'tool_failed', message: 'two' } });
    expect(seen).toHaveLength(2);
  });

  test('has its whole time in each execution, and its own signal (T20)', async () => {
    const { on, seen } = await retried([hangs, () => 'in time'], { attempts: 2, ...soon }, { timeoutMs: 50 });
    await attempt(on.run, on.input);
    expect(await on.result()).toMatchObject({ status: 'success', result: 'in time' });
    expect(seen.map(({ signal }) => signal.aborted)).toEqual([true, false]);
  });

  test('is not executed again for a result that is no JSON (T20)', async () => {
    const { on, seen } = await retried([() => 1n], { attempts: 3, ...soon });
    await attempt(on.run, on.input);
    expect(await on.result()).toMatchObject({ error: { code: 'invalid_result' } });
    expect(seen).toHaveLength(1);
  });

  test('that is cancelled between two executions ends at once, without a result (T21)', async () => {
    const { on, seen, started } = await retried([fails('one')], {
      attempts: 2,
      initialMs: 3_600_000,
      maxMs: 3_600_000,
    });
    const environment = new Attempt();
    const run = environment.of(on.run, on.input).catch((error: unknown) => error);
    await started;
    environment.cancel();
    expect(await run).toBeInstanceOf(CancelledFailure);
    expect(seen).toHaveLength(1);
    expect(await on.result()).toBeNull();
  });

  test('whose turn ended between two executions is not executed again (T5, W10)', async () => {
    let jumpedMs = 0;
    const now = performance.now.bind(performance);
    jest.spyOn(performance, 'now').mockImplementation(() => now() + jumpedMs);
    const scene: Scene = await retried(
      [
        async () => {
          await scene.on.turn.store.stopTurn(scene.on.turn.fence.agentTurnId, 'test');
          jumpedMs = 6_000;
          throw new Error('one');
        },
      ],
      { attempts: 3, ...soon },
    );
    await expect(attempt(scene.on.run, scene.on.input)).rejects.toMatchObject({ code: 'stale_epoch' });
    expect(scene.seen).toHaveLength(1);
  });

  test('begins anew in the attempt that follows a worker that was lost (W10)', async () => {
    const { on, seen, started } = await retried([hangs, fails('one'), () => 'done'], { attempts: 2, ...soon });
    const environment = new Attempt(1);
    const first = environment.of(on.run, on.input).catch((error: unknown) => error);
    await started;
    environment.cancel('WORKER_SHUTDOWN');
    expect(await first).toBeInstanceOf(CancelledFailure);
    expect(await attempt(on.run, on.input, 2)).toMatchObject({ settled: { status: 'success' } });
    expect(seen.map(({ attempt, execution }) => [attempt, execution])).toEqual([
      [1, 1],
      [2, 1],
      [2, 2],
    ]);
  });

  test('waits longer before each execution, up to the longest pause', async () => {
    const times: number[] = [];
    const note = () => {
      times.push(performance.now());
      return Promise.reject(new Error('no'));
    };
    const { on } = await retried([note], { attempts: 4, initialMs: 40, maxMs: 80 });
    await attempt(on.run, on.input);
    const pauses = times.slice(1).map((time, index) => time - (times[index] ?? 0));
    // A timer of Node may fire a millisecond early.
    for (const [index, least] of [39, 79, 79].entries()) expect(pauses[index]).toBeGreaterThanOrEqual(least);
  });
});

test('a tool without retry is executed once', async () => {
  const { on, seen } = await retried([fails('one'), () => 'two'], undefined);
  await attempt(on.run, on.input);
  expect(await on.result()).toMatchObject({ error: { message: 'one' } });
  expect(seen).toHaveLength(1);
});

/** What happens to a call whose attempt is lost, cancelled, or waits for the outside. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { CancelledFailure } from '@temporalio/common';
import type { z } from 'zod';
import type { ToolDefinition } from '../../../activities/app/app.ts';
import type { ToolContext } from '../../../activities/tool.ts';
import { runTool } from '../../../activities/tools/run-tool.ts';
import { DEFAULT_SUSPEND_TIMEOUT_MS } from '../../../workflows/protocol/sizes.ts';
import { MAX_WAIT_MS } from '../../../workflows/protocol/time.ts';
import { testApp } from '../../support/app.ts';
import { Attempt, attempt } from '../llm/leased-turn.ts';
import { type Call, call, closeCalls, NO_WORKFLOWS, work } from './proposed-call.ts';

afterEach(closeCalls);

describe('a second attempt', () => {
  /** Runs the tool and then loses the attempt before its result is stored, as a worker that dies does. */
  async function lost(more: Partial<ToolDefinition<z.ZodObject>>) {
    const seen: ToolContext[] = [];
    const started = Promise.withResolvers<void>();
    const on = await call(
      work((_, context) => {
        seen.push(context);
        started.resolve();
        return context.attempt === 1 ? new Promise<never>(() => {}) : 'again';
      }, more),
    );
    const environment = new Attempt(1);
    const first = environment.of(on.run, on.input).catch((error: unknown) => error);
    await started.promise;
    environment.cancel('WORKER_SHUTDOWN');
    expect(await first).toBeInstanceOf(CancelledFailure);
    return { on, seen };
  }

  test('after a result is stored adopts it and runs nothing (T5, W10)', async () => {
    let ran = 0;
    const on = await call(
      work(
        () => {
          ran += 1;
          return ran;
        },
        { sideEffects: 'idempotent' },
      ),
    );
    const first = await attempt(on.run, on.input, 1);
    expect(await attempt(on.run, on.input, 2)).toEqual(first);
    expect(ran).toBe(1);
  });

  test('of an unsafe tool that was started is outcome_unknown: it is never run twice (W10)', async () => {
    const { on, seen } = await lost({});
    expect(await attempt(on.run, on.input, 2)).toMatchObject({
      settled: { status: 'failed', errorCode: 'outcome_unknown', afterExecution: 'continue' },
    });
    expect(seen).toHaveLength(1);
    expect(await on.result()).toMatchObject({ error: { message: expect.stringContaining('may or may not') } });
  });

  test.each(['none', 'idempotent'] as const)(
    'of a tool with side effects %s runs it again with the same key (W10)',
    async (sideEffects) => {
      const { on, seen } = await lost({ sideEffects });
      expect(await attempt(on.run, on.input, 2)).toMatchObject({ settled: { status: 'success' } });
      expect(seen.map((context) => context.attempt)).toEqual([1, 2]);
      expect(new Set(seen.map((context) => context.idempotencyKey)).size).toBe(1);
    },
  );

  test('of a tool that this worker does not know counts as unsafe (W10)', async () => {
    const { on } = await lost({ sideEffects: 'idempotent' });
    const elsewhere = runTool({ store: on.turn.store, app: testApp([]), workflows: NO_WORKFLOWS });
    expect(await attempt(elsewhere, on.input, 2)).toMatchObject({ settled: { errorCode: 'outcome_unknown' } });
  });
});

describe('a cancellation', () => {
  test('reaches the tool and leaves no result: what becomes of the call, the turn decides (T21)', async () => {
    const started = Promise.withResolvers<AbortSignal>();
    const on = await call(
      work((_, { signal }) => {
        started.resolve(signal);
        return new Promise<never>(() => {});
      }),
    );
    const environment = new Attempt();
    const run = environment.of(on.run, on.input).catch((error: unknown) => error);
    const signal = await started.promise;
    environment.cancel();
    expect(await run).toBeInstanceOf(CancelledFailure);
    expect(signal.aborted).toBe(true);
    expect(await on.result()).toBeNull();
  });

  test('is not mistaken for a failure when the tool throws because of it (T21)', async () => {
    const started = Promise.withResolvers<void>();
    const on = await call(
      work((_, { signal }) => {
        started.resolve();
        return new Promise<never>((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('I was interrupted')));
        });
      }),
    );
    const environment = new Attempt();
    const run = environment.of(on.run, on.input).catch((error: unknown) => error);
    await started.promise;
    environment.cancel();
    expect(await run).toBeInstanceOf(CancelledFailure);
    expect(await on.result()).toBeNull();
  });
});

describe('a suspending tool', () => {
  const suspending = { afterExecution: 'suspend' } as const;
  const deadlineOf = (outcome: unknown): number => (outcome as { deadline: number }).deadline;

  test.each([
    ['its own', { ...suspending, suspendTimeoutMs: 5_000 }, { suspendTimeoutMs: 90_000 }, 5_000],
    ['that of the profile', suspending, { suspendTimeoutMs: 90_000 }, 90_000],
    ['the default', suspending, {}, DEFAULT_SUSPEND_TIMEOUT_MS],
  ])('waits until the deadline of %s (T13)', async (_, more, agent, timeout) => {
    const on = await call(work(undefined, more), {}, agent);
    const before = Date.now();
    const outcome = await attempt(on.run, on.input);
    expect(outcome).toEqual({ kind: 'suspended', deadline: expect.any(Number), leftMs: expect.any(Number) });
    expect(deadlineOf(outcome)).toBeGreaterThanOrEqual(before + timeout);
    expect(deadlineOf(outcome)).toBeLessThanOrEqual(Date.now() + timeout);
    expect(await on.turn.store.listAgents()).toMatchObject([{ status: 'suspended', waitingToolCount: 1 }]);
  });

  test.each([
    [{ suspend_timeout_ms: 1_234 }, 1_234],
    [{ suspend_timeout_ms: -1 }, 5_000],
    [{ suspend_timeout_ms: MAX_WAIT_MS + 1 }, MAX_WAIT_MS],
    [{ suspend_timeout_ms: Number.MAX_SAFE_INTEGER }, MAX_WAIT_MS],
    [{ suspend_timeout_ms: 1e300 }, MAX_WAIT_MS],
    [{ suspend_timeout_ms: 'soon' }, 5_000],
  ])('that returns __cg_control %j waits %d ms with this call (T13)', async (control, timeout) => {
    const on = await call(work(() => ({ __cg_control: control }), { ...suspending, suspendTimeoutMs: 5_000 }));
    const before = Date.now();
    const deadline = deadlineOf(await attempt(on.run, on.input));
    expect(deadline).toBeGreaterThanOrEqual(before + timeout);
    expect(deadline).toBeLessThanOrEqual(Date.now() + timeout);
  });

  test('does its work first, and once: a second attempt waits on with the same deadline (T13)', async () => {
    let ran = 0;
    const on = await call(
      work(() => {
        ran += 1;
        return 'the mail is sent';
      }, suspending),
    );
    const first = await attempt(on.run, on.input, 1);
    expect(deadlineOf(await attempt(on.run, on.input, 2))).toBe(deadlineOf(first));
    expect(ran).toBe(1);
    expect(await on.result()).toBeNull();
  });

  test('that fails does not wait (T20)', async () => {
    const on = await call(
      work(() => {
        throw new Error('no mail server');
      }, suspending),
    );
    expect(await attempt(on.run, on.input)).toMatchObject({
      kind: 'settled',
      settled: { status: 'failed', afterExecution: 'continue' },
    });
  });

  test('whose answer came before it suspended is settled by it (T14)', async () => {
    const on: Call = await call(
      work(async () => {
        await on.turn.store.reportResult(on.turn.fence.agentTurnId, {
          callId: on.callId,
          status: 'success',
          result: 'early',
        });
        return null;
      }, suspending),
    );
    expect(await attempt(on.run, on.input)).toMatchObject({ kind: 'settled', settled: { status: 'success' } });
    expect(await on.result()).toMatchObject({ result: 'early' });
  });

  test('whose answer is there when a second attempt comes is settled by it (T14)', async () => {
    const on = await call(work(undefined, suspending));
    await attempt(on.run, on.input, 1);
    const report = { callId: on.callId, status: 'success', result: 'yes' } as const;
    expect(await on.turn.store.reportResult(on.turn.fence.agentTurnId, report)).toMatchObject({ ack: 'applied' });
    expect(await attempt(on.run, on.input, 2)).toMatchObject({ kind: 'settled', settled: { status: 'success' } });
  });
});

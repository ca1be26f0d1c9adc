import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, describe, expect, test } from '@jest/globals';
import SqliteDatabase from 'better-sqlite3';
import { z } from 'zod';
import { defineTool } from '../../../activities/app/app.ts';
import type { ToolContext } from '../../../activities/tool.ts';
import { runTool } from '../../../activities/tools/run-tool.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';
import { testApp } from '../../support/app.ts';
import { Attempt, attempt } from '../llm/leased-turn.ts';
import { type Call, call, closeCalls, NO_WORKFLOWS, work } from './proposed-call.ts';

afterEach(closeCalls);

describe('a tool', () => {
  test('that returns a value succeeds with it (W10)', async () => {
    const on = await call(
      work(({ a }) => ({ got: a as number })),
      { a: 7 },
    );
    expect(await attempt(on.run, on.input)).toMatchObject({
      kind: 'settled',
      settled: { callId: on.callId, status: 'success', afterExecution: 'continue' },
    });
    expect(await on.result()).toMatchObject({ status: 'success', result: { got: 7 }, tool: 'work' });
    const [step] = (await on.turn.store.getTurn(on.turn.fence.agentTurnId))?.steps ?? [];
    expect(step?.calls).toMatchObject([{ tool: 'work', status: 'success', durationMs: expect.any(Number) }]);
  });

  test.each([
    ['nothing', undefined, null],
    ['null', null, null],
    ['an empty text', '', ''],
    ['a list', [1, null], [1, null]],
  ])('that returns %s succeeds too', async (_, value, stored) => {
    const on = await call(work(() => value));
    await attempt(on.run, on.input);
    expect(await on.result()).toMatchObject({ status: 'success', result: stored });
  });

  test('gets who it works for, a key for its effects and a signal (W10)', async () => {
    const seen: ToolContext[] = [];
    const on = await call(
      work((_, context) => {
        seen.push(context);
        return null;
      }),
    );
    await attempt(on.run, on.input);
    const { agentId, agentTurnId } = on.turn.fence;
    expect(seen[0]).toMatchObject({ agentId, agentTurnId, callId: on.callId, idempotencyKey: on.callId, attempt: 1 });
    expect(seen[0]?.signal.aborted).toBe(false);
  });

  test('gets what the caller said with the request: correlation, trace and metadata (T26, T27)', async () => {
    const seen: ToolContext[] = [];
    const tool = () => work((_, context) => void seen.push(context));
    const said = { correlationId: 'order-7', metadata: { tenant: 'a' }, traceparent: `00-${'1'.repeat(32)}-01` };
    const one = await call(tool(), {}, {}, said);
    const other = await call(tool());
    await attempt(one.run, one.input);
    await attempt(other.run, other.input);
    expect(seen[0]).toMatchObject({ ...said, turnEpoch: one.turn.fence.turnEpoch });
    expect(seen[1]).toMatchObject({ correlationId: null, metadata: {}, traceparent: null });
  });

  test('is let go with all that it held when it has its result, long before its time is over', async () => {
    const held: WeakRef<object>[] = [];
    const on = await call(
      work((_, { signal }) => {
        const mine = { size: 1 };
        held.push(new WeakRef(mine));
        signal.addEventListener('abort', () => mine);
        return mine.size;
      }),
    );
    await attempt(on.run, on.input);
    setFlagsFromString('--expose-gc');
    runInNewContext('gc')();
    expect(held.map((each) => each.deref())).toEqual([undefined]);
  });

  test('has no callback where the worker was given no key and no gateway, and fails with a code that says so', async () => {
    const on = await call(work((_, { callbackUrl }) => callbackUrl()));
    await attempt(on.run, on.input);
    expect(await on.result()).toMatchObject({
      status: 'failed',
      error: { code: 'callbacks_not_configured', message: expect.stringContaining('AGENTTURN_SIGNING_KEY') },
    });
  });

  test('writes lines to the log of the worker that name its call, also later from elsewhere', async () => {
    const later = Promise.withResolvers<() => void>();
    const on = await call(
      work((_, { logger }) => {
        logger.warn('the wind turned', { kmh: 7, callId: 'another' });
        later.resolve(() => logger.error('afterwards'));
        return null;
      }),
    );
    const environment = new Attempt();
    await environment.of(on.run, on.input);
    (await later.promise)();
    const { agentId, agentTurnId } = on.turn.fence;
    const ids = { agentId, agentTurnId, callId: on.callId, tool: 'work' };
    expect(environment.logged).toMatchObject([
      { level: 'WARN', message: 'the wind turned', meta: { ...ids, kmh: 7 } },
      { level: 'ERROR', message: 'afterwards', meta: ids },
    ]);
  });

  test('that throws is logged once, with the class of its error, the stack and the cause, without secrets (T20)', async () => {
    const on = await call(
      work(() => {
        throw new TypeError('the printer is on fire', { cause: new Error('refused password=hunter2secret') });
      }),
    );
    const environment = new Attempt();
    await environment.of(on.run, on.input);
    const { agentId, agentTurnId } = on.turn.fence;
    expect(environment.logged).toMatchObject([
      { level: 'WARN', message: 'tool work failed', meta: { agentId, agentTurnId, callId: on.callId, execution: 1 } },
    ]);
    const error = String(environment.logged[0]?.meta?.error);
    expect(error).toMatch(/^TypeError: the printer is on fire\n +at .*run-tool\.test\.ts/);
    expect(error).toContain('caused by Error: refused password=***');
    expect(error).not.toContain('hunter2');
  });

  test('says how far it is: its readers see the latest while it works, and each in the events (T5)', async () => {
    const finish = Promise.withResolvers<void>();
    const on = await call(
      work(async (_, { progress }) => {
        progress('begun');
        await finish.promise;
        progress('too late to be written');
        return null;
      }),
    );
    const { store, fence } = on.turn;
    const view = async () => (await store.getTurn(fence.agentTurnId))?.steps[0]?.calls[0];
    const run = attempt(on.run, on.input);
    while ((await view())?.progress !== 'begun') await store.changed(1_000);
    expect(await view()).toMatchObject({ status: 'open', progress: 'begun' });
    finish.resolve();
    await run;
    expect(await view()).toMatchObject({ status: 'success', progress: null });
    const events = (await store.readEvents(fence)).flatMap(({ type, payload }) => (type === 'call' ? [payload] : []));
    expect(events).toMatchObject([
      { phase: 'progress', progress: 'begun', callId: on.callId, tool: 'work' },
      { phase: 'settled' },
    ]);
  });

  test('whose definition says terminate settles with that, failed or not (T19)', async () => {
    const good = await call(work(() => 'done', { afterExecution: 'terminate' }));
    const bad = await call(
      work(
        () => {
          throw new Error('no');
        },
        { afterExecution: 'terminate' },
      ),
    );
    expect(await attempt(good.run, good.input)).toMatchObject({
      settled: { status: 'success', afterExecution: 'terminate' },
    });
    expect(await attempt(bad.run, bad.input)).toMatchObject({
      settled: { status: 'failed', afterExecution: 'terminate', errorCode: 'tool_failed' },
    });
  });

  test('that this worker does not have is a failed result, as another worker may have another app (W9)', async () => {
    const on = await call(work(() => null));
    const elsewhere = runTool({ store: on.turn.store, app: testApp([]), workflows: NO_WORKFLOWS });
    expect(await attempt(elsewhere, on.input)).toMatchObject({
      settled: { status: 'failed', errorCode: 'unknown_tool' },
    });
  });

  test('has started and is claimed before it has any effect (W10)', async () => {
    const claims: unknown[] = [];
    const on: Call = await call(
      work(() => {
        const database = new SqliteDatabase(on.turn.storePath, { readonly: true });
        claims.push(...database.prepare('select call_id, attempt, outcome from dispatch_claims').all());
        database.close();
        return null;
      }),
    );
    await attempt(on.run, on.input);
    expect(claims).toEqual([{ call_id: on.callId, attempt: 1, outcome: null }]);
  });

  test('of a turn that lost its lease never starts (T5, W10)', async () => {
    let ran = 0;
    const on = await call(
      work(() => {
        ran += 1;
        return null;
      }),
    );
    await on.turn.store.stopTurn(on.turn.fence.agentTurnId, 'test');
    await expect(attempt(on.run, on.input)).rejects.toMatchObject({ code: 'stale_epoch' });
    expect(ran).toBe(0);
  });
});

describe('the arguments a tool gets', () => {
  test('have the defaults of its schema (W8, W9)', async () => {
    const parameters = z.object({ a: z.number(), b: z.number().default(10) });
    const sum = defineTool({ name: 'sum', description: '', parameters, execute: ({ a, b }) => a + b });
    const on = await call(sum, { a: 1 });
    await attempt(on.run, on.input);
    expect(await on.result()).toMatchObject({ result: 11 });
  });

  test('went through its transforms once, although they are checked when proposed and again when run (W9)', async () => {
    const parameters = z.object({ amount: z.string().transform(Number) });
    const double = defineTool({ name: 'double', description: '', parameters, execute: ({ amount }) => amount * 2 });
    const on = await call(double, { amount: '21' });
    await attempt(on.run, on.input);
    expect(await on.result()).toMatchObject({ status: 'success', result: 42 });
  });
});

describe('a tool that fails', () => {
  test.each([
    ['an error', () => new Error('the disk is full'), 'the disk is full'],
    ['an error without a message', () => new Error(''), 'without a message'],
    ['a text', () => 'just a text', 'just a text'],
    ['nothing', () => undefined, 'undefined'],
    ['null', () => null, 'null'],
    ['an object', () => ({ reason: 1 }), ''],
    ['an object without a prototype', () => Object.create(null) as object, ''],
  ])('by throwing %s is a failed result for the model (W10, T20)', async (_, thrown, message) => {
    const on = await call(
      work(() => {
        throw thrown();
      }),
    );
    expect(await attempt(on.run, on.input)).toMatchObject({ settled: { status: 'failed', errorCode: 'tool_failed' } });
    const result = await on.result();
    expect(result?.error).toMatchObject({ code: 'tool_failed', kind: 'recoverable' });
    expect(result?.error?.message).toContain(message);
    expect(result).not.toHaveProperty('result');
  });

  test('by a rejected promise, later, is the same (W10)', async () => {
    const on = await call(work(() => Promise.reject(new Error('later'))));
    await attempt(on.run, on.input);
    expect(await on.result()).toMatchObject({ status: 'failed', error: { message: 'later' } });
  });

  test('by taking too long is a timeout, and its signal says so (T20)', async () => {
    const seen: AbortSignal[] = [];
    const on = await call(
      work(
        (_, { signal }) => {
          seen.push(signal);
          return new Promise<never>(() => {});
        },
        { timeoutMs: 50 },
      ),
    );
    expect(await attempt(on.run, on.input)).toMatchObject({
      settled: { status: 'timeout', errorCode: 'tool_timeout' },
    });
    expect(seen[0]?.aborted).toBe(true);
    expect(await on.result()).toMatchObject({ error: { kind: 'timeout', message: expect.stringContaining('50 ms') } });
  });

  const circular = () => {
    const value: Record<string, unknown> = {};
    value.self = value;
    return value;
  };
  test.each([
    ['a BigInt', () => 1n],
    ['a circle', circular],
    ['a function', () => () => 1],
    ['a symbol', () => Symbol('s')],
    ['what is nested too deep to be kept', () => JSON.parse(`${'['.repeat(3_000)}"\\ud83d"${']'.repeat(3_000)}`)],
    ['what is nested too deep to be written', () => JSON.parse(`${'['.repeat(200_000)}${']'.repeat(200_000)}`)],
    [
      'something that refuses to be JSON',
      () => ({
        toJSON: () => {
          throw new Error('never');
        },
      }),
    ],
  ])('by returning %s is invalid_result (T20)', async (_, value) => {
    const on = await call(work(() => value() as never));
    expect(await attempt(on.run, on.input)).toMatchObject({
      settled: { status: 'failed', errorCode: 'invalid_result' },
    });
    expect(await on.result()).toMatchObject({ error: { kind: 'fatal', message: expect.stringContaining('work') } });
  });

  test('by returning too much is result_too_large, which is never retried (T4)', async () => {
    const on = await call(work(() => 'x'.repeat(SIZES.cardBytes)));
    expect(await attempt(on.run, on.input)).toMatchObject({
      settled: { status: 'failed', errorCode: 'result_too_large' },
    });
  });

  test('by a message that is too long is a result all the same (T4)', async () => {
    const on = await call(
      work(() => {
        throw new Error('x'.repeat(2 * SIZES.cardBytes));
      }),
    );
    expect(await attempt(on.run, on.input)).toMatchObject({ settled: { status: 'failed' } });
  });
});

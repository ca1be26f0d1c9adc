/**
 * A process that dies, or stands still, at any of the calls that a burst makes of the store: another attempt comes the same way, and nothing
 * is done or told twice (T5, W10).
 */

import { setImmediate } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import PQueue from 'p-queue';
import { z } from 'zod';
import { type App, defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import { type ChatRequest, textOf } from '../../../workers/model-server/chat-request.ts';
import { attempts, type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import type { Store } from '../../../workflows/contract/store.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { STORES } from '../store/store-bench.ts';
import { type BurstTurn, burstTurn, type Called, type Place } from './burst-bench.ts';

const say = (content: string) => ({ kind: 'message', content }) as const;
const call = (...names: readonly string[]) =>
  ({ kind: 'message', toolCalls: names.map((name, n) => ({ name, arguments: { n } })) }) as const;

/** The calls whose tool was started, in order, and the numbers of the attempts at them. */
let started: string[] = [];
let numbers: number[] = [];
/** How many tools have run at once. */
const atOnce = { now: 0, most: 0 };

const tool = (name: string, sideEffects: 'none' | 'idempotent' | 'unsafe', result: unknown = { did: name }) =>
  defineTool({
    name,
    description: name,
    parameters: z.object({ n: z.number().optional() }),
    sideEffects,
    async execute(_, { callId, attempt }) {
      started.push(callId);
      numbers.push(attempt);
      atOnce.now += 1;
      atOnce.most = Math.max(atOnce.most, atOnce.now);
      await setImmediate();
      atOnce.now -= 1;
      return result;
    },
  });

const budgets = (limits: object) => ({ budgets: limits });
const app: App = defineApp({
  agents: [
    defineAgent({ name: 'tester', burst: true }),
    defineAgent({ name: 'refusing', burst: true, governance: { veto: ['denied'] } }),
    defineAgent({ name: 'returning', burst: true, governance: { veto: ['denied'], onDenied: 'rollback' } }),
    defineAgent({ name: 'narrow', burst: true, context: { windowTokens: 4_000 } }),
    defineAgent({ name: 'one-each', burst: { maxSteps: 1 } }),
    defineAgent({ name: 'small', burst: { maxBytes: 0 } }),
    defineAgent({ name: 'quick', burst: { maxMs: 0 } }),
    defineAgent({
      name: 'slow-and-hasty',
      burst: { maxSteps: 1 },
      ...budgets({ maxWallTimeMs: 60_000, onExhausted: 'ask' }),
    }),
    defineAgent({ name: 'in-a-row', burst: true, parallelCalls: 1 }),
    defineAgent({ name: 'pair', burst: true, parallelCalls: 2 }),
    defineAgent({ name: 'falling-back', burst: true, model: { fallback: { name: 'other', afterFailures: 2 } } }),
    defineAgent({ name: 'two-steps', burst: true, ...budgets({ maxSteps: 2 }) }),
    defineAgent({ name: 'one-step', burst: true, mustEndWith: ['put'], ...budgets({ maxSteps: 1 }) }),
    defineAgent({ name: 'hasty', burst: true, ...budgets({ maxWallTimeMs: 60_000, onExhausted: 'ask' }) }),
  ],
  tools: [
    tool('look', 'none'),
    tool('put', 'idempotent'),
    tool('pay', 'unsafe'),
    tool('denied', 'none'),
    tool('read', 'none', 'word '.repeat(600)),
  ],
});

const isSummary = ({ messages }: ChatRequest): boolean =>
  messages.some((message) => textOf(message).startsWith('Shorten this'));
const orSummary = (answer: ReturnType<typeof call>) => (request: ChatRequest) =>
  isSummary(request) ? say('in short') : answer;
const wasTakenBack = ({ messages }: ChatRequest): boolean =>
  messages.some((message) => /taken back|denied/.test(textOf(message)));

const scripts = {
  work: [call('look', 'put', 'pay'), call('pay'), say('done')],
  refused: [call('denied', 'look'), say('done')],
  returned: [(request: ChatRequest) => (wasTakenBack(request) ? say('done') : call('denied', 'pay'))],
  long: [...Array.from({ length: 3 }, () => orSummary(call('read', 'read'))), say('done')],
  looks: [call('look'), call('look'), say('done'), say('never said')],
  pays: [call('pay', 'pay', 'pay'), say('done')],
  many: [call('look', 'look', 'look', 'look', 'look'), say('done')],
  words: [say('first'), say('second'), say('third'), say('fourth')],
};

/** How far the clocks of all processes are ahead. */
let aheadMs = 0;
/** How long the processes were busy besides, in ms. */
let busyMs = 0;
const realNow = Date.now;
const realClock = performance.now.bind(performance);

beforeEach(() => {
  [started, numbers, busyMs, atOnce.most] = [[], [], 0, 0];
  jest.spyOn(Date, 'now').mockImplementation(() => realNow() + aheadMs);
  jest.spyOn(performance, 'now').mockImplementation(() => realClock() + busyMs);
});
afterEach(() => void jest.restoreAllMocks());

describe.each(STORES)('a burst on %s', (name, fresh) => {
  let store: Store;
  let model: ScriptedServer;

  beforeAll(async () => {
    store = await fresh()(() => Date.now());
    await store.registerProfiles([...app.agents.values()]);
    model = await startScriptedModel({ scripts });
  });
  afterAll(async () => {
    await store?.close();
    await model?.close();
  });

  const turnOf = (script: keyof typeof scripts, profile = 'tester') =>
    burstTurn(store, app, model, { instruction: `[script:${script}] go`, profile });

  /** What is written of the turn, but for ids, places and times; the results of a step in the order of its calls. */
  async function told({ lease: { agentId, agentTurnId } }: BurstTurn): Promise<Record<string, unknown>> {
    const { usage, status, stepCount, turnEpoch, steps = [] } = (await store.getTurn(agentTurnId)) ?? {};
    const entries = (await store.readTranscript(agentTurnId)) ?? [];
    const events = await store.readEvents({ agentId, limit: 1_000 });
    const calls = steps.map((step) => step.calls.map(({ tool, status, error }) => [tool, status, error?.code]));
    return {
      ...{ usage, status, stepCount, turnEpoch, calls },
      entries: entries.map((entry) => [entry.kind, entry.hidden, 'text' in entry ? entry.text : '']),
      events: events.map(({ type, payload }) => `${type} ${'phase' in payload ? payload.phase : ''}`).sort(),
    };
  }

  /** The calls of an unsafe tool that the process has claimed, and whose result it has not stored. */
  function unknownOf(called: readonly Called[], unsafe: ReadonlySet<string>): readonly string[] {
    const done = (name: string) => called.flatMap((one) => (one.name === name && one.isDone ? [one.callId ?? ''] : []));
    const settled = new Set([...done('settleCall'), ...done('settleCallAndOpen')]);
    return done('claimCall').filter((callId) => unsafe.has(callId) && !settled.has(callId));
  }

  const unsafeCallsOf = async ({ lease }: BurstTurn): Promise<ReadonlySet<string>> => {
    const { steps = [] } = (await store.getTurn(lease.agentTurnId)) ?? {};
    return new Set(
      steps.flatMap(({ calls }) => calls.filter(({ tool }) => tool === 'pay').map(({ callId }) => callId)),
    );
  };

  /** What a turn comes to that nothing befalls, and the places at which its processes may stop. */
  async function wholeTurn(script: keyof typeof scripts, profile: string) {
    const turn = await turnOf(script, profile);
    const asked = model.requests.length;
    expect(await turn.run()).toMatchObject({ status: 'success' });
    // The bursts that write a summary are alike: the first of them will do.
    const processes = turn.attempts.length > 1 ? [1] : [0];
    const places = processes.flatMap((process) =>
      (turn.attempts[process] ?? []).flatMap(({ name }, at) => [
        { process, name, at, when: 'before' } as const,
        { process, name, at, when: 'after' } as const,
      ]),
    );
    return { should: await told(turn), asked: model.requests.length - asked, places };
  }

  const SCENES = [
    ['tools', 'work', 'tester'],
    ['refusals', 'refused', 'refusing'],
    ['a step that is taken back', 'returned', 'returning'],
    ['summaries', 'long', 'narrow'],
  ] as const;

  // How an attempt walks is the same on every store; what a store must do for it, one scene shows.
  describe.each(name === 'SQLite' ? SCENES : SCENES.slice(0, 1))('with %s', (_, script, profile) => {
    test('goes on after a death at each place as if there had been none (T5, T29, W10)', async () => {
      const whole = await wholeTurn(script, profile);
      for (const where of whole.places) {
        started = [];
        const { process, when, at } = where;
        const asked = model.requests.length;
        const turn = await turnOf(script, profile);
        const end = await turn.run({ deaths: [...Array.from({ length: process }, () => undefined), where] });
        const unsafe = await unsafeCallsOf(turn);
        const unknown = unknownOf(turn.attempts[process] ?? [], unsafe);
        const is = await told(turn);
        const codes = JSON.stringify(is.calls).match(/outcome_unknown/g) ?? [];
        expect([where, end?.status, codes.length]).toEqual([where, 'success', unknown.length]);
        if (unknown.length === 0) expect([where, is]).toEqual([where, whole.should]);
        const paid = started.filter((callId) => unsafe.has(callId));
        expect([where, new Set(paid).size]).toEqual([where, paid.length]);
        // An answer that was not stored is asked for again, and no other; some summaries are written by rule. Calls side by side, and
        // leases that are looked at again on a slow machine, come in another order than in the whole turn.
        const name = turn.attempts[process]?.[at]?.name ?? '';
        const asks = model.requests.length - asked - whole.asked;
        const lost = when === 'before' && /^commitS/.test(name) ? 1 : 0;
        expect([where, name === 'commitSummary' && asks === 0 ? lost : asks]).toEqual([where, lost]);
      }
    });

    test('writes and starts nothing where it wakes after another attempt has gone on (T5, W10)', async () => {
      const whole = await wholeTurn(script, profile);
      const others = script === 'work' ? [undefined, { when: 'after', at: 1 } as const] : [undefined];
      for (const where of whole.places) {
        // The attempt that takes over ends the turn, or dies as soon as it has taken over.
        for (const death of others) {
          started = [];
          const turn = await turnOf(script, profile);
          const seen = async () => [await told(turn), [...started], model.requests.length];
          const waking = async () => {
            aheadMs += 60_000;
            const before = await seen();
            return async () => expect([where, await seen()]).toEqual([where, before]);
          };
          const deaths = [...Array.from({ length: where.process + 1 }, () => undefined), death];
          const between = async () => turn.setBack(3_600_000);
          expect(await turn.run({ frozen: where, deaths, between, waking })).toMatchObject({ status: 'success' });
          const unsafe = await unsafeCallsOf(turn);
          const paid = started.filter((callId) => unsafe.has(callId));
          expect([where, new Set(paid).size]).toEqual([where, paid.length]);
        }
      }
      expect(await store.violations()).toEqual([]);
    });
  });

  test('several deaths in a row, with steers, budgets, hours and a clock that is set back between them, are survived all the same (T5, T22, W10)', async () => {
    const place = fc.record({ at: fc.nat(20), when: fc.constantFrom('before' as const, 'after' as const) });
    const event = fc.constantFrom('nothing', 'steer', 'budgets', 'hours', 'set back');
    const property = fc.asyncProperty(fc.array(place, { maxLength: 4 }), fc.array(event), async (deaths, events) => {
      started = [];
      const turn = await turnOf('work');
      const { agentTurnId } = turn.lease;
      const happens = [...events];
      const between = async () => {
        const happened = happens.shift();
        if (happened === 'steer') await store.steerTurn(agentTurnId, `steer ${happens.length}`);
        if (happened === 'budgets') await store.setBudgets(agentTurnId, { maxSteps: 20 + happens.length });
        if (happened === 'hours') aheadMs += 3 * 3_600_000;
        if (happened === 'set back') turn.setBack(3_600_000);
      };
      expect(await turn.run({ deaths, between })).toMatchObject({ status: 'success' });
      const unsafe = await unsafeCallsOf(turn);
      const paid = started.filter((callId) => unsafe.has(callId));
      expect(new Set(paid).size).toBe(paid.length);
      const { stepCount, steps = [] } = (await store.getTurn(agentTurnId)) ?? {};
      expect([stepCount, steps.map(({ calls }) => calls.map(({ tool }) => tool))]).toEqual([
        3,
        [['look', 'put', 'pay'], ['pay'], []],
      ]);
      const entries = (await store.readTranscript(agentTurnId)) ?? [];
      const steers = entries.flatMap((entry) => (entry.kind === 'steer' ? [entry.text] : []));
      expect(new Set(steers).size).toBe(steers.length);
    });
    await fc.assert(property, { numRuns: 60 });
    expect(await store.violations()).toEqual([]);
  });

  /** Dies after the n-th call of that name. */
  const afterNth = (names: readonly string[], name: string, nth: number): Place => {
    const at = names.flatMap((one, index) => (one === name ? [index] : []))[nth - 1];
    if (at === undefined) throw new Error(`there is no call ${nth} of ${name} among ${names}`);
    return { when: 'after', at };
  };

  async function namesOf(script: keyof typeof scripts, profile: string): Promise<readonly string[]> {
    const turn = await turnOf(script, profile);
    await turn.run();
    return (turn.attempts[0] ?? []).map(({ name }) => name);
  }

  test('does no more than its profile lets it', async () => {
    const burstsOf = async (profile: string) => {
      const turn = await turnOf('looks', profile);
      expect(await turn.run()).toMatchObject({ status: 'success' });
      return turn.attempts.length;
    };
    expect(await burstsOf('tester')).toBe(1);
    expect(await burstsOf('one-each')).toBe(3);
    // Three model calls, and two times a tool.
    for (const profile of ['small', 'quick']) expect(await burstsOf(profile)).toBe(5);
  });

  test('a summary begins a burst: what led to it is in the history before it is written (K15, T5)', async () => {
    const turn = await turnOf('long', 'narrow');
    await turn.run();
    const ways = turn.attempts.map((called) => called.map(({ name }) => name));
    expect(ways.length).toBeGreaterThan(1);
    for (const [index, way] of ways.entries()) expect(way.indexOf('findSummary')).toBe(index === 0 ? -1 : 0);
  });

  test('budgets that come between two attempts count from where they are read (K9, T5)', async () => {
    const names = await namesOf('looks', 'two-steps');
    const turn = await turnOf('looks', 'two-steps');
    const between = async () => void (await store.setBudgets(turn.lease.agentTurnId, { maxSteps: 10 }));
    expect(await turn.run({ deaths: [afterNth(names, 'settleCallAndOpen', 1)], between })).toMatchObject({
      status: 'success',
    });
  });

  test('budgets that come after a step was answered do not change what followed from it (K9, T5)', async () => {
    const names = await namesOf('words', 'one-step');
    const turn = await turnOf('words', 'one-step');
    const between = async () => void (await store.setBudgets(turn.lease.agentTurnId, { maxSteps: 10 }));
    const end = await turn.run({ deaths: [afterNth(names, 'commitStepAndEnd', 1)], between });
    expect(end).toMatchObject({ status: 'partial', errorCode: 'max_steps_reached' });
    expect((await store.getTurn(turn.lease.agentTurnId))?.stepCount).toBe(2);
  });

  test('the time between two attempts changes nothing that is decided (K9, T5)', async () => {
    const names = await namesOf('looks', 'hasty');
    const turn = await turnOf('looks', 'hasty');
    const between = async () => {
      aheadMs += 3_600_000;
    };
    await turn.run({ deaths: [afterNth(names, 'commitStepAndEnd', 2)], between });
    expect(turn.action).toMatchObject({ type: 'await', wait: 'operator', code: 'budget_wall_time' });
    expect(turn.kernel.state.stepIndex).toBe(2);
    expect(turn.items.map(({ kind }) => kind)).toEqual(['step', 'event', 'step', 'event']);
  });

  test('an attempt that has done enough on the way of the one before it stops where the next burst goes on that way (K9, T5)', async () => {
    const names = await namesOf('looks', 'hasty');
    const readLedSteps: Store['readLedSteps'] = async (...args) => {
      busyMs += 10_000;
      return store.readLedSteps(...args);
    };
    const request = { instruction: '[script:looks] go', profile: 'hasty' };
    const turn = await burstTurn({ ...store, readLedSteps }, app, model, request);
    const between = async () => {
      aheadMs += 3_600_000;
    };
    await turn.run({ deaths: [afterNth(names, 'commitStepAndEnd', 2)], between });
    expect(turn.action).toMatchObject({ type: 'await', wait: 'operator', code: 'budget_wall_time' });
    expect(turn.kernel.state.stepIndex).toBe(2);
    expect(turn.attempts).toHaveLength(4);
  });

  test('a worker with another kernel finds the end that the attempt before it has committed (T29)', async () => {
    const names = await namesOf('looks', 'tester');
    const turn = await turnOf('looks');
    const deaths = [afterNth(names, 'commitStepAndEnd', 3)];
    expect(await turn.run({ deaths, otherKernel: new Set([1]) })).toMatchObject({ status: 'success' });
  });

  test('a worker with another kernel shuts out the attempt before it, and leaves the action to the workflow (T5, W10)', async () => {
    const names = await namesOf('looks', 'tester');
    const turn = await turnOf('looks');
    started = [];
    const before = { when: 'before', at: afterNth(names, 'commitStepAndEnd', 1).at } as const;
    expect(await turn.run({ frozen: { ...before, process: 0 }, otherKernel: new Set([1]) })).toBeNull();
    expect(turn.action).toMatchObject({ type: 'call_llm', stepIndex: 1 });
    expect(started).toEqual([]);
    expect((await store.getTurn(turn.lease.agentTurnId))?.steps).toMatchObject([{ calls: [] }]);
  });

  test('a worker that is to stop ends the burst before it starts a tool (W5)', async () => {
    let isStopping = false;
    const commitStepAndEnd: Store['commitStepAndEnd'] = (...args) => {
      isStopping = true;
      return store.commitStepAndEnd(...args);
    };
    const request = { instruction: '[script:looks] go', profile: 'tester' };
    const more = { isStopping: () => isStopping };
    const turn = await burstTurn({ ...store, commitStepAndEnd }, app, model, request, more);
    expect((await turn.burst()).next).toMatchObject({ type: 'execute_tools', stepIndex: 1 });
    expect(started).toEqual([]);
    // A burst does what it was asked for, and no more.
    expect((await turn.burst()).next).toMatchObject({ type: 'call_llm', stepIndex: 2 });
    expect(started).toHaveLength(1);
  });

  test('a worker that is to stop leaves the calls that have not begun to another one (W5, W10)', async () => {
    const request = { instruction: '[script:pays] go', profile: 'in-a-row' };
    const isStopping = () => started.length === 1;
    const turn = await burstTurn(store, app, model, request, { isStopping });
    expect(await turn.run()).toMatchObject({ status: 'success' });
    // The second attempt comes to the calls and leaves them to the next burst, which adopts the result of the first one and starts the rest.
    expect([turn.attempts.length, numbers]).toEqual([3, [1, 1, 1]]);
    const { steps = [] } = (await store.getTurn(turn.lease.agentTurnId)) ?? {};
    expect(steps[0]?.calls.map(({ status }) => status)).toEqual(['success', 'success', 'success']);
  });

  test('a burst that follows one whose attempt was lost goes on the way of that attempt (K9, T5)', async () => {
    const turn = await turnOf('looks', 'slow-and-hasty');
    expect((await turn.burst()).next).toMatchObject({ type: 'execute_tools', stepIndex: 1 });
    const between = async () => {
      aheadMs += 3_600_000;
    };
    // It stores the result, opens the next step, and dies when it has the answer.
    const deaths = [undefined, { when: 'before', at: 3 } as const];
    const { apart } = await turn.burst({ deaths, between, otherKernel: new Set([2]) });
    expect([apart, turn.attempts[1]?.slice(0, 4).map(({ name }) => name)]).toEqual([
      true,
      ['claimCall', 'settleCallAndOpen', 'readExtents', 'commitStepAndEnd'],
    ]);
    await turn.burst();
    expect(turn.kernel.state.stepIndex).toBe(2);
  });

  test('so many calls of a step run at once as the profile lets, and so many tools as the process has slots (W10)', async () => {
    const mostOf = async (profile: string, concurrency: number) => {
      atOnce.most = 0;
      const request = { instruction: '[script:many] go', profile };
      const turn = await burstTurn(store, app, model, request, { slots: new PQueue({ concurrency }) });
      expect(await turn.run()).toMatchObject({ status: 'success' });
      return atOnce.most;
    };
    expect(await mostOf('tester', 200)).toBe(5);
    expect(await mostOf('pair', 200)).toBe(2);
    expect(await mostOf('tester', 3)).toBe(3);
  });

  test('the attempts at a call are counted by their claims, whatever else was tried again before (W10)', async () => {
    const busy = { kind: 'error', status: 429, headers: { 'retry-after': '1' } } as const;
    model.add(`counting-${name}`, [attempts(busy, busy, call('look', 'pay')), say('done')]);
    const request = { instruction: `[script:counting-${name}] go`, profile: 'tester' };
    const turn = await burstTurn(store, app, model, request);
    expect(await turn.run()).toMatchObject({ status: 'success' });
    expect([turn.attempts.length, numbers]).toEqual([3, [1, 1]]);
    numbers = [];
    const names = await namesOf('looks', 'tester');
    const before = { when: 'before', at: afterNth(names, 'settleCallAndOpen', 1).at } as const;
    numbers = [];
    await (await turnOf('looks')).run({ deaths: [before] });
    expect(numbers).toEqual([1, 2, 1]);
  });

  test('the failures of one step send no other step to the fallback model (W14)', async () => {
    const busy = { kind: 'error', status: 429, headers: { 'retry-after': '1' } } as const;
    model.add(`falling-${name}`, [attempts(busy, busy, call('look')), say('done')]);
    const asked = model.requests.length;
    const request = { instruction: `[script:falling-${name}] go`, profile: 'falling-back' };
    const turn = await burstTurn(store, app, model, request);
    expect(await turn.run()).toMatchObject({ status: 'success' });
    const models = model.requests.slice(asked).map((request) => request.model);
    expect(models).toEqual(['scripted', 'scripted', 'other', 'scripted']);
  });

  test('an answer is kept whatever keeps the turn from being ended with it (T6)', async () => {
    let refused = 0;
    const commitStepAndEnd: Store['commitStepAndEnd'] = async (fence, commit, endWith) => {
      if (commit.calls.length > 0) return store.commitStepAndEnd(fence, commit, endWith);
      refused += 1;
      throw new CodedError('store_corrupt', 'the next request cannot be read');
    };
    const asked = model.requests.length;
    const request = { instruction: '[script:looks] go', profile: 'tester' };
    const turn = await burstTurn({ ...store, commitStepAndEnd }, app, model, request);
    expect(await turn.run()).toMatchObject({ status: 'success' });
    expect([refused, model.requests.length - asked]).toEqual([1, 3]);
  });

  test('the end of a turn is committed with its last step, once, also when the answer to that is lost (T6, T29)', async () => {
    const names = await namesOf('looks', 'tester');
    expect(names.filter((called) => called.startsWith('commit'))).toEqual(Array(3).fill('commitStepAndEnd'));
    let lost = 0;
    const commitStepAndEnd: Store['commitStepAndEnd'] = async (...args) => {
      const committed = await store.commitStepAndEnd(...args);
      if (!committed.ending) return committed;
      lost += 1;
      throw new CodedError('store_unavailable', 'the connection broke');
    };
    const request = { instruction: '[script:looks] go', profile: 'tester' };
    const turn = await burstTurn({ ...store, commitStepAndEnd }, app, model, request);
    expect(await turn.run()).toMatchObject({ status: 'success', errorCode: null });
    expect(lost).toBe(1);
    expect(turn.attempts).toHaveLength(1);
    const events = await store.readEvents({ agentId: turn.lease.agentId, limit: 1_000 });
    expect(events.filter(({ type }) => type === 'task')).toHaveLength(1);
  });

  test('a result is kept whatever keeps the next step from being opened with it (W10)', async () => {
    model.add(`paying-${name}`, [call('pay'), say('done')]);
    started = [];
    const settleCallAndOpen: Store['settleCallAndOpen'] = async () => {
      throw new CodedError('store_corrupt', 'the profile cannot be read');
    };
    const request = { instruction: `[script:paying-${name}] go`, profile: 'tester' };
    const turn = await burstTurn({ ...store, settleCallAndOpen }, app, model, request);
    expect(await turn.run()).toMatchObject({ status: 'success' });
    expect(turn.attempts).toHaveLength(1);
    expect(started).toHaveLength(1);
    expect((await store.getTurn(turn.lease.agentTurnId))?.steps[0]?.calls).toMatchObject([{ status: 'success' }]);
  });

  test('a step that was opened with a result is gone on with when the answer to that is lost (T5)', async () => {
    let lost = 0;
    const settleCallAndOpen: Store['settleCallAndOpen'] = async (...args) => {
      const settled = await store.settleCallAndOpen(...args);
      if (lost > 0) return settled;
      lost += 1;
      await store.setBudgets(args[0].agentTurnId, { maxSteps: 1 });
      throw new CodedError('store_unavailable', 'the connection broke');
    };
    const request = { instruction: '[script:looks] go', profile: 'tester' };
    const turn = await burstTurn({ ...store, settleCallAndOpen }, app, model, request);
    await turn.run();
    expect([lost, turn.attempts.length]).toEqual([1, 1]);
    // The budgets came when the second step was open.
    expect(turn.items.slice(0, 3).map(({ kind }) => kind)).toEqual(['step', 'event', 'step']);
  });

  test('a provider that fails in the middle is tried again when it said, and nothing before it is (W14, T5)', async () => {
    const busy = { kind: 'error', status: 429, headers: { 'retry-after': '7' } } as const;
    model.add(`busy-${name}`, [call('pay'), attempts(busy, busy, say('done'))]);
    started = [];
    const request = { instruction: `[script:busy-${name}] go`, profile: 'tester' };
    const turn = await burstTurn(store, app, model, request);
    expect(await turn.run()).toMatchObject({ status: 'success' });
    expect(turn.pauses).toEqual([7_000, 7_000]);
    expect(turn.attempts).toHaveLength(3);
    expect(started).toHaveLength(1);
  });

  test('a provider that fails for good ends the burst before the call, which begins the next one (W14)', async () => {
    const refused = { kind: 'error', status: 400, code: 'bad', message: 'no' } as const;
    model.add(`refusing-${name}`, [call('pay'), refused]);
    const request = { instruction: `[script:refusing-${name}] go`, profile: 'tester' };
    const turn = await burstTurn(store, app, model, request);
    expect((await turn.burst()).next).toMatchObject({ type: 'call_llm', stepIndex: 2 });
    await expect(turn.burst()).rejects.toMatchObject({ nonRetryable: true });
  });

  test('a step that the turn gave up before its workflow was reset begins the next burst (K13)', async () => {
    const opened = afterNth(await namesOf('looks', 'tester'), 'settleCallAndOpen', 1);
    for (const when of ['before', 'after'] as const) {
      const turn = await turnOf('looks');
      const { agentId, agentTurnId, turnEpoch } = turn.lease;
      const fence = { agentId, agentTurnId, turnEpoch };
      const between = async () => void (await store.closeStep(fence, { stepIndex: 2 }));
      const { next } = await turn.burst({ deaths: [{ ...opened, when }], between });
      expect([when, next]).toMatchObject([when, { type: 'call_llm', stepIndex: 2 }]);
      await expect(turn.burst()).rejects.toMatchObject({ code: 'step_closed' });
    }
  });
});

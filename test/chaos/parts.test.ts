/** The parts of a chaos run do what its report says of them: what is drawn, what a hostile model sends, what the checks find. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { openAiModel } from '../../activities/llm/openai.ts';
import { readProposals } from '../../activities/llm/proposals.ts';
import { openPostgresStore } from '../../activities/store/postgres/open.ts';
import { openSqliteStore } from '../../activities/store/sqlite/open.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import type { StepView, TurnView } from '../../workflows/contract/views.ts';
import { freshSchemaUrl } from '../support/postgres.ts';
import { lastLines } from '../support/programs.ts';
import { proposalContext } from '../support/proposed-calls.ts';
import { FAULT_KINDS } from './faults.ts';
import { freezeClient } from './frozen-client.ts';
import { HOSTILE_CALLS, HOSTILE_KINDS, type HostileKind, hostileStep, ODD_USAGES } from './hostile.ts';
import { badAnswers, rightEnding } from './hostile-checks.ts';
import { Ledger } from './ledger.ts';
import { untoldParents } from './left.ts';
import { HELD } from './lock-holder.ts';
import { readOptions, USAGE } from './options.ts';
import { POISONED } from './poison.ts';
import { deckOf, randomOf } from './random.ts';
import { supervisorPid } from './rows.ts';
import { chaosApp } from './tools.ts';
import { answerOf, profileNamed, UNCOUNTED_MODEL } from './work.ts';
import { memoryProblems } from './worker-memory.ts';

describe('what a run draws', () => {
  test('has each fault as often in a deck as its number says, in an order that the seed gives', () => {
    const drawn = (seed: number) => {
      const draw = deckOf({ a: 3, b: 1, c: 2 }, randomOf(seed, 'faults'));
      return Array.from({ length: 12 }, draw);
    };
    const sorted = (part: readonly string[]) => part.toSorted().join('');
    expect(sorted(drawn(1).slice(0, 6))).toBe('aaabcc');
    expect(sorted(drawn(1).slice(6))).toBe('aaabcc');
    expect(drawn(1)).toEqual(drawn(1));
    expect(new Set([1, 2, 3, 4, 5].map((seed) => drawn(seed).join())).size).toBeGreaterThan(1);
  });

  test('can be narrowed to some kinds of faults, which the help names', () => {
    expect(readOptions([])?.faults).toEqual(FAULT_KINDS);
    expect(readOptions(['--faults', 'kills'])?.faults).toBe('kills');
    expect(readOptions(['--faults', 'poison,client'])?.faults).toEqual(['poison', 'client']);
    expect(() => readOptions(['--faults', 'poison,rain'])).toThrow('got rain');
    for (const kind of FAULT_KINDS) expect(USAGE).toMatch(new RegExp(`^ +${kind} `, 'm'));
  });
});

describe('a hostile model of a run', () => {
  let server: ModelServer;
  const app = chaosApp('/dev/null');

  beforeAll(async () => {
    server = await startModelServer({ answer: answerOf });
  });
  afterAll(() => server?.close());

  const replyTo = (plan: string, model = 'scripted') =>
    openAiModel({ apiKey: 'none', baseUrl: server.url, defaultModel: model }).stream(
      { model, messages: [{ role: 'user', content: `[plan ${plan}] Turn 1.` }] },
      new AbortController().signal,
    );

  test.each(HOSTILE_KINDS)('says what its kind is, and it comes through in order: %s', async (kind) => {
    for (const variant of kind === 'usage' ? ODD_USAGES.keys() : [0]) {
      const reply = await replyTo(hostileStep(kind, variant));
      expect(reply.usage).toMatchObject({ estimated: true });
      expect([reply.text, ...reply.calls.map((call) => call.arguments)].every((text) => text.isWellFormed())).toBe(
        true,
      );
      const { calls } = await readProposals(reply.calls, proposalContext({ offered: new Set(['note']), app }));
      const outcomes = calls.map(({ result }) => (result?.error ? `failed/${result.error.code}` : 'success'));
      const finishReasons: Partial<Record<HostileKind, string>> = {
        endless: 'length',
        overlong: 'length',
        crowd: 'length',
      };
      if (finishReasons[kind] !== undefined) expect(reply.finishReason).toBe(finishReasons[kind]);
      if (kind === 'refused') expect(reply.finishReason).toBe('content_filter');
      else expect(outcomes).toEqual(HOSTILE_CALLS[kind] ?? []);
    }
  });

  test('counts no tokens where the profile names the model that does not', async () => {
    expect((await replyTo('note:0', UNCOUNTED_MODEL)).usage).toMatchObject({ estimated: true });
    expect((await replyTo('note:0')).usage).not.toHaveProperty('estimated');
    const profile = app.agents.get(profileNamed({ short: true, uncounted: true }));
    expect(profile?.profile.model.name).toBe(UNCOUNTED_MODEL);
  });
});

describe('the checks of a run find', () => {
  const ours = { input: 10, output: 1, cached: 0, estimated: true } as const;
  const theirs = { input: 10, output: 1, cached: 0 };
  const stepOf = (change: Partial<StepView>): StepView => ({
    ...{ stepIndex: 1, model: 'm', usage: theirs, cost: null, latencyMs: 1, firstTokenMs: 1, calls: [] },
    ...change,
  });
  const called = (status: 'success' | 'failed', args = {}): StepView['calls'][number] => ({
    ...{ callId: 'c', tool: 'note', arguments: args, approval: null, error: null, progress: null, durationMs: 1 },
    status,
  });
  const viewOf = (change: Partial<TurnView>): TurnView => ({
    ...{ agentTurnId: 't', agentId: 'a', status: 'success', errorCode: null, reason: null, cure: null, turnEpoch: 1 },
    ...{ profile: 'chaos', instruction: '[plan note:0] Turn 1.', deliverable: { text: 'done' }, usage: theirs },
    ...{ deliverableCardId: 'd', outputBoxId: 'b', cost: null, engine: null, stepCount: 1, steps: [stepOf({})] },
    ...{ waiting: [], waitingForWorkers: null, waitingForProvider: null, parent: null, chat: null, depth: 0 },
    ...{ acceptSeq: 1, acceptedAt: 1, leasedAt: 1, startedAt: 1, endedAt: 1 },
    ...change,
  });
  const found = (change: Partial<TurnView>) =>
    badAnswers(new Ledger(() => {}), viewOf(change)).map(({ check }) => check);
  const uncounted = profileNamed({ uncounted: true });
  const halves = '[plan wire_halves:0] Turn 1.';

  test.each<[string, Partial<TurnView>, string[]]>([
    ['nothing in a good turn', {}, []],
    ['a count nobody sent that is not marked', { profile: uncounted }, ['wrong_usage']],
    ['a mark that the sum has lost', { profile: uncounted, steps: [stepOf({ usage: ours })] }, ['wrong_usage']],
    ['nothing in one that is marked', { profile: uncounted, steps: [stepOf({ usage: ours })], usage: ours }, []],
    [
      'a count of 0',
      { profile: uncounted, steps: [stepOf({ usage: { ...ours, input: 0 } })], usage: ours },
      ['wrong_usage'],
    ],
    ['a mark where the model did count', { steps: [stepOf({ usage: ours })], usage: ours }, ['wrong_usage']],
    [
      'half of a character',
      {
        instruction: halves,
        usage: ours,
        steps: [stepOf({ usage: ours, calls: [called('success', { half: '\ud83d' })] })],
      },
      ['malformed_text'],
    ],
    [
      'a hostile call that was lost',
      { instruction: halves, usage: ours, steps: [stepOf({ usage: ours, calls: [] })] },
      ['hostile_answer'],
    ],
  ])('%s', (_, change, expected) => {
    expect(found(change)).toEqual(expected);
  });

  test('an ending other than the one that the ledger writes down', () => {
    const ends: Partial<Record<HostileKind, string>> = {
      overlong: 'failed/context_overflow',
      refused: 'failed/provider_refusal',
      endless: 'partial/answer_truncated',
    };
    for (const kind of HOSTILE_KINDS) {
      const instruction = `[plan note:0|${hostileStep(kind, 3)}] x`;
      expect(rightEnding(viewOf({ instruction }))).toBe(ends[kind] ?? 'success');
    }
    expect(rightEnding(viewOf({ instruction: `${POISONED} 1 of x.` }))).toBe('failed/box_unavailable');
    expect(rightEnding(viewOf({}))).toBe('success');
  });

  test('a worker that grew too large', () => {
    expect(memoryProblems(null)).toEqual([]);
    expect(memoryProblems(300 * 1024 * 1024)).toEqual([]);
    expect(memoryProblems(3 * 1024 ** 3)).toMatchObject([{ check: 'worker_memory' }]);
  });
});

const opening = {
  sqlite: async (dir: string) => {
    const path = join(dir, 'agentturn.db');
    return { storeUrl: `sqlite:${path}`, store: await openSqliteStore({ path }) };
  },
  postgres: async () => {
    const url = await freshSchemaUrl();
    return { storeUrl: url, store: await openPostgresStore({ url }) };
  },
};

test.each(['sqlite', 'postgres'] as const)('a run reads the tables of %s itself', async (kind) => {
  const { storeUrl, store } = await opening[kind](mkdtempSync(join(tmpdir(), 'agentturn-rows-')));
  try {
    expect(await supervisorPid(storeUrl)).toBeUndefined();
    await store.holdSupervisorLease('host/123/x', 60_000);
    expect(await supervisorPid(storeUrl)).toBe(123);
    expect(await untoldParents(storeUrl)).toEqual([]);
  } finally {
    await store.close();
  }
});

describe('a client that is frozen in a transaction', () => {
  const FROZEN_MS = 2_000;
  const request = { instruction: 'x', priority: 'normal' } as const;

  test.each(['sqlite', 'postgres'] as const)('holds up a request, which is taken when it thaws: %s', async (kind) => {
    const dir = mkdtempSync(join(tmpdir(), 'agentturn-frozen-'));
    const { storeUrl, store } = await opening[kind](dir);
    try {
      await store.accept({ agentId: 'held', request });
      const thawed = freezeClient(dir, { storeUrl, agentId: 'held', ms: FROZEN_MS }, 1);
      while (!lastLines(join(dir, 'frozen-client-1.log'), 5).includes(HELD)) await sleep(10);
      const askedAt = Date.now();
      await store.accept({ agentId: 'held', request });
      // At least: it is let go of so long after the lock was seen.
      expect(Date.now() - askedAt).toBeGreaterThan(FROZEN_MS / 2);
      await thawed;
      expect(await store.listTurns('held')).toHaveLength(2);
    } finally {
      await store.close();
    }
  });

  test('says why it did not get the lock', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'agentturn-frozen-'));
    const { storeUrl, store } = await opening.postgres();
    try {
      await expect(freezeClient(dir, { storeUrl, agentId: 'nobody', ms: 10 }, 1)).rejects.toThrow('no agent nobody');
    } finally {
      await store.close();
    }
  });
});

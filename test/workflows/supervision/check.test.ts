/** The supervisor's decisions, row by row: the turn, its workflow and its queue, and what follows (T12, T23, T29). */
import { describe, expect, test } from '@jest/globals';
import type { DueTurn } from '../../../workflows/contract/supervision.ts';
import { timeoutsSchema } from '../../../workflows/protocol/profile.ts';
import {
  type CheckAction,
  type CheckFacts,
  decideCheck,
  firstCheckAt,
  needsWorkflow,
  type QueueFacts,
  suspendedCheckAt,
  type WorkflowFacts,
} from '../../../workflows/supervision/check.ts';

const MINUTE = 60_000;
const NOW = 1_000 * MINUTE;
const LEASED = NOW - 30 * MINUTE;

const TURN: DueTurn = {
  agentId: 'a',
  agentTurnId: 't',
  turnEpoch: 1,
  status: 'running',
  workerTarget: 'worker_generic',
  checkAt: NOW,
  everyMs: 10_000,
  leasedAt: LEASED,
  progressAt: NOW - MINUTE,
  resumeDeadline: null,
  endsBy: null,
  noWorkersSince: null,
  workersSince: null,
  unread: false,
  wokenAt: null,
  retryAt: null,
  agentIsFree: false,
  settlementDue: false,
  parentGone: false,
  waitsAhead: false,
  timeouts: timeoutsSchema.parse({}),
};

const IDLE: WorkflowFacts = { kind: 'running', pendingActivities: 0, task: null };
const BUSY: WorkflowFacts = { kind: 'running', pendingActivities: 1, task: null };
const task = (attempt: number, started = false, ageMs = MINUTE): WorkflowFacts => ({
  ...IDLE,
  task: { attempt, started, scheduledAt: NOW - ageMs },
});
const CLOSED: WorkflowFacts = { kind: 'closed', termination: { status: 'failed', errorCode: 'terminated' } };
const MISSING: WorkflowFacts = { kind: 'missing' };
const SERVED: QueueFacts = { hasPollers: true, hasBacklog: false };
const BACKLOG: QueueFacts = { hasPollers: true, hasBacklog: true };
const UNSERVED: QueueFacts = { hasPollers: false, hasBacklog: true };

const factsOf = (
  turn: Partial<DueTurn>,
  workflow: WorkflowFacts | null,
  more: Partial<CheckFacts> = {},
): CheckFacts => ({
  turn: { ...TURN, ...turn },
  workflow,
  queue: SERVED,
  supervisedSince: 0,
  nowMs: NOW,
  ...more,
});

const named = (action: CheckAction): string =>
  action.do === 'end' ? `end ${action.termination.errorCode}` : action.do;

const STUCK: Partial<DueTurn> = { progressAt: NOW - 16 * MINUTE };
const UNSTARTED: Partial<DueTurn> = { status: 'dispatched', progressAt: LEASED };
const WAITING: Partial<DueTurn> = { status: 'suspended', resumeDeadline: NOW + 5 * MINUTE, progressAt: LEASED };
const DEAD: Partial<DueTurn> = { ...WAITING, resumeDeadline: NOW - 11 * MINUTE };
const FAILING_FAST = { timeouts: timeoutsSchema.parse({ whenNoWorkers: 'fail' }) };

describe('a check of', () => {
  test.each([
    ['a dispatched turn without a workflow: its start was lost', 'start', UNSTARTED, MISSING],
    ['a running turn without a workflow: it is gone', 'end worker_lost', {}, MISSING],
    ['a suspended turn without a workflow: it is gone', 'end worker_lost', WAITING, MISSING],
    ['a turn whose workflow closed from outside', 'end terminated', {}, CLOSED],
    ['a dispatched turn whose workflow closed from outside', 'end terminated', UNSTARTED, CLOSED],
    ['a running turn with an activity under way, however long', 'nothing', STUCK, BUSY],
    ['a running turn without any task or activity for too long', 'end turn_timeout', STUCK, IDLE],
    ['a running turn that made progress lately', 'nothing', {}, IDLE],
    ['a running turn whose task fails again and again', 'end turn_timeout', STUCK, task(3)],
    ['a running turn whose task is at work', 'nothing', STUCK, task(1, true)],
    ['a running turn whose task was lost: the queue is empty', 'end turn_timeout', STUCK, task(1)],
    ['a dispatched turn whose task was lost', 'end dispatch_timeout', UNSTARTED, task(1)],
    ['a dispatched turn whose task fails again and again', 'end dispatch_timeout', UNSTARTED, task(5)],
    ['a dispatched turn whose first activity waits for a slot', 'nothing', UNSTARTED, BUSY],
    ['a suspended turn before its deadline', 'nothing', WAITING, IDLE],
    ['a suspended turn a grace period after its deadline', 'end turn_timeout', DEAD, IDLE],
    ['a suspended turn shortly after its deadline', 'nothing', { ...DEAD, resumeDeadline: NOW - MINUTE }, IDLE],
    ['a turn with a result that it has not read', 'wake', { ...WAITING, unread: true }, IDLE],
    ['a turn that was woken for it before', 'nothing', { ...WAITING, unread: true, wokenAt: NOW - MINUTE }, IDLE],
    ['a turn whose result came just now', 'nothing', { unread: true, progressAt: NOW - 1_000 }, BUSY],
    ['a turn whose whole time is up', 'end turn_timeout', { ...WAITING, endsBy: NOW - 1 }, null],
    ['a turn whose parent has ended without success', 'stop', { ...WAITING, parentGone: true }, null],
    ['a queued turn of a free agent', 'lease', { status: 'queued', agentIsFree: true }, null],
    ['a queued turn of a busy agent', 'nothing', { status: 'queued' }, null],
    ['an ended turn whose parent waits', 'settle', { status: 'success', settlementDue: true }, null],
    ['an ended turn whose workflow runs on: it is asked first', 'let_go', { status: 'failed' }, IDLE],
    ['an ended turn whose check failed before it was asked', 'let_go', { status: 'failed', everyMs: 20_000 }, IDLE],
    ['an ended turn whose workflow did not let go', 'close', { status: 'failed', wokenAt: NOW - MINUTE }, IDLE],
    ['a queued turn whose parent has ended', 'stop', { status: 'queued', agentIsFree: true, parentGone: true }, null],
    ['an ended turn whose workflow is closed', 'nothing', { status: 'failed' }, CLOSED],
  ] as const)('%s → %s (T12, T23, T29)', (_what, expected, turn, workflow) => {
    expect(named(decideCheck(factsOf(turn, workflow)).action)).toBe(expected);
  });

  test.each([
    ['dispatched', UNSTARTED, task(1)],
    ['running', STUCK, task(1)],
    ['suspended', DEAD, task(1)],
  ] as const)(
    'a %s turn whose task waits in a queue with a backlog is not overdue (T23)',
    (_status, turn, workflow) => {
      expect(decideCheck(factsOf(turn, workflow, { queue: BACKLOG })).action.do).toBe('nothing');
    },
  );

  test('a task that the server keeps for the worker that had the workflow last is not lost yet (T23)', () => {
    const decided = (ageMs: number) => decideCheck(factsOf(STUCK, task(1, false, ageMs))).action.do;
    expect([decided(1_000), decided(14_000), decided(16_000)]).toEqual(['nothing', 'nothing', 'end']);
  });

  test.each([
    ['dispatched', UNSTARTED],
    ['running', STUCK],
    ['suspended', DEAD],
  ] as const)(
    'a %s turn without any worker waits, and its clock begins when the first one is seen (T12)',
    (_s, turn) => {
      const unserved = decideCheck(factsOf(turn, task(1), { queue: UNSERVED }));
      expect(unserved).toMatchObject({ action: { do: 'nothing' }, next: { noWorkersSince: NOW } });
      const later = NOW + 60 * MINUTE;
      const known = { ...turn, noWorkersSince: NOW };
      const served = decideCheck(factsOf(known, task(1), { nowMs: later }));
      expect(served).toMatchObject({ action: { do: 'nothing' }, next: { noWorkersSince: null, workersSince: later } });
      const again = { ...turn, workersSince: later };
      expect(decideCheck(factsOf(again, task(1), { nowMs: later + 4 * MINUTE })).action.do).toBe('nothing');
      expect(decideCheck(factsOf(again, task(1), { nowMs: later + 16 * MINUTE })).action.do).toBe('end');
    },
  );

  test.each([
    ['dispatched', UNSTARTED, 'end dispatch_timeout'],
    ['running', STUCK, 'end turn_timeout'],
  ] as const)(
    'a %s turn of a profile that does not wait for workers is ended without any (T12)',
    (_s, turn, expected) => {
      const facts = factsOf({ ...turn, ...FAILING_FAST }, BUSY, { queue: UNSERVED });
      expect(named(decideCheck(facts).action)).toBe(expected);
    },
  );

  test('a turn that nobody watched for a while is not judged by that time (T23)', () => {
    for (const turn of [UNSTARTED, STUCK, DEAD]) {
      expect(decideCheck(factsOf(turn, IDLE, { supervisedSince: NOW - 1_000 })).action.do).toBe('nothing');
    }
  });
});

describe('the next check', () => {
  test('comes after twice the time, five minutes at most, while a turn runs', () => {
    const pauses: number[] = [];
    let turn = TURN;
    for (let nowMs = NOW; pauses.length < 8; ) {
      const { next } = decideCheck(factsOf({ ...turn, progressAt: nowMs }, BUSY, { nowMs }));
      pauses.push((next.checkAt ?? 0) - nowMs);
      nowMs = next.checkAt ?? 0;
      turn = { ...turn, everyMs: next.everyMs };
    }
    expect(pauses.map((ms) => ms / 1_000)).toEqual([10, 20, 40, 80, 160, 300, 300, 300]);
  });

  test('comes no later than the moment the turn is overdue', () => {
    const { next } = decideCheck(factsOf({ progressAt: NOW - 15 * MINUTE + 3_000, everyMs: 5 * MINUTE }, IDLE));
    expect(next.checkAt).toBe(NOW + 3_000);
    expect(decideCheck(factsOf({ endsBy: NOW + 2_000 }, BUSY)).next.checkAt).toBe(NOW + 2_000);
  });

  test('of a suspended turn comes shortly after its deadline, and at least once an hour (T17)', () => {
    expect(decideCheck(factsOf(WAITING, IDLE)).next.checkAt).toBe(NOW + 5 * MINUTE + 10_000);
    const far = { ...WAITING, resumeDeadline: NOW + 24 * 60 * MINUTE };
    expect(decideCheck(factsOf(far, IDLE)).next.checkAt).toBe(NOW + 60 * MINUTE);
  });

  test('is none for what needs no further one', () => {
    expect(decideCheck(factsOf({ status: 'failed' }, CLOSED)).next.checkAt).toBeNull();
  });

  test('of a queued turn whose agent is busy comes again: the end of that turn may not lease it (T12, T29)', () => {
    const { next } = decideCheck(factsOf({ status: 'queued', everyMs: 10_000 }, null));
    expect(next).toMatchObject({ checkAt: NOW + 10_000, everyMs: 20_000 });
  });

  test('of a turn that waits for thirty days: at most one an hour, and nothing is done to its history (T23)', () => {
    const days = 30 * 24 * 60 * MINUTE;
    const deadline = NOW + days;
    let checks = 0;
    let turn: DueTurn = { ...TURN, ...WAITING, resumeDeadline: deadline };
    for (let nowMs = NOW; nowMs < deadline; checks += 1) {
      const { action, next } = decideCheck(factsOf(turn, IDLE, { nowMs }));
      expect(action.do).toBe('nothing');
      turn = { ...turn, everyMs: next.everyMs };
      nowMs = next.checkAt ?? Number.POSITIVE_INFINITY;
    }
    expect(checks).toBeLessThanOrEqual(30 * 24 + 1);
  });

  test('of a fresh lease comes after ten seconds, or when a shorter limit of its profile is over', () => {
    expect(firstCheckAt(NOW, timeoutsSchema.parse({}))).toBe(NOW + 10_000);
    expect(firstCheckAt(NOW, timeoutsSchema.parse({ dispatchMs: 0, noProgressMs: 1_500 }))).toBe(NOW + 1_500);
    expect(firstCheckAt(NOW, timeoutsSchema.parse({ turnMs: 700 }))).toBe(NOW + 700);
    expect(suspendedCheckAt(NOW, NOW - MINUTE)).toBe(NOW + 10_000);
  });
});

test('the facts of a workflow are gathered only where the decision needs them', () => {
  expect(needsWorkflow(TURN)).toBe(true);
  expect(needsWorkflow({ ...TURN, status: 'failed' })).toBe(true);
  expect(needsWorkflow({ ...TURN, status: 'failed', settlementDue: true })).toBe(false);
  expect(needsWorkflow({ ...TURN, parentGone: true })).toBe(false);
  expect(needsWorkflow({ ...TURN, status: 'queued' })).toBe(false);
});

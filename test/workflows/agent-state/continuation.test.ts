import { describe, expect, test } from '@jest/globals';
import { WAITING_REASONS, type WaitingReason } from '../../../workflows/agent-state/closure.ts';
import { continuationOf, type Trigger } from '../../../workflows/agent-state/continuation.ts';

const trigger = (kind: Trigger['kind'], more: Partial<Trigger> = {}): Trigger => ({
  kind,
  terminal: true,
  contentful: true,
  ...more,
});

const TRIGGERS = {
  operator_input: trigger('operator_input'),
  'task_result terminal': trigger('task_result'),
  'task_result not terminal': trigger('task_result', { terminal: false }),
  'external_event contentful': trigger('external_event'),
  'external_event empty': trigger('external_event', { contentful: false }),
  'system_tick contentful': trigger('system_tick'),
  'system_tick empty': trigger('system_tick', { contentful: false }),
  timer_fire: trigger('timer_fire'),
  internal_followup: trigger('internal_followup'),
} as const;
type Came = keyof typeof TRIGGERS;

/** What each decision looks like in the tables: its class, and an exclamation mark where the kind was waited for. */
const shown = (prior: Parameters<typeof continuationOf>[0], came: Came): string => {
  const resolution = continuationOf(prior, TRIGGERS[came]);
  expect(resolution.modelReentry).toBe(resolution.class !== 'liveness_only');
  expect(resolution.priorClosure).toEqual(prior);
  return `${resolution.class}${resolution.matchedWaitingReason ? '!' : ''}`;
};

const [E, O, L, M] = ['resume_expected_wait!', 'resume_override', 'liveness_only', 'liveness_only!'];

/** Columns: waits for an operator, a task, something outside, a timer, and nothing that is known. */
const WAITING: readonly (readonly [Came, ...(string | undefined)[]])[] = [
  ['operator_input', E, O, O, O, O],
  ['task_result terminal', O, E, O, O, O],
  ['task_result not terminal', L, M, L, L, L],
  ['external_event contentful', L, L, E, L, L],
  ['external_event empty', L, L, M, L, L],
  ['system_tick contentful', L, L, E, L, L],
  ['system_tick empty', L, L, M, L, L],
  ['timer_fire', L, L, L, E, L],
  ['internal_followup', L, L, L, L, L],
];
const COLUMNS: readonly (WaitingReason | undefined)[] = [...WAITING_REASONS, undefined];
const cells = WAITING.flatMap(([came, ...row]) =>
  COLUMNS.map((waitingReason, column) => ({ came, waitingReason, expected: row[column] })),
);

const NOT_WAITING: readonly (readonly [Came, string])[] = [
  ['operator_input', 'local_continuation'],
  ['task_result terminal', 'local_continuation'],
  ['task_result not terminal', 'liveness_only'],
  ['external_event contentful', 'local_continuation'],
  ['external_event empty', 'liveness_only'],
  ['system_tick contentful', 'local_continuation'],
  ['system_tick empty', 'liveness_only'],
  ['timer_fire', 'local_continuation'],
  ['internal_followup', 'local_continuation'],
];

describe('what comes for an agent', () => {
  test.each(cells)('$came, waiting for $waitingReason: $expected (A4)', ({ came, waitingReason, expected }) => {
    const prior = { outcome: 'waiting' as const, ...(waitingReason === undefined ? {} : { waitingReason }) };
    expect(shown(prior, came)).toBe(expected);
  });

  test('as the time of the wait itself, resumes it whatever it waits for (A4, A8)', () => {
    for (const waitingReason of WAITING_REASONS)
      expect(
        continuationOf({ outcome: 'waiting', waitingReason }, { ...TRIGGERS.timer_fire, awaited: true }),
      ).toMatchObject({
        class: 'resume_expected_wait',
        matchedWaitingReason: true,
      });
  });

  test.each(NOT_WAITING)('%s, waiting for nothing: %s (A4)', (came, expected) => {
    for (const outcome of ['completed', 'continuable', 'failed'] as const)
      expect(shown({ outcome }, came)).toBe(expected);
  });
});

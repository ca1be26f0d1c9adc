import { describe, expect, test } from '@jest/globals';
import {
  AGENT_STATUSES,
  type AgentStatus,
  nextStatus,
  STATUS_TABLE,
  type StatusChange,
} from '../../../workflows/agent-state/status.ts';

const CHANGES: readonly StatusChange[] = ['enrol', 'lease', 'end', 'rest', 'await_task', 'wake', 'stop', 'start'];

/** Each row: where enrol, lease, end, rest, await_task, wake, stop and start lead; a dash where they are illegal. */
const TABLE: Readonly<Record<AgentStatus, readonly (AgentStatus | '-')[]>> = {
  booting: ['awake_idle', '-', '-', '-', '-', '-', 'stopped', 'awake_idle'],
  awake_idle: ['-', 'awake_running', '-', 'asleep', 'awaiting_task', 'awake_idle', 'stopped', 'awake_idle'],
  awake_running: ['-', '-', 'awake_idle', '-', '-', 'awake_running', '-', 'awake_running'],
  awaiting_task: ['-', 'awake_running', '-', '-', '-', 'awake_idle', 'stopped', 'awaiting_task'],
  asleep: ['-', 'awake_running', '-', '-', '-', 'awake_idle', 'stopped', 'asleep'],
  stopped: ['-', '-', '-', '-', '-', 'stopped', 'stopped', 'awake_idle'],
};

describe('the status of an agent', () => {
  const rows = AGENT_STATUSES.flatMap((status) =>
    CHANGES.map((change, index) => ({ status, change, to: TABLE[status][index] ?? '-' })),
  );

  test.each(rows)('$status, $change: $to (A1)', ({ status, change, to }) => {
    if (to === '-')
      expect(() => nextStatus(status, change)).toThrow(
        expect.objectContaining({ code: 'protocol_violation', message: expect.stringContaining(status) }),
      );
    else expect(nextStatus(status, change)).toBe(to);
  });

  test('of a running agent that is stopped changes when its turn has ended (A1)', () => {
    expect(nextStatus(nextStatus('awake_running', 'end'), 'stop')).toBe('stopped');
  });

  test('is one that each other leads to, and no turn is leased to a stopped agent (A1)', () => {
    const reached = new Set(Object.values(STATUS_TABLE).flatMap((row) => Object.values(row)));
    expect([...reached].sort()).toEqual(AGENT_STATUSES.filter((status) => status !== 'booting').sort());
    expect(STATUS_TABLE.stopped.lease).toBeUndefined();
  });
});

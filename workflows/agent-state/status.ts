/**
 * What an agent does, in one word, and how it comes from one word to the next (A1).
 *
 * Invariant: the status of an agent is written by the transactions that make, lease, end, stop and start, and by no others, each through
 * `nextStatus`.
 */
import { CodedError } from '../protocol/failures.ts';

/**
 * `booting`: its entry on the roster is not complete. `awake_idle`: no turn is open, and the next one is leased as soon as there is one.
 * `awake_running`: a turn is open. `awaiting_task`: it rests until a delegated turn has ended. `asleep`: it rests, which does not mean that
 * it has nothing to do. `stopped`: an operator has stopped it.
 */
export const AGENT_STATUSES = ['booting', 'awake_idle', 'awake_running', 'awaiting_task', 'asleep', 'stopped'] as const;
/** What an agent does. */
export type AgentStatus = (typeof AGENT_STATUSES)[number];

/** What a transaction does to an agent; `rest` and `await_task` are the two ways in which its turn may end without another one at once. */
export type StatusChange = 'enrol' | 'lease' | 'end' | 'rest' | 'await_task' | 'wake' | 'stop' | 'start';

/** Where each change leads from each status; where nothing stands the change is a mistake of ours. */
export const STATUS_TABLE: Readonly<Record<AgentStatus, Readonly<Partial<Record<StatusChange, AgentStatus>>>>> = {
  booting: { enrol: 'awake_idle', stop: 'stopped', start: 'awake_idle' },
  awake_idle: {
    lease: 'awake_running',
    rest: 'asleep',
    await_task: 'awaiting_task',
    wake: 'awake_idle',
    stop: 'stopped',
    start: 'awake_idle',
  },
  // It is stopped only once its turn has ended, in the same transaction.
  awake_running: { end: 'awake_idle', wake: 'awake_running', start: 'awake_running' },
  awaiting_task: { lease: 'awake_running', wake: 'awake_idle', stop: 'stopped', start: 'awaiting_task' },
  asleep: { lease: 'awake_running', wake: 'awake_idle', stop: 'stopped', start: 'asleep' },
  // What comes for a stopped agent is kept, and does not wake it.
  stopped: { wake: 'stopped', stop: 'stopped', start: 'awake_idle' },
};

/** The status after a change. Errors: `protocol_violation` for a change that the status does not allow. */
export function nextStatus(status: AgentStatus, change: StatusChange): AgentStatus {
  const next = STATUS_TABLE[status][change];
  if (next) return next;
  throw new CodedError('protocol_violation', `an agent that is ${status} cannot ${change.replace('_', ' ')}`);
}

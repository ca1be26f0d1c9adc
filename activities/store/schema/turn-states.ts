/**
 * What the status of a turn says of its row: which columns have a value by then. The transactions that write the status write the columns
 * with it.
 *
 * Invariant: a row that somebody changed by hand may break this. It is noticed where a lease is used (`leased`), and its turn can still be
 * ended, which needs no lease.
 */
import type { ContextUnit } from '../../../workflows/kernel/context.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { isTerminal, type TerminalStatus } from '../../../workflows/protocol/turn.ts';
import type { Json } from './json.ts';
import type { TurnRow } from './turn-row.ts';

/** A turn that waits in its agent's inbox. */
export type QueuedTurn = TurnRow & { readonly status: 'queued' };

/** The columns that a lease fills. */
export interface LeaseColumns {
  readonly turn_epoch: number;
  readonly output_box_id: string;
  readonly instruction_seq: number;
  readonly earlier: Json<readonly ContextUnit[]>;
  readonly profile_hash: string;
  readonly worker_target: string;
  readonly leased_at: number;
}

/** A turn that has, or had, a lease. */
export type WithLease = TurnRow & LeaseColumns;

/** A turn that has a lease and has not ended. */
export type LeasedTurn = WithLease & { readonly status: 'dispatched' | 'running' | 'suspended' };

/** A turn that has ended, with a lease or in the queue. */
export type EndedTurn = TurnRow & {
  readonly status: TerminalStatus;
  readonly output_box_id: string;
  readonly deliverable_card_id: string;
  readonly ended_at: number;
};

/** A turn in one of its states. */
export type Turn = QueuedTurn | LeasedTurn | EndedTurn;

/** Types a row of `turns` by its status, unchecked: the caller trusts the columns. */
export const turnFrom = <T extends TurnRow>(row: T): T & Turn => row as T & Turn;

/** Whether the turn has ended. */
export const isEnded = (turn: Turn): turn is EndedTurn => isTerminal(turn.status);

const LEASE_COLUMNS: readonly (keyof LeaseColumns)[] = [
  'turn_epoch',
  'output_box_id',
  'instruction_seq',
  'earlier',
  'profile_hash',
  'worker_target',
  'leased_at',
];

/** A turn that the caller knows to have been leased. Errors: `protocol_violation` when a part of the lease is missing. */
export function leased<T extends TurnRow>(turn: T): T & WithLease {
  for (const column of LEASE_COLUMNS) {
    if (turn[column] !== null) continue;
    throw new CodedError(
      'protocol_violation',
      `turn ${turn.agent_turn_id} has no complete lease: ${column} is missing`,
    );
  }
  return turn as T & WithLease;
}

/** What the parts of one turn's driver share. */
import type { Lease } from '../contract/lease.ts';
import type { Fence } from '../protocol/turn.ts';
import type { TurnDisplay } from './display.ts';
import type { TurnInbox } from './inbox.ts';
import type { TurnKernel } from './kernel.ts';
import type { Meter } from './meter.ts';
import type { ShownStatus } from './status.ts';

/** One turn's parts, each made once in a run. */
export interface TurnParts {
  readonly lease: Lease;
  /** The part of the lease that every write of the turn carries. */
  readonly fence: Fence;
  readonly kernel: TurnKernel;
  readonly inbox: TurnInbox;
  readonly meter: Meter;
  readonly display: TurnDisplay;
  readonly status: ShownStatus;
}

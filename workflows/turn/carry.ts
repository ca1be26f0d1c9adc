/** What one run of a turn leaves to the next (K22), and the parts of the driver made from it. */
import { log } from '@temporalio/workflow';
import type { Lease } from '../contract/lease.ts';
import type { Notice } from '../contract/notices.ts';
import type { DoneAction, KernelAction } from '../kernel/actions.ts';
import { initialState, type KernelState } from '../kernel/state.ts';
import type { EngineUsage, TurnStatus } from '../protocol/turn.ts';
import { type DisplayCarry, TurnDisplay } from './display.ts';
import { type InboxCarry, TurnInbox } from './inbox.ts';
import { TurnKernel } from './kernel.ts';
import { Meter } from './meter.ts';
import type { TurnParts } from './parts.ts';
import { ShownStatus } from './status.ts';

/** What a turn that goes on is asked to do. */
export type ActiveAction = Exclude<KernelAction, DoneAction>;

/** A turn between two runs: the kernel's state, what it asked for last, and what came in meanwhile. */
export interface TurnCarry {
  readonly state: KernelState;
  readonly action: ActiveAction;
  readonly status: TurnStatus;
  readonly inbox: InboxCarry;
  readonly display: DisplayCarry;
  /** Notices that the store has not been told of; absent when there are none. */
  readonly noticed?: readonly Notice[];
  /** The action is to be performed by activities of its own; absent when it is not. */
  readonly apart?: true;
  /** An attempt at a burst was lost that may have gone further than the turn was told; absent when there was none. */
  readonly again?: true;
  /** The usage of all runs so far. */
  readonly engine: EngineUsage;
}

/** The parts of a turn that goes on from `carry`, or of a new one. */
export function turnParts(lease: Lease, carry: TurnCarry | undefined): TurnParts {
  const { agentId, agentTurnId, turnEpoch } = lease;
  const fence = { agentId, agentTurnId, turnEpoch };
  const meter = new Meter(lease.timeouts, carry?.engine);
  const display = new TurnDisplay(lease, carry?.display);
  return {
    lease,
    fence,
    meter,
    display,
    kernel: new TurnKernel(
      { state: carry?.state ?? initialState(lease.kernel), noticed: carry?.noticed ?? [] },
      {
        observed: (observation) => log.info(observation.type, { ...observation }),
        notice: (stepIndex, text) => display.notice(stepIndex, text),
      },
    ),
    inbox: new TurnInbox(fence, meter, carry?.inbox),
    status: new ShownStatus(carry?.status ?? 'running', meter),
  };
}

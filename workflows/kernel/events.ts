/** What the driver feeds the kernel. Time comes inside every event; the kernel reads no clock. */
import type { FailureCode } from '../protocol/failures.ts';
import type { Usage } from '../protocol/turn.ts';
import type { BoxExtent, Handle, SettledCall } from './state.ts';

interface Timed {
  /** Epoch ms. */
  readonly nowMs: number;
}

export interface StartEvent extends Timed {
  readonly type: 'start';
  readonly outputBoxId: string;
  readonly memory: readonly BoxExtent[];
  readonly instruction: Handle;
}

export interface ProposedCallFact {
  readonly callId: string;
  readonly tool: string;
  /** Present when the call was settled while it was proposed: invalid arguments, or `submit_result`. */
  readonly settled?: SettledCall;
}

export interface LlmResponseEvent extends Timed {
  readonly type: 'llm_response';
  readonly stepIndex: number;
  /** The cards this step put into the output box before any tool ran: a note if one was asked for, the thought. */
  readonly handles: readonly Handle[];
  readonly thoughtCardId: string;
  readonly hasText: boolean;
  readonly refused: boolean;
  readonly calls: readonly ProposedCallFact[];
  readonly usage: Usage;
}

export interface LlmFailedEvent extends Timed {
  readonly type: 'llm_failed';
  readonly stepIndex: number;
  readonly code: FailureCode;
  readonly message: string;
}

/** Settled and suspended calls together cover exactly the calls that are neither yet (K1). */
export interface ToolResultsEvent extends Timed {
  readonly type: 'tool_results';
  readonly settled: readonly SettledCall[];
  readonly suspended: readonly { readonly callId: string; readonly deadline: number }[];
}

export interface StopEvent extends Timed {
  readonly type: 'stop';
  readonly code: 'stopped' | 'terminated';
  readonly reason: string;
}

export type KernelEvent = StartEvent | LlmResponseEvent | LlmFailedEvent | ToolResultsEvent | StopEvent;

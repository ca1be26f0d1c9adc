/**
 * The kernel's state: plain JSON, total. It holds handles of cards, never their text (K3).
 *
 * Invariants
 * 1. `step(JSON.parse(JSON.stringify(state)), event)` equals `step(state, event)` for every reachable state.
 * 2. `outstanding` is non-empty exactly while phase is `act`; each call id is in it once.
 * 3. `lifecycle` is `suspended` exactly when every outstanding call left unsettled waits for the outside.
 */
import type { AfterExecution, ResultStatus } from '../protocol/cards.ts';
import type { Budgets } from '../protocol/profile.ts';
import type { Termination, Usage } from '../protocol/turn.ts';

export const KERNEL_STATE_VERSION = 1;

export interface KernelConfig {
  readonly budgets: Budgets;
  /** Tools of which one must end the turn; only names that are really offered (W13). */
  readonly mustEndWith: readonly string[];
  /** Whether `submit_result` is offered; the final report may use it (K9). */
  readonly submitResult: boolean;
}

/** Cards of a box the kernel did not make: memory and context, known by extent only. */
export interface BoxExtent {
  readonly boxId: string;
  readonly fromSeq: number;
  readonly toSeq: number;
}

export type HandleRole = 'user' | 'assistant' | 'tool' | 'note';

/** One card of this turn in the output box: `[seq, role, tokens]`. */
export type Handle = readonly [seq: number, role: HandleRole, tokens: number];

export interface SettledCall {
  readonly callId: string;
  readonly status: ResultStatus;
  readonly afterExecution: AfterExecution;
  readonly errorCode?: string;
  readonly seq: number;
  readonly tokens: number;
}

export interface OutstandingCall {
  readonly callId: string;
  readonly tool: string;
  readonly settled: SettledCall | null;
  /** Deadline in epoch ms while the call waits for the outside, else null. */
  readonly deadline: number | null;
}

export type Lifecycle = 'ready' | 'running' | 'suspended' | 'done';

export interface KernelState {
  readonly version: typeof KERNEL_STATE_VERSION;
  readonly config: KernelConfig;
  readonly lifecycle: Lifecycle;
  readonly phase: 'reason' | 'act';
  /** Number of model calls asked for; the current one's index while phase is `reason`. */
  readonly stepIndex: number;
  readonly usage: Usage;
  readonly toolCalls: number;
  readonly outputBoxId: string;
  /** What is rendered before this turn's own cards: output-box memory first, then the context box (T24). */
  readonly memory: readonly BoxExtent[];
  readonly handles: readonly Handle[];
  readonly outstanding: readonly OutstandingCall[];
  readonly lastThought: { readonly cardId: string; readonly hasText: boolean } | null;
  /** Whether the last batch of calls ran a tool of `mustEndWith` with success. */
  readonly requiredToolDone: boolean;
  /** Set when a budget is hit: the model call in flight is the final report (K9). */
  readonly ending: Termination | null;
  readonly termination: Termination | null;
}

export const initialState = (config: KernelConfig): KernelState => ({
  version: KERNEL_STATE_VERSION,
  config,
  lifecycle: 'ready',
  phase: 'reason',
  stepIndex: 0,
  usage: { input: 0, output: 0, cached: 0 },
  toolCalls: 0,
  outputBoxId: '',
  memory: [],
  handles: [],
  outstanding: [],
  lastThought: null,
  requiredToolDone: false,
  ending: null,
  termination: null,
});

/** What the kernel asks of its driver, and what it lets observers know. All of it is data. */
import type { Termination } from '../protocol/turn.ts';
import type { BoxExtent, KernelState, Lifecycle } from './state.ts';

/** What to render, as ranges: about constant in size however long the turn (K3). */
export interface Plan {
  readonly ranges: readonly BoxExtent[];
}

/** A note the runtime adds to the conversation as a card before the model is called. */
export type Note =
  | { readonly kind: 'must_end_with'; readonly tools: readonly string[] }
  | { readonly kind: 'final_report'; readonly reason: string };

export interface CallLlmAction {
  readonly type: 'call_llm';
  readonly stepIndex: number;
  readonly plan: Plan;
  /** Names of the only tools to offer; absent = all of the profile. */
  readonly onlyTools?: readonly string[];
  /** The model must call one of the offered tools. */
  readonly requireTool?: true;
  readonly note?: Note;
}

export interface ExecuteToolsAction {
  readonly type: 'execute_tools';
  readonly stepIndex: number;
  readonly calls: readonly { readonly callId: string; readonly tool: string }[];
}

export interface AwaitAction {
  readonly type: 'await';
  readonly wait: 'tools';
  /** The nearest deadline of the waiting calls, epoch ms (T13). */
  readonly deadline: number;
}

/** Where the deliverable comes from (T6, T8): the text of a thought, the submitted fields, a tool's result, or a fallback. */
export type DeliverableSource =
  | { readonly from: 'thought'; readonly cardId: string }
  | { readonly from: 'submit_result'; readonly callId: string }
  | { readonly from: 'tool_result'; readonly callId: string }
  | { readonly from: 'fallback' };

export interface DoneAction {
  readonly type: 'done';
  readonly termination: Termination;
  readonly deliverable: DeliverableSource;
}

export type KernelAction = CallLlmAction | ExecuteToolsAction | AwaitAction | DoneAction;

export type Observation =
  | { readonly type: 'event_ignored'; readonly event: string; readonly lifecycle: Lifecycle; readonly reason: string }
  | { readonly type: 'budget_hit'; readonly code: string; readonly used: number; readonly limit: number }
  | { readonly type: 'reminded'; readonly tools: readonly string[] };

export interface StepOutcome {
  readonly state: KernelState;
  readonly actions: readonly KernelAction[];
  readonly observations: readonly Observation[];
}

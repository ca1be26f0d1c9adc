/**
 * The kernel's state: plain JSON, total. It holds handles of cards, never their text (K3).
 *
 * Invariants
 * 1. `step(JSON.parse(JSON.stringify(state)), event)` equals `step(state, event)` for every reachable state (K22).
 * 2. `outstanding` is non-empty exactly while phase is `act`; each call id is in it once.
 * 3. `lifecycle` is `suspended` exactly when every outstanding call left unsettled waits for the outside, or an operator is asked.
 */
import type { AfterExecution, ResultStatus, ToolError } from '../protocol/cards.ts';
import type { GovernancePolicy } from '../protocol/governance.ts';
import type { Budgets } from '../protocol/profile.ts';
import type { Termination, Usage } from '../protocol/turn.ts';
import type { BudgetCode } from './budgets.ts';
import type { Departure } from './eviction.ts';
import type { ActiveSkill, Exposure } from './exposure.ts';
import type { RateWindows } from './governance.ts';
import { type Marks, NO_MARKS } from './pressure.ts';

export type ErrorKind = NonNullable<ToolError['kind']> | 'governance_denied';

export interface KernelConfig {
  readonly budgets: Budgets;
  /** Tools of which one must end the turn; only names that are really offered (W13). */
  readonly mustEndWith: readonly string[];
  /** Whether `submit_result` is offered; the final report may use it (K9). */
  readonly submitResult: boolean;
  readonly context: ContextConfig;
  /** Absent: every tool of the profile is offered. */
  readonly exposure?: Exposure;
  /** Absent: every call is allowed. */
  readonly governance?: GovernancePolicy;
  /** Kinds of errors that take a step back, besides `fatal` and `user_interrupt` (K13). */
  readonly rollbackOn?: readonly ErrorKind[];
}

/** Sizes in tokens. */
export interface ContextConfig {
  /** What the model takes, answer included. */
  readonly windowTokens: number;
  /** Of it, what is kept for the answer. */
  readonly answerTokens: number;
  /** System text and tools: in every prompt. */
  readonly fixedTokens: number;
}

/** Cards of an earlier turn, or of a box given with the request; they come and go together. */
export interface ContextUnit extends BoxExtent {
  /** Rendered whole, snipped, as previews, collapsed. */
  readonly tokens: readonly [full: number, snipped: number, preview: number, collapsed: number];
}

/** What is in view besides the cards of this turn, and how much of it all is rendered (K15). */
export interface ContextState {
  /** Earlier turns in the output box, oldest first. */
  readonly earlier: readonly ContextUnit[];
  /** What came with the request: never shrunk. */
  readonly given: readonly ContextUnit[];
  /** Takes the place of what was summarised; rendered first. */
  readonly summary: Handle | null;
  readonly marks: Marks;
  /** How often the conversation was begun anew with little more than its task (K16). */
  readonly sprint: number;
  /** The provider's count over our estimate, of the last prompt; at least 1. */
  readonly correction: number;
  readonly estimate: number;
  /** Compactions forced by the provider since it last took a prompt (K11). */
  readonly overflows: number;
  /** Epoch ms of the last answer of the model: what the provider cached of the prompt is forgotten after a while. */
  readonly activityAt: number;
}

/** Cards of a box the kernel did not make: memory and context, known by extent only. */
export interface BoxExtent {
  readonly boxId: string;
  readonly fromSeq: number;
  readonly toSeq: number;
}

export type HandleRole = 'user' | 'assistant' | 'tool' | 'note' | 'summary';

/** One card of this turn in the output box: `[seq, role, tokens]`. */
export type Handle = readonly [seq: number, role: HandleRole, tokens: number];

export interface SettledCall {
  readonly callId: string;
  readonly status: ResultStatus;
  readonly afterExecution: AfterExecution;
  readonly errorCode?: string;
  /** Absent when it is `recoverable`, or there is no error. */
  readonly errorKind?: ErrorKind;
  readonly seq: number;
  readonly tokens: number;
}

/** What the turns that a turn delegated have spent or still hold of its budgets, down the tree, as the store knew it last (K9). */
export interface Delegated {
  readonly tokens: number;
  /** Null when a price is not known. */
  readonly cost: number | null;
  /** One of them has not ended: the sum may fall. */
  readonly open: boolean;
}

export interface OutstandingCall {
  readonly callId: string;
  readonly tool: string;
  readonly settled: SettledCall | null;
  /** Deadline in epoch ms while the call waits for the outside, else null. */
  readonly deadline: number | null;
  /** Why it was gated, while it waits for an approval. */
  readonly gated?: string;
}

export type Lifecycle = 'ready' | 'running' | 'suspended' | 'done';

/** What the turn returns to when a step is taken back (K13): cards after `seq` other than those of users are left out. */
export interface Checkpoint {
  readonly seq: number;
  readonly lastThought: KernelState['lastThought'];
  readonly requiredToolDone: boolean;
  readonly planCall: string | null;
  readonly skills: readonly ActiveSkill[];
}

/** An exhausted budget that an operator may extend; `extra` is what the model call would have carried. */
export interface OperatorAsk {
  readonly askId: string;
  readonly code: BudgetCode;
  readonly used: number;
  readonly limit: number;
  readonly deadline: number;
  readonly extra: CallExtra;
}

/** What a summary is being made of, and the model call that waits for it. */
export interface Departing {
  readonly departure: Departure;
  readonly extra: CallExtra;
}

/** What a model call carries besides its plan. */
export interface CallExtra {
  /** Names of the only tools to offer; absent = all of the profile. */
  readonly onlyTools?: readonly string[];
  /** The model must call one of the offered tools. */
  readonly requireTool?: true;
  readonly note?: Note;
}

/** A note the runtime adds to the conversation as a card before the model is called. */
export type Note =
  | { readonly kind: 'must_end_with'; readonly tools: readonly string[] }
  | { readonly kind: 'final_report'; readonly reason: string }
  | { readonly kind: 'rolled_back'; readonly reason: string }
  | { readonly kind: 'go_on' };

/** What follows once the calls of a step have been refused by policy (K6). */
export interface BatchVerdict {
  readonly outcome: 'rollback' | 'end';
  readonly reason: string;
}

export interface KernelState {
  readonly config: KernelConfig;
  readonly lifecycle: Lifecycle;
  /** `delta`: the conversation is being shortened; the model call `delayed` follows. */
  readonly phase: 'reason' | 'act' | 'delta';
  /** Number of model calls asked for; the current one's index while phase is `reason`. */
  readonly stepIndex: number;
  /** Epoch ms of `start`. */
  readonly startedAt: number;
  /** As configured, or as an operator changed them. */
  readonly budgets: Budgets;
  readonly usage: Usage;
  readonly delegated: Delegated;
  /** Of its own model calls; null as soon as a price is not known. */
  readonly cost: number | null;
  /** Calls that were started, or wait for approval to. */
  readonly toolCalls: number;
  /** Calls were refused because the budget of calls was used up. */
  readonly callsRefused: boolean;
  readonly outputBoxId: string;
  readonly skills: readonly ActiveSkill[];
  /** The call that wrote the plan down as it stands. */
  readonly planCall: string | null;
  /** Cards of this turn in view, by place. */
  readonly handles: readonly Handle[];
  readonly context: ContextState;
  readonly departing: Departing | null;
  /** What the model call under way carries, to be asked for again (K11). */
  readonly asked: CallExtra;
  readonly outstanding: readonly OutstandingCall[];
  readonly lastThought: { readonly cardId: string; readonly hasText: boolean } | null;
  /** Thoughts before the last one that are parts of the same answer, cut short by the model's output limit (K11). */
  readonly answerParts: readonly string[];
  /** Whether the last batch of calls ran a tool of `mustEndWith` with success. */
  readonly requiredToolDone: boolean;
  readonly rateWindows: RateWindows;
  /** In how many steps in a row each call was proposed, by signature (K12). */
  readonly streaks: Readonly<Record<string, number>>;
  readonly verdict: BatchVerdict | null;
  readonly checkpoint: Checkpoint | null;
  /** Steps taken back since the last one that was kept. */
  readonly rollbacks: number;
  /** Cards that the next model call takes out of view, until one has been answered: one that was not may never have begun. */
  readonly toHide: readonly number[];
  readonly operator: OperatorAsk | null;
  /** What operators were asked about since the last model call. */
  readonly asks: readonly BudgetCode[];
  /** Set when a budget is hit: the model call in flight is the final report (K9). */
  readonly ending: Termination | null;
  readonly termination: Termination | null;
}

export const initialState = (config: KernelConfig): KernelState => ({
  config,
  lifecycle: 'ready',
  phase: 'reason',
  stepIndex: 0,
  startedAt: 0,
  budgets: config.budgets,
  usage: { input: 0, output: 0, cached: 0 },
  delegated: { tokens: 0, cost: 0, open: false },
  cost: 0,
  toolCalls: 0,
  callsRefused: false,
  outputBoxId: '',
  skills: [],
  planCall: null,
  handles: [],
  context: {
    earlier: [],
    given: [],
    summary: null,
    marks: NO_MARKS,
    sprint: 0,
    correction: 1,
    estimate: 0,
    overflows: 0,
    activityAt: 0,
  },
  departing: null,
  asked: {},
  outstanding: [],
  lastThought: null,
  answerParts: [],
  requiredToolDone: false,
  rateWindows: {},
  streaks: {},
  verdict: null,
  checkpoint: null,
  rollbacks: 0,
  toHide: [],
  operator: null,
  asks: [],
  ending: null,
  termination: null,
});

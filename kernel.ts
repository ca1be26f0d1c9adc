/** `agentturn/kernel`: the pure function that decides each step of a turn, for a driver of your own. Nothing of Temporal is imported. */
export type {
  ApprovalAsk,
  AwaitAction,
  CallLlmAction,
  DeliverableSource,
  DoneAction,
  ExecuteToolsAction,
  KernelAction,
  Observation,
  Plan,
  PlanRange,
  RefusedCall,
  StateLine,
  SummarizeAction,
} from './workflows/kernel/actions.ts';
export type { ErrorKind, ProposedCall, SettledCall, WaitingCall } from './workflows/kernel/calls.ts';
export type { ContextConfig, ContextUnit } from './workflows/kernel/context.ts';
export type {
  ApprovalDecision,
  ApprovalsAnsweredEvent,
  BudgetsEvent,
  DelegatedEvent,
  KernelEvent,
  LlmFailedEvent,
  LlmResponseEvent,
  StartEvent,
  StopEvent,
  SummarizedEvent,
  TimeoutEvent,
  ToolResultsEvent,
} from './workflows/kernel/events.ts';
export type { Exposure } from './workflows/kernel/exposure.ts';
export { type ArgumentFacts, factsAt } from './workflows/kernel/governance.ts';
export type { BoxExtent, Handle, HandleRole } from './workflows/kernel/handles.ts';
export { drainNewMessages, type NewMessages } from './workflows/kernel/new-messages.ts';
export type { StepOutcome } from './workflows/kernel/outcome.ts';
export { type Phase, waitingCalls } from './workflows/kernel/phase.ts';
export { initialState, type KernelConfig, type KernelState } from './workflows/kernel/state.ts';
export { step } from './workflows/kernel/step.ts';
export { type GovernancePolicy, governanceSchema } from './workflows/protocol/governance.ts';
export type { JsonObject, JsonValue } from './workflows/protocol/json.ts';
export { type BudgetChange, type Budgets, budgetsSchema } from './workflows/protocol/profile.ts';
export type { Termination, Usage } from './workflows/protocol/turn.ts';

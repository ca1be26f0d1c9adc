/**
 * `agentturn`: what an app imports. Definitions, the client, everything that they take and return, and the errors they throw.
 *
 * Invariant: it loads neither a database driver nor Temporal's native library.
 */
export {
  type App,
  type AppDefinition,
  defineAgent,
  defineApp,
  defineTool,
  type ToolDefinition,
} from './activities/app/app.ts';
export type { Tool, ToolContext } from './activities/tool.ts';
export { AgentClient, type AgentClientOptions } from './client/agent-client.ts';
export type {
  AgentHandle,
  AnswerInput,
  ClientApi,
  EventsOptions,
  ResultOptions,
  SteerOptions,
  ToolResultInput,
  TurnHandle,
} from './client/api.ts';
export {
  connectClient,
  type TemporalAddress,
  type TemporalClient,
  type TemporalCredentials,
} from './client/connect.ts';
export type { ApproverCheck } from './client/turn-handle.ts';
export { type ConnectedClient, type ConnectOptions, connect } from './workers/connected-client.ts';
export type {
  ApprovalAck,
  ApprovalAnswer,
  ApprovalFilter,
  ApprovalPlace,
  ApprovalStatus,
  ApprovalView,
} from './workflows/contract/approvals.ts';
export type { SteerAck, StopAck } from './workflows/contract/control.ts';
export type {
  AgentEvent,
  ApprovalEvent,
  CallEvent,
  DroppedEvent,
  NoticeEvent,
  StateEvent,
  StepEvent,
  TaskEvent,
} from './workflows/contract/events.ts';
export type {
  AgentView,
  CallView,
  EdgeView,
  ParentView,
  StepView,
  TurnFilter,
  TurnView,
  WaitingView,
} from './workflows/contract/views.ts';
export type { EnqueueAck, EnqueueInput, ResultFields } from './workflows/protocol/enqueue.ts';
export { CodedError, FAILURES, type FailureCode } from './workflows/protocol/failures.ts';
export type { BudgetChange, Budgets, ProfileInput } from './workflows/protocol/profile.ts';
export type { ReportAck } from './workflows/protocol/tool-result.ts';
export type { Deliverable, Priority, TurnStatus, Usage } from './workflows/protocol/turn.ts';

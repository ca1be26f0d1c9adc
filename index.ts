/**
 * `agentturn`: what an app imports. Definitions, the client, everything that they take and return, and the errors they throw.
 *
 * Invariant: it loads neither a database driver nor Temporal's native library.
 */
import './workers/demand-node.ts';

export {
  type Agent,
  type AgentDefinition,
  type App,
  type AppDefinition,
  defineAgent,
  defineApp,
  defineTool,
  type ToolDefinition,
} from './activities/app/app.ts';
export type { Tool, ToolContext, ToolLogger } from './activities/tool.ts';
export { AGENT_STATE_TOOLS } from './activities/tools/builtin/registry.ts';
export { AgentClient, type AgentClientOptions } from './client/agent-client.ts';
export type {
  AgentHandle,
  AgentOptions,
  AgentQuery,
  AgentTriggers,
  AnswerInput,
  EventsOptions,
  MadeTrigger,
  ResultOptions,
  RunInput,
  StallOptions,
  SteerOptions,
  StreamOptions,
  ToolResultInput,
  TriggerAck,
  TurnHandle,
  WakeInput,
} from './client/api.ts';
export type { ChatHandle, ChatOptions, ChatQuery, SendOptions, SentMessage, SessionPart } from './client/chat/api.ts';
export type { ClientApi } from './client/client-api.ts';
export {
  connectClient,
  type TemporalAddress,
  type TemporalClient,
  type TemporalCredentials,
} from './client/connect.ts';
export type { GatewayAddress } from './client/http/gateway-connection.ts';
export { AgentHttpClient } from './client/http/http-client.ts';
export { outputOf } from './client/output-of.ts';
export type { Stall, StalledActivity } from './client/stalls.ts';
export type { StreamBody, StreamedCall, StreamPart } from './client/stream-parts.ts';
export type { ApproverCheck } from './client/turn-handle.ts';
export { type ConnectedClient, type ConnectOptions, connect } from './workers/connected-client.ts';
export type { ClosureDecision, ClosureOutcome, WaitingReason } from './workflows/agent-state/closure.ts';
export type { AgentPosture, AgentSchedulingPosture } from './workflows/agent-state/posture.ts';
export type { AgentStatus } from './workflows/agent-state/status.ts';
export type { ActiveTimer } from './workflows/agent-state/timers.ts';
export type { WaitKind, WaitStatus } from './workflows/agent-state/waits.ts';
export type {
  PlanStatus,
  ScheduledWorkItem,
  Todo,
  WorkItem,
  WorkItemSchedulingState,
} from './workflows/agent-state/work-items.ts';
export type { ChatStep, ChatStepFact } from './workflows/chat/step.ts';
export {
  type ChatIdentity,
  type ChatTerminal,
  type EndedChatTurn,
  type FailureClass,
  terminalOf,
} from './workflows/chat/terminal.ts';
export type { AgentSummary, ChildSummary, TurnLine } from './workflows/contract/agent-summary.ts';
export type {
  TriggerView,
  WaitView,
  WakeAck,
  WakeDelivery,
  WakeDisposition,
  WorkPage,
} from './workflows/contract/agent-work.ts';
export type {
  ApprovalAck,
  ApprovalAnswer,
  ApprovalFilter,
  ApprovalPlace,
  ApprovalStatus,
  ApprovalView,
} from './workflows/contract/approvals.ts';
export type { CallNode, LooseNode, TreeNode, TurnNode } from './workflows/contract/call-tree.ts';
export type { MessagePage, MessageStatus, MessageView, SessionView } from './workflows/contract/chat.ts';
export type { SteerAck, StopAck } from './workflows/contract/control.ts';
export type {
  AgentEvent,
  ApprovalEvent,
  CallEvent,
  ChatStepEvent,
  ClosureEvent,
  ContinuationEvent,
  DroppedEvent,
  MessageEvent,
  NoticeEvent,
  ProviderEvent,
  StateEvent,
  StepEvent,
  TaskEvent,
  WaitEvent,
  WakeEvent,
  WorkEvent,
} from './workflows/contract/events.ts';
export type {
  InboxEntry,
  InboxPlace,
  InboxQuery,
  Spending,
  SpendingQuery,
  TurnQuery,
  TurnSummary,
} from './workflows/contract/lists.ts';
export type { ProviderOutage } from './workflows/contract/steps.ts';
export type { AskedQuestion, TranscriptEntry } from './workflows/contract/transcript.ts';
export type {
  AgentFilter,
  AgentView,
  CallView,
  EdgeView,
  MissingWorkers,
  ParentView,
  StepView,
  TurnFilter,
  TurnView,
  WaitingView,
} from './workflows/contract/views.ts';
export type { EnqueueAck, EnqueueInput, ResultFields } from './workflows/protocol/enqueue.ts';
export { CodedError, FAILURES, type FailureCode } from './workflows/protocol/failures.ts';
export type { FieldOf, Fields, OutputOf } from './workflows/protocol/output.ts';
export type { BudgetChange, Budgets, ProfileInput } from './workflows/protocol/profile.ts';
export type { ReportAck } from './workflows/protocol/tool-result.ts';
export type { Deliverable, Priority, TurnStatus, Usage } from './workflows/protocol/turn.ts';

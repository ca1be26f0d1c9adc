/** What an app imports: definitions, the client, and the errors both throw. */
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
export type { AgentHandle, ClientApi, TurnHandle } from './client/api.ts';
export type {
  ApprovalAck,
  ApprovalAnswer,
  ApprovalFilter,
  ApprovalView,
  BudgetChange,
} from './workflows/contract/approvals.ts';
export { CodedError, FAILURES, type FailureCode } from './workflows/protocol/failures.ts';

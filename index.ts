/** What an app imports: definitions, the client, and the errors both throw. */
export {
  type App,
  type AppDefinition,
  defineAgent,
  defineApp,
  defineTool,
  type Tool,
  type ToolContext,
  type ToolDefinition,
} from './activities/app/app.ts';
export { AgentClient, type AgentClientOptions, type AgentHandle, type TurnHandle } from './client/agent-client.ts';
export type { ApprovalAck, ApprovalAnswer, ApprovalFilter, ApprovalView } from './workflows/contract/approvals.ts';
export { CodedError, FAILURES, type FailureCode } from './workflows/protocol/failures.ts';
export type { BudgetChange } from './workflows/protocol/profile.ts';

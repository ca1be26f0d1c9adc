/** What holds the queue of an agent: a question to a person that its open turn waits for. */
import type { AgentSummary } from '../../workflows/contract/agent-summary.ts';
import type { ApprovalFilter, ApprovalView } from '../../workflows/contract/approvals.ts';
import { commandLine } from '../command-line.ts';
import { time } from './format.ts';

/** The open turn of an agent that waits for a person, and what waits for that turn. */
export interface HeldQueue {
  readonly agentId: string;
  /** The turn that asks. */
  readonly agentTurnId: string;
  readonly callId: string;
  /** The tool that the person is asked about; null for a question about a budget. */
  readonly tool: string | null;
  /** When the oldest question of the turn was asked, epoch ms by the store's clock. */
  readonly since: number;
  /** How many turns are queued behind it. */
  readonly queuedTurns: number;
}

/** Where the queue of an agent and its questions are read; a store is one. */
export interface QueueReader {
  /** What the agent is at; null when there is none. */
  agentSummary(agentId: string): Promise<AgentSummary | null>;
  /** The questions of an agent that wait, oldest first. */
  listApprovals(filter: ApprovalFilter): Promise<readonly ApprovalView[]>;
}

/** What holds the queue of the agent; null when no open turn of it waits for a person. */
export async function heldQueue(reader: QueueReader, agentId: string): Promise<HeldQueue | null> {
  const [question] = await reader.listApprovals({ agentId, limit: 1 });
  const summary = question && (await reader.agentSummary(agentId));
  if (!question || !summary) return null;
  const { agentTurnId, callId, tool, createdAt: since } = question;
  return { agentId, agentTurnId, callId, tool: tool || null, since, queuedTurns: summary.agent.pending };
}

/** The turn that asks, in words, with the command that lists the question and says how to answer it. */
export const heldText = (held: HeldQueue): string =>
  `turn ${held.agentTurnId}, which waits for ${heldReason(held)}: ${commandLine(`approvals --agent ${held.agentId}`)}`;

/** What is waited for, and how many turns wait for that. */
export const heldReason = ({ tool, since, queuedTurns }: HeldQueue): string => {
  const behind = queuedTurns === 1 ? ' (1 turn is queued)' : ` (${queuedTurns} turns are queued)`;
  return `approval of ${tool ?? 'more budget'} since ${time(since)}${queuedTurns === 0 ? '' : behind}`;
};

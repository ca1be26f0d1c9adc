/** The details of a turn as Markdown, for the workflow page of the Web UI. Pure. */
import { CHAT_STEPS, type ChatStep } from '../chat/step.ts';
import { isDelegation } from '../protocol/builtins.ts';
import { FAILURES, isFailureCode } from '../protocol/failures.ts';
import { shownTime } from '../protocol/time.ts';
import { shownTokens, type Usage } from '../protocol/turn.ts';

/** A call as it is shown. */
export interface CallLine {
  readonly tool: string;
  readonly status: string;
  /** How long the activity that ran it took; null when none did. */
  readonly ms: number | null;
  /** The beginning of its arguments; absent where titles are private. */
  readonly arguments?: string;
}

/** A step as it is shown. */
export interface StepLine {
  readonly stepIndex: number;
  readonly latencyMs: number;
  readonly usage: Usage;
  readonly calls: ReadonlyMap<string, CallLine>;
}

/** A waiting call as it is shown. Times are in epoch ms by the clock of the workflow, the deadline by the store's. */
export interface WaitingLine {
  readonly callId: string;
  readonly tool: string;
  readonly deadline: number;
  /** Since when it waits; absent in what the store says of it. */
  readonly since?: number;
  /** Who may answer the question; absent for a call, and where anybody may. */
  readonly approvers?: readonly string[];
  /** The question to people, where it waits for approval or for a larger budget; absent for a call that waits for its result. */
  readonly question?: { readonly kind: 'approval' | 'budget'; readonly reason: string };
}

/** How a turn has ended, as it is shown. */
export interface EndLine {
  readonly errorCode: string | null;
  readonly reason: string | null;
  /** The beginning of the deliverable; absent where titles are private. */
  readonly deliverable?: string;
  /** What the agent is at from then on; absent for one that never had work of its own, and where a turn follows. */
  readonly agent?: { readonly posture: string; readonly reason: string };
}

/** All that is shown of a turn. */
export interface Details {
  readonly goal: string;
  readonly state: string;
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly profileName: string;
  readonly turnEpoch: number;
  /** The chat whose turn it is, and which of its steps the turn is at; null for all other turns (C3). */
  readonly chat: { readonly chatId: string; readonly step: ChatStep } | null;
  /** Null for a request from outside. */
  readonly parent: { readonly agentId: string; readonly agentTurnId: string } | null;
  readonly usage: Usage;
  /** Null as soon as the cost of a step is not known. */
  readonly cost: number | null;
  readonly stepCount: number;
  /** What the model said last; null before its first words, and where titles are private. */
  readonly said: string | null;
  readonly waiting: readonly WaitingLine[];
  readonly notices: readonly string[];
  readonly steps: readonly StepLine[];
  /** Null while the turn goes on. */
  readonly end: EndLine | null;
}

/** The details as Markdown. What people or the model wrote stands in code blocks, so that it is shown as it is and copies cleanly. */
export function markdownOf(details: Details): string {
  const { goal, state, agentId, profileName, turnEpoch, parent, usage, cost, stepCount, said, notices, steps } =
    details;
  const lines = [
    `**Goal:** ${escapeMarkdown(goal)}`,
    `**State:** ${state} · agent ${agentId} · profile ${profileName} · epoch ${turnEpoch}`,
    ...chatLines(details),
    ...(parent ? [`**Delegated by** agent ${parent.agentId}, workflow \`${workflowOf(parent)}\``] : []),
    ...endLines(details),
    ...details.waiting.flatMap((line) => waitingLines(details, line)),
    `**Tokens:** ${shownTokens(usage.input, usage)} in, ${shownTokens(usage.output, usage)} out · **cost:** ${cost === null ? 'not known' : cost.toFixed(4)} · **steps:** ${stepCount}`,
    ...(said === null ? [] : [`**The model said last:**`, codeBlock(said)]),
    ...notices.map((text) => `**Noticed** after ${escapeMarkdown(text)}`),
    steps.map(stepLine).join('\n'),
  ];
  return lines.filter((line) => line !== '').join('\n\n');
}

const chatLines = ({ chat }: Details): string[] =>
  chat
    ? [
        `**Chat:** ${chat.chatId} · ${CHAT_STEPS.map((step) => (step === chat.step ? `**${step}**` : step)).join(' → ')}`,
      ]
    : [];

const workflowOf = ({ agentId, agentTurnId }: Pick<Details, 'agentId' | 'agentTurnId'>): string =>
  `agents/${agentId}/turns/${agentTurnId}`;

function endLines({ end }: Details): string[] {
  if (!end) return [];
  const { errorCode, reason, deliverable, agent } = end;
  return [
    ...(errorCode === null && reason === null
      ? []
      : [
          `**Why:** ${[errorCode, reason]
            .filter((part) => part !== null)
            .map(escapeMarkdown)
            .join(': ')}`,
        ]),
    ...(isFailureCode(errorCode) ? [`**Cure:** ${FAILURES[errorCode].cure}`] : []),
    ...(agent ? [`**The agent** is now ${escapeMarkdown(agent.posture)}: ${escapeMarkdown(agent.reason)}`] : []),
    ...(deliverable === undefined ? [] : ['**Deliverable:**', codeBlock(deliverable)]),
  ];
}

function waitingLines({ agentTurnId, steps }: Details, line: WaitingLine): string[] {
  const { callId, tool, deadline, since, question } = line;
  const times = `${since === undefined ? '' : `since ${shownTime(since)} `}until ${shownTime(deadline)}`;
  if (isDelegation(tool)) return [`**Waiting for** a turn that ${tool} delegated (call ${callId}) ${times}`];
  const args = steps.findLast(({ calls }) => calls.has(callId))?.calls.get(callId)?.arguments;
  const shown = args === undefined ? [] : [codeBlock(args)];
  const [first] = line.approvers ?? [];
  const approve = `agentturn approve ${callId} --turn ${agentTurnId}${first === undefined ? '' : ` --by ${first}`}`;
  const person = first === undefined ? 'somebody' : escapeMarkdown(line.approvers?.join(' or ') ?? '');
  switch (question?.kind) {
    case 'approval':
      return [
        `**Waiting for** ${person} to approve ${tool} (call ${callId}) ${times}: ${escapeMarkdown(question.reason)}`,
        ...shown,
        codeBlock(`${approve}\n${approve} --deny --reason 'words for the model'`),
      ];
    case 'budget':
      return [
        `**Waiting for** ${first === undefined ? 'an operator' : person} to raise a budget ${times}: ${escapeMarkdown(question.reason)}`,
        codeBlock(`${approve} --budgets '{"maxSteps":100}'\n${approve} --deny`),
      ];
    default:
      return [
        `**Waiting for** the result of ${tool} (call ${callId}) ${times}`,
        ...shown,
        codeBlock(`agentturn tool-result ${agentTurnId} ${callId} --result '"words, or any JSON"'`),
      ];
  }
}

function stepLine({ stepIndex, latencyMs, usage, calls }: StepLine): string {
  const head = `- **step ${stepIndex}** · model ${latencyMs} ms · ${shownTokens(usage.input, usage)} + ${shownTokens(usage.output, usage)} tokens`;
  const tools = [...calls.values()].map(({ tool, status, ms, arguments: args }) => {
    const took = ms === null ? '' : ` ${ms} ms`;
    return `- step ${stepIndex} · ${tool} ${status}${took}${args === undefined ? '' : ` \`${args.replaceAll('`', "'")}\``}`;
  });
  return [head, ...tools].join('\n');
}

/** A text in a code block of its own, whatever it contains. */
const codeBlock = (text: string): string => `\`\`\`\n${text.replaceAll('```', "'''")}\n\`\`\``;

const escapeMarkdown = (text: string): string => text.replace(/[\\`*_{}[\]<>|#]/g, '\\$&');
